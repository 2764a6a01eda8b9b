package readme_test

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

func mixedFleet(rdb redis.UniversalClient) *lock.Locker {
	store := redisstore.New(rdb,
		redisstore.WithKeyPrefix("shop:"),       // as the NameMapper of the Java services
		redisstore.WithPublish(redisstore.Both)) // in a cluster, for Java with and without sharded channels
	locker := lock.New(store, lock.WithWatchdog(30*time.Second)) // as their lockWatchdogTimeout
	return locker
}

// What Java leaves behind and listens to stands for Java: test/interop has it.
func TestTheSetUpForAMixedFleetIsHeard(t *testing.T) {
	ctx := t.Context()
	rdb := redistest.Cluster(t).Client(t)
	locker := mixedFleet(rdb)
	defer func() {
		if err := locker.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	if err := rdb.HSet(ctx, "shop:order:42", "3ac53e26-3f6b-4a1a-9d3c-0e3f6ad31c0f:47", 1).Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := locker.TryAcquire(ctx, "order:42"); !errors.Is(err, lock.ErrBusy) {
		t.Errorf("a lock of Java: %v, want ErrBusy", err)
	}

	const channel = "redisson_lock__channel:{shop:order:7}"
	old, sharded := rdb.Subscribe(ctx, channel), rdb.SSubscribe(ctx, channel)
	for name, listener := range map[string]*redis.PubSub{"PUBLISH": old, "SPUBLISH": sharded} {
		defer func() { _ = listener.Close() }()
		if _, err := listener.Receive(ctx); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	lease, err := locker.TryAcquire(ctx, "order:7")
	if err != nil {
		t.Fatal(err)
	}
	if err := lease.Release(ctx); err != nil {
		t.Fatal(err)
	}
	for name, listener := range map[string]*redis.PubSub{"PUBLISH": old, "SPUBLISH": sharded} {
		message, err := listener.ReceiveTimeout(ctx, 10*time.Second)
		if m, ok := message.(*redis.Message); err != nil || !ok || m.Payload != "0" {
			t.Errorf("%s: %v (%v), want the message 0", name, message, err)
		}
	}
}
