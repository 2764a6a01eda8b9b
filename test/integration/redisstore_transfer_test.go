package integration_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
	"github.com/redlatch/redlatch/test/internal/faultproxy"
	"github.com/redlatch/redlatch/test/internal/redistest"
)

const (
	transferTTL = 5 * time.Second
	fairChannel = "redisson_lock__channel:{k}:"
)

// accepting is a claim of a waiter that accepts a transfer.
func accepting(owner string, holds int) lock.Claim {
	c := claimIn(lock.Fair, owner, "k", holds)
	c.Transfer = true
	return c
}

// place is its name in the queue.
func place(owner string) string { return owner + ":transfer:300000" }

// A release gives the lock to a head that accepts it: the hash is never gone,
// the queue is as if the head had come for it, and it is told its fence.
func TestTheGoldenStatesOfATransfer(t *testing.T) {
	b := newBench(t)
	plain := func(owner string, holds int) lock.Claim { return claimIn(lock.Fair, owner, "k", holds) }
	messages := subscribe(t, b.rdb, fairChannel+place(ownerB))
	asks := subscribe(t, b.rdb, fairChannel+ownerC)
	b.acquire(plain(ownerA, 1), nil)
	b.busy(accepting(ownerB, 1), lease-tolerance, lease)
	b.busy(plain(ownerC, 1), lease-tolerance, lease) // as one in Java
	b.busy(accepting(ownerD, 1), lease-tolerance, lease)
	b.queue("k", place(ownerB), lease+fairWait, ownerC, lease+2*fairWait, place(ownerD), lease+3*fairWait)
	b.busy(accepting(ownerB, 1), lease-tolerance, lease) // keeps its place
	b.queue("k", place(ownerB), lease+fairWait, ownerC, lease+2*fairWait, place(ownerD), lease+3*fairWait)
	state, err := b.store.Inspect(t.Context(), "k")
	if err != nil || !slices.Equal(state.Waiters, []string{ownerB, ownerC, ownerD}) {
		t.Errorf("inspected %+v, %v", state, err)
	}

	at := b.now()
	b.release(plain(ownerA, 0), nil)
	b.hash("k", transferTTL, map[string]string{ownerB: "1"})
	b.queue("k", ownerC, lease+fairWait, place(ownerD), lease+2*fairWait)
	message := <-messages
	fence, err := strconv.ParseInt(message.Payload, 10, 64)
	if err != nil || fence < at*1000 || fence > (b.now()+1)*1000 {
		t.Errorf("the message is %q, want the server's clock in µs", message.Payload)
	}
	b.release(plain(ownerA, 0), lock.ErrNotHeld)
	b.acquire(accepting(ownerB, 1), nil) // whose message was lost
	b.hash("k", lease, map[string]string{ownerB: "1"})

	b.release(plain(ownerB, 0), nil) // C is not given it, but asked
	wantMessage(t, asks, fairChannel+ownerC, "0")
	b.keys("redisson_lock_queue:{k}", "redisson_lock_timeout:{k}")
	b.acquire(plain(ownerC, 1), nil)
	b.release(plain(ownerC, 0), nil)
	b.hash("k", transferTTL, map[string]string{ownerD: "1"})
	b.keys("k")
	b.release(accepting(ownerD, 0), nil) // as one that was cancelled meanwhile
	b.keys()

	// A holder that is its own heir, as no engine would be, gives nothing away.
	b.acquire(claimIn(lock.Exclusive, ownerA, "k", 1), nil)
	b.busy(accepting(ownerB, 1), 0, lease)
	b.release(claimIn(lock.Exclusive, ownerA, "k", 0), nil)
	b.acquire(claimIn(lock.Exclusive, ownerB, "k", 1), nil)
	b.release(plain(ownerB, 0), nil)
	b.keys("redisson_lock_queue:{k}", "redisson_lock_timeout:{k}")
	b.acquire(accepting(ownerB, 1), nil)
	b.hash("k", lease, map[string]string{ownerB: "1"})
}

