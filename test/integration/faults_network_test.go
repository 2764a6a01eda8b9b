package integration_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/test/internal/faultproxy"
	"github.com/redlatch/redlatch/test/internal/redistest"
)

// A connection is reset before the server has seen the script: it is sent
// again, and counts once.
func TestARequestThatIsCutIsNoError(t *testing.T) {
	server := redistest.Standalone(t)
	proxy, rdb := throughProxy(t, server)
	plain := server.Admin(t)
	l := newLocker(t, rdb, lock.WithWatchdog(3*time.Second))
	release(t, acquire(t, l, "warm-up")) // the server knows the scripts now

	cut := proxy.CutRequestWhen(faultproxy.Contains("evalsha", "orders"), 1)
	lease := acquire(t, l, "orders")
	wantHit(t, cut)
	wantHolds(t, plain, "orders", "1")

	cut = proxy.CutRequestWhen(faultproxy.Contains("evalsha", "orders"), 1) // the next is a renewal
	before := lease.Deadline()
	eventually(t, func() error {
		if !lease.Deadline().After(before) && lease.Context().Err() == nil {
			return errors.New("not renewed")
		}
		return nil
	})
	wantHit(t, cut)

	cut = proxy.CutRequestWhen(faultproxy.Contains("evalsha", "redisson_lock__channel:{orders}"), 1)
	release(t, lease)
	wantHit(t, cut)
	wantFree(t, plain, "orders")
}

// The server has renewed, and nobody knows: trust stays where it was, and
// ends although the lock in Redis lasts longer.
func TestARenewalWithoutAReplyDoesNotExtendTrust(t *testing.T) {
	t.Parallel()
	const watchdog = 3 * time.Second
	server := redistest.Standalone(t)
	proxy, rdb := throughProxy(t, server)
	told, hooks := losses()
	l := newLocker(t, rdb, hooks, lock.WithWatchdog(watchdog))
	release(t, acquire(t, l, "warm-up"))
	lease := acquire(t, l, "orders")
	before := lease.Deadline()
	eventually(t, func() error { // the server knows how to renew now
		if !lease.Deadline().After(before) {
			return errors.New("not renewed")
		}
		return nil
	})
	cut := proxy.CutReplyWhen(faultproxy.Contains("evalsha", "orders", lease.Owner()), -1)
	defer cut.Remove()
	since := time.Now()
	before = lease.Deadline()
	wantLostInTime(t, lease, since, watchdog)
	if !lease.Deadline().Equal(before) {
		t.Errorf("its trust was moved from %v to %v", before, lease.Deadline())
	}
	if ttl := server.Admin(t).PTTL(t.Context(), "orders").Val(); cut.Hits() == 0 || ttl < watchdog/4 {
		t.Errorf("%d renewals ran, and the lock in Redis lasts %v: nothing was tested", cut.Hits(), ttl)
	}
	cut.Remove()
	wantLoss(t, told, lease, lock.LossNotRenewed)
}

// Redis drops subscribers that don't read fast enough. Who waits hears of it
// by the connection that ends, and calls.
func TestASubscriberThatRedisDropsIsNotStuck(t *testing.T) {
	server := redistest.Standalone(t)
	admin := server.Admin(t)
	ctx := t.Context()
	if err := admin.ConfigSet(ctx, "client-output-buffer-limit", "pubsub 1mb 512kb 1").Err(); err != nil {
		t.Fatal(err)
	}
	proxy, rdb := throughProxy(t, server)
	holder := newLocker(t, server.Client(t))
	waiter := newLocker(t, rdb, lock.WithPoll(2*patience)) // no poll comes in time
	lease, flooded := acquire(t, holder, "k"), acquire(t, holder, "flooded")
	got := make(chan *lock.Lease, 2)
	for _, key := range []string{"k", "flooded"} { // they listen on one connection
		go func() { got <- acquire(t, waiter, key) }()
		wantSubscribed(t, admin, key)
	}

	proxy.HoldDown()
	flood := strings.Repeat("x", 256<<10)
	eventually(t, func() error {
		if admin.Publish(ctx, "redisson_lock__channel:{flooded}", flood).Val() > 0 {
			return errors.New("it is still subscribed")
		}
		return nil
	})
	release(t, lease) // nobody hears it, and what was sent before is about another key
	release(t, flooded)
	proxy.Resume()
	for range 2 {
		select {
		case next := <-got:
			release(t, next)
		case <-time.After(patience):
			t.Fatal("a waiter does not know that its lock is free")
		}
	}
}

