package worker

import (
	"context"
	"fmt"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/test/chaos/internal/bug"
	"github.com/redlatch/redlatch/test/chaos/internal/history"
)

// mostKept is how many leases a locker may have when it is closed.
const mostKept = 2

// keepUntilClose takes leases that are left to Close: one with a fixed length, one
// with a watchdog, or none. Nobody else uses their keys.
func keepUntilClose(ctx context.Context, c Config, locker *lock.Locker, planted *bug.Bug, r *record) (kept []*lock.Lease) {
	kinds := []lock.Option{lock.WithLease(c.Load.Forgotten), lock.WithWatchdog(c.Load.Forgotten)}
	for i := range c.Worker % (mostKept + 1) {
		key := fmt.Sprintf("exclusive:kept-%d:w%d-l%d", i, r.worker, r.life)
		if lease, err := locker.TryAcquire(context.WithoutCancel(ctx), key, kinds[i]); err == nil {
			planted.Got(lease)
			kept = append(kept, lease)
		}
	}
	return kept
}

// remains notes which of the leases the store still has.
func remains(ctx context.Context, store lock.Store, kept []*lock.Lease, r *record) {
	for _, lease := range kept {
		e := history.Event{Kind: history.Left, Key: lease.Key(), Owner: lease.Owner(), Call: r.clock.Now()}
		looking, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdown)
		state, err := store.Inspect(looking, lease.Key())
		cancel()
		if err == nil && state.Held {
			e.Return = r.clock.Now()
			r.add(e)
		}
	}
}
