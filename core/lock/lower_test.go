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

// A writer who reads goes on as a reader when its last write lease is released: the store is
// called once, and by no other release but the last.
func TestTheHoldIsLoweredWithTheLastWriteLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		l := newLocker(t, store)
		calls := func(what string, lowers, releases int) {
			t.Helper()
			if n, m := store.count("lower"), store.count("release"); n != lowers || m != releases {
				t.Errorf("%s: lowered %d times, want %d; released %d times, want %d", what, n, lowers, m, releases)
			}
		}
		first := acquire(t, l, t.Context(), "k", writing)
		second := acquire(t, l, first.Context(), "k", writing)
		before := acquire(t, l, first.Context(), "k", reading)
		last := acquire(t, l, first.Context(), "k", reading)
		release(t, first)
		calls("a writer is left", 0, 0)
		release(t, before)
		calls("a reader has gone", 0, 0)
		release(t, second)
		calls("the last writer has gone", 1, 0)
		again := acquire(t, l, context.WithoutCancel(last.Context()), "k", reading)
		release(t, last)
		release(t, again)
		calls("nobody is left", 1, 1)

		writer := acquire(t, l, t.Context(), "k", writing)
		release(t, acquire(t, l, writer.Context(), "k", reading))
		release(t, writer)
		calls("a writer who has read before", 1, 2)
	})
}

// networks are stores that answer at once, and with a call.
var networks = map[string]func() lock.Store{
	"in memory": func() lock.Store { return memstore.New() },
	"remote":    func() lock.Store { return lock.Async(newRemote()) },
	"spaced":    func() lock.Store { return lock.Async(newSpaced()) },
}

func TestAWriterThatGoesOnReadingLetsReadersIn(t *testing.T) {
	for name, open := range networks {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := open()
				hour := lock.WithPoll(time.Hour)
				here, there := newLocker(t, store, hour), newLocker(t, store, hour)
				w := acquire(t, here, t.Context(), "k", writing)
				local, remote := start(t, here, t.Context(), reading), start(t, there, t.Context(), reading)
				r := acquire(t, here, w.Context(), "k", reading)
				waits(t, "the reader here", local)
				waits(t, "the reader there", remote)
				release(t, w)
				if err := r.Context().Err(); !errors.Is(err, context.Canceled) {
					t.Errorf("the inner lease's context, derived from the writer's: %v", err)
				}
				if err := lock.AssertHeld(context.WithoutCancel(r.Context()), "k"); err != nil {
					t.Errorf("the read hold: %v", err)
				}
				leases := []*lock.Lease{granted(t, "the reader here", local), granted(t, "the reader there", remote), r}
				writer := start(t, there, t.Context(), writing)
				for _, lease := range leases {
					waits(t, "the next writer", writer)
					release(t, lease)
				}
				release(t, granted(t, "the next writer", writer))
				if n := holds(t, store, "k"); n != 0 {
					t.Errorf("%d holds are left", n)
				}
			})
		})
	}
}

// Reads of a writer that come and go at once keep no reader out, and no stranger writes
// while one of them lasts.
func TestReadsOfAWriterThatCrossKeepTheirHold(t *testing.T) {
	for name, open := range networks {
		t.Run(name, func(t *testing.T) {
			ctx, store := t.Context(), open()
			l, other := newLocker(t, store), newLocker(t, store)
			for range 200 {
				w := acquire(t, l, ctx, "k", writing)
				var readers sync.WaitGroup
				keep := make([]*lock.Lease, 6)
				for i := range keep {
					readers.Go(func() {
						for range 5 {
							release(t, acquire(t, l, w.Context(), "k", reading))
						}
						keep[i] = acquire(t, l, w.Context(), "k", reading)
					})
				}
				readers.Wait()
				release(t, w)
				for i, r := range keep {
					_, err := other.TryAcquire(ctx, "k", writing)
					wantErr(t, err, lock.ErrBusy)
					release(t, acquire(t, other, ctx, "k", reading, lock.WithWait(0)))
					wantErr(t, lock.AssertHeld(context.WithoutCancel(r.Context()), "k"), nil)
					if n := holds(t, store, "k"); n != 1 {
						t.Fatalf("%d holds of %d leases", n, len(keep)-i)
					}
					release(t, r)
				}
				release(t, acquire(t, other, ctx, "k", writing, lock.WithWait(0)))
			}
		})
	}
}