// Redisson makes the score of a place from that of the place before it, and
// would hand on whatever is marked there.
func TestAPlaceBehindOneThatAcceptsDoesNotAcceptByThat(t *testing.T) {
	b := newBench(t)
	ctx := t.Context()
	b.acquire(claimIn(lock.Fair, ownerA, "k", 1), nil)
	b.busy(accepting(ownerB, 1), 0, lease)
	// As Redisson's acquire does for a thread of its own.
	last := b.rdb.LIndex(ctx, "redisson_lock_queue:{k}", -1).Val()
	score := b.rdb.ZScore(ctx, "redisson_lock_timeout:{k}", last).Val()
	b.rdb.ZAdd(ctx, "redisson_lock_timeout:{k}", redis.Z{Score: score + 300_000, Member: ownerC})
	b.rdb.RPush(ctx, "redisson_lock_queue:{k}", ownerC)
	messages := subscribe(t, b.rdb, fairChannel+ownerC)
	b.release(claimIn(lock.Fair, ownerA, "k", 0), nil)
	b.release(claimIn(lock.Fair, ownerB, "k", 0), nil)
	wantMessage(t, messages, fairChannel+ownerC, "0")
	b.keys("redisson_lock_queue:{k}", "redisson_lock_timeout:{k}")
}

func TestATransferIsRepeatable(t *testing.T) {
	server := redistest.Standalone(t)
	plain := server.Admin(t)
	proxy, rdb := throughProxy(t, server)
	store := redisstore.New(rdb)
	steps := []step{
		{op: "acquire", claim: claimIn(lock.Fair, ownerA, "k", 1)},
		{op: "acquire", claim: accepting(ownerB, 1), want: lock.ErrBusy},
		{op: "acquire", claim: accepting(ownerC, 1), want: lock.ErrBusy},
		{op: "acquire", claim: accepting(ownerD, 1), want: lock.ErrBusy},
		{op: "release", claim: accepting(ownerC, 0), want: lock.ErrNotHeld}, // gives up its place
		{op: "release", claim: claimIn(lock.Fair, ownerA, "k", 0), again: lock.ErrNotHeld},
		{op: "acquire", claim: accepting(ownerB, 1)},
		{op: "release", claim: accepting(ownerB, 0), again: lock.ErrNotHeld},
		{op: "renew", claim: claimIn(lock.Fair, ownerD, "k", 1)},
		{op: "release", claim: accepting(ownerD, 0), again: lock.ErrNotHeld},
	}
	for _, s := range steps { // the server learns all scripts
		if err := s.run(t.Context(), store); !errors.Is(err, s.want) {
			t.Fatalf("%s by %s: got %v, want %v", s.op, s.claim.Owner, err, s.want)
		}
	}
	for i, s := range steps {
		name := fmt.Sprintf("step %d, %s by %s", i, s.op, s.claim.Owner)
		proxy.CutReplyWhen(faultproxy.Contains("evalsha"), 1)
		wantOutcome(t, name, s.run(t.Context(), store), lock.OutcomeUnknown)
		once := snapshot(t, plain)
		want := s.want
		if s.again != nil {
			want = s.again
		}
		for range 2 {
			if err := s.run(t.Context(), store); !errors.Is(err, want) {
				t.Errorf("%s, repeated: got %v, want %v", name, err, want)
			}
			if twice := snapshot(t, plain); !maps.Equal(once, twice) {
				t.Errorf("%s, repeated: %v became %v", name, once, twice)
			}
		}
	}
}

// It takes no more memory than it frees, and a waiter that were woken instead
// could not acquire.
func TestATransferWorksWhenMemoryIsFull(t *testing.T) {
	b := newBench(t)
	full := func(bytes string) {
		t.Helper()
		if err := b.rdb.(*redis.Client).ConfigSet(t.Context(), "maxmemory", bytes).Err(); err != nil {
			t.Fatal(err)
		}
	}
	run := func(key string, hook func()) {
		t.Helper()
		claim := func(owner string, holds int) lock.Claim {
			c := accepting(owner, holds)
			c.Key = key
			return c
		}
		b.acquire(claim(ownerA, 1), nil)
		b.busy(claim(ownerB, 1), 0, lease)
		b.busy(claim(ownerC, 1), 0, lease)
		b.busy(claim(ownerD, 1), 0, lease)
		hook()
		b.release(claim(ownerA, 0), nil)
		b.hash(key, transferTTL, map[string]string{ownerB: "1"})
		b.renew(claim(ownerB, 1), nil)
		b.release(claim(ownerC, 0), lock.ErrNotHeld)
		b.release(claim(ownerB, 0), nil)
		b.hash(key, transferTTL, map[string]string{ownerD: "1"})
		b.release(claim(ownerD, 0), nil)
	}
	run("warm-up", func() {}) // to learn a script takes memory as well
	run("k", func() { full("1") })
	full("0")
	b.keys()
}

