package lock

import (
	"context"
	"time"
)

// Hooks observe a locker. A nil func costs nothing. Hooks run on the engine's
// own goroutines: they must not block and must not call the locker. Keys in
// events are full keys; use Name for labels.
type Hooks struct {
	// Waiting is called when an acquisition has to wait, and the func it
	// returns when the wait is over, however it ends.
	Waiting func(ctx context.Context, e Event) (done func())
	// Acquired is called at the end of every acquisition, granted or not.
	Acquired func(ctx context.Context, e AcquireEvent)
	// Released is called when a lease ends by release. Err is not nil when
	// the store could not confirm it.
	Released func(e ReleaseEvent)
	// Renewed is called for each renewal of a hold; Err tells how it failed.
	Renewed func(e RenewEvent)
	// Lost is called once when a hold is lost.
	Lost func(e LossEvent)
}

// Event names the lock an event is about.
type Event struct {
	Key string
	// Name is the low-cardinality name given by [WithName], or empty.
	Name string
	Mode Mode
}

// AcquireEvent is the end of an acquisition.
type AcquireEvent struct {
	Event
	// Elapsed counts from the call to its return.
	Elapsed time.Duration
	// Reentrant is true when the caller already held the key.
	Reentrant bool
	// Err is nil when the lease was granted.
	Err error
}

// ReleaseEvent is the end of a lease by release.
type ReleaseEvent struct {
	Event
	// Held is how long the lease lasted.
	Held time.Duration
	Err  error
}

// RenewEvent is one renewal of one hold.
type RenewEvent struct {
	Event
	Err error
}

// LossEvent is the loss of a hold.
type LossEvent struct {
	Event
	// Held is how long it was held before.
	Held time.Duration
	// Cause wraps [ErrLost] and says how the loss was noticed.
	Cause error
}
