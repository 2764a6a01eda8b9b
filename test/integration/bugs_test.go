package integration_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/test/internal/faultproxy"
	"github.com/redlatch/redlatch/test/internal/redistest"
)

// Each test here is named after a class of bugs that other locks have shipped,
// and says what brings it out there. docs/bugs-of-peers.md has the reports, and
// the classes for which the proof was in another test already.

// short is a lease, or a wait, that a test lets end. A busy machine makes a few calls
// before it does.
const short = 2 * time.Second

// There: the reply to the acquire comes too late or is cut off, the client
// sends the script again by itself, and the second run re-enters. One unlock
// then leaves the lock held, for ever if a watchdog renews it.
func TestBugAcquireIsResent(t *testing.T) {
	server := redistest.Standalone(t)
	proxy := faultproxy.New(t, server.Addr())
	resending := newClient(t, &redis.Options{Addr: proxy.Addr(), MaxRetries: 10})
	plain := server.Admin(t)
	l := newLocker(t, resending)
	release(t, acquire(t, l, "warm-up"))
	cut := proxy.CutReplyWhen(faultproxy.Contains("evalsha", "orders"), 2)
	lease := acquire(t, l, "orders")
	wantHolds(t, plain, "orders", "1")
	release(t, lease)
	wantFree(t, plain, "orders")
	if cut.Hits() != 2 {
		t.Errorf("%d replies were cut off", cut.Hits())
	}
}

// There: the release deletes the key, even if another has it by now, since the first
// holder took longer than its lease.
func TestBugReleaseOfAnExpiredLockFreesTheNext(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	rdb := server.Admin(t)
	first, second := newLocker(t, server.Client(t)), newLocker(t, server.Client(t))
	late := acquire(t, first, "k", lock.WithLease(short))
	next := acquire(t, second, "k")
	if err := late.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
		t.Errorf("got %v, want ErrLost", err)
	}
	wantLock(t, rdb, "k", map[string]string{next.Owner(): "1"})
	release(t, next)
}

// There: extending a lock that has expired, or that somebody has deleted,
// makes it anew, and says that it was held all the time.
func TestBugExtendRevivesAnExpiredLock(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	rdb := server.Admin(t)
	l := newLocker(t, server.Client(t))
	expired := acquire(t, l, "expired", lock.WithLease(short))
	<-expired.Context().Done()
	deleted := acquire(t, l, "deleted", lock.WithLease(time.Hour))
	rdb.Del(t.Context(), "deleted")
	for _, lease := range []*lock.Lease{expired, deleted} {
		if err := lease.Extend(t.Context(), time.Hour); !errors.Is(err, lock.ErrLost) {
			t.Errorf("%s: got %v, want ErrLost", lease.Key(), err)
		}
	}
	eventuallyFree(t, rdb) // with millisecond steps, Redis may be a moment behind
}

// There: the wait for the lock ends with its TTL, so that a short lease can't
// be waited for long.
func TestBugWaitEndsWithTheLease(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	holder, waiter := newLocker(t, server.Client(t)), newLocker(t, server.Client(t))
	held := acquire(t, holder, "k")
	got := make(chan error, 1)
	go func() {
		lease, err := waiter.Acquire(t.Context(), "k", lock.WithLease(short))
		if err == nil {
			err = lock.AssertHeld(lease.Context(), "k") // and it has not begun to run out while it waited
			_ = lease.Release(context.Background())
		}
		got <- err
	}()
	select {
	case err := <-got:
		t.Fatalf("the wait ended with %v", err)
	case <-time.After(short + short/2):
	}
	release(t, held)
	if err := <-got; err != nil {
		t.Errorf("the waiter: %v", err)
	}
}

// There: the lease of the waiter begins before its wait, and a waiter whose
// lease ended long ago sees that it holds the lock.
func TestBugGrantIsOverWhenItIsTold(t *testing.T) {
	server := redistest.Standalone(t)
	proxy, rdb := throughProxy(t, server)
	plain := server.Admin(t)
	l := newLocker(t, rdb)
	release(t, acquire(t, l, "warm-up"))
	const brief = 200 * time.Millisecond
	proxy.HoldDown() // the grant is made, and reported when it has ended
	asked := proxy.Observe(faultproxy.Contains("evalsha", "orders"))
	go func() {
		<-asked.Hit()
		<-time.After(2 * brief)
		proxy.Resume()
	}()
	lease, err := l.TryAcquire(t.Context(), "orders", lock.WithLease(brief))
	if err == nil && time.Until(lease.Deadline()) > brief {
		t.Errorf("a lease until %v", lease.Deadline())
	}
	if err != nil && !errors.Is(err, lock.ErrUnavailable) {
		t.Errorf("got %v, want ErrUnavailable", err)
	}
	if err == nil && len(hash(t, plain, "orders")) == 0 && lease.Context().Err() == nil {
		t.Error("a lease of what Redis no longer has")
	}
}

