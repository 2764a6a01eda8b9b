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
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/core/redisstore"
	"github.com/redlatch/redlatch/test/internal/redistest"
)

// hourly is a locker that finds out nothing by a renewal while a test runs.
func hourly(t *testing.T, store lock.Store) *lock.Locker {
	t.Helper()
	l := lock.New(store, lock.WithIdentity(lock.Identity{Service: t.Name()}), lock.WithWatchdog(3*time.Hour))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := l.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return l
}

// hearing takes and forces a key until its holder hears of it.
func hearing(t *testing.T, holder, operator *lock.Locker) {
	t.Helper()
	for range 100 {
		lease, err := holder.Acquire(t.Context(), "first")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := operator.ForceRelease(t.Context(), "first"); err != nil {
			t.Fatal(err)
		}
		select {
		case <-lease.Context().Done():
			return
		case <-time.After(100 * time.Millisecond):
			_ = lease.Release(t.Context())
		}
	}
	t.Fatal("the holder never hears")
}

// The holder learns of a forced release from the message, a thousand times, and who waits
// in its process, or elsewhere, gets the key.
func TestAForcedReleaseEndsTheLeaseAtOnce(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) (holder, operator lock.Store){
		"memory": func(*testing.T) (lock.Store, lock.Store) { s := memstore.New(); return s, s },
		"redis": func(t *testing.T) (lock.Store, lock.Store) {
			t.Helper()
			server := redistest.Standalone(t)
			return redisstore.New(server.Client(t)), redisstore.New(server.Client(t))
		},
		"cluster": func(t *testing.T) (lock.Store, lock.Store) {
			t.Helper()
			set := redistest.Cluster(t)
			return redisstore.New(set.Client(t)), redisstore.New(set.Client(t))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := open(t)
			holder, operator := hourly(t, a), hourly(t, b)
			hearing(t, holder, operator)
			var took []time.Duration
			for i := range 1000 {
				key := fmt.Sprint("k", i%7)
				lease, err := holder.Acquire(t.Context(), key)
				if err != nil {
					t.Fatal(err)
				}
				served := make(chan error, 2)
				for _, l := range []*lock.Locker{holder, operator} {
					go func() {
						ctx, cancel := context.WithTimeout(t.Context(), patience)
						defer cancel()
						served <- l.Do(ctx, key, func(context.Context) error { return nil })
					}()
				}
				began := time.Now()
				if freed, err := operator.ForceRelease(t.Context(), key); err != nil || !freed {
					t.Fatalf("freed %v, %v", freed, err)
				}
				select {
				case <-lease.Context().Done():
				case <-time.After(patience):
					t.Fatalf("round %d: the lease goes on", i)
				}
				took = append(took, time.Since(began))
				if err := context.Cause(lease.Context()); !errors.Is(err, lock.ErrTaken) {
					t.Fatalf("lost by %v", err)
				}
				for range 2 {
					if err := <-served; err != nil {
						t.Fatalf("round %d: a waiter: %v", i, err)
					}
				}
			}
			slices.Sort(took)
			t.Logf("half within %v, 99 in 100 within %v, all within %v", took[500], took[990], took[999])
		})
	}
}

// Messages that anybody may send end nothing, and cost a bounded number of calls.
func TestForgedAnnouncementsEndNothing(t *testing.T) {
	server := redistest.Standalone(t)
	admin := server.Admin(t)
	holder, operator := hourly(t, redisstore.New(server.Client(t))), hourly(t, redisstore.New(server.Client(t)))
	hearing(t, holder, operator)
	var leases []*lock.Lease
	for i := range 40 {
		lease, err := holder.Acquire(t.Context(), fmt.Sprint("k", i))
		if err != nil {
			t.Fatal(err)
		}
		leases = append(leases, lease)
	}
	calls := func() int64 {
		t.Helper()
		stats, err := admin.InfoMap(t.Context(), "commandstats").Result()
		if err != nil {
			t.Fatal(err)
		}
		var n int64
		if _, err := fmt.Sscanf(stats["Commandstats"]["cmdstat_evalsha"], "calls=%d", &n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	before, began, sent := calls(), time.Now(), 0
	for time.Since(began) < 3*time.Second {
		_, err := admin.Pipelined(t.Context(), func(p redis.Pipeliner) error {
			for i := range 100 {
				p.Publish(t.Context(), "redlatch:forced", fmt.Sprintf("%s k%d", holder.ID(), i%40))
				p.Publish(t.Context(), "redlatch:forced", fmt.Sprintf(" k%d", i%40))
				p.Publish(t.Context(), "redlatch:forced", "no sense")
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		sent += 300
	}
	if got := calls() - before; got == 0 || got > 200 {
		t.Errorf("%d messages in %v cost %d calls, want a few", sent, time.Since(began), got)
	} else {
		t.Logf("%d messages in %v cost %d calls", sent, time.Since(began), got)
	}
	for _, lease := range leases {
		if err := lease.Context().Err(); err != nil {
			t.Errorf("%s is lost: %v", lease.Key(), context.Cause(lease.Context()))
		}
	}
}
