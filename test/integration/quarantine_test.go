package integration_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
	"github.com/redlatch/redlatch/test/internal/redistest"
)

// A Redis without persistence is killed and comes back empty while a lease is
// held. What the option is for, with and without it.
func TestTwoHoldersAfterARestartWithoutData(t *testing.T) {
	t.Parallel()
	const longest = 6 * time.Second
	for name, opts := range map[string][]redisstore.Option{
		"without quarantine": nil,
		"with quarantine":    {redisstore.WithQuarantine(longest)},
	} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Standalone(t)
			proxy, behind := throughProxy(t, server)
			newLocker := func(rdb *redis.Client) *lock.Locker {
				l := lock.New(redisstore.New(rdb, opts...), lock.WithWatchdog(longest))
				t.Cleanup(func() { _ = l.Close(context.Background()) })
				return l
			}
			awaitGrant(t, newLocker(server.Client(t)), "first start")
			first, err := newLocker(behind).Acquire(t.Context(), "orders")
			if err != nil {
				t.Fatal(err)
			}
			proxy.Refuse() // the holder is cut off: it can only rely on its own clock
			proxy.CutAll()
			server.Kill()
			server.Restart()
			// Another process, that knows nothing of the one before.
			second, refused := awaitGrant(t, newLocker(server.Client(t)), "orders")
			overlap := first.Context().Err() == nil
			proxy.Accept()
			if opts == nil {
				if !overlap || refused > 0 {
					t.Errorf("overlap %v, %d refused: a control that shows nothing", overlap, refused)
				}
				select { // but it is notified
				case <-first.Context().Done():
				case <-time.After(2 * longest):
					t.Error("the first holder is not notified")
				}
			} else if overlap || refused == 0 {
				t.Errorf("overlap %v, %d refused", overlap, refused)
			}
			if cause := context.Cause(first.Context()); !errors.Is(cause, lock.ErrLost) {
				t.Errorf("the first holder sees %v", cause)
			}
			if second.Fence() <= first.Fence() {
				t.Errorf("fence %d after %d", second.Fence(), first.Fence())
			}
			if err := second.Release(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// awaitGrant tries until it gets the key, and counts refusals.
func awaitGrant(t *testing.T, l *lock.Locker, key string) (lease *lock.Lease, refused int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		lease, err := l.Acquire(t.Context(), key)
		switch {
		case err == nil:
			return lease, refused
		case time.Now().After(deadline), !errors.Is(err, lock.ErrUnavailable):
			t.Fatalf("acquire: %v", err)
		case errors.Is(err, redisstore.ErrQuarantine):
			refused++
		}
	}
}
