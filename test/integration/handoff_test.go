package integration_test

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
	"github.com/redlatch/redlatch/test/internal/redistest"
)

// Two processes with many callers of one key, a third one that is cut off while it
// holds it, and a waiter as Redisson is: the fences of all leases rise in the order in
// which they were granted, most leases need no call, and all get their turns.
func TestHandOffsLeaveOthersTheirTurns(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	rdb := server.Client(t)
	key := "busy"
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	book := &turns{T: t, of: make(map[int]int)}
	var all sync.WaitGroup
	dies := server.Client(t)
	bounds := lock.WithHandoff(lock.DefaultHandoffs, time.Second) // of a busy machine, too
	lockers := []*lock.Locker{
		newLocker(t, rdb, bounds), newLocker(t, rdb, bounds),
		lock.New(redisstore.New(dies), bounds, lock.WithWatchdog(300*time.Millisecond), lock.WithCallTimeout(100*time.Millisecond)),
	}
	before := scriptCalls(t, rdb)
	for n := range 3 * 20 {
		all.Go(func() {
			for ctx.Err() == nil {
				lease, err := lockers[n%3].Acquire(ctx, key)
				if err != nil {
					if ctx.Err() == nil && n%3 != 2 {
						t.Error(err)
					}
					time.Sleep(10 * time.Millisecond) // a process without a connection spins
					continue
				}
				book.enter(n%3, lease)
				if err := lease.Release(t.Context()); err != nil && n%3 != 2 {
					t.Error(err)
				}
			}
		})
	}
	all.Go(func() { redissonWaits(ctx, t, server.Admin(t), key, func() { book.enter(3, nil) }) })
	book.await(100, 0, 1, 2, 3)
	_ = dies.Close()
	book.await(100, 0, 1, 3)
	stop()
	all.Wait()
	closing, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_ = lockers[2].Close(closing) // says that it could not release
	leases := book.of[0] + book.of[1] + book.of[2]
	t.Logf("turns %v, %d handed off, %d scripts", book.of, book.handed, scriptCalls(t, rdb)-before)
	if book.handed < leases/2 {
		t.Errorf("%d of %d leases were handed off", book.handed, leases)
	}
}

// turns notes who has the key.
type turns struct {
	*testing.T
	mu     sync.Mutex
	of     map[int]int
	newest uint64
	handed int
}

func (b *turns) enter(who int, lease *lock.Lease) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.of[who]++
	if lease == nil {
		return
	}
	if lease.Fence() <= b.newest {
		b.Errorf("fence %d after %d", lease.Fence(), b.newest)
	}
	b.newest = lease.Fence()
	if lease.Fence()%lock.FenceStep != 0 {
		b.handed++
	}
}

// await returns when each of them has had so many more turns.
func (b *turns) await(more int, each ...int) {
	b.Helper()
	b.mu.Lock()
	before := maps.Clone(b.of)
	b.mu.Unlock()
	eventually(b.T, func() error {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, who := range each {
			if b.of[who] < before[who]+more {
				return fmt.Errorf("%d had %d turns: %v", who, b.of[who]-before[who], b.of)
			}
		}
		return nil
	})
}

// redissonWaits takes and releases a plain lock with the commands of Redisson,
// which waits for a message or the end of the TTL before it tries again.
func redissonWaits(ctx context.Context, t *testing.T, rdb *redis.Client, key string, turn func()) {
	t.Helper()
	const owner, channel = "0a1b2c3d-0000-4000-8000-000000000000:1", "redisson_lock__channel:"
	messages := rdb.Subscribe(ctx, channel+"{"+key+"}")
	defer func() { _ = messages.Close() }()
	try := redis.NewScript(`if redis.call('exists', KEYS[1]) == 0 then
		redis.call('hincrby', KEYS[1], ARGV[1], 1); redis.call('pexpire', KEYS[1], 30000); return -1
	end return redis.call('pttl', KEYS[1])`)
	for ctx.Err() == nil {
		ttl, err := try.Eval(ctx, rdb, []string{key}, owner).Int64()
		switch {
		case ctx.Err() != nil:
		case err != nil:
			t.Errorf("try: %v", err)
			return
		case ttl == -1:
			turn()
			rdb.Del(t.Context(), key)
			rdb.Publish(t.Context(), channel+"{"+key+"}", "0")
		default:
			limited, cancel := context.WithTimeout(ctx, time.Duration(ttl)*time.Millisecond)
			_, _ = messages.ReceiveMessage(limited)
			cancel()
		}
	}
}