// Messages made by hand on the channel of a plain lock make waiters look, and
// grant nothing.
func TestAForgedMessageNeverGrantsAPlainLock(t *testing.T) {
	server := redistest.Standalone(t)
	rdb := server.Admin(t)
	holder, waiter := newLocker(t, server.Client(t)), newLocker(t, server.Client(t), lock.WithPoll(time.Hour))
	lease := acquire(t, holder, "k")
	got := make(chan *lock.Lease, 1)
	go func() { got <- acquire(t, waiter, "k") }()
	wantSubscribed(t, rdb, "k")
	for _, message := range []string{"0", "1", "", "-1", "unlock", "k", lease.Owner(), strconv.FormatUint(lease.Fence()+1, 10)} {
		calls := scriptCalls(t, rdb)
		rdb.Publish(t.Context(), "redisson_lock__channel:{k}", message)
		eventually(t, func() error {
			if scriptCalls(t, rdb) == calls {
				return fmt.Errorf("%q did not make it ask", message)
			}
			return nil
		})
		select {
		case <-got:
			t.Fatalf("%q granted the lock", message)
		default:
		}
		wantLock(t, rdb, "k", map[string]string{lease.Owner(): "1"})
	}
	release(t, lease)
	release(t, <-got)
}

// The same for a waiter of a fair lock, on the channel of its place, with
// what would be its fence: a message is a hint.
func TestAForgedMessageNeverGrants(t *testing.T) {
	server := redistest.Standalone(t)
	rdb := server.Admin(t)
	fair := lock.WithMode(lock.Fair)
	holder, waiter := newLocker(t, server.Client(t), fair), newLocker(t, server.Client(t), fair)
	lease := acquire(t, holder, "k")
	got := make(chan *lock.Lease, 1)
	go func() { got <- acquire(t, waiter, "k") }()
	place := ""
	eventually(t, func() error {
		place = rdb.LIndex(t.Context(), "redisson_lock_queue:{k}", 0).Val()
		if place == "" || rdb.PubSubNumSub(t.Context(), "redisson_lock__channel:{k}:"+place).Val()["redisson_lock__channel:{k}:"+place] == 0 {
			return errors.New("nobody waits")
		}
		return nil
	})
	far := strconv.FormatUint(lease.Fence()+1<<40, 10)
	for _, message := range []string{"0", "1", far, strconv.FormatUint(lease.Fence()+1, 10), "9007199254740991", strings.TrimSuffix(place, ":redlatch")} {
		calls := scriptCalls(t, rdb)
		rdb.Publish(t.Context(), "redisson_lock__channel:{k}:"+place, message)
		eventually(t, func() error {
			if scriptCalls(t, rdb) == calls {
				return fmt.Errorf("%q did not make it ask", message)
			}
			return nil
		})
		select {
		case <-got:
			t.Fatalf("%q granted the lock", message)
		default:
		}
		wantLock(t, rdb, "k", map[string]string{lease.Owner(): "1"})
	}
	release(t, lease)
	next := <-got
	if next.Fence() <= lease.Fence() || next.Fence() >= lease.Fence()+1<<40 {
		t.Errorf("fence %d after %d: a message set it", next.Fence(), lease.Fence())
	}
	release(t, next)
}

