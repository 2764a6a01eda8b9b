package lock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

const transferTTL = 5 * time.Second

// generous is a store that transfers: a release gives the key to the first of
// the queue that accepts it.
type generous struct {
	*faulty
	distance time.Duration // that an Acquire travels
	mu       sync.Mutex
	heirs    map[string]func(fence uint64) // who listens, by owner
	claims   map[string]lock.Claim         // that accept a transfer, by owner
	asked    []ask
	newest   uint64
	// deliver gets each message; nil delivers at once.
	deliver func(func())
}

// ask is a call of Acquire, and when it came.
type ask struct {
	lock.Claim
	at time.Time
}

func newGenerous() *generous {
	return &generous{faulty: newFaulty(), heirs: make(map[string]func(uint64)), claims: make(map[string]lock.Claim)}
}

func (g *generous) TransferTTL() time.Duration { return transferTTL }

func (g *generous) WatchTransfer(_ context.Context, c lock.Claim, wake func(uint64)) (func(), error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.heirs[c.Owner] = wake
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.heirs, c.Owner)
	}, nil
}

func (g *generous) Acquire(ctx context.Context, c lock.Claim) (uint64, error) {
	time.Sleep(g.distance)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked = append(g.asked, ask{c, time.Now()})
	fence, err := g.faulty.Acquire(ctx, c)
	g.newest = max(g.newest, fence)
	var busy *lock.BusyError
	if errors.As(err, &busy) && c.Transfer {
		busy.Clock = g.newest
		g.claims[c.Owner] = c
	}
	return fence, err
}

func (g *generous) Release(ctx context.Context, c lock.Claim) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	err := g.faulty.Release(ctx, c)
	state, _ := g.Store.Inspect(context.Background(), c.Key)
	if state.Held || len(state.Waiters) == 0 {
		return err
	}
	first := state.Waiters[0]
	given, accepts := g.claims[first]
	tell := func(uint64) {}
	if h, hears := g.heirs[first]; hears {
		tell = h
	}
	if err != nil || !accepts {
		tell(0)
		return err
	}
	given.TTL = transferTTL
	fence, err := g.Store.Acquire(context.Background(), given)
	if err != nil {
		panic(err)
	}
	g.newest = fence
	if g.deliver != nil {
		g.deliver(func() { tell(fence) })
	} else {
		tell(fence)
	}
	return nil
}

// asks of an owner, or of all if it is empty.
func (g *generous) asks(owner string) (asks []ask) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, a := range g.asked {
		if owner == "" || a.Owner == owner {
			asks = append(asks, a)
		}
	}
	return asks
}

// hears sends a message to the only one that waits for a transfer.
func (g *generous) hears(t *testing.T, fence uint64) {
	t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.heirs) != 1 {
		t.Fatalf("%d wait for a transfer", len(g.heirs))
	}
	for _, wake := range g.heirs {
		wake(fence)
	}
}

func (g *generous) setDeliver(deliver func(func())) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.deliver = deliver
}

// waiting is an acquisition that waits.
type waiting struct {
	cancel context.CancelFunc
	lease  chan *lock.Lease
	err    chan error
}

// queues starts an acquisition; it waits when queues returns.
func queues(t *testing.T, l *lock.Locker, opts ...lock.Option) *waiting {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w := &waiting{cancel, make(chan *lock.Lease, 1), make(chan error, 1)}
	go func() {
		defer cancel()
		lease, err := l.Acquire(ctx, "k", opts...)
		w.lease <- lease
		w.err <- err
		if err == nil {
			<-lease.Context().Done() // ctx is what it descends from
		}
	}()
	synctest.Wait()
	return w
}

