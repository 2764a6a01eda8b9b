package machine_test

import (
	"context"
	"errors"
	"testing"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/lock/internal/machine"
	"github.com/redlatch/redlatch/core/memstore"
)

const (
	ms     = machine.Time(1_000_000)
	second = 1000 * ms
)

// settings are those of a locker with its defaults.
var settings = machine.Params{
	Margin: 2 * ms, Timeout: 2 * second, Life: 2 * second, MaxTTL: 30 * second, ReadRenew: 10 * second,
	Poll: second, KeepWatch: 100 * ms, Watch: true, Tries: 3, Patience: 30 * second,
	BackoffMin: 5 * ms, BackoffMax: 250 * ms, UndoBackoff: second, Jitter: true, Abreast: 128,
	Spaced: true, Ordered: true, Handoffs: 63, HandoffTime: 10 * ms, YieldMin: ms, YieldMax: 100 * ms, YieldPause: 100 * ms,
	PlacePoll: 2500 * ms, PlaceLook: 250 * ms, PlaceTTL: 15 * second, PlacePause: 50 * ms, MaxPlaces: 1000,
}

var exclusive = machine.Terms{Mode: machine.Exclusive, Watchdog: 30 * second}

// fixture is a machine whose calls are answered at once.
type fixture struct {
	tb    testing.TB
	m     machine.Machine
	now   machine.Time
	fence machine.Fence
	buf   [8]machine.Effect
}

func newFixture(tb testing.TB) *fixture {
	tb.Helper()
	f := &fixture{tb: tb, now: second}
	f.m.Init(&settings, 0)
	return f
}

// step gives the machine an event, answers its calls, and returns the result that a
// caller gets.
func (f *fixture) step(e *machine.Event) (result machine.Result) {
	f.now++
	out := f.m.Step(e, f.now, f.buf[:0])
	for i := 0; i < len(out); i++ {
		switch out[i].Do {
		case machine.DoReply:
			result = out[i].Result
		case machine.DoSend:
			answer := machine.Event{Call: &out[i].Call, Answer: machine.AnsOK}
			switch out[i].Call.Op {
			case machine.OpAcquire:
				f.fence += machine.FenceStep
				answer.Kind, answer.Fence = machine.EvAcquired, f.fence
			case machine.OpRelease:
				answer.Kind = machine.EvReleased
			default:
				f.tb.Fatalf("call %d", out[i].Call.Op)
			}
			out = f.m.Step(&answer, f.now, out)
		}
	}
	return result
}

func (f *fixture) want(e *machine.Event, want machine.Result) {
	if got := f.step(e); got != want {
		f.tb.Fatalf("got result %d, want %d", got, want)
	}
}

func (f *fixture) arrive(s machine.Slot, terms machine.Terms, want machine.Result) {
	f.want(&machine.Event{Kind: machine.EvArrive, Caller: s, Of: machine.None, Terms: terms}, want)
}

func (f *fixture) release(s machine.Slot) {
	f.want(&machine.Event{Kind: machine.EvRelease, Caller: s}, machine.ResReleased)
}

// cycle acquires and releases.
func (f *fixture) cycle() {
	f.arrive(0, exclusive, machine.ResGranted)
	f.release(0)
}

// handOff passes a lease from who to the other of two callers. The fence starts again.
func (f *fixture) handOff(who machine.Slot) {
	f.arrive(1-who, exclusive, 0)
	f.step(&machine.Event{Kind: machine.EvRelease, Caller: who})
}

func (f *fixture) refused() {
	try := exclusive
	try.Once = true
	f.arrive(1, try, machine.ResBusy)
}

func TestAStepAllocatesNothing(t *testing.T) {
	f := newFixture(t)
	f.cycle()
	if n := testing.AllocsPerRun(100, f.cycle); n != 0 {
		t.Errorf("acquire and release: %v allocations", n)
	}
	f.arrive(0, exclusive, machine.ResGranted)
	f.refused()
	if n := testing.AllocsPerRun(100, f.refused); n != 0 {
		t.Errorf("a refused try: %v allocations", n)
	}
	who := machine.Slot(0)
	hand := func() {
		f.handOff(who)
		who = 1 - who
	}
	hand()
	if n := testing.AllocsPerRun(20, hand); n != 0 {
		t.Errorf("a hand-off: %v allocations", n)
	}
	f.release(who)
	fresh := func() {
		f.m.Init(&settings, 0)
		f.cycle()
	}
	if n := testing.AllocsPerRun(100, fresh); n != 0 {
		t.Errorf("acquire and release on a machine that was not used before: %v allocations", n)
	}
}