// outages keep an operation from being answered, be it that it doesn't run, or that its
// answer is lost.
var outages = map[string]func(store *faulty, op string){
	"it doesn't run": func(store *faulty, op string) {
		store.set(only(op, func(lock.Claim) error { return errLineCut }), nil)
	},
	"its answer is lost": func(store *faulty, op string) {
		store.set(nil, only(op, func(lock.Claim) error { return errLineCut }))
	},
	"the store is silent": func(store *faulty, op string) {
		store.set(only(op, func(lock.Claim) error { time.Sleep(time.Minute); return errLineCut }), nil)
	},
}

// lowering returns a writer's lease that has been released, and what it reads, for which
// Lower has no answer. opts are those of the reading.
func lowering(t *testing.T, l *lock.Locker, opts ...lock.Option) (read *lock.Lease) {
	t.Helper()
	w := acquire(t, l, t.Context(), "k", writing)
	read = acquire(t, l, context.WithoutCancel(w.Context()), "k", append(opts, reading)...)
	began := time.Now()
	wantErr(t, w.Release(t.Context()), lock.ErrUnavailable)
	if took := time.Since(began); took > lock.DefaultCallTimeout {
		t.Errorf("the release took %v", took)
	}
	return read
}

// One answer that is lost costs the writer a moment, and no error.
func TestALowerIsRepeatedBeforeItsReleaseReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		l := newLocker(t, store)
		w := acquire(t, l, t.Context(), "k", writing)
		read := acquire(t, l, context.WithoutCancel(w.Context()), "k", reading)
		store.set(only("lower", times(1, errLineCut)), nil)
		release(t, w)
		if n := store.count("lower"); n != 2 {
			t.Errorf("lowered %d times", n)
		}
		release(t, acquire(t, l, t.Context(), "k", reading, lock.WithWait(0)))
		release(t, read)
	})
}

// Until the store has answered, nobody of the process gets in, and nobody elsewhere writes.
// What the writer reads is trusted, for as long as it has asked for.
func TestNobodyGetsInBeforeLowerIsAnswered(t *testing.T) {
	for name, away := range outages {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const length = 10 * time.Minute
				store := newFaulty()
				l, other := newLocker(t, store), newLocker(t, store.Store)
				away(store, "lower")
				read := lowering(t, l, lock.WithLease(length))
				reader, writer := start(t, l, t.Context(), reading), start(t, l, t.Context(), writing)
				for range 20 {
					time.Sleep(10 * time.Second)
					waits(t, "a reader", reader)
					for _, mode := range []lock.Option{reading, writing} {
						_, err := l.TryAcquire(t.Context(), "k", mode)
						wantErr(t, err, lock.ErrBusy)
					}
					_, err := other.TryAcquire(t.Context(), "k", writing)
					wantErr(t, err, lock.ErrBusy)
					wantErr(t, lock.AssertHeld(read.Context(), "k"), nil)
				}
				if n := holds(t, store, "k"); n != 1 {
					t.Errorf("%d holds", n)
				}
				if left := remains(t, store, "k"); left < length-4*time.Minute {
					t.Errorf("the key is held for %v", left)
				}
				store.set(nil, nil)
				time.Sleep(time.Minute + 2*time.Second) // a silent call ends, and the next comes
				answered := store.count("lower")
				release(t, granted(t, "the reader", reader))
				waits(t, "the writer", writer)
				release(t, acquire(t, other, t.Context(), "k", reading, lock.WithWait(0)))
				time.Sleep(2 * time.Minute)
				if n := store.count("lower"); n != answered {
					t.Errorf("lowered %d times more", n-answered)
				}
				wantErr(t, lock.AssertHeld(read.Context(), "k"), nil)
				release(t, read)
				release(t, granted(t, "the writer", writer))
			})
		})
	}
}