func (w *waiting) get(t *testing.T) *lock.Lease {
	t.Helper()
	lease, err := <-w.lease, <-w.err
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

// nothing fails if the wait is over.
func (w *waiting) nothing(t *testing.T, why string) {
	t.Helper()
	synctest.Wait()
	select {
	case lease := <-w.lease:
		t.Fatalf("%s: the wait ended with %v", why, lease)
	default:
	}
}

func TestAKeyThatIsTransferredNeedsNoFurtherCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newGenerous()
		here, there := newLocker(t, store, fair), newLocker(t, store, fair)
		lease := acquire(t, there, t.Context(), "k")
		waiters := []*waiting{queues(t, here), queues(t, here), queues(t, here)}
		for i, w := range waiters {
			fence := lease.Fence()
			release(t, lease)
			lease = w.get(t)
			if lease.Fence() <= fence {
				t.Errorf("fence %d after %d", lease.Fence(), fence)
			}
			// The first of a process learns that it has to subscribe.
			want := 1
			if i == 0 {
				want = 2
			}
			if n := len(store.asks(lease.Owner())); n != want {
				t.Errorf("waiter %d asked %d times, want %d", i, n, want)
			}
		}
		release(t, lease)
		if n := holds(t, store, "k"); n != 0 {
			t.Errorf("%d holds are left", n)
		}
	})
}

func TestTheWaitersOfOneProcessLearnOnceThatAKeyIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 16
		store := newGenerous()
		store.distance = time.Millisecond // they all come before the first is answered
		here, there := newLocker(t, store, fair), newLocker(t, store, fair)
		lease := acquire(t, there, t.Context(), "k")
		var working sync.WaitGroup
		for range n {
			working.Go(func() {
				if err := here.Do(t.Context(), "k", func(context.Context) error { return nil }); err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(10 * time.Millisecond)
		release(t, lease)
		working.Wait()
		if asks := len(store.asks("")); asks != 1+n+1 {
			t.Errorf("%d waiters asked %d times, want one more than that", n, asks-1)
		}
	})
}

// What the store did, it did after the last call that found the claim in the
// queue was sent. When the message comes does not count.
func TestATransferIsTrustedFromTheLastCallOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newGenerous()
		here, there := newLocker(t, store, fair, lock.WithPoll(time.Hour)), newLocker(t, store, fair)
		first := acquire(t, there, t.Context(), "k", lock.WithLease(time.Hour))
		w := queues(t, here)
		time.Sleep(1200 * time.Millisecond)
		store.setDeliver(func(deliver func()) { time.AfterFunc(300*time.Millisecond, deliver) })
		release(t, first)
		lease := w.get(t)
		asks := store.asks(lease.Owner())
		sent := asks[len(asks)-1].at
		if len(asks) != 2 || time.Since(sent) != 1500*time.Millisecond {
			t.Fatalf("%d calls, the last %v ago; want 2, 1.5 s", len(asks), time.Since(sent))
		}
		want := sent.Add(transferTTL - transferTTL/100 - 2*time.Millisecond)
		if got := lease.Deadline(); !got.Equal(want) {
			t.Errorf("trusted until %v after the last call, want %v", got.Sub(sent), want.Sub(sent))
		}
		release(t, lease)
	})
}

func TestATransferredHoldIsRenewedLongBeforeItsTrustIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newGenerous()
		here, there := newLocker(t, store, fair), newLocker(t, store, fair)
		first := acquire(t, there, t.Context(), "k")
		w := queues(t, here)
		time.Sleep(500 * time.Millisecond)
		release(t, first)
		lease := w.get(t)
		time.Sleep(2 * time.Second)
		if left := time.Until(lease.Deadline()); left < 25*time.Second {
			t.Errorf("trusted for %v only", left)
		}
		time.Sleep(time.Hour)
		if err := lease.Context().Err(); err != nil {
			t.Errorf("lost: %v", context.Cause(lease.Context()))
		}
		if n := store.count("renew"); n > 365 {
			t.Errorf("%d renewals in an hour, want one every 10 s", n)
		}
		release(t, lease)
	})
}

func TestATransferredHoldThatCannotBeRenewedIsLostInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, failing := range map[string]struct {
			renew func(lock.Claim) error
			tries int
		}{
			"an error": {func(lock.Claim) error { return errLineCut }, 15},
			"silence":  {func(lock.Claim) error { time.Sleep(time.Minute); return errLineCut }, 3},
		} {
			store := newGenerous()
			here, there := newLocker(t, store, fair), newLocker(t, store, fair)
			first := acquire(t, there, t.Context(), "k")
			w := queues(t, here)
			store.set(only("renew", failing.renew), nil)
			release(t, first)
			lease := w.get(t)
			asks := store.asks(lease.Owner())
			<-lease.Context().Done()
			if held := time.Since(asks[len(asks)-1].at); held > transferTTL {
				t.Errorf("%s: lost only %v after the last call", name, held)
			}
			wantErr(t, context.Cause(lease.Context()), lock.ErrLost)
			if n := store.count("renew"); n < failing.tries {
				t.Errorf("%s: renewed %d times, want %d tries at least", name, n, failing.tries)
			}
			store.set(nil, nil)
			wantErr(t, lease.Release(t.Context()), lock.ErrLost)
		}
	})
}