// Whoever listens has to hear of a transfer, and whoever promises replicas must
// not take one for granted.
func TestWhichStoresAcceptTransfers(t *testing.T) {
	server := redistest.Standalone(t)
	rdb := server.Admin(t)
	for name, store := range map[string]*redisstore.Store{
		"polling":  redisstore.New(server.Client(t), redisstore.WithPolling()),
		"replicas": redisstore.New(server.Client(t), redisstore.WithReplicas(1, 50*time.Millisecond)),
	} {
		if ttl := store.TransferTTL(); ttl != 0 {
			t.Errorf("%s: transfers for %v", name, ttl)
		}
		if _, err := store.Acquire(t.Context(), accepting(ownerA, 1)); !errors.Is(err, lock.ErrUnsupported) {
			t.Errorf("%s: got %v, want ErrUnsupported", name, err)
		}
	}
	l := newLocker(t, server.Client(t), lock.WithMode(lock.Fair))
	polling := lock.New(redisstore.New(server.Client(t), redisstore.WithPolling()), lock.WithMode(lock.Fair))
	defer func() { _ = polling.Close(context.Background()) }()
	holder := acquire(t, l, "k")
	got := make(chan *lock.Lease, 1)
	go func() { got <- acquire(t, polling, "k") }()
	names := queueOf(t, rdb, 1)
	if strings.Contains(names[0], "transfer") {
		t.Errorf("a waiter that polls is queued as %s", names[0])
	}
	release(t, holder)
	release(t, <-got)
}

// queueOf waits until n are in the queue of k, and returns their names.
func queueOf(t *testing.T, rdb *redis.Client, n int) (names []string) {
	t.Helper()
	eventually(t, func() error {
		names = rdb.LRange(context.Background(), "redisson_lock_queue:{k}", 0, -1).Val()
		if len(names) != n {
			return fmt.Errorf("queue %v, want %d", names, n)
		}
		return nil
	})
	return names
}

// Messages made by hand, on the waiter's own channel: none grants, each makes
// it look.
func TestAForgedMessageNeverGrants(t *testing.T) {
	server := redistest.Standalone(t)
	rdb := server.Admin(t)
	l := newLocker(t, server.Client(t), lock.WithMode(lock.Fair), lock.WithPoll(time.Hour))
	other := newLocker(t, server.Client(t), lock.WithMode(lock.Fair)) // what it was granted, l does not know
	before := acquire(t, other, "k")
	release(t, before)
	holder := acquire(t, other, "k")
	var granted atomic.Bool
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if lease, err := l.Acquire(ctx, "k"); err == nil {
			granted.Store(true)
			_ = lease.Release(context.Background())
		}
	}()
	channel := fairChannel + queueOf(t, rdb, 1)[0]
	eventually(t, func() error {
		if n := rdb.PubSubNumSub(t.Context(), channel).Val()[channel]; n != 1 {
			return fmt.Errorf("%d listen on %s", n, channel)
		}
		return nil
	})
	settled := func() int {
		t.Helper()
		calls := scriptCalls(t, rdb)
		eventually(t, func() error {
			was := calls
			if calls = scriptCalls(t, rdb); calls != was {
				return errors.New("it still asks")
			}
			return nil
		})
		return calls
	}
	newer := strconv.FormatUint(holder.Fence()+1_000_000, 10)
	for _, message := range []string{
		"0", "1", "", "garbage", "-1", "+" + newer, " " + newer, newer + "\n", "0" + newer, newer + ".0", "1e20", "0x7fffffffffffffff",
		"18446744073709551615", "99999999999999999999", strconv.FormatUint(1<<53+1, 10),
		strconv.FormatUint(before.Fence(), 10), strconv.FormatUint(holder.Fence(), 10),
	} {
		calls := settled()
		if n := rdb.Publish(t.Context(), channel, message).Val(); n != 1 {
			t.Fatalf("%d heard %q", n, message)
		}
		eventually(t, func() error {
			if scriptCalls(t, rdb) == calls {
				return fmt.Errorf("%q did not make it ask", message)
			}
			return nil
		})
		if granted.Load() {
			t.Fatalf("%q granted the lock", message)
		}
	}
	// The same on the channel that tells everybody of a plain lock.
	calls := settled()
	rdb.Publish(t.Context(), "redisson_lock__channel:{k}", newer)
	eventually(t, func() error {
		if scriptCalls(t, rdb) == calls {
			return errors.New("it did not ask")
		}
		return nil
	})
	settled()
	if granted.Load() {
		t.Error("a message on the common channel granted the lock")
	}
	cancel()
	<-ended
	release(t, holder)
}

