package fxmodule

import (
	"context"
	"log/slog"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

// stop waits for holders until only reserve is left of ctx, and closes the locker.
func stop(ctx context.Context, locker *lock.Locker, reserve time.Duration, log *slog.Logger) error {
	patience, cancel := before(ctx, reserve)
	defer cancel()
	if err := locker.Drain(patience); err != nil {
		log.Warn("locks are released although their work goes on: the time to stop is nearly over", "error", err)
	}
	return locker.Close(ctx)
}

// before returns a context that ends that long before ctx, but at least half of the
// remaining time from now.
func before(ctx context.Context, reserve time.Duration) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, deadline.Add(-min(reserve, time.Until(deadline)/2)))
}