// A short re-entry must not put off what keeps the hold, nor bring it forward.
func TestReentriesDoNotMoveTheRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, opts := range map[string][]lock.Option{
			"shorter than what is left": {lock.WithLease(lock.MinLease)},
			"longer than a transfer":    {lock.WithLease(transferTTL + time.Second)},
		} {
			store := newGenerous()
			here, there := newLocker(t, store, fair), newLocker(t, store, fair)
			first := acquire(t, there, t.Context(), "k")
			w := queues(t, here)
			release(t, first)
			lease := w.get(t)
			for range 120 {
				again, err := here.Acquire(lease.Context(), "k", opts...)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				if n := holds(t, store, "k"); n != 2 {
					t.Errorf("%s: %d holds, want 2", name, n)
				}
				release(t, again)
				time.Sleep(time.Second)
			}
			release(t, lease)
			if n := store.count("renew"); n > 20 {
				t.Errorf("%s: %d renewals in two minutes, want one every 10 s", name, n)
			}
		}
	})
}

func TestATransferThatIsHeardOfLateIsAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newGenerous()
		here, there := newLocker(t, store, fair, lock.WithPoll(time.Hour)), newLocker(t, store, fair)
		first := acquire(t, there, t.Context(), "k", lock.WithLease(time.Hour))
		w := queues(t, here)
		time.Sleep(time.Minute)
		release(t, first)
		lease := w.get(t)
		if n := len(store.asks(lease.Owner())); n != 3 {
			t.Errorf("%d calls, want one more", n)
		}
		if left := time.Until(lease.Deadline()); left < 25*time.Second {
			t.Errorf("trusted for %v, want the whole lease", left)
		}
		release(t, lease)
	})
}

func TestATransferThatIsNotHeardOfIsFoundByThePoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newGenerous()
		store.setDeliver(func(func()) {})
		here, there := newLocker(t, store, fair), newLocker(t, store, fair)
		first := acquire(t, there, t.Context(), "k")
		w := queues(t, here)
		release(t, first)
		freed := time.Now()
		lease := w.get(t)
		if took := time.Since(freed); took > lock.DefaultPoll {
			t.Errorf("found after %v", took)
		}
		release(t, lease)
		if n := holds(t, store, "k"); n != 0 {
			t.Errorf("%d holds are left", n)
		}
	})
}

// Whoever can send messages cannot make a grant of what was granted before.
func TestAMessageAloneNeverGrants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newGenerous()
		here, there := newLocker(t, store, fair, lock.WithPoll(time.Hour)), newLocker(t, store, fair)
		first := acquire(t, there, t.Context(), "k", lock.WithLease(time.Hour))
		w := queues(t, here)
		for _, fence := range []uint64{0, 1, first.Fence() - 1, first.Fence()} {
			before := len(store.asks(""))
			store.hears(t, fence)
			w.nothing(t, fmt.Sprintf("a message with fence %d", fence))
			if n := len(store.asks("")) - before; n != 1 {
				t.Errorf("fence %d: asked %d times, want once", fence, n)
			}
		}
		w.cancel()
		wantErr(t, <-w.err, context.Canceled)
		release(t, first)
	})
}

// The message was under way while the hold that it tells of was taken away,
// and somebody else came first.
func TestAMessageThatWasOvertakenDoesNotGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, ask := range map[string]bool{"asked since": true, "seen in this process": false} {
			store := newGenerous()
			here, there := newLocker(t, store, fair, lock.WithPoll(time.Hour)), newLocker(t, store, fair)
			first := acquire(t, there, t.Context(), "k", lock.WithLease(time.Hour))
			w := queues(t, here)
			var late func()
			store.setDeliver(func(deliver func()) { late = deliver })
			release(t, first)
			if _, err := there.ForceRelease(t.Context(), "k"); err != nil {
				t.Fatal(err)
			}
			by := there
			if !ask {
				by = here
			}
			other := acquire(t, by, t.Context(), "k", lock.WithLease(time.Hour))
			if ask {
				store.hears(t, 0)
				synctest.Wait()
			}
			late()
			w.nothing(t, name)
			w.cancel()
			wantErr(t, <-w.err, context.Canceled)
			release(t, other)
		}
	})
}