// The repetition ends with the hold, whatever ends it, and nothing is left of either.
func TestLowerIsRepeatedNoLongerThanThereIsAHold(t *testing.T) {
	for outage, away := range outages {
		for name, end := range map[string]func(t *testing.T, l *lock.Locker, read *lock.Lease){
			"released": func(t *testing.T, _ *lock.Locker, read *lock.Lease) {
				t.Helper()
				release(t, read)
			},
			"forced": func(t *testing.T, l *lock.Locker, read *lock.Lease) {
				t.Helper()
				if _, err := l.ForceRelease(t.Context(), "k"); err != nil {
					t.Error(err)
				}
				wantErr(t, read.Release(t.Context()), lock.ErrForced)
			},
			"expired": func(t *testing.T, _ *lock.Locker, read *lock.Lease) {
				t.Helper()
				<-read.Context().Done()
				wantErr(t, read.Release(t.Context()), lock.ErrExpired)
			},
			"closed": func(t *testing.T, l *lock.Locker, read *lock.Lease) {
				t.Helper()
				began := time.Now()
				wantErr(t, l.Close(t.Context()), nil)
				if took := time.Since(began); took > time.Minute { // the silent call ends
					t.Errorf("Close took %v", took)
				}
				wantErr(t, read.Release(t.Context()), lock.ErrClosed)
			},
		} {
			t.Run(name+", "+outage, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store := newFaulty()
					l := newLocker(t, store)
					away(store, "lower")
					read := lowering(t, l, lock.WithLease(10*time.Minute))
					time.Sleep(30 * time.Second)
					tries := store.count("lower")
					if tries < 2 {
						t.Errorf("lowered %d times, want repetitions", tries)
					}
					end(t, l, read)
					synctest.Wait()
					tries = store.count("lower")
					time.Sleep(time.Hour)
					if n := store.count("lower"); n > tries+1 { // one may have been on its way
						t.Errorf("lowered %d times after the end", n-tries)
					}
					if n := holds(t, store, "k"); n != 0 {
						t.Errorf("%d holds are left", n)
					}
				})
			})
		}
	}
}

// The store has forgotten the hold: what the writer read is lost, and its release says so.
func TestALowerThatFindsNothingIsALoss(t *testing.T) {
	for name, unanswered := range map[string]bool{"at once": false, "later": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newFaulty()
				var lost atomic.Int32
				l := newLocker(t, store, lock.WithHooks(lock.Hooks{Lost: func(lock.LossEvent) { lost.Add(1) }}))
				w := acquire(t, l, t.Context(), "k", writing)
				read := acquire(t, l, context.WithoutCancel(w.Context()), "k", reading)
				next := start(t, l, t.Context(), writing)
				store.set(only("renew", func(lock.Claim) error { return errLineCut }), nil) // which would find the loss
				if unanswered {
					store.set(func(op string, _ lock.Claim) error {
						if op == "lower" || op == "renew" {
							return errLineCut
						}
						return nil
					}, nil)
					wantErr(t, w.Release(t.Context()), lock.ErrUnavailable)
				}
				if _, err := store.Store.ForceRelease(t.Context(), "k"); err != nil {
					t.Fatal(err)
				}
				store.set(only("renew", func(lock.Claim) error { return errLineCut }), nil)
				if !unanswered {
					wantErr(t, w.Release(t.Context()), lock.ErrLost, lock.ErrTaken, lock.ErrNotHeld)
				}
				time.Sleep(time.Second)
				synctest.Wait()
				wantErr(t, context.Cause(read.Context()), lock.ErrTaken)
				wantErr(t, read.Release(t.Context()), lock.ErrTaken)
				if n := lost.Load(); n != 1 {
					t.Errorf("%d losses", n)
				}
				store.set(nil, nil)
				time.Sleep(lock.DefaultPoll)
				release(t, granted(t, "the next writer", next))
			})
		})
	}
}

