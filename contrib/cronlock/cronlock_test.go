package cronlock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/robfig/cron/v3"
	"go.uber.org/goleak"

	"github.com/redlatch/redlatch/contrib/cronlock"
	"github.com/redlatch/redlatch/core/leader"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	every    = 500 * time.Millisecond
	takes    = 30 * time.Millisecond
	watchdog = 3 * time.Second
	keep     = 400 * time.Millisecond // longer than clocks differ, and shorter than every
)

// ticks are the schedule of an instance whose clock is late.
type ticks struct{ late time.Duration }

func (s ticks) Next(now time.Time) time.Time {
	return now.Add(-s.late).Truncate(every).Add(every + s.late)
}

// line is an instance's way to the store. Cut, it is that of one that was killed.
// While there is a pause, it is that of one that stands still in front of a call.
type line struct {
	lock.BlockingStore
	cut    atomic.Bool
	paused atomic.Pointer[pause]
}

type pause struct{ ended chan struct{} }

// pause lets no call through until it is resumed.
func (s *line) pause() (resume func()) {
	p := &pause{make(chan struct{})}
	s.paused.Store(p)
	return func() {
		s.paused.Store(nil)
		close(p.ended)
	}
}

// away waits for the end of a pause, and says whether the line is cut.
func (s *line) away() bool {
	if p := s.paused.Load(); p != nil {
		<-p.ended
	}
	return s.cut.Load()
}

var errCut = &lock.StoreError{Outcome: lock.OutcomeNotExecuted, Unreachable: true, Err: errors.New("killed")}

func (s *line) Acquire(ctx context.Context, c lock.Claim) (uint64, error) {
	if s.away() {
		return 0, errCut
	}
	return s.BlockingStore.Acquire(ctx, c)
}

func (s *line) Renew(ctx context.Context, claims []lock.Claim, report func(int, error)) {
	if !s.away() {
		s.BlockingStore.Renew(ctx, claims, report)
		return
	}
	for i := range claims {
		report(i, errCut)
	}
}

func (s *line) Release(ctx context.Context, c lock.Claim) error {
	if s.away() {
		return errCut
	}
	return s.BlockingStore.Release(ctx, c)
}

// fleet is three instances whose clocks are 100 ms apart, with one job.
type fleet struct {
	*testing.T
	began     time.Time
	instances []*instance

	mu      sync.Mutex
	ticks   map[int]int // how often each ran
	running int
	overlap bool
}

type instance struct {
	store   *line
	locker  *lock.Locker
	late    time.Duration
	elector *leader.Elector
	cron    *cron.Cron
	stop    func() // of the election
}

func newFleet(t *testing.T, distribute func(*instance) cron.JobWrapper) *fleet {
	t.Helper()
	f := &fleet{T: t, began: time.Now().Truncate(every).Add(every), ticks: make(map[int]int)}
	store := memstore.New()
	for i := range 3 {
		in := &instance{store: &line{BlockingStore: lock.Blocking(store)}, late: time.Duration(i) * 100 * time.Millisecond}
		in.locker = lock.New(lock.Async(in.store), lock.WithWatchdog(watchdog))
		in.elector = leader.NewElector(in.locker, "leader:jobs")
		in.cron = cron.New(cron.WithChain(distribute(in)))
		in.cron.Schedule(ticks{in.late}, cron.FuncJob(func() { f.run(in) }))
		ctx, cancel := context.WithCancel(context.Background())
		var campaign sync.WaitGroup
		campaign.Go(func() { _ = in.elector.Run(ctx) })
		in.stop = func() { cancel(); campaign.Wait() }
		in.cron.Start()
		f.instances = append(f.instances, in)
	}
	t.Cleanup(func() {
		for _, in := range f.instances {
			<-in.cron.Stop().Done()
			in.stop()
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			_ = in.locker.Close(ctx) // fails for instances that were killed
			cancel()
		}
	})
	return f
}

func (f *fleet) run(in *instance) {
	f.mu.Lock()
	f.ticks[int(time.Now().Add(-in.late).Sub(f.began)/every)]++
	f.running++
	f.overlap = f.overlap || f.running > 1
	f.mu.Unlock()
	time.Sleep(takes)
	f.mu.Lock()
	f.running--
	f.mu.Unlock()
}

// pass lets the time come at which all clocks have passed a number of ticks.
func (f *fleet) pass(ticks int) {
	time.Sleep(time.Until(f.began.Add(time.Duration(ticks) * every).Add(-every / 10)))
	synctest.Wait()
}

