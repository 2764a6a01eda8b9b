package lock_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

// slow is a store whose network takes some time each way. It knows in which order
// calls began and ended, and the key was taken and freed.
type slow struct {
	lock.BlockingStore
	mu    sync.Mutex
	rng   *rand.Rand
	step  int
	held  bool
	freed int // the last step at which the key was held, if it isn't
	calls int
}

func newSlow(seed uint64) *slow {
	return &slow{BlockingStore: newRemote(), rng: rand.New(rand.NewPCG(seed, 1)), freed: -1}
}

func (s *slow) between(least, most time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return least + time.Duration(s.rng.Int64N(int64(most-least)))
}

func (s *slow) travel() { time.Sleep(s.between(time.Microsecond, 3*time.Millisecond)) }

func (s *slow) Acquire(ctx context.Context, c lock.Claim) (fence uint64, err error) {
	s.travel()
	s.run(func() {
		s.calls++
		fence, err = s.BlockingStore.Acquire(ctx, c)
		s.held = true // by c's owner, or by another
	})
	s.travel()
	return fence, err
}

func (s *slow) Release(ctx context.Context, c lock.Claim) (err error) {
	s.travel()
	s.run(func() {
		if err = s.BlockingStore.Release(ctx, c); err == nil {
			s.held, s.freed = false, s.step
		}
	})
	s.travel()
	return err
}

// run makes what happens in the store, or is seen by a caller, one step.
func (s *slow) run(what func()) (step int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.step++
	what()
	return s.step
}

// heldSince says whether the key was held at some moment since that step.
func (s *slow) heldSince(step int) (held bool) {
	s.run(func() { held = s.held || s.freed >= step })
	return held
}

// refusals are what tries of one process saw of a key that others take and free.
type refusals struct{ all, untrue, calls int }

// tries has twenty goroutines call try while another process takes and frees the
// key.
func tries(t *testing.T, seed uint64, try func(*lock.Locker) func(context.Context) (*lock.Lease, error)) (r refusals) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := newSlow(seed)
		other, here := lock.New(port(store)), lock.New(port(store))
		var running sync.WaitGroup
		running.Go(func() {
			for range 50 {
				release(t, acquire(t, other, t.Context(), "k"))
				time.Sleep(store.between(time.Microsecond, 5*time.Millisecond))
			}
		})
		call := try(here)
		for range 20 {
			running.Go(func() {
				for range 20 {
					ctx, cancel := t.Context(), context.CancelFunc(func() {})
					if store.between(0, 10) == 0 {
						ctx, cancel = context.WithTimeout(ctx, store.between(time.Microsecond, 5*time.Millisecond))
					}
					began := store.run(func() {})
					lease, err := call(ctx)
					switch {
					case err == nil:
						release(t, lease)
					case errors.Is(err, lock.ErrBusy) && ctx.Err() == nil:
						untrue := !store.heldSince(began)
						store.run(func() {
							r.all++
							if untrue {
								r.untrue++
							}
						})
					case ctx.Err() == nil:
						t.Error(err)
					}
					cancel()
					time.Sleep(store.between(time.Microsecond, 5*time.Millisecond))
				}
			})
		}
		running.Wait()
		for _, l := range []*lock.Locker{other, here} {
			if err := l.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
		r.calls = store.calls
	})
	return r
}

// When a try is refused, somebody had the key at a moment between its call and its
// return.
func TestARefusalIsNoOlderThanItsCall(t *testing.T) {
	for seed := range uint64(5) {
		r := tries(t, seed, func(l *lock.Locker) func(context.Context) (*lock.Lease, error) {
			return func(ctx context.Context) (*lock.Lease, error) { return l.TryAcquire(ctx, "k") }
		})
		if r.untrue > 0 {
			t.Errorf("seed %d: %d of %d tries were refused, and nobody had the key", seed, r.untrue, r.all)
		}
		if r.all < 100 || r.calls > r.all {
			t.Errorf("seed %d: %d refusals, %d calls", seed, r.all, r.calls)
		}
	}
}

