package recipes

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

// Every runs job once in each interval, in one process of a fleet. Call it in every
// process. It returns when ctx ends.
func Every(ctx context.Context, interval time.Duration, locker *lock.Locker, job func(ctx context.Context) error) error {
	// Longer than clocks differ, and shorter than the interval.
	once := lock.WithMinHold(interval * 8 / 10)
	for {
		if err := sleep(ctx, time.Until(time.Now().Truncate(interval).Add(interval))); err != nil {
			return err
		}
		err := locker.Do(ctx, "job:report", job, once, lock.WithWait(0))
		if err != nil && !errors.Is(err, lock.ErrBusy) { // busy: another process has this tick
			slog.ErrorContext(ctx, "report", "error", err)
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
