package lock

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Hooks observe a locker. A nil func costs nothing. Hooks run on goroutines of the
// engine: they must not block, and must not call the locker. Keys in events are full
// keys: use Name for labels.
//
// A hook that panics in a call of the locker makes that call panic, and the call
// leaves no lease behind. Elsewhere the panic ends the program, or is ignored if the
// store was just reporting a renewal.
type Hooks struct {
	// Waiting is called when an acquisition has to wait, and the func it
	// returns when the wait ends, however it ends.
	Waiting func(ctx context.Context, e Event) (done func())
	// Acquired is called at the end of every acquisition, granted or not, unless
	// its arguments are wrong or the locker is closed.
	Acquired func(ctx context.Context, e AcquireEvent)
	// Released is called when a lease ends by release, and for every hold that
	// Close releases. A hold ends once: with a release that is Last, or with
	// Lost. If its only acquisition failed after the grant, hooks get neither its
	// beginning nor its end.
	Released func(e ReleaseEvent)
	// Renewed is called for each renewal of a hold; Err says how it failed.
	Renewed func(e RenewEvent)
	// Backlog is called with the number of holds that unanswered calls may have
	// left in the store, and that the locker has yet to remove, whenever it
	// changes.
	Backlog func(n int)
	// Lost is called once when a hold is lost, also when its release finds out.
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
	// Waited is true if it was neither granted nor refused at once.
	Waited bool
	// Reentrant is true when the caller already held the key: the lease is one
	// more of the same hold.
	Reentrant bool
	// Err is nil when the lease was granted, and Fence is the lease's then.
	Err   error
	Fence uint64
}

// ReleaseEvent is the end of a lease by release.
type ReleaseEvent struct {
	Event
	// Held is how long the lease lasted, and with Last how long the hold did.
	Held time.Duration
	// Last is true when the hold ended with it, and false while other leases
	// that re-entered it go on, or when it was lost.
	Last bool
	// Err is not nil when the store did not confirm the release.
	Err error
}

// RenewEvent is one renewal of one hold.
type RenewEvent struct {
	Event
	Err error
}

// LossEvent is the loss of a hold.
type LossEvent struct {
	Event
	// Context is that of the acquisition that made the hold, for its values. It
	// may have ended.
	Context context.Context
	Reason  LossReason
	// Held is how long it was held before the loss.
	Held time.Duration
	// Cause wraps [ErrLost] and says how the loss was noticed.
	Cause error
	// Owner is the one that the store had, and Holder the locker's [Identity], zero without
	// one. They are for operators.
	Owner  string
	Holder Identity
}

// observeEnds says whether anybody observes how holds end.
func (h *Hooks) observeEnds() bool { return h.Released != nil || h.Lost != nil }

// LossReason says why a hold was lost.
type LossReason uint8

const (
	// LossExpired: a lease of fixed length ran out before it was released.
	LossExpired LossReason = iota
	// LossNotRenewed: the watchdog did not renew in time. The store did not
	// answer, or the process stood still.
	LossNotRenewed
	// LossTaken: the store no longer had the hold. It forgot it, or
	// somebody took it away.
	LossTaken
	// LossForced: this locker's ForceRelease took it away.
	LossForced
	// LossHeldTooLong: it was held for as long as [WithMaxHold] allows.
	LossHeldTooLong
)

// losses has the words for each reason: metrics, logs and errors use the same.
var losses = [...]struct {
	name  string
	cause error
}{
	LossExpired:     {"expired", ErrExpired},
	LossNotRenewed:  {"not_renewed", ErrNotRenewed},
	LossTaken:       {"taken", ErrTaken},
	LossForced:      {"forced", ErrForced},
	LossHeldTooLong: {"held_too_long", ErrHeldTooLong},
}

// String returns the reason as metrics and logs spell it.
func (r LossReason) String() string {
	if int(r) < len(losses) {
		return losses[r].name
	}
	return fmt.Sprintf("reason(%d)", uint8(r))
}

// lossReason finds the reason of a loss.
func lossReason(cause error) LossReason {
	for r, loss := range losses {
		if errors.Is(cause, loss.cause) {
			return LossReason(r)
		}
	}
	return LossTaken
}