// A server that takes no more connections isn't stormed by the waiters
// of one lock.
func TestAFullRedisIsNotStormed(t *testing.T) {
	server := redistest.Standalone(t)
	admin := server.Admin(t)
	ctx := t.Context()
	l := newLocker(t, server.Client(t))
	if err := admin.ConfigSet(ctx, "maxclients", "1").Err(); err != nil { // that one
		t.Fatal(err)
	}
	const callers = 100
	var asking sync.WaitGroup
	for range callers {
		asking.Go(func() {
			if _, err := l.Acquire(ctx, "k"); !errors.Is(err, lock.ErrUnavailable) {
				t.Errorf("got %v, want ErrUnavailable", err)
			}
		})
	}
	asking.Wait()
	info := admin.Info(ctx, "stats").Val()
	rejected, _ := strconv.Atoi(regexp.MustCompile(`rejected_connections:(\d+)`).FindStringSubmatch(info)[1])
	if rejected == 0 || rejected > callers {
		t.Errorf("%d callers were rejected %d times", callers, rejected)
	}
	t.Logf("%d callers were rejected %d times", callers, rejected)
	admin.ConfigSet(ctx, "maxclients", "100")
	release(t, acquire(t, l, "k"))
}

// Trust counts from when the call was sent, so what the network takes is
// taken from it; what would be over when it comes isn't granted at all.
func TestLatencyShortensTrust(t *testing.T) {
	const oneWay = 100 * time.Millisecond
	server := redistest.Standalone(t)
	proxy, rdb := throughProxy(t, server)
	plain := server.Admin(t)
	l := newLocker(t, rdb)
	release(t, acquire(t, l, "warm-up"))
	proxy.Delay(oneWay, oneWay)
	lease := acquire(t, l, "long", lock.WithLease(3*time.Second))
	if left := time.Until(lease.Deadline()); left > 3*time.Second-2*oneWay {
		t.Errorf("a lease of 3s is trusted for %v after a round trip of %v", left, 2*oneWay)
	}
	if ttl, left := plain.PTTL(t.Context(), "long").Val(), time.Until(lease.Deadline()); ttl < left {
		t.Errorf("trusted for %v, and Redis keeps it for %v", left, ttl)
	}
	release(t, lease)
	if _, err := l.TryAcquire(t.Context(), "short", lock.WithLease(2*oneWay)); !errors.Is(err, lock.ErrUnavailable) {
		t.Errorf("a lease that has ended when it comes: %v, want ErrUnavailable", err)
	}
	proxy.Delay(0, 0)
	eventuallyFree(t, plain)
}

// eventuallyFree waits until Redis has nothing of ours.
// Redis is so far away that renewals are answered after the next try is due, and has
// forgotten their script: it is introduced all the same, and the answer counts.
func TestALeaseOutlivesAnswersThatComeLate(t *testing.T) {
	t.Parallel()
	const watchdog = 6 * time.Second
	const oneWay = watchdog/12 + 20*time.Millisecond // a renewal waits for a sixth of the watchdog
	for _, limited := range []bool{false, true} {
		for _, flushed := range []bool{false, true} {
			t.Run(fmt.Sprintf("flushed %t, ContextTimeoutEnabled %t", flushed, limited), func(t *testing.T) {
				t.Parallel()
				server := redistest.Standalone(t)
				proxy := faultproxy.New(t, server.Addr())
				rdb := newClient(t, &redis.Options{Addr: proxy.Addr(), ContextTimeoutEnabled: limited})
				l := newLocker(t, rdb, lock.WithWatchdog(watchdog))
				lease := acquire(t, l, "k")
				proxy.Delay(oneWay, oneWay)
				if flushed {
					server.Admin(t).ScriptFlush(t.Context())
				}
				first := lease.Deadline()
				eventually(t, func() error {
					if !lease.Deadline().After(first) && lease.Context().Err() == nil {
						return errors.New("not renewed")
					}
					return nil
				})
				if lease.Context().Err() != nil {
					t.Errorf("lost: %v", context.Cause(lease.Context()))
				}
				proxy.Delay(0, 0)
				release(t, lease)
			})
		}
	}
}

