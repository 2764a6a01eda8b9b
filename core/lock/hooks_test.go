package lock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
)

// diary writes down what hooks say.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) note(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

func (d *diary) hooks() lock.Hooks {
	return lock.Hooks{
		Waiting: func(_ context.Context, e lock.Event) func() {
			d.note("waiting %s", e.Name)
			return func() { d.note("waited %s", e.Name) }
		},
		Acquired: func(_ context.Context, e lock.AcquireEvent) {
			d.note("acquired %s after %v reentrant=%v %v", e.Name, e.Elapsed, e.Reentrant, decision(e.Err))
		},
		Released: func(e lock.ReleaseEvent) { d.note("released %s held %v %v", e.Name, e.Held, decision(e.Err)) },
		Renewed:  func(e lock.RenewEvent) { d.note("renewed %s %v", e.Name, decision(e.Err)) },
		Lost:     func(e lock.LossEvent) { d.note("lost %s held %v %v", e.Name, e.Held, decision(e.Cause)) },
	}
}

func decision(err error) string {
	for _, known := range []error{lock.ErrBusy, lock.ErrLost, lock.ErrNotHeld, lock.ErrUnavailable} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	return fmt.Sprint(err)
}

func TestHooksTellTheStory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		store := memstore.New()
		l := newLocker(t, store, lock.WithHooks(d.hooks()), lock.WithName("order"))
		lease := acquire(t, l, t.Context(), "k")
		inner := acquire(t, l, lease.Context(), "k", lock.WithName("inner"))
		release(t, inner)
		_, err := l.Acquire(t.Context(), "k", lock.WithWait(time.Second), lock.WithName("late"))
		wantErr(t, err, lock.ErrBusy)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		release(t, lease)
		lease = acquire(t, l, t.Context(), "k", lock.WithLease(time.Second))
		<-lease.Context().Done()
		synctest.Wait()
		want := []string{
			"acquired order after 0s reentrant=false <nil>",
			"acquired inner after 0s reentrant=true <nil>",
			"released order held 0s <nil>",
			"waiting late",
			"waited late",
			"acquired late after 1s reentrant=false lock is held by another owner",
			"renewed order <nil>",
			"released order held 11s <nil>",
			"acquired order after 0s reentrant=false <nil>",
			"lost order held 988ms lease is lost",
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		if !slices.Equal(d.lines, want) {
			t.Errorf("got\n%q\nwant\n%q", d.lines, want)
		}
	})
}

// A record of a key says which grant was whose by the fence.
func TestHooksKnowTheFenceOfEachGrant(t *testing.T) {
	var heard []uint64
	l := newLocker(t, memstore.New(), lock.WithHooks(lock.Hooks{
		Acquired: func(_ context.Context, e lock.AcquireEvent) { heard = append(heard, e.Fence) },
	}))
	lease := acquire(t, l, t.Context(), "k")
	inner := acquire(t, l, lease.Context(), "k")
	_, err := l.TryAcquire(t.Context(), "k")
	wantErr(t, err, lock.ErrBusy)
	release(t, inner)
	release(t, lease)
	next := acquire(t, l, t.Context(), "k")
	if want := []uint64{lease.Fence(), lease.Fence(), 0, next.Fence()}; !slices.Equal(heard, want) {
		t.Errorf("heard %v, want %v", heard, want)
	}
}

// ending notes how holds end, by the names of their locks.
func ending(d *diary) lock.Hooks {
	return lock.Hooks{
		Released: func(e lock.ReleaseEvent) {
			if e.Err != nil {
				d.note("released %s last=%v %v", e.Name, e.Last, decision(e.Err))
			} else {
				d.note("released %s last=%v held %v", e.Name, e.Last, e.Held)
			}
		},
		Lost: func(e lock.LossEvent) { d.note("lost %s %v of %v", e.Name, e.Reason, e.Context.Value(requestKey{})) },
	}
}

type requestKey struct{}