// The connection that listens is lost and cannot be had again: the transfer is
// found by the poll, with its hold still there.
func TestATransferWhoseMessageIsLostIsFoundByThePoll(t *testing.T) {
	server := redistest.Standalone(t)
	rdb := server.Admin(t)
	proxy, through := throughProxy(t, server)
	l, other := newLocker(t, through, lock.WithMode(lock.Fair)), newLocker(t, server.Client(t), lock.WithMode(lock.Fair))
	for range 3 {
		holder := acquire(t, other, "k")
		got := make(chan *lock.Lease, 1)
		go func() { got <- acquire(t, l, "k") }()
		channel := fairChannel + queueOf(t, rdb, 1)[0]
		eventually(t, func() error {
			if rdb.PubSubNumSub(t.Context(), channel).Val()[channel] != 1 {
				return errors.New("nobody listens")
			}
			return nil
		})
		deaf := proxy.CutRequestWhen(faultproxy.Contains("subscribe"), -1)
		rdb.ClientKillByFilter(t.Context(), "TYPE", "pubsub")
		<-deaf.Hit()
		release(t, holder)
		began := time.Now()
		lease := <-got
		if took := time.Since(began); took > transferTTL {
			t.Errorf("found after %v", took)
		}
		if fields := hash(t, rdb, "k"); fields[lease.Owner()] != "1" || len(fields) != 1 {
			t.Errorf("the lock is %v", fields)
		}
		release(t, lease)
		deaf.Remove()
	}
}

// Waiters come and go while the lock is handed on: nobody is stranded, nothing
// is left, and no two are inside.
func TestTransfersSurviveThoseWhoLoseInterest(t *testing.T) {
	server := redistest.Standalone(t)
	rdb := server.Admin(t)
	const processes, waiters, rounds = 4, 6, 40
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	lockers := make([]*lock.Locker, processes)
	for i := range lockers {
		// Only messages and what the leavers pass on bring it to its end.
		lockers[i] = newLocker(t, server.Client(t), lock.WithMode(lock.Fair), lock.WithPoll(time.Minute))
	}
	var inside, granted, left atomic.Int64
	errs := make(chan error, processes*waiters)
	for p, l := range lockers {
		for w := range waiters {
			go func() {
				for round := range rounds {
					opts := []lock.Option{}
					if (p+w+round)%2 == 0 {
						opts = append(opts, lock.WithWait(time.Duration((p*7+w*3+round)%9)*time.Millisecond+time.Millisecond))
					}
					err := l.Do(ctx, "k", func(context.Context) error {
						if inside.Add(1) != 1 {
							return errors.New("two are inside")
						}
						inside.Add(-1)
						return nil
					}, opts...)
					switch {
					case err == nil:
						granted.Add(1)
					case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
						left.Add(1)
					default:
						errs <- err
						return
					}
				}
				errs <- nil
			}()
		}
	}
	began := time.Now()
	for range processes * waiters {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	t.Logf("%d served, %d left, in %v", granted.Load(), left.Load(), time.Since(began))
	if left.Load() == 0 || granted.Load()+left.Load() != processes*waiters*rounds {
		t.Errorf("%d served, %d left", granted.Load(), left.Load())
	}
	eventually(t, func() error {
		if keys := rdb.Keys(context.Background(), "*").Val(); len(keys) > 0 {
			return fmt.Errorf("left: %v", keys)
		}
		return nil
	})
}
