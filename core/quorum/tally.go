package quorum

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

// tally counts answers. Its failures are the calls that left no answer.
type tally struct {
	nodes, need int
	granted     int             // or done
	absent      int             // not held
	busy        []time.Duration // what is left of the holds in the way
	failed      []error
	refusals    int   // of the failures: the claim is wrong, or the node can't serve it
	refusal     error // the last of them
}

func (q *Store) newTally() *tally { return &tally{nodes: len(q.nodes), need: q.need} }

// count returns whether the answers so far decide.
func (t *tally) count(err error) bool {
	var busy *lock.BusyError
	switch {
	case err == nil:
		t.granted++
	case isAnswer(err, lock.ErrBusy) && errors.As(err, &busy):
		t.busy = append(t.busy, busy.TTL)
	case isAnswer(err, lock.ErrNotHeld):
		t.absent++
	default:
		t.failed = append(t.failed, err)
		if wrong(err) && outcomeOf(err) == lock.OutcomeRefused {
			t.refusals++
			t.refusal = err
		}
	}
	return t.decided()
}

func (t *tally) decided() bool {
	return t.won() || t.refused() != nil || len(t.busy)+t.absent > t.nodes-t.need
}

// refused is why no majority can do what it was called for. Fewer nodes that refuse are
// a minority that is away.
func (t *tally) refused() error {
	if t.refusals > t.nodes-t.need {
		return t.refusal
	}
	return nil
}

func (t *tally) won() bool { return t.granted >= t.need }

// returned is how many calls have, with an answer or without.
func (t *tally) returned() int { return t.answered() + len(t.failed) }

func (t *tally) answered() int { return t.granted + t.absent + len(t.busy) }

// verdict is what the nodes decided about a hold, or why they did not.
func (t *tally) verdict() error {
	switch {
	case t.won():
		return nil
	case t.refused() != nil:
		return t.refused()
	case t.absent >= t.need:
		return lock.ErrNotHeld
	default:
		return t.failure()
	}
}

// failure is the error when too few nodes answered. Nodes that stayed silent
// may have executed the call.
func (t *tally) failure() error {
	silent := t.nodes - t.returned()
	outcome := lock.OutcomeNotExecuted
	if t.granted > 0 || silent > 0 {
		outcome = lock.OutcomeUnknown
	}
	failure := &quorumError{granted: t.granted, absent: t.absent, answered: t.answered(), nodes: t.nodes, need: t.need}
	if silent > 0 {
		failure.causes = append(failure.causes, errSilent)
	}
	away, class := false, ""
	for _, err := range t.failed {
		var known *lock.StoreError
		away = away || errors.As(err, &known) && known.Unreachable
		if outcomeOf(err) == lock.OutcomeUnknown {
			outcome = lock.OutcomeUnknown
		}
		if wrong(err) && t.minority(wrong) || circuitOpen(err) && t.minority(circuitOpen) {
			continue // what a few nodes say of themselves isn't true of the quorum
		}
		if c := lock.ClassOf(err); class == "" && c != "unknown" {
			class = c
		}
		// The node's time being over is not the caller's being over.
		if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
			failure.causes = append(failure.causes, err)
		}
	}
	if class == "" && silent > 0 {
		class = "timeout"
	}
	if outcome == lock.OutcomeNotExecuted && t.barred() {
		outcome = lock.OutcomeRefused
	}
	return &lock.StoreError{Outcome: outcome, Unreachable: silent > 0 || away, Class: class, Err: failure}
}

// minority reports whether the failures that are so leave a majority.
func (t *tally) minority(are func(error) bool) bool {
	n := 0
	for _, err := range t.failed {
		if are(err) {
			n++
		}
	}
	return n <= t.nodes-t.need
}

// barred reports whether no majority can serve the call, however often it is repeated.
func (t *tally) barred() bool {
	return !t.minority(func(err error) bool { return outcomeOf(err) == lock.OutcomeRefused })
}

// wrong reports whether a node refuses the claim for good.
func wrong(err error) bool {
	return errors.Is(err, lock.ErrInvalid) || errors.Is(err, lock.ErrUnsupported)
}

func circuitOpen(err error) bool { return errors.Is(err, lock.ErrCircuitOpen) }

// quorumError says how many nodes answered. The nodes' own errors are for
// [errors.Is]; their text may name addresses.
type quorumError struct {
	granted, absent, answered, nodes, need int
	causes                                 []error
}

func (e *quorumError) Error() string {
	if e.answered >= e.need { // and don't agree
		return fmt.Sprintf("quorum: the hold is on %d of %d nodes and not on %d, %d must agree", e.granted, e.nodes, e.absent, e.need)
	}
	return fmt.Sprintf("quorum: %d of %d nodes gave an answer, %d are needed", e.answered, e.nodes, e.need)
}

func (e *quorumError) Unwrap() []error { return e.causes }

// isAnswer reports whether err is that answer of a store. One that failed has none,
// whatever its cause matches.
func isAnswer(err, answer error) bool {
	_, failed := errors.AsType[*lock.StoreError](err)
	return !failed && errors.Is(err, answer)
}

// outcomeOf is the outcome of a failed call of a node.
func outcomeOf(err error) lock.Outcome {
	var failed *lock.StoreError
	switch {
	case errors.As(err, &failed):
		return failed.Outcome
	case wrong(err):
		return lock.OutcomeRefused
	default:
		return lock.OutcomeUnknown
	}
}
