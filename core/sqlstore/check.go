package sqlstore

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

// try takes, renews and releases a lock that nobody else wants.
func (k *keys) try(ctx context.Context, m lock.Mode) error {
	name := rand.Text()
	c := lock.Claim{Key: "redlatch:check:" + name, Owner: name + ":1", Mode: m, TTL: 5 * time.Second}
	if m == lock.Semaphore {
		c.Permits, c.Size = 1, 1
	}
	if _, err := k.Acquire(ctx, c); err != nil {
		return fmt.Errorf("acquire: %w", err)
	}
	var renewed error
	k.Renew(ctx, []lock.Claim{c}, func(_ int, err error) { renewed = err })
	if renewed != nil {
		return fmt.Errorf("renew: %w", renewed)
	}
	if err := k.Release(ctx, c); err != nil {
		return fmt.Errorf("release: %w", err)
	}
	return nil
}
