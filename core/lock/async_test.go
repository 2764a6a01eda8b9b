package lock_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
)

// async makes a store asynchronous; answers may be changed on their way.
type async struct {
	*faulty
	started atomic.Int32
	answer  func(answered func()) // how an answer comes
	running sync.WaitGroup
}

func newAsync(answer func(func())) *async { return &async{faulty: newFaulty(), answer: answer} }

func (s *async) Acquire(ctx context.Context, c lock.Claim, _ time.Time, answer lock.Answer) {
	s.start(answer, func() (uint64, error) { return s.faulty.Acquire(ctx, c) })
}

func (s *async) Release(ctx context.Context, c lock.Claim, _ time.Time, answer lock.Answer) {
	s.start(answer, func() (uint64, error) { return 0, s.faulty.Release(ctx, c) })
}

func (s *async) Lower(ctx context.Context, c lock.Claim, _ time.Time, answer lock.Answer) {
	s.start(answer, func() (uint64, error) { return 0, s.faulty.Lower(ctx, c) })
}

func (s *async) start(answer lock.Answer, call func() (uint64, error)) {
	s.started.Add(1)
	s.running.Go(func() {
		fence, err := call()
		s.answer(func() { answer.Answered(fence, err) })
	})
}

func TestASecondAnswerIsIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newAsync(func(answered func()) {
			answered()
			answered()
		})
		l := newLocker(t, store)
		for range 10 {
			release(t, acquire(t, l, t.Context(), "k"))
		}
		if n := store.started.Load(); n != 20 {
			t.Errorf("%d asynchronous calls", n)
		}
		store.running.Wait()
	})
}

// The caller leaves, and the answer comes later: what it granted is released,
// and Close waits for it.
func TestALateAnswerIsUndone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newAsync(func(answered func()) {
			time.Sleep(time.Second)
			answered()
		})
		l := lock.New(store)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		start := time.Now()
		_, err := l.TryAcquire(ctx, "k")
		wantErr(t, err, context.DeadlineExceeded)
		if took := time.Since(start); took != 100*time.Millisecond {
			t.Errorf("it left after %v", took)
		}
		if holds(t, store, "k") != 1 {
			t.Error("the call did not run")
		}
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if holds(t, store, "k") != 0 {
			t.Error("what the call was granted is left")
		}
		store.running.Wait()
	})
}

// The answer to a call that was given up comes while the hold that the next call got
// is being released: what it may have left is undone after that release, which would
// else find nothing and take the lease for lost.
func TestALateGrantWaitsForTheReleaseUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, first, answer, freed := newFaulty(), make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
		var released atomic.Int32
		store.set(only("release", func(lock.Claim) error {
			if released.Add(1) == 1 {
				<-freed
			}
			return nil
		}), only("acquire", func(lock.Claim) error {
			select {
			case <-first:
				<-answer
			default:
			}
			return nil
		}))
		other := acquire(t, newLocker(t, store.Store), t.Context(), "k")
		l := newLocker(t, store, lock.WithCallTimeout(time.Second))
		holder := await(t.Context(), l, "k")
		first <- struct{}{}
		release(t, other)
		time.Sleep(5 * time.Second)
		lease := holder.got(t) // by a second call
		result := make(chan error, 1)
		go func() { result <- lease.Release(t.Context()) }()
		synctest.Wait()
		close(answer)
		time.Sleep(500 * time.Millisecond)
		if n := released.Load(); n != 1 {
			t.Errorf("%d releases at once", n)
		}
		close(freed)
		wantErr(t, <-result, nil)
		time.Sleep(5 * time.Second) // all passes of an undo
		if n := released.Load(); n < 2 {
			t.Error("what the first call may have left was not undone")
		}
	})
}

// panicky panics where it should start a call.
type panicky struct{ *memstore.Store }

func (panicky) Traits() lock.Traits { return lock.Traits{} }

func (panicky) Acquire(context.Context, lock.Claim, time.Time, lock.Answer) { panic("broken") }

func (panicky) Release(context.Context, lock.Claim, time.Time, lock.Answer) { panic("broken") }

func TestAPanicWhereACallBeginsIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := lock.New(panicky{memstore.New()})
		_, err := l.TryAcquire(t.Context(), "k")
		wantErr(t, err, lock.ErrUnavailable)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		_ = l.Close(ctx) // gives up what it cannot release, and must return before ctx ends
		if ctx.Err() != nil {
			t.Error("Close did not return")
		}
	})
}

// What has been answered leaves nothing behind, or a busy process would remember the
// calls of the last call timeout.
func TestAnAnsweredCallIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newAsync(func(answered func()) { answered() })
		l := newLocker(t, store)
		for range 10 {
			release(t, acquire(t, l, t.Context(), "k"))
		}
		if n := l.Unanswered(); n != 0 {
			t.Errorf("%d calls are remembered", n)
		}
		store.running.Wait()
	})
}

// A long line takes as many removals at a time as acquisitions.
func TestWhatIsGivenUpOnALongLineIsUndoneAsFastAsItComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rtt = 100 * time.Millisecond
		store := newAsync(func(answered func()) {
			time.Sleep(rtt)
			answered()
		})
		var backlog atomic.Int64
		l := lock.New(store, lock.WithHooks(lock.Hooks{Backlog: func(n int) { backlog.Store(int64(n)) }}))
		var callers sync.WaitGroup
		for i := range 5000 {
			callers.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), rtt/2)
				defer cancel()
				if _, err := l.Acquire(ctx, fmt.Sprint("k", i)); err == nil {
					t.Error("granted before the answer")
				}
			})
			time.Sleep(time.Millisecond)
		}
		callers.Wait()
		time.Sleep(3 * rtt)
		if held := heldOf(t, store, 5000); held > 0 || backlog.Load() > 0 {
			t.Errorf("%d keys are held by nobody, and %d to undo", held, backlog.Load())
		}
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
		store.running.Wait()
	})
}

// heldOf counts the keys k0, k1, … that are held.
func heldOf(t *testing.T, store inspected, n int) (held int) {
	t.Helper()
	for i := range n {
		held += holds(t, store, fmt.Sprint("k", i))
	}
	return held
}

// What is to be undone on a server that hangs, or was called again, is in nobody's way.
func TestAServerThatHangsKeepsNothingElseFromBeingUndone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newAsync(nil)
		ill := func(c lock.Claim) bool { return strings.HasPrefix(c.Key, "ill") }
		store.set(func(_ string, c lock.Claim) error {
			if time.Sleep(50 * time.Millisecond); !ill(c) {
				return nil
			}
			time.Sleep(5 * time.Second) // the client's patience
			return errLineCut
		}, nil)
		store.answer = func(answered func()) { answered() }
		l := lock.New(store)
		leave := func(name string, n int) {
			var callers sync.WaitGroup
			for i := range n {
				callers.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
					defer cancel()
					if _, err := l.Acquire(ctx, fmt.Sprint(name, i)); err == nil {
						t.Error("granted before the answer")
					}
				})
			}
			callers.Wait()
		}
		leave("ill", 500)
		time.Sleep(6 * time.Second) // they are undone, in vain
		for range 10 {
			leave("k", 100)
			time.Sleep(time.Second)
			if held := heldOf(t, store, 100); held > 0 {
				t.Errorf("%d keys of other servers are held by nobody", held)
			}
		}
		store.set(nil, nil)
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
		store.running.Wait()
	})
}

// An answer that never comes is waited for no longer than any call, and what is to be
// undone is sent again.
func TestAnUndoWithoutAnAnswerIsSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var releases atomic.Int32
		store := newAsync(nil)
		mute := make(chan struct{})
		store.answer = func(answered func()) { answered() }
		store.set(only("acquire", func(lock.Claim) error { time.Sleep(time.Second); return nil }),
			only("release", func(lock.Claim) error {
				if releases.Add(1) == 1 {
					<-mute
				}
				return nil
			}))
		l := lock.New(store, lock.WithCallTimeout(2*time.Second))
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err := l.Acquire(ctx, "k")
		wantErr(t, err, context.DeadlineExceeded)
		time.Sleep(4 * time.Second)
		if n := releases.Load(); n != 2 {
			t.Errorf("%d releases", n)
		}
		if n := l.Left(); n != 0 {
			t.Errorf("%d things left", n)
		}
		close(mute)
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
		store.running.Wait()
	})
}