// The test above finds callers that share an answer to a call sent before they came.
func TestAnOlderRefusalIsFound(t *testing.T) {
	r := tries(t, 1, func(l *lock.Locker) func(context.Context) (*lock.Lease, error) {
		var present underWay
		return func(ctx context.Context) (*lock.Lease, error) {
			return present.share(func() (*lock.Lease, error) { return l.TryAcquire(ctx, "k") })
		}
	})
	if r.untrue == 0 {
		t.Errorf("none of %d refusals was called untrue", r.all)
	}
}

// underWay shares the present call.
type underWay struct {
	mu   sync.Mutex
	done chan struct{}
}

func (u *underWay) share(call func() (*lock.Lease, error)) (*lock.Lease, error) {
	u.mu.Lock()
	if done := u.done; done != nil {
		u.mu.Unlock()
		<-done
		return nil, lock.ErrBusy
	}
	done := make(chan struct{})
	u.done = done
	u.mu.Unlock()
	defer func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.done = nil
		close(done)
	}()
	return call()
}

// throng is a locker with one try whose call is under way, and some that came since.
type throng struct {
	*lock.Locker
	store   *faulty
	proceed chan error  // what a call gets: nil lets it through
	answers chan answer // of the tries
}

type answer struct {
	lease *lock.Lease
	err   error
}

const many = 100

func newThrong(t *testing.T, waiting int, opts ...lock.Option) *throng {
	t.Helper()
	c := &throng{store: newFaulty(), proceed: make(chan error), answers: make(chan answer, 2*many)}
	c.store.set(only("acquire", func(lock.Claim) error { return <-c.proceed }), nil)
	c.Locker = lock.New(port(c.store), opts...)
	c.try(t.Context(), 1)
	c.try(t.Context(), waiting)
	return c
}

// try has n callers try, and returns when they wait.
func (c *throng) try(ctx context.Context, n int) {
	for range n {
		go func() {
			lease, err := c.TryAcquire(ctx, "k")
			c.answers <- answer{lease, err}
		}()
	}
	synctest.Wait()
}

// want checks how many calls there were, and that so many tries have ended with err.
func (c *throng) want(t *testing.T, calls, n int, err error) {
	t.Helper()
	synctest.Wait()
	if got := c.store.count("acquire"); got != calls {
		t.Errorf("%d calls, want %d", got, calls)
	}
	if got := len(c.answers); got != n {
		t.Errorf("%d answers, want %d", got, n)
	}
	for range len(c.answers) {
		if a := <-c.answers; !errors.Is(a.err, err) {
			t.Errorf("got %v, want %v", a.err, err)
		}
	}
}

// refuseAll answers all calls that come.
func (c *throng) refuseAll() {
	for {
		synctest.Wait()
		select {
		case c.proceed <- &lock.BusyError{}:
		default:
			return
		}
	}
}

func (c *throng) close(t *testing.T) {
	t.Helper()
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestTriesShareTheNextProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newThrong(t, many)
		if _, err := c.store.BlockingStore.Acquire(t.Context(), lock.Claim{Key: "k", Owner: "other:1", TTL: time.Hour}); err != nil {
			t.Fatal(err)
		}
		c.proceed <- nil
		c.want(t, 2, 1, lock.ErrBusy) // the answer to the first is nobody else's
		c.try(t.Context(), many)      // too late for the second
		c.proceed <- nil
		c.want(t, 3, many, lock.ErrBusy)
		c.proceed <- nil
		c.want(t, 3, many, lock.ErrBusy)
		c.close(t)
	})
}

func TestTheGrantOfAProbeRefusesTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newThrong(t, many)
		c.proceed <- nil
		var granted *lock.Lease
		refused := 0
		for range 1 + many {
			a := <-c.answers
			if a.err == nil {
				granted = a.lease
			} else if errors.Is(a.err, lock.ErrBusy) {
				refused++
			}
		}
		if refused != many {
			t.Errorf("%d of %d refused as busy", refused, many)
		}
		c.want(t, 1, 0, nil)
		release(t, granted)
		c.close(t)
	})
}

