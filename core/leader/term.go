package leader

import (
	"context"
	"errors"
	"sync"

	"github.com/redlatch/redlatch/core/lock"
)

// errUnwound is the error of a func that panicked, or ended its goroutine.
var errUnwound = errors.New("the leader's func did not return")

// lead runs fn for one term and releases the lock, also when fn panics. lost
// reports that the term ended before fn did.
func (c *candidate) lead(lease *lock.Lease) (lost bool, err error) {
	term := lease.Fence()
	var once sync.Once
	lose := func(cause error) bool {
		if !errors.Is(cause, lock.ErrLost) {
			return false
		}
		once.Do(func() { c.hooks.lost(c.name, term, cause) })
		return true
	}
	seen := make(chan struct{})
	unwatch := func() bool { return true }
	err = errUnwound
	defer func() {
		if !unwatch() {
			<-seen
		}
		if lost = lose(errors.Unwrap(lease.Release(lease.Context()))); !lost {
			c.hooks.resigned(c.name, term, err)
		}
	}()
	c.hooks.elected(c.name, term)
	// A loss is reported when it happens, not when fn has noticed. The cause of the
	// context may be that of an outer lease. Unwrapped, the error has no key.
	unwatch = context.AfterFunc(lease.Context(), func() {
		defer close(seen)
		lose(errors.Unwrap(lock.AssertHeld(lease.Context(), c.key)))
	})
	err = c.fn(lease.Context(), term)
	return lost, err
}