// What was under way for the writer finds nothing when the store has made it a reader.
func TestACallForTheWriterThatMeetsLowerLosesNothing(t *testing.T) {
	for name, tt := range map[string]struct {
		begin func(t *testing.T, read *lock.Lease) <-chan error // a renewal
		lasts time.Duration
	}{
		"a renewal": {func(*testing.T, *lock.Lease) <-chan error {
			time.Sleep(lock.DefaultWatchdog/3 + time.Millisecond)
			done := make(chan error, 1)
			done <- nil
			return done
		}, 0},
		"an extension": {func(t *testing.T, read *lock.Lease) <-chan error {
			t.Helper()
			done := make(chan error, 1)
			go func() { done <- read.Extend(t.Context(), time.Hour) }()
			synctest.Wait()
			return done
		}, 59 * time.Minute},
		"a longer re-entry": {func(t *testing.T, read *lock.Lease) <-chan error {
			t.Helper()
			done := make(chan error, 1)
			go func() {
				lease, err := read.Locker().Acquire(read.Context(), "k", reading, lock.WithLease(time.Hour))
				if err == nil {
					err = lease.Release(t.Context())
				}
				done <- err
			}()
			synctest.Wait()
			return done
		}, 59 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newFaulty()
				l := newLocker(t, store)
				w := acquire(t, l, t.Context(), "k", writing)
				read := acquire(t, l, context.WithoutCancel(w.Context()), "k", reading)
				held, found := make(chan struct{}), 0
				store.set(only("renew", func(c lock.Claim) error {
					if c.Mode == lock.Write {
						<-held
					}
					return nil
				}), nil)
				done := tt.begin(t, read)
				release(t, w)
				store.set(nil, only("renew", func(c lock.Claim) error {
					if c.Mode == lock.Write {
						found++
					}
					return nil
				}))
				close(held)
				wantErr(t, <-done, nil)
				synctest.Wait()
				wantErr(t, lock.AssertHeld(read.Context(), "k"), nil)
				if left := remains(t, store, "k"); left < tt.lasts {
					t.Errorf("it lasts %v", left)
				}
				time.Sleep(5 * time.Minute) // the renewals go on
				wantErr(t, lock.AssertHeld(read.Context(), "k"), nil)
				if n := holds(t, store, "k"); n != 1 || found != 0 {
					t.Errorf("%d holds, and %d renewals of a writer since", n, found)
				}
				release(t, read)
			})
		})
	}
}

// A call that the writer gave up arrives when it only reads, or when it has gone: it makes
// no writer of the reader, and what it makes anew is undone.
func TestALateAcquireOfAWriterWhoReadsChangesNothing(t *testing.T) {
	for name, gone := range map[string]bool{"while it reads": false, "when it has gone": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newFaulty()
				l, other := newLocker(t, store, lock.WithCallTimeout(time.Second)), newLocker(t, store.Store)
				theirs := acquire(t, other, t.Context(), "k", writing)
				waiting := start(t, l, t.Context(), writing)
				late, first := make(chan struct{}), times(1, errLineCut)
				store.set(only("acquire", func(c lock.Claim) error {
					if first(c) != nil {
						<-late
					}
					return nil
				}), nil)
				release(t, theirs)
				time.Sleep(5 * time.Second)
				w := granted(t, "the writer, by a second call", waiting)
				read := acquire(t, l, context.WithoutCancel(w.Context()), "k", reading)
				release(t, w)
				if gone {
					release(t, read)
				}
				close(late)
				if !gone {
					time.Sleep(5 * time.Second)
					release(t, acquire(t, other, t.Context(), "k", reading, lock.WithWait(0)))
					_, err := other.TryAcquire(t.Context(), "k", writing)
					wantErr(t, err, lock.ErrBusy)
					time.Sleep(time.Minute)
					wantErr(t, lock.AssertHeld(read.Context(), "k"), nil)
					release(t, read)
				}
				time.Sleep(5 * time.Second)
				if n := holds(t, store, "k"); n != 0 {
					t.Errorf("%d holds are left", n)
				}
			})
		})
	}
}