// within lets the first clock pass to the middle of the job of a tick.
func (f *fleet) within(tick int) {
	f.Helper()
	time.Sleep(time.Until(f.began.Add(time.Duration(tick)*every + takes/2)))
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.running != 1 {
		f.Errorf("%d run in the middle of the job", f.running)
	}
}

// overlapped says whether two jobs ran at once.
func (f *fleet) overlapped() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.overlap
}

// counts returns how many of the ticks ran once, and how many more often.
func (f *fleet) counts(from, to int) (once, more int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for tick := from; tick < to; tick++ {
		switch n := f.ticks[tick]; {
		case n == 1:
			once++
		case n > 1:
			more++
		}
	}
	return once, more
}

func (f *fleet) leads() *instance {
	for _, in := range f.instances {
		if in.elector.IsLeader(f.Context()) == nil {
			return in
		}
	}
	return nil
}

func TestTheLeaderRunsEachTickOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, func(in *instance) cron.JobWrapper { return cronlock.OnlyLeader(in.elector) })
		const ticks = 20
		f.pass(ticks)
		if once, more := f.counts(0, ticks); once != ticks || more != 0 {
			t.Errorf("of %d ticks %d ran once, and %d more often", ticks, once, more)
		}
		// The leader dies. The others take over when its lease has ended, and no
		// tick runs twice.
		dead := f.leads()
		if dead == nil {
			t.Fatal("nobody leads")
		}
		dead.store.cut.Store(true)
		dead.cron.Stop()
		silent := int(watchdog/every) + 1
		f.pass(2 * ticks)
		once, more := f.counts(ticks, 2*ticks)
		if more != 0 || once < ticks-silent {
			t.Errorf("of %d ticks %d ran once, and %d more often; %d may be missed", ticks, once, more, silent)
		}
		second := f.leads()
		if second == nil || second == dead || f.overlapped() {
			t.Fatalf("it is led by %p, the dead one is %p; two ran at once: %v", second, dead, f.overlapped())
		}
		// The next leader stands still for as long, and comes back.
		resume := second.store.pause()
		f.pass(3 * ticks)
		once, more = f.counts(2*ticks, 3*ticks)
		if more != 0 || once < ticks-silent {
			t.Errorf("of %d ticks %d ran once, and %d more often; %d may be missed", ticks, once, more, silent)
		}
		resume()
		f.pass(4 * ticks)
		if once, more := f.counts(3*ticks, 4*ticks); once != ticks || more != 0 || f.overlapped() {
			t.Errorf("behind the pause: of %d ticks %d ran once, and %d more often; two at once: %v", ticks, once, more, f.overlapped())
		}
	})
}

func TestEachTickRunsOnceWithAMinimumHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, func(in *instance) cron.JobWrapper {
			return cronlock.SkipIfRunningElsewhere(in.locker, "job:report", cron.DiscardLogger, lock.WithMinHold(keep), lock.WithWatchdog(keep))
		})
		const ticks = 20
		check := func(what string, from, to int) {
			t.Helper()
			f.pass(to)
			if once, more := f.counts(from, to); once != to-from || more != 0 || f.overlapped() {
				t.Errorf("%s: of %d ticks %d ran once, and %d more often; two at once: %v", what, to-from, once, more, f.overlapped())
			}
		}
		check("three instances", 0, ticks)
		// The instance whose clock strikes first is killed while it runs the job.
		f.within(ticks)
		f.instances[0].store.cut.Store(true)
		check("one is killed", ticks, 2*ticks)
		resume := f.instances[1].store.pause()
		check("another one stands still", 2*ticks, 3*ticks)
		resume()
		check("it goes on", 3*ticks, 4*ticks)
	})
}

func TestAJobIsSkippedWhileItRunsElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, func(in *instance) cron.JobWrapper {
			return cronlock.SkipIfRunningElsewhere(in.locker, "job:report", cron.DiscardLogger)
		})
		const ticks = 20
		f.pass(ticks)
		once, more := f.counts(0, ticks)
		if once+more != ticks || f.overlapped() {
			t.Errorf("of %d ticks %d ran; two at once: %v", ticks, once+more, f.overlapped())
		}
		// What the README warns of: the job is done before the others' clocks strike.
		if more != ticks {
			t.Errorf("only %d of %d ticks ran more than once: the README need not ask for a minimum hold", more, ticks)
		}
	})
}

func TestAJobOfTheLeaderEndsWithTheTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := lock.New(memstore.New())
		e := leader.NewElector(l, "leader:jobs")
		causes := make(chan error, 1)
		job := cronlock.Func(e, func(ctx context.Context) {
			if _, ok := lock.FromContext(ctx); !ok {
				t.Error("it has no lease")
			}
			<-ctx.Done()
			causes <- context.Cause(ctx)
		})
		job.Run() // nobody leads, so it is skipped
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- e.Run(ctx) }()
		synctest.Wait()
		go job.Run()
		synctest.Wait()
		_, _ = l.ForceRelease(t.Context(), "leader:jobs")
		if err := <-causes; !errors.Is(err, lock.ErrForced) {
			t.Errorf("it ended with %v", err)
		}
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Run: %v", err)
		}
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestOptionsWithWhichNoJobWouldRunAreRefusedAtOnce(t *testing.T) {
	l := lock.New(memstore.New())
	for _, opts := range [][]lock.Option{
		{lock.WithWatchdog(time.Microsecond)},
		{lock.WithMinHold(time.Minute), lock.WithLease(time.Second)},
	} {
		func() {
			defer func() {
				if said := fmt.Sprint(recover()); !strings.Contains(said, "cronlock.SkipIfRunningElsewhere: ") || !strings.Contains(said, lock.ErrInvalid.Error()) {
					t.Errorf("panic %q, want one that says what is wrong", said)
				}
			}()
			cronlock.SkipIfRunningElsewhere(l, "job", cron.DiscardLogger, opts...)
		}()
	}
	if err := l.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// logger keeps what a wrapper logs.
type logger struct{ lines []string }

func (l *logger) Info(msg string, about ...any) {
	l.lines = append(l.lines, fmt.Sprint("info ", msg, about))
}

func (l *logger) Error(err error, msg string, _ ...any) {
	for name, sentinel := range map[string]error{"unavailable": lock.ErrUnavailable, "lost": lock.ErrLost} {
		if errors.Is(err, sentinel) {
			l.lines = append(l.lines, fmt.Sprint("error ", msg, " ", name))
		}
	}
}

func TestWhatKeepsAJobFromRunningIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &line{BlockingStore: lock.Blocking(memstore.New())}
		l := lock.New(lock.Async(store))
		var log logger
		wrap := cronlock.SkipIfRunningElsewhere(l, "job", &log)
		runs := 0
		wrap(cron.FuncJob(func() {
			runs++
			wrap(cron.FuncJob(func() { runs++ })).Run() // another one
			_, _ = l.ForceRelease(t.Context(), "job")
		})).Run()
		store.cut.Store(true)
		wrap(cron.FuncJob(func() { runs++ })).Run()
		store.cut.Store(false)
		want := []string{"info skip[reason it runs elsewhere]", "error release lost", "error skip unavailable"}
		if !slices.Equal(log.lines, want) || runs != 1 {
			t.Errorf("it ran %d times, and logged\n%q, want\n%q", runs, log.lines, want)
		}
		func() {
			defer func() { _ = recover() }()
			wrap(cron.FuncJob(func() { panic("oops") })).Run()
		}()
		lease, err := l.TryAcquire(t.Context(), "job")
		if err != nil {
			t.Fatalf("behind a panic: %v", err)
		}
		_ = lease.Release(t.Context())
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A run of the same instance is another run.
func TestAJobIsSkippedWhileItRunsHere(t *testing.T) {
	l := lock.New(memstore.New())
	wrap := cronlock.SkipIfRunningElsewhere(l, "job", cron.DiscardLogger)
	runs := 0
	wrap(cron.FuncJob(func() {
		runs++
		wrap(cron.FuncJob(func() { runs++ })).Run()
	})).Run()
	if runs != 1 {
		t.Errorf("%d run at once", runs)
	}
	if err := l.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// At a later tick it would end the process.
func TestWhatIsNilIsRefusedAtOnce(t *testing.T) {
	l := lock.New(memstore.New())
	defer l.Close(context.Background())
	for name, c := range map[string]struct {
		set  func()
		want string
	}{
		"logger":           {func() { cronlock.SkipIfRunningElsewhere(l, "job", nil) }, "logger is nil"},
		"elector":          {func() { cronlock.Func(nil, func(context.Context) {}) }, "elector or the func of a job is nil"},
		"func":             {func() { cronlock.Func(new(leader.Elector), nil) }, "elector or the func of a job is nil"},
		"elector of a job": {func() { cron.NewChain(cronlock.OnlyLeader(nil)).Then(cron.FuncJob(func() {})) }, "elector or the func of a job is nil"},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if said := fmt.Sprint(recover()); !strings.Contains(said, c.want) {
					t.Errorf("panic %q, want one that says what is wrong", said)
				}
			}()
			c.set()
		})
	}
}