// Whatever ends a wait in whose course the key was transferred, the next gets
// it at once: no poll, and no hold that has to expire, helps.
func TestAWaiterThatEndsPassesOnWhatItWasGiven(t *testing.T) {
	ends := []struct {
		name string
		opts []lock.Option
		end  func(t *testing.T, l *lock.Locker, w *waiting)
		want error
	}{
		{"cancelled", nil, func(_ *testing.T, _ *lock.Locker, w *waiting) { w.cancel() }, context.Canceled},
		{"its time is over", []lock.Option{lock.WithWait(time.Second)}, func(*testing.T, *lock.Locker, *waiting) { time.Sleep(time.Second) }, context.DeadlineExceeded},
		{"closed", nil, func(t *testing.T, l *lock.Locker, _ *waiting) {
			t.Helper()
			if err := l.Close(context.Background()); err != nil {
				t.Error(err)
			}
		}, lock.ErrClosed},
	}
	// The end comes before the transfer, between it and its message, with the
	// message, or when the lease is there.
	for _, end := range ends {
		for _, point := range []string{"before", "unheard", "heard", "leased"} {
			t.Run(end.name+" "+point, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store := newGenerous()
					poll := lock.WithPoll(time.Hour)
					here, there, behind := newLocker(t, store, fair, poll), newLocker(t, store, fair), newLocker(t, store, fair, poll)
					first := acquire(t, there, t.Context(), "k", lock.WithLease(time.Hour))
					w, next := queues(t, here, end.opts...), queues(t, behind)
					switch point {
					case "before":
						go func() { _ = first.Release(context.Background()) }()
					case "unheard":
						lost := true
						store.setDeliver(func(deliver func()) {
							if !lost { // only the first message
								deliver()
							}
							lost = false
						})
						release(t, first)
					case "heard":
						go func() { _ = first.Release(context.Background()) }()
					case "leased":
						release(t, first)
						synctest.Wait()
					}
					if point == "heard" {
						synctest.Wait()
					}
					began := time.Now()
					end.end(t, here, w)
					lease, err := <-w.lease, <-w.err
					if err == nil { // it was quicker: its user has it
						_ = lease.Release(context.Background())
					} else {
						wantErr(t, err, end.want)
					}
					got := next.get(t)
					if took := time.Since(began); took > time.Second {
						t.Errorf("the next got it after %v", took)
					}
					release(t, got)
					synctest.Wait()
					if n := holds(t, store, "k"); n != 0 {
						t.Errorf("%d holds are left", n)
					}
				})
			})
		}
	}
}

// Nobody would renew these, or they are not alone in what they have.
func TestWhoDoesNotAcceptATransfer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newGenerous()
		here, there := newLocker(t, store, fair), newLocker(t, store, fair)
		for name, opts := range map[string][]lock.Option{
			"a fixed lease":    {lock.WithLease(time.Minute)},
			"a named owner":    {lock.WithOwner("me")},
			"a short watchdog": {lock.WithWatchdog(transferTTL - 1)},
			"another mode":     {lock.WithMode(lock.Exclusive)},
		} {
			first := acquire(t, there, t.Context(), "k")
			before := len(store.asks(""))
			w := queues(t, here, opts...)
			for _, c := range store.asks("")[before:] {
				if c.Transfer {
					t.Errorf("%s: the claim accepts a transfer: %+v", name, c.Claim)
				}
			}
			release(t, first)
			release(t, w.get(t))
		}
		w := acquire(t, there, t.Context(), "k")
		if _, err := here.TryAcquire(t.Context(), "k"); !errors.Is(err, lock.ErrBusy) {
			t.Error(err)
		}
		release(t, w)
		for _, c := range store.asks("") {
			if c.Transfer && c.Patience == 0 {
				t.Errorf("accepts a transfer without a place: %+v", c.Claim)
			}
		}
	})
}
