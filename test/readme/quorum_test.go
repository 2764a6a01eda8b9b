package readme_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/fx"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/quorum"
	"github.com/redlatch/redlatch/core/redisstore"
	"github.com/redlatch/redlatch/fxmodule"
	"github.com/redlatch/redlatch/test/internal/redistest"
)

func newStore(q *quorum.Store, lifecycle fx.Lifecycle) lock.Store {
	lifecycle.Append(fx.StartHook(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		if err := q.Check(ctx); err != nil {
			slog.Warn("a node of the lock store failed its check", "error", err)
		}
	}))
	return struct{ lock.Store }{q} // without its Check, which would end the start
}

func TestAnApplicationStartsWhileANodeOfItsQuorumIsAway(t *testing.T) {
	servers := redistest.Independent(t, 3)
	var stores []lock.Store
	for _, server := range servers {
		rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), DialerRetries: 1})
		t.Cleanup(func() { _ = rdb.Close() })
		stores = append(stores, redisstore.New(rdb))
	}
	q, err := quorum.New(stores...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := q.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	servers[1].Kill()
	start := func(provide any) error {
		app := fx.New(fx.NopLogger, fxmodule.Module, fx.Supply(q), fx.Provide(provide), fx.Invoke(func(*lock.Locker) {}))
		err := app.Start(t.Context())
		if err == nil {
			err = app.Stop(t.Context())
		}
		return err
	}
	if err := start(newStore); err != nil {
		t.Errorf("as the page says: %v", err)
	}
	if start(func() lock.Store { return q }) == nil {
		t.Error("the start no longer ends when a node is away: the page says so")
	}
}