// TestACrowdCostsAStepNoMore is that a hint, a hand-off and a refused try look at few of
// the callers that wait.
func TestACrowdCostsAStepNoMore(t *testing.T) {
	cost := func(crowd int) float64 {
		f := newFixture(t)
		f.arrive(0, exclusive, machine.ResGranted)
		for s := range crowd {
			f.arrive(machine.Slot(2+s), exclusive, 0) //nolint:gosec // few
		}
		r := testing.Benchmark(func(b *testing.B) { //nolint:thelper // it is the benchmark
			for b.Loop() {
				f.step(&machine.Event{Kind: machine.EvHint})
				f.refused()
			}
		})
		return float64(r.NsPerOp())
	}
	if testing.Short() {
		t.Skip("it measures")
	}
	few, many := cost(10), cost(10_000)
	for range 3 { // a busy machine
		if many < 20*few {
			return
		}
		few, many = cost(10), cost(10_000)
	}
	t.Errorf("with 10 callers %v ns, with 10,000 %v ns", few, many)
}

func BenchmarkMachineAcquireRelease(b *testing.B) {
	f := newFixture(b)
	b.ReportAllocs()
	for b.Loop() {
		f.cycle()
	}
}

// A key that is free has no machine: each cycle begins a new one, of a pool.
func BenchmarkMachineAcquireReleaseOfANewMachine(b *testing.B) {
	f := newFixture(b)
	b.ReportAllocs()
	for b.Loop() {
		f.m.Init(&settings, 0)
		f.cycle()
	}
}

func BenchmarkMachineHandOff(b *testing.B) {
	f := newFixture(b)
	who := machine.Slot(0)
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		if n%60 == 0 { // a run has ended
			f.m.Init(&settings, 0)
			who = 0
			f.arrive(0, exclusive, machine.ResGranted)
		}
		f.handOff(who)
		who = 1 - who
	}
}

func BenchmarkMachineRefusedTry(b *testing.B) {
	f := newFixture(b)
	f.arrive(0, exclusive, machine.ResGranted)
	b.ReportAllocs()
	for b.Loop() {
		f.refused()
	}
}

func BenchmarkMachineHintInACrowd(b *testing.B) {
	f := newFixture(b)
	for s := range 10_000 {
		want := machine.Result(0)
		if s == 0 {
			want = machine.ResGranted
		}
		f.arrive(machine.Slot(s), exclusive, want) //nolint:gosec // few
	}
	b.ReportAllocs()
	for b.Loop() {
		f.step(&machine.Event{Kind: machine.EvHint})
	}
}

// The engine of today, in memory.

func newLocker(b *testing.B) *lock.Locker {
	b.Helper()
	l := lock.New(memstore.New())
	b.Cleanup(func() {
		if err := l.Close(context.Background()); err != nil {
			b.Error(err)
		}
	})
	return l
}

func BenchmarkEngineAcquireRelease(b *testing.B) {
	l := newLocker(b)
	b.ReportAllocs()
	for b.Loop() {
		lease, err := l.Acquire(b.Context(), "k")
		if err != nil {
			b.Fatal(err)
		}
		if err := lease.Release(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// Two goroutines pass a lease to and fro, which includes waking each other.
func BenchmarkEngineHandOff(b *testing.B) {
	l := newLocker(b)
	b.ReportAllocs()
	b.SetParallelism(1)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			lease, err := l.Acquire(b.Context(), "k")
			if err != nil {
				b.Error(err)
				return
			}
			if err := lease.Release(b.Context()); err != nil {
				b.Error(err)
			}
		}
	})
}

func BenchmarkEngineRefusedTry(b *testing.B) {
	l := newLocker(b)
	lease, err := l.Acquire(b.Context(), "k")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := l.TryAcquire(b.Context(), "k"); !errors.Is(err, lock.ErrBusy) {
			b.Fatal(err)
		}
	}
	if err := lease.Release(b.Context()); err != nil {
		b.Fatal(err)
	}
}
