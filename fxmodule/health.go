package fxmodule

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

// Health tells whether locks can be had, for the readiness probe of an
// application. It says nothing about whether the process should live: an
// application without its store is to be left alone until the store is back.
type Health struct {
	locker   *lock.Locker
	timeout  time.Duration
	stopping atomic.Bool
}

// healthKey is looked at, and never locked.
const healthKey = "redlatch:health"

// Check asks the store a question that changes nothing, and returns nil when it
// answers within the [Config]'s CheckTimeout. Errors wrap [lock.ErrUnavailable],
// ctx's error, or, since the application began to stop, [lock.ErrClosed]. The
// text names addresses: it is for operators.
//
// In a cluster one node answers, not all: an application that has lost one of many
// still works for most keys.
func (h *Health) Check(ctx context.Context) error {
	if h.stopping.Load() {
		return fmt.Errorf("fxmodule: the application stops: %w", lock.ErrClosed)
	}
	ctx, cancel := context.WithTimeout(ctx, h.timeout)
	defer cancel()
	if _, err := h.locker.Inspect(ctx, healthKey); err != nil {
		return fmt.Errorf("fxmodule: no locks can be had: %w", err)
	}
	return nil
}
