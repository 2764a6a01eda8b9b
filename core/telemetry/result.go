package telemetry

import (
	"context"
	"errors"
	"slices"

	"github.com/redlatch/redlatch/core/lock"
)

// result is how an acquisition ended.
type result uint8

const (
	granted result = iota
	contended
	crowded
	canceled
	failed // the first of the failures
	lost
)

// results are their outcomes. Failures have an error.type, and so does what is
// refused because too many wait: that is a different kind of contention.
var results = [...]struct {
	outcome, errorType string
	is                 error // of failures
}{
	granted:    {outcome: "acquired"},
	contended:  {outcome: "contended"},
	crowded:    {"contended", "too_many_waiters", lock.ErrTooManyWaiters},
	canceled:   {outcome: "canceled"},
	failed:     {"error", "unavailable", lock.ErrUnavailable},
	lost:       {"error", "lost", lock.ErrLost},
	failed + 2: {"error", "closed", lock.ErrClosed},
	failed + 3: {"error", "unsupported", lock.ErrUnsupported},
	failed + 4: {"error", "invalid", lock.ErrInvalid},
	failed + 5: {"error", "_OTHER", nil},
}

// resultOf returns the result of an acquisition by its error. If the time ran out
// in a call to the store, the store failed; if another owner held the key, it is
// contended.
func resultOf(err error) result {
	switch {
	case err == nil:
		return granted
	case errors.Is(err, lock.ErrTooManyWaiters):
		return crowded
	case errors.Is(err, lock.ErrBusy):
		return contended
	case errors.Is(err, lock.ErrUnavailable):
		return failed
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return canceled
	}
	r := failed
	for r < result(len(results)-1) && !errors.Is(err, results[r].is) {
		r++
	}
	return r
}

// end is how a hold ended.
type end uint8

const (
	endReleased end = iota
	endUnconfirmed
	endExpired
	endLost
)

var ends = [...]struct{ outcome, errorType string }{
	endReleased:    {outcome: "released"},
	endUnconfirmed: {"released", "unavailable"},
	endExpired:     {outcome: "expired"},
	endLost:        {outcome: "lost"},
}

// renewal is how a renewal ended.
type renewal uint8

const (
	renewalOK renewal = iota
	renewalFailed
	renewalLost
)

var renewals = [...]string{renewalOK: "ok", renewalFailed: "error", renewalLost: "lost"}

func renewalOf(err error) renewal {
	switch {
	case err == nil:
		return renewalOK
	case errors.Is(err, lock.ErrNotHeld):
		return renewalLost
	}
	return renewalFailed
}

// keyReasons are those of refused keys; the last stands for all others.
var keyReasons = [...]string{"missing", "ambiguous", "too_long", "invalid", "unresolvable", "_OTHER"}

func keyReasonOf(reason string) int {
	if i := slices.Index(keyReasons[:], reason); i >= 0 {
		return i
	}
	return len(keyReasons) - 1
}

// lossReasons are all reasons of losses.
var lossReasons = [...]lock.LossReason{
	lock.LossExpired, lock.LossNotRenewed, lock.LossTaken, lock.LossForced, lock.LossHeldTooLong,
}
