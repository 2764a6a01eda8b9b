package fxmodule

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/rule"
)

// Health reports whether locks can be acquired, for the readiness probe of an
// application. Don't use it as a liveness probe: a restart doesn't help when the
// store is unreachable.
type Health struct {
	locker  *lock.Locker
	store   lock.Store
	timeout time.Duration
	guard   atomic.Pointer[guard.Guard] // nil: there is none
}

// rules are those of the guard on this locker.
func (h *Health) rules() []*rule.Compiled {
	if g := h.guard.Load(); g != nil {
		return g.Rules()
	}
	return nil
}

// modes are those of the rules that are for this program, each once.
func (h *Health) modes() []lock.Mode {
	g := h.guard.Load()
	if g == nil {
		return nil
	}
	var modes []lock.Mode
	for _, r := range inForce(g) {
		modes = append(modes, r.Mode)
	}
	slices.Sort(modes)
	return slices.Compact(modes)
}

// checker is a store that can find out whether locks of some modes can be had.
type checker interface {
	Check(ctx context.Context, modes ...lock.Mode) error
}

// checkModes finds out whether locks of the modes can be had, if the store knows.
func (h *Health) checkModes(ctx context.Context, modes ...lock.Mode) error {
	c, ok := h.store.(checker)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, h.timeout)
	defer cancel()
	return c.Check(ctx, modes...)
}

// healthKey is inspected, but never locked.
const healthKey = "redlatch:health"

// Check calls the store without changing anything, and returns nil when it
// answers within the [Config]'s CheckTimeout. Errors wrap [lock.ErrUnavailable],
// ctx's error, or, once the locker drains ([lock.Locker.Draining]), [lock.ErrClosed].
// They name addresses: they are for operators.
//
// fx runs stop hooks in the reverse order of their start. Components that were
// started after the locker stop first, and Check doesn't report their stop.
//
// In a cluster one node answers, not all: an application that has lost one of many
// still works for most keys.
func (h *Health) Check(ctx context.Context) error {
	select {
	case <-h.locker.Draining():
		return fmt.Errorf("fxmodule: the application stops: %w", lock.ErrClosed)
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, h.timeout)
	defer cancel()
	if _, err := h.locker.Inspect(ctx, healthKey); err != nil {
		return fmt.Errorf("fxmodule: the locks are unavailable: %w", err)
	}
	return nil
}