func TestHooksTellTheEndOfEveryHoldOnce(t *testing.T) {
	for _, tt := range []struct {
		name string
		opts []lock.Option
		end  func(t *testing.T, l *lock.Locker, store *faulty, lease *lock.Lease)
		want []string
	}{
		{"released, the outer lease first", nil, func(t *testing.T, l *lock.Locker, _ *faulty, lease *lock.Lease) {
			t.Helper()
			inner := acquire(t, l, lease.Context(), "k", lock.WithName("inner"))
			release(t, lease)
			time.Sleep(time.Second)
			release(t, inner)
		}, []string{"released order last=false held 1s", "released order last=true held 2s"}},
		{"released, unconfirmed", nil, func(_ *testing.T, _ *lock.Locker, store *faulty, lease *lock.Lease) {
			store.set(only("release", times(20, errLineCut)), nil)
			_ = lease.Release(context.Background())
		}, []string{"released order last=true lock store is unavailable"}},
		{"closed", nil, func(t *testing.T, l *lock.Locker, _ *faulty, lease *lock.Lease) {
			t.Helper()
			_ = acquire(t, l, lease.Context(), "k")
			_ = l.Close(context.Background())
			_ = lease.Release(context.Background())
		}, []string{"released order last=true held 1s"}},
		{"closed, when the store had lost it", nil, func(_ *testing.T, l *lock.Locker, store *faulty, _ *lock.Lease) {
			_, _ = store.ForceRelease(context.Background(), "k")
			_ = l.Close(context.Background())
		}, []string{"lost order taken of request 1"}},
		{"gone at its release", nil, func(_ *testing.T, _ *lock.Locker, store *faulty, lease *lock.Lease) {
			_, _ = store.ForceRelease(context.Background(), "k")
			_ = lease.Release(context.Background())
		}, []string{"lost order taken of request 1", "released order last=false lease is lost"}},
		{"gone before the release of an inner lease", nil, func(t *testing.T, l *lock.Locker, store *faulty, lease *lock.Lease) {
			t.Helper()
			inner := acquire(t, l, lease.Context(), "k")
			_, _ = store.ForceRelease(context.Background(), "k")
			_ = inner.Release(context.Background())
			_ = lease.Release(context.Background())
		}, []string{"released order last=false held 0s", "lost order taken of request 1", "released order last=false lease is lost"}},
		{"gone at its renewal", nil, func(_ *testing.T, _ *lock.Locker, store *faulty, _ *lock.Lease) {
			_, _ = store.ForceRelease(context.Background(), "k")
			time.Sleep(15 * time.Second)
		}, []string{"lost order taken of request 1"}},
		{"never renewed", nil, func(_ *testing.T, _ *lock.Locker, store *faulty, lease *lock.Lease) {
			store.set(only("renew", times(1000, errLineCut)), nil)
			<-lease.Context().Done()
		}, []string{"lost order not_renewed of request 1"}},
		{"expired", []lock.Option{lock.WithLease(2 * time.Second)}, func(_ *testing.T, _ *lock.Locker, _ *faulty, lease *lock.Lease) {
			<-lease.Context().Done()
			_ = lease.Release(context.Background())
		}, []string{"lost order expired of request 1"}},
		{"forced", nil, func(_ *testing.T, l *lock.Locker, _ *faulty, _ *lock.Lease) {
			_, _ = l.ForceRelease(context.Background(), "k")
		}, []string{"lost order forced of request 1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var d diary
				store := newFaulty()
				l := newLocker(t, store, append(tt.opts, lock.WithHooks(ending(&d)), lock.WithName("order"))...)
				lease := acquire(t, l, context.WithValue(t.Context(), requestKey{}, "request 1"), "k")
				time.Sleep(time.Second)
				tt.end(t, l, store, lease)
				synctest.Wait()
				store.set(nil, nil)
				d.mu.Lock()
				defer d.mu.Unlock()
				if !slices.Equal(d.lines, tt.want) {
					t.Errorf("got\n%q\nwant\n%q", d.lines, tt.want)
				}
			})
		})
	}
}

func TestHooksTellWhoHadToWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		l := newLocker(t, memstore.New(), lock.WithHooks(lock.Hooks{
			Acquired: func(_ context.Context, e lock.AcquireEvent) { d.note("%s %v", e.Name, e.Waited) },
		}))
		lease := acquire(t, l, t.Context(), "k", lock.WithName("first"))
		_, err := l.TryAcquire(t.Context(), "k", lock.WithName("try"))
		wantErr(t, err, lock.ErrBusy)
		_, err = l.Acquire(t.Context(), "k", lock.WithName("wait"), lock.WithWait(time.Second))
		wantErr(t, err, lock.ErrBusy)
		release(t, lease)
		if want := []string{"first false", "try false", "wait true"}; !slices.Equal(d.lines, want) {
			t.Errorf("got %q, want %q", d.lines, want)
		}
	})
}

