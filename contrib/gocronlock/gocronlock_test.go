package gocronlock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"
	"github.com/jonboulle/clockwork"
	"go.uber.org/goleak"

	"github.com/redlatch/redlatch/contrib/gocronlock"
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

// late is a clock that shows less than it is.
type late struct {
	clockwork.Clock
	by time.Duration
}

func (c late) Now() time.Time { return c.Clock.Now().Add(-c.by) }

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
	store     *line
	locker    *lock.Locker
	clock     late
	elector   *leader.Elector
	scheduler gocron.Scheduler
	stop      func() // of the election
}

// newFleet starts the schedulers. distribute says how they share the job.
func newFleet(t *testing.T, distribute func(*instance) gocron.SchedulerOption) *fleet {
	t.Helper()
	f := &fleet{T: t, ticks: make(map[int]int)}
	store := memstore.New()
	f.began = time.Now().Truncate(every).Add(time.Second)
	for i := range 3 {
		in := &instance{store: &line{BlockingStore: lock.Blocking(store)}, clock: late{clockwork.NewRealClock(), time.Duration(i) * 100 * time.Millisecond}}
		in.locker = lock.New(lock.Async(in.store), lock.WithWatchdog(watchdog))
		in.elector = leader.NewElector(in.locker, "leader:jobs")
		scheduler, err := gocron.NewScheduler(gocron.WithClock(in.clock), distribute(in))
		if err != nil {
			t.Fatal(err)
		}
		in.scheduler = scheduler
		_, err = scheduler.NewJob(gocron.DurationJob(every), gocron.NewTask(func() { f.run(in) }),
			gocron.WithName("report"), gocron.WithStartAt(gocron.WithStartDateTime(f.began)))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		var campaign sync.WaitGroup
		campaign.Go(func() { _ = in.elector.Run(ctx) })
		in.stop = func() { cancel(); campaign.Wait() }
		scheduler.Start()
		f.instances = append(f.instances, in)
	}
	t.Cleanup(func() {
		for _, in := range f.instances {
			f.end(in)
		}
	})
	return f
}

func (f *fleet) end(in *instance) {
	if err := in.scheduler.Shutdown(); err != nil {
		f.Error(err)
	}
	in.stop()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = in.locker.Close(ctx) // fails for instances that were killed
}

// run is the job.
func (f *fleet) run(in *instance) {
	f.mu.Lock()
	f.ticks[int(in.clock.Now().Sub(f.began)/every)]++
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

// counts returns how many of the first ticks ran once, and how many more often.
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

func elected(in *instance) gocron.SchedulerOption { return gocron.WithDistributedElector(in.elector) }

func locked(in *instance) gocron.SchedulerOption {
	return gocron.WithDistributedLocker(gocronlock.New(in.locker, "job:"))
}

// leads returns the instance that leads, if there is one.
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
		f := newFleet(t, elected)
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
		_ = dead.scheduler.StopJobs()
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
		f := newFleet(t, func(in *instance) gocron.SchedulerOption {
			return gocron.WithDistributedLocker(gocronlock.New(in.locker, "job:", lock.WithMinHold(keep), lock.WithWatchdog(keep)))
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

func TestTheLockerRunsAJobInOneInstanceAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, locked)
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

func TestOptionsWithWhichNoJobWouldRunAreRefusedAtOnce(t *testing.T) {
	l := lock.New(memstore.New())
	for _, opts := range [][]lock.Option{
		{lock.WithWatchdog(time.Microsecond)},
		{lock.WithMinHold(time.Minute), lock.WithLease(time.Second)},
	} {
		func() {
			defer func() {
				if said := fmt.Sprint(recover()); !strings.Contains(said, "gocronlock.New: ") || !strings.Contains(said, lock.ErrInvalid.Error()) {
					t.Errorf("panic %q, want one that says what is wrong", said)
				}
			}()
			gocronlock.New(l, "job:", opts...)
		}()
	}
	if err := l.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestALockThatIsNotHadIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &line{BlockingStore: lock.Blocking(memstore.New())}
		l := lock.New(lock.Async(store))
		locker := gocronlock.New(l, "job:")
		first, err := locker.Lock(t.Context(), "report")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := locker.Lock(t.Context(), "report"); !errors.Is(err, lock.ErrBusy) {
			t.Errorf("a job that runs: %v", err)
		}
		store.cut.Store(true)
		failed := make(chan error, 8)
		scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
		if err != nil {
			t.Fatal(err)
		}
		_, err = scheduler.NewJob(gocron.DurationJob(every), gocron.NewTask(func() { t.Error("it ran") }), gocron.WithName("other"),
			gocron.WithEventListeners(gocron.AfterLockError(func(_ uuid.UUID, _ string, err error) { failed <- err })))
		if err != nil {
			t.Fatal(err)
		}
		scheduler.Start()
		if err := <-failed; !errors.Is(err, lock.ErrUnavailable) {
			t.Errorf("a store that is away: %v", err)
		}
		_ = scheduler.Shutdown()
		store.cut.Store(false)
		if err := first.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A run of the same instance is another run.
func TestAJobIsLockedOnceInItsInstance(t *testing.T) {
	l := lock.New(memstore.New())
	locker := gocronlock.New(l, "job:")
	first, err := locker.Lock(t.Context(), "report")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := locker.Lock(t.Context(), "report"); !errors.Is(err, lock.ErrBusy) {
		t.Errorf("a job that runs: %v", err)
	}
	if err := errors.Join(first.Unlock(t.Context()), l.Close(t.Context())); err != nil {
		t.Error(err)
	}
}