// The end of the hold overtakes Lower, which then finds nothing. That is no loss: the release
// says how the hold ended.
func TestALowerThatIsOvertakenByTheEndIsNoLoss(t *testing.T) {
	for name, tt := range map[string]struct {
		end  func(t *testing.T, l *lock.Locker, read *lock.Lease) error
		want error
	}{
		"by the last release": {func(t *testing.T, _ *lock.Locker, read *lock.Lease) error {
			t.Helper()
			return read.Release(t.Context())
		}, nil},
		"by Close": {func(t *testing.T, l *lock.Locker, _ *lock.Lease) error {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond) // it waits for the release
			defer cancel()
			if err := l.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
				return fmt.Errorf("closed too early: %w", err)
			}
			return nil
		}, lock.ErrClosed},
		"by force": {func(t *testing.T, l *lock.Locker, _ *lock.Lease) error {
			t.Helper()
			_, err := l.ForceRelease(t.Context(), "k")
			return err
		}, lock.ErrForced},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newFaulty()
				l := newLocker(t, store)
				w := acquire(t, l, t.Context(), "k", writing)
				read := acquire(t, l, context.WithoutCancel(w.Context()), "k", reading)
				held := make(chan struct{})
				store.set(only("lower", func(lock.Claim) error { <-held; return nil }), nil)
				released := make(chan error, 1)
				go func() { released <- w.Release(t.Context()) }()
				synctest.Wait()
				wantErr(t, tt.end(t, l, read), nil)
				close(held)
				err := <-released
				wantErr(t, err, tt.want)
				if errors.Is(err, lock.ErrTaken) {
					t.Errorf("got %v, and nobody took it", err)
				}
				time.Sleep(time.Minute)
				if n := holds(t, store, "k"); n != 0 {
					t.Errorf("%d holds are left", n)
				}
			})
		})
	}
}

// Who reads can't write, whatever it has written before: others may read as well.
func TestAReaderDoesNotBecomeAWriter(t *testing.T) {
	for name, away := range map[string]func(store *faulty, op string){
		"who only reads":                         nil,
		"who has written":                        func(store *faulty, _ string) { store.set(nil, nil) },
		"who may still be a writer in the store": outages["it doesn't run"],
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newFaulty()
				l := newLocker(t, store)
				var callers []context.Context
				var read *lock.Lease
				if away == nil {
					read = acquire(t, l, t.Context(), "k", reading)
				} else {
					w := acquire(t, l, t.Context(), "k", writing)
					read = acquire(t, l, context.WithoutCancel(w.Context()), "k", reading)
					callers = append(callers, context.WithoutCancel(w.Context()))
					away(store, "lower")
					_ = w.Release(t.Context())
				}
				before := store.count("acquire")
				for _, ctx := range append(callers, read.Context()) {
					for _, mode := range []lock.Option{writing, lock.WithMode(lock.Exclusive), fair} {
						_, wait := l.Acquire(ctx, "k", mode)
						_, try := l.TryAcquire(ctx, "k", mode)
						wantErr(t, wait, lock.ErrInvalid)
						wantErr(t, try, lock.ErrInvalid)
					}
					release(t, acquire(t, l, ctx, "k", reading))
				}
				if n := store.count("acquire") - before; n != 0 {
					t.Errorf("%d calls", n)
				}
				store.set(nil, nil)
				release(t, read)
			})
		})
	}
}