// A caller that a panic of a hook keeps from its lease, and that recovers, as servers
// do, leaves nothing held.
func TestAHookThatPanicsLeavesNoLease(t *testing.T) {
	for name, hooks := range map[string]lock.Hooks{
		"acquired": {Acquired: func(context.Context, lock.AcquireEvent) { panic("a hook is broken") }},
		"waited":   {Waiting: func(context.Context, lock.Event) func() { return func() { panic("a hook is broken") } }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memstore.New()
				l, other := newLocker(t, store, lock.WithHooks(hooks)), newLocker(t, store)
				before := acquire(t, other, t.Context(), "k")
				time.AfterFunc(time.Second, func() { release(t, before) })
				func() {
					defer func() {
						if recover() == nil {
							t.Error("no panic")
						}
					}()
					_, _ = l.Acquire(t.Context(), "k")
				}()
				synctest.Wait()
				if store.Len() != 0 {
					t.Error("the key is held, and nobody can release it")
				}
			})
		})
	}
}

func TestAHookThatPanicsLeavesNothingOfAGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		l := newLocker(t, store, lock.WithHooks(lock.Hooks{Acquired: func(_ context.Context, e lock.AcquireEvent) {
			if e.Key == "b" {
				panic("a hook is broken")
			}
		}}))
		func() {
			defer func() { _ = recover() }()
			_, _ = lock.AcquireAll(t.Context(), l.Request("a"), l.Request("b"))
			t.Error("no panic")
		}()
		synctest.Wait()
		if n := store.Len(); n != 0 {
			t.Errorf("%d keys are held, and nobody can release them", n)
		}
	})
}

func TestAHookThatPanicsKeepsNothingOfAGroupFromBeingReleased(t *testing.T) {
	store := memstore.New()
	l := lock.New(store, lock.WithHooks(lock.Hooks{Released: func(e lock.ReleaseEvent) {
		if e.Key == "b" {
			panic("a hook is broken")
		}
	}}))
	all, err := lock.AcquireAll(t.Context(), l.Request("a"), l.Request("b"), l.Request("c"))
	if err != nil {
		t.Fatal(err)
	}
	func() {
		defer func() { _ = recover() }()
		_ = all.Release(t.Context())
		t.Error("no panic")
	}()
	if n := store.Len(); n != 0 {
		t.Errorf("%d keys are held", n)
	}
	if err := all.Release(t.Context()); err != nil {
		t.Error(err)
	}
	if err := l.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestAHookThatPanicsKeepsNothingFromBeingUndone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		store.set(nil, only("acquire", times(1, errLineCut))) // it may run again
		l := newLocker(t, store, lock.WithHooks(lock.Hooks{Lost: func(lock.LossEvent) { panic("a hook is broken") }}))
		lease := acquire(t, l, t.Context(), "k")
		if _, err := store.ForceRelease(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		func() {
			defer func() { _ = recover() }()
			_ = lease.Release(t.Context())
			t.Error("no panic")
		}()
		time.Sleep(10 * time.Second)
		if n := store.count("release"); n < 2 {
			t.Errorf("%d releases", n)
		}
	})
}

// A gauge of holds is right, whatever becomes of an acquisition after its grant. Every
// locker of these tests has one, see newLocker.
func TestHooksTellNoEndWithoutABeginning(t *testing.T) {
	length := lock.WithLease(time.Minute) // takes an extension
	for name, c := range map[string]struct {
		fault func(store *faulty) (before func(string, lock.Claim) error)
		want  error
	}{
		"the store has lost it": {func(store *faulty) func(string, lock.Claim) error {
			return only("renew", func(c lock.Claim) error { _, err := store.Store.ForceRelease(context.Background(), c.Key); return err })
		}, lock.ErrTaken},
		"its release finds nothing": {func(store *faulty) func(string, lock.Claim) error {
			return func(op string, c lock.Claim) error {
				if op == "renew" {
					return errLineCut
				}
				if op == "release" {
					_, err := store.Store.ForceRelease(context.Background(), c.Key)
					return err
				}
				return nil
			}
		}, lock.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var d diary
				store := newFaulty()
				store.set(c.fault(store), nil)
				l := newLocker(t, store, lock.WithHooks(ending(&d)))
				_, err := l.Acquire(t.Context(), "k", length)
				wantErr(t, err, c.want)
				time.Sleep(10 * time.Second)
				if len(d.lines) > 0 {
					t.Errorf("hooks saw %q", d.lines)
				}
			})
		})
	}
}