func eventuallyFree(t *testing.T, rdb redis.UniversalClient) {
	t.Helper()
	eventually(t, func() error {
		if keys := rdb.Keys(context.Background(), "*").Val(); len(keys) > 0 {
			return fmt.Errorf("keys are left: %v", keys)
		}
		return nil
	})
}

// inEveryMode are the ways to acquire.
var inEveryMode = map[string]lock.Option{
	"exclusive": lock.WithMode(lock.Exclusive), "fair": lock.WithMode(lock.Fair),
	"read": lock.WithMode(lock.Read), "write": lock.WithMode(lock.Write),
	"permits": lock.WithPermits(2, 3), // so that two do not fit
}

// The deadline of the caller is shorter than the round trip: it gets its answer
// in time, and whatever the server did for it after that is undone.
func TestADeadlineShorterThanTheRoundTripLeavesNothing(t *testing.T) {
	t.Parallel()
	const oneWay, deadline = 300 * time.Millisecond, 100 * time.Millisecond
	for name, mode := range inEveryMode {
		t.Run(name, func(t *testing.T) {
			server := redistest.Standalone(t)
			proxy, rdb := throughProxy(t, server)
			l := newLocker(t, rdb, mode, lock.WithWatchdog(2*patience)) // no expiry comes in time
			release(t, acquire(t, l, "warm-up"))
			proxy.Delay(oneWay, oneWay)
			executed := proxy.Observe(faultproxy.Contains("evalsha", "orders"))
			for _, call := range []func(context.Context, string, ...lock.Option) (*lock.Lease, error){l.TryAcquire, l.Acquire} {
				ctx, cancel := context.WithTimeout(t.Context(), deadline)
				began := time.Now()
				_, err := call(ctx, "orders")
				cancel()
				if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, lock.ErrUnavailable) {
					t.Errorf("got %v, want ErrUnavailable and DeadlineExceeded", err)
				}
				if took := time.Since(began); took > deadline+slack(began) {
					t.Errorf("it took %v", took)
				}
			}
			eventually(t, func() error {
				if executed.Hits() < 2 {
					return errors.New("the server has not seen both")
				}
				return nil
			})
			proxy.Delay(0, 0)
			eventually(t, func() error {
				if _, err := newLocker(t, server.Client(t)).TryAcquire(t.Context(), "orders", mode); err != nil {
					return err
				}
				return nil
			})
		})
	}
}

// The holder is cut off in both directions, with all connections open: when
// somebody else gets the lock, it has stopped trusting its own. And nothing
// that was on its way harms the new holder when the network is back.
func TestAPartitionedHolderStopsBeforeAnotherBegins(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	proxy, rdb := throughProxy(t, server)
	plain := server.Admin(t)
	told, hooks := losses()
	here, there := newLocker(t, rdb, hooks, lock.WithWatchdog(time.Second)), newLocker(t, server.Client(t))
	for range 3 {
		lease := acquire(t, here, "k")
		proxy.HoldUp()
		proxy.HoldDown()
		next := acquire(t, there, "k")
		if err := lock.AssertHeld(lease.Context(), "k"); !errors.Is(err, lock.ErrLost) {
			t.Errorf("two hold it: %v, want ErrLost", err)
		}
		released := make(chan error, 1)
		go func() { released <- lease.Release(context.Background()) }()
		proxy.Resume()
		if err := <-released; !errors.Is(err, lock.ErrLost) {
			t.Errorf("its release: %v, want ErrLost", err)
		}
		if e := <-told; e.Reason != lock.LossNotRenewed {
			t.Errorf("lost as %v", e.Reason)
		}
		wantLock(t, plain, "k", map[string]string{next.Owner(): "1"})
		if next.Fence() <= lease.Fence() {
			t.Errorf("fence %d after %d", next.Fence(), lease.Fence())
		}
		release(t, next)
	}
}
