package recipes

import (
	"context"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

// Export runs an export of a tenant, of which at most three run at once in the whole
// fleet. lock.ErrBusy: three are running, and this one did not begin.
func Export(ctx context.Context, locker *lock.Locker, tenant string, export func(ctx context.Context) error) error {
	return locker.Do(ctx, "export:"+tenant, export, lock.WithPermits(1, 3), lock.WithWait(200*time.Millisecond))
}