// The limit of the writer's hold is that of what it goes on to read.
func TestTheLimitOfAWriterEndsItsReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		l := newLocker(t, store)
		began := time.Now()
		w := acquire(t, l, t.Context(), "k", writing, lock.WithMaxHold(time.Minute))
		read := acquire(t, l, context.WithoutCancel(w.Context()), "k", reading, lock.WithLease(time.Hour))
		time.Sleep(20 * time.Second)
		release(t, w)
		if left := remains(t, store, "k"); left > 40*time.Second {
			t.Errorf("it lasts %v", left)
		}
		<-read.Context().Done()
		if lasted := time.Since(began); lasted < 59*time.Second || lasted > time.Minute {
			t.Errorf("it ended after %v", lasted)
		}
		wantErr(t, context.Cause(read.Context()), lock.ErrHeldTooLong)
		time.Sleep(time.Second)
		if n := holds(t, store, "k"); n != 0 {
			t.Errorf("%d holds are left", n)
		}
	})
}

// Hooks see one hold, which ends by the name and in the mode in which it began.
func TestAHoldThatIsLoweredEndsAsItBegan(t *testing.T) {
	for name, tt := range map[string]struct {
		end  func(t *testing.T, l *lock.Locker, read *lock.Lease)
		want []string
	}{
		"released": {func(t *testing.T, _ *lock.Locker, read *lock.Lease) {
			t.Helper()
			release(t, read)
		}, []string{"released writes write last=true"}},
		"lost": {func(t *testing.T, l *lock.Locker, _ *lock.Lease) {
			t.Helper()
			_, _ = l.ForceRelease(t.Context(), "k")
		}, []string{"lost writes write"}},
		"closed": {func(t *testing.T, l *lock.Locker, _ *lock.Lease) {
			t.Helper()
			wantErr(t, l.Close(t.Context()), nil)
		}, []string{"released writes write last=true"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var d diary
				l := newLocker(t, newFaulty(), lock.WithHooks(lock.Hooks{
					Acquired: func(_ context.Context, e lock.AcquireEvent) {
						d.note("acquired %s %s reentrant=%v", e.Name, e.Mode, e.Reentrant)
					},
					Renewed:  func(e lock.RenewEvent) { d.note("renewed %s %s", e.Name, e.Mode) },
					Released: func(e lock.ReleaseEvent) { d.note("released %s %s last=%v", e.Name, e.Mode, e.Last) },
					Lost:     func(e lock.LossEvent) { d.note("lost %s %s", e.Name, e.Mode) },
				}))
				w := acquire(t, l, t.Context(), "k", writing, lock.WithName("writes"))
				read := acquire(t, l, context.WithoutCancel(w.Context()), "k", reading, lock.WithName("reads"))
				release(t, w)
				time.Sleep(11 * time.Second)
				synctest.Wait()
				tt.end(t, l, read)
				_ = read.Release(t.Context())
				want := append([]string{
					"acquired writes write reentrant=false", "acquired reads read reentrant=true",
					"released writes write last=false", "renewed writes write",
				}, tt.want...)
				d.mu.Lock()
				defer d.mu.Unlock()
				if !slices.Equal(d.lines, want) {
					t.Errorf("got\n%q\nwant\n%q", d.lines, want)
				}
			})
		})
	}
}

// A hold that the store may know as a reader's is not passed on to a writer.
func TestAHoldThatIsBeingLoweredIsNotHandedOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newSpaced()
		l := newLocker(t, store, lock.WithHandoff(1, time.Hour))
		outages["its answer is lost"](store.faulty, "lower")
		read := lowering(t, l)
		next := await(t.Context(), l, "k", writing)
		released := store.count("release")
		release(t, read)
		writer := next.got(t)
		if writer.Owner() == read.Owner() || store.count("release") == released {
			t.Errorf("handed off: fence %d after %d", writer.Fence(), read.Fence())
		}
		release(t, writer)
	})
}