// There: the watchdog is started by one callback and ended by another, which
// may come first; or it counts re-entries one way up and another way down. The
// lock is renewed for ever after its release.
func TestBugRenewalOutlivesTheRelease(t *testing.T) {
	t.Parallel()
	const watchdog = 1500 * time.Millisecond // less passes soon on a busy machine
	server := redistest.Standalone(t)
	rdb := server.Admin(t)
	for name, mode := range inEveryMode {
		t.Run(name, func(t *testing.T) {
			l := newLocker(t, server.Client(t), mode, lock.WithWatchdog(watchdog), lock.WithCallTimeout(watchdog-time.Millisecond))
			for range 20 {
				ctx, cancel := context.WithCancel(t.Context())
				go cancel() // around the grant
				if lease, err := l.Acquire(ctx, name); err == nil {
					_ = lease.Release(context.Background())
				}
			}
			ctx := t.Context()
			var leases []*lock.Lease
			for range 3 {
				lease := acquireIn(t, ctx, l, name)
				leases, ctx = append(leases, lease), lease.Context()
				if name == "permits" {
					break // they do not re-enter
				}
			}
			for _, lease := range leases {
				_ = lease.Release(context.Background())
			}
			renewed := settledCalls(t, rdb)
			select {
			case <-time.After(watchdog + watchdog/10): // in which a hold would be renewed thrice
			case <-t.Context().Done():
			}
			if n := scriptCalls(t, rdb) - renewed; n > 0 {
				t.Errorf("%d scripts were sent for a lock that was released", n)
			}
		})
	}
}