// Tries that can have the key together all get it.
func TestTriesInAModeThatIsSharedAreEachGranted(t *testing.T) {
	for name, kind := range map[string]lock.Option{"read": reading, "permits": lock.WithPermits(1, 10)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLocker(t, far(10*time.Millisecond), kind)
				leases, failed := atOnce(10, func() (*lock.Lease, error) { return l.TryAcquire(t.Context(), "k") })
				for _, err := range failed {
					t.Error(err)
				}
				for _, lease := range leases {
					release(t, lease)
				}
			})
		})
	}
}

func TestAFailureOfTheStoreIsSharedByTries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newThrong(t, many)
		c.proceed <- &lock.StoreError{Outcome: lock.OutcomeRefused, Err: errLineCut}
		c.want(t, 1, 1+many, lock.ErrUnavailable)
		c.close(t)
	})
}

func TestATryThatLeavesPassesTheProbeOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newThrong(t, 0)
		leaving, leave := context.WithCancel(t.Context())
		defer leave()
		c.try(leaving, 1) // would send the next
		c.try(t.Context(), many)
		leave()
		c.want(t, 1, 1, context.Canceled)
		c.proceed <- &lock.BusyError{}
		c.want(t, 2, 1, lock.ErrBusy)
		c.proceed <- &lock.BusyError{}
		c.want(t, 2, many, lock.ErrBusy)
		c.close(t)
	})
}

// However many come and leave while the store is silent, one call is under way.
func TestTriesThatLeaveSendNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newThrong(t, 0)
		for range many {
			leaving, leave := context.WithCancel(t.Context())
			c.try(leaving, 2)
			leave()
			c.want(t, 1, 2, context.Canceled)
		}
		c.proceed <- &lock.BusyError{}
		c.want(t, 1, 1, lock.ErrBusy)
		c.try(t.Context(), 1)
		c.proceed <- &lock.BusyError{}
		c.want(t, 2, 1, lock.ErrBusy)
		c.close(t)
	})
}

func TestAProbeThatAllHaveLeftIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newThrong(t, many)
		c.proceed <- &lock.BusyError{}
		c.want(t, 2, 1, lock.ErrBusy)
		leaving, leave := context.WithCancel(t.Context())
		defer leave()
		c.try(leaving, many)
		leave()
		c.want(t, 2, many, context.Canceled)
		c.proceed <- &lock.BusyError{}
		c.want(t, 2, many, lock.ErrBusy)
		c.try(t.Context(), 1) // needs nobody's turn
		c.proceed <- &lock.BusyError{}
		c.want(t, 3, 1, lock.ErrBusy)
		c.close(t)
	})
}

// A failure that may be that of one caller alone is nobody else's.
func TestAProbeThatFailsItsSenderAloneAnswersNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newThrong(t, many)
		c.proceed <- &lock.BusyError{}
		c.want(t, 2, 1, lock.ErrBusy)
		for range 3 {
			c.proceed <- &lock.PanicError{} // the sender calls again, as a lone caller does
		}
		synctest.Wait()
		failed := <-c.answers
		wantErr(t, failed.err, lock.ErrUnavailable)
		c.refuseAll()
		if got := c.store.count("acquire"); got > 1+3+2 {
			t.Errorf("%d calls", got)
		}
		c.want(t, c.store.count("acquire"), many-1, lock.ErrBusy)
		c.close(t)
	})
}

func TestATryDoesNotOutwaitCallTimeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newThrong(t, many, lock.WithCallTimeout(time.Second))
		start := time.Now()
		for range 1 + many {
			a := <-c.answers
			wantErr(t, a.err, lock.ErrUnavailable)
		}
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("the last try took %v", took)
		}
		close(c.proceed)
		c.close(t)
	})
}

func TestCloseEndsTriesThatWaitForAProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newThrong(t, many)
		closed := make(chan error, 1)
		go func() { closed <- c.Close(context.WithoutCancel(t.Context())) }()
		synctest.Wait()
		if n := len(c.answers); n < many {
			t.Errorf("%d of %d tries have ended", n, many)
		}
		c.proceed <- &lock.BusyError{}
		synctest.Wait()
		for range many {
			wantErr(t, (<-c.answers).err, lock.ErrClosed)
		}
		if n := c.store.count("acquire"); n != 1 {
			t.Errorf("%d calls", n)
		}
		if err := <-closed; err != nil {
			t.Error(err)
		}
	})
}
