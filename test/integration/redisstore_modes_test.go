package integration_test

import (
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

// claimIn is a claim in a mode; those of a semaphore take two permits of two.
func claimIn(m lock.Mode, owner, key string, holds int) lock.Claim {
	c := claimOf(owner, key, holds)
	c.Mode = m
	switch m {
	case lock.Fair:
		c.Patience = 5 * time.Minute
	case lock.Semaphore:
		c.Permits, c.Size = 2, 2
	}
	return c
}