func acquireIn(t *testing.T, ctx context.Context, l *lock.Locker, key string) *lock.Lease {
	t.Helper()
	lease, err := l.Acquire(ctx, key)
	if errors.Is(err, lock.ErrLost) || errors.Is(err, lock.ErrReleased) {
		return acquire(t, l, key)
	}
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

// settledCalls is the number of scripts once no more come.
func settledCalls(t *testing.T, rdb *redis.Client) int {
	t.Helper()
	calls, since := scriptCalls(t, rdb), time.Now()
	eventually(t, func() error {
		if n := scriptCalls(t, rdb); n != calls {
			calls, since = n, time.Now()
		}
		if time.Since(since) < 1500*time.Millisecond { // what cleans up pauses for a second
			return errors.New("scripts are still sent")
		}
		return nil
	})
	return calls
}

// There: the renewal is scheduled again by the one before it, if that worked.
// One that fails in a failover or a short outage was the last.
func TestBugOneFailedRenewalIsTheLast(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	proxy, rdb := throughProxy(t, server)
	l := newLocker(t, rdb, lock.WithWatchdog(6*time.Second))
	lease := acquire(t, l, "orders")
	failed := proxy.CutRequestWhen(faultproxy.Contains("evalsha", "orders"), 3)
	before := lease.Deadline()
	eventually(t, func() error {
		if failed.Hits() < 3 || !lease.Deadline().After(before) {
			return errors.New("not renewed")
		}
		return nil
	})
	if lease.Context().Err() != nil {
		t.Errorf("lost: %v", context.Cause(lease.Context()))
	}
	release(t, lease)
}

// There: a lost lock stays in the table of those to renew, and the next lock
// of that name is found in it and not renewed.
func TestBugALockAfterALostOneIsNotRenewed(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	rdb := server.Admin(t)
	told, hooks := losses()
	l := newLocker(t, server.Client(t), hooks, lock.WithWatchdog(3*time.Second))
	for range 2 {
		lease := acquire(t, l, "k")
		rdb.Del(t.Context(), "k")
		wantLoss(t, told, lease, lock.LossTaken)
	}
	lease := acquire(t, l, "k")
	before := lease.Deadline()
	eventually(t, func() error {
		if !lease.Deadline().After(before) {
			return errors.New("not renewed")
		}
		return nil
	})
	release(t, lease)
}

// There: waiters that die leave their places in the queue of a fair lock, and
// nobody gets it for as long as the dead would have waited.
func TestBugFairLockWaitsForTheDead(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	rdb := server.Admin(t)
	fair := lock.WithMode(lock.Fair)
	seen := acquire(t, newLocker(t, server.Client(t), fair), "k")
	release(t, seen)
	now := time.Now()
	for i := range 2 { // as two processes that were killed while they waited, with an hour left
		name := fmt.Sprintf("dead:%d", i)
		rdb.RPush(t.Context(), "redisson_lock_queue:{k}", name)
		rdb.ZAdd(t.Context(), "redisson_lock_timeout:{k}", redis.Z{Score: float64(now.Add(time.Hour).UnixMilli()), Member: name})
	}
	began := time.Now()
	lease := acquire(t, newLocker(t, server.Client(t), fair), "k")
	t.Logf("free after %v behind two dead", time.Since(began))
	release(t, lease)
}

// There: contended locks leave subscriptions behind, until the client has no
// more of them, and every contended lock fails.
func TestBugSubscriptionsAreLeft(t *testing.T) {
	server := redistest.Standalone(t)
	rdb := server.Admin(t)
	holder, waiter := newLocker(t, server.Client(t)), newLocker(t, server.Client(t))
	for i := range 30 {
		key := fmt.Sprint("k", i)
		held := acquire(t, holder, key)
		switch i % 3 {
		case 0: // it gives up
			_, err := waiter.Acquire(t.Context(), key, lock.WithWait(5*time.Millisecond))
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
			release(t, held)
		case 1: // it gets the lock
			got := make(chan *lock.Lease, 1)
			go func() { got <- acquire(t, waiter, key) }()
			wantSubscribed(t, rdb, key)
			release(t, held)
			release(t, <-got)
		case 2: // its connection is lost while it waits
			got := make(chan *lock.Lease, 1)
			go func() { got <- acquire(t, waiter, key) }()
			wantSubscribed(t, rdb, key)
			rdb.ClientKillByFilter(t.Context(), "TYPE", "pubsub")
			release(t, held)
			release(t, <-got)
		}
	}
	nobodyListens(t, rdb)
}

// There: the release uses the context of the request, which ends when the
// client hangs up: the lock stays until it expires.
func TestBugReleaseNeedsALiveRequest(t *testing.T) {
	server := redistest.Standalone(t)
	rdb := server.Admin(t)
	l := newLocker(t, server.Client(t), lock.WithWatchdog(time.Hour))
	ctx, hangUp := context.WithCancel(t.Context())
	lease, err := l.Acquire(ctx, "k")
	if err != nil {
		t.Fatal(err)
	}
	hangUp()
	if err := lease.Release(ctx); err != nil {
		t.Errorf("Release: %v", err)
	}
	wantFree(t, rdb, "k")
}

// There: what was asked for two things at once comes back half: one key is
// locked and nobody knows.
func TestBugHalfOfAMultiLockStays(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	rdb := server.Admin(t)
	l, other := newLocker(t, server.Client(t)), newLocker(t, server.Client(t))
	held := acquire(t, other, "b")
	ctx, cancel := context.WithTimeout(t.Context(), short)
	defer cancel()
	_, err := lock.AcquireAll(ctx, l.Request("a"), l.Request("b"), l.Request("c"))
	if !errors.Is(err, lock.ErrBusy) {
		t.Errorf("got %v, want ErrBusy", err)
	}
	eventually(t, func() error {
		keys := rdb.Keys(t.Context(), "*").Val()
		if slices.Sort(keys); !slices.Equal(keys, []string{"b"}) {
			return fmt.Errorf("locked: %v", keys)
		}
		return nil
	})
	release(t, held)
}

// There: anybody who may publish, or a lock of another name that shares the channel,
// makes a waiter believe that it has the lock. Here every message that a waiter
// listens for is a hint: it calls Redis, which decides.
func TestNoMessageGrants(t *testing.T) {
	for name, mode := range inEveryMode {
		t.Run(name, func(t *testing.T) {
			server := redistest.Standalone(t)
			rdb := server.Admin(t)
			against := mode
			if name == "read" { // readers do not wait for readers
				against = lock.WithMode(lock.Write)
			}
			l := newLocker(t, server.Client(t), mode)
			holder := acquire(t, newLocker(t, server.Client(t), against), "k")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan error, 1)
			go func() {
				lease, err := l.Acquire(ctx, "k")
				if err == nil {
					err = lease.Release(context.Background())
				}
				ended <- err
			}()
			var channels []string
			eventually(t, func() error {
				if channels = rdb.PubSubChannels(t.Context(), "*").Val(); len(channels) == 0 {
					return errors.New("nobody listens")
				}
				return nil
			})
			newer := holder.Fence() + 1_000_000
			for _, message := range []string{
				"0", "1", "", "garbage", "-1", fmt.Sprint(newer), fmt.Sprint(newer * 64), fmt.Sprint(holder.Fence()),
				fmt.Sprint(uint64(1<<53 - 1)), fmt.Sprint(uint64(1<<63 - 1)), "18446744073709551615",
			} {
				for _, channel := range channels {
					calls := scriptCalls(t, rdb)
					rdb.Publish(t.Context(), channel, message)
					eventually(t, func() error {
						if scriptCalls(t, rdb) == calls && len(ended) == 0 {
							return fmt.Errorf("%q on %s did not make it call", message, channel)
						}
						return nil
					})
				}
				if len(ended) > 0 {
					t.Fatalf("%q ended the wait: %v", message, <-ended)
				}
			}
			cancel()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("the waiter got %v", err)
			}
			release(t, holder)
		})
	}
}