// A hold that has ended before its acquisition is reported: first comes the beginning.
func TestHooksTellTheEndAfterTheBeginning(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(ctx context.Context, l *lock.Locker)
		want string
	}{
		"forced": {func(ctx context.Context, l *lock.Locker) { _, _ = l.ForceRelease(ctx, "k") }, "lost  forced of <nil>"},
		"closed": {func(ctx context.Context, l *lock.Locker) { _ = l.Close(ctx) }, "released  last=true held 1s"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var d diary
				granted := make(chan struct{})
				hooks := ending(&d)
				hooks.Waiting = func(context.Context, lock.Event) func() { return func() { <-granted } } // it is not reported yet
				hooks.Acquired = func(context.Context, lock.AcquireEvent) { d.note("acquired") }
				store := memstore.New()
				before := acquire(t, newLocker(t, store), t.Context(), "k")
				l := newLocker(t, store, lock.WithHooks(hooks))
				waiter := await(t.Context(), l, "k")
				release(t, before)
				synctest.Wait()
				time.Sleep(time.Second)
				ctx := t.Context()
				go c.end(ctx, l)
				synctest.Wait()
				close(granted)
				waiter.got(t)
				synctest.Wait()
				d.mu.Lock()
				defer d.mu.Unlock()
				if want := []string{"acquired", c.want}; !slices.Equal(d.lines, want) {
					t.Errorf("got %q, want %q", d.lines, want)
				}
			})
		})
	}
}

// The wait that one hook saw begin ends, though the other one panics.
func TestAWaitingHookThatPanicsLeavesNoWait(t *testing.T) {
	waiting, seen := 0, 0
	counts := lock.Hooks{Waiting: func(context.Context, lock.Event) func() {
		waiting, seen = waiting+1, seen+1
		return func() { waiting-- }
	}}
	panics := lock.Hooks{Waiting: func(context.Context, lock.Event) func() { panic("a bug of the hook") }}
	for _, both := range [][2]lock.Hooks{{counts, panics}, {panics, counts}} {
		synctest.Test(t, func(t *testing.T) {
			seen = 0
			l := newLocker(t, newFaulty(), lock.WithHooks(both[0]), lock.WithHooks(both[1]))
			holder := acquire(t, l, t.Context(), "k")
			func() {
				defer func() {
					if recover() == nil {
						t.Error("no panic")
					}
				}()
				_, _ = l.Acquire(t.Context(), "k", lock.WithWait(time.Second)) // panics
			}()
			if waiting != 0 || seen != 1 {
				t.Errorf("%d waits have not ended; %d seen", waiting, seen)
			}
			release(t, holder)
		})
	}
}

func TestALossThatNoHookWantsIsNotReported(t *testing.T) {
	l := lock.New(memstore.New(), lock.WithHooks(lock.Hooks{Released: func(lock.ReleaseEvent) {}}))
	acquire(t, l, t.Context(), "k")
	if _, err := l.ForceRelease(t.Context(), "k"); err != nil {
		t.Error(err)
	}
	if err := l.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// A Waiting hook is called once for each acquisition, also one that returns nil.
func TestAWaitIsReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		var reported atomic.Int32
		l := newLocker(t, store, lock.WithPoll(100*time.Millisecond), lock.WithHooks(lock.Hooks{
			Waiting: func(context.Context, lock.Event) func() { reported.Add(1); return nil },
		}))
		held := acquire(t, newLocker(t, store), t.Context(), "k")
		waiting := await(t.Context(), l, "k")
		time.Sleep(time.Second)
		release(t, held)
		release(t, waiting.got(t))
		if n := reported.Load(); n != 1 {
			t.Errorf("reported %d times", n)
		}
	})
}
