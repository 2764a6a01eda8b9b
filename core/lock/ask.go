//go:build !machine

package lock

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// How long a failing store is called again. A caller that never got an answer
// gets an error soon. A waiter that already knows of another owner rides
// out a restart or a failover, for which Sentinel and Cluster with their
// defaults need 15 to 30 s.
const (
	freshTries     = 3
	waiterPatience = 30 * time.Second
	minBackoff     = 5 * time.Millisecond
	maxBackoff     = 250 * time.Millisecond
)

// ask sends the claim now, and again until the store answers it, and makes a lease of
// a grant. Repeating is safe: the claim is absolute, and its owner unique.
func (a *acquisition) ask(ctx context.Context, now time.Duration) (*Lease, error) {
	began, sent := now, now
	for tries := 1; ; tries++ {
		fence, err := a.send(ctx, sent)
		switch {
		case err == nil:
			return a.granted(sent, fence)
		case isDecision(err):
			return nil, err
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case outcomeOf(err) == OutcomeRefused, errors.Is(err, errBacklog), !a.patient(tries, began, err):
			return nil, undecided(err) // not the end of ctx, whose cause could be an answer
		case !a.pause(ctx, backoff(tries)):
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			return nil, ErrClosed
		}
		sent = a.now()
	}
}

// patient says whether a failing store is worth another try.
func (a *acquisition) patient(tries int, began time.Duration, err error) bool {
	if a.sawContention || a.behind {
		return a.now()-began < waiterPatience && !a.waitOver()
	}
	return !errors.Is(err, ErrCircuitOpen) && tries < freshTries && a.now()-began < a.timeout
}

func backoff(tries int) time.Duration { return backoffUpTo(tries, maxBackoff) }

func backoffUpTo(tries int, most time.Duration) time.Duration {
	d := min(minBackoff<<min(tries, 10), most)
	return d/2 + rand.N(d/2)
}

// patience is how long to wait for one answer. One that comes when trust would be over
// is of no use.
func (a *acquisition) patience() time.Duration {
	return min(a.timeout, a.claim.TTL-a.margin(a.claim.TTL))
}

// send makes one bounded call, and undoes in the background what it may leave
// if the acquisition ends without it.
func (a *acquisition) send(ctx context.Context, now time.Duration) (uint64, error) {
	if a.traits.Immediate {
		fence, err := a.immediately(ctx, a.acquireCall, a.claim)
		a.noteDoubt(err)
		return fence, err
	}
	if err := a.compensation.reserve(); err != nil {
		return 0, err
	}
	claim, named := a.claim, a.named
	fence, err := a.callStore(ctx, now, a.patience(), a.acquireCall, claim, func(_ uint64, err error) {
		a.late(claim, named, err)
		a.compensation.vacate(1)
	})
	if _, abandoned := errors.AsType[*abandonedError](err); abandoned {
		return 0, err // late will see what becomes of it
	}
	a.compensation.vacate(1)
	a.noteDoubt(err)
	return fence, err
}

func (a *acquisition) noteDoubt(err error) {
	if !mayHaveRun(err) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.doubt = true
}

// late sees the result of a call that was given up.
func (a *acquisition) late(claim Claim, named []*waiter, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.placesNamed(named, err)
	a.mayHaveLeft(claim, mayHaveRun(err), err == nil || claim.Mode == Fair && isDecision(err))
}

// mayHaveLeft records that a call, answered or not, may have left
// a hold or a place in a queue; mu is held. It is undone if it is nobody's: the
// acquisition ended without a hold, or the hold has ended. Otherwise the end of
// either does it.
func (a *acquisition) mayHaveLeft(claim Claim, unknown, left bool) {
	switch {
	case !a.done:
		a.doubt, a.left = a.doubt || unknown, a.left || left
	case a.hold != nil && a.hold.latest().unreleased():
		h := a.hold.latest()
		h.doubt = h.doubt || unknown || left && h.inRelease() // the release may have come first
	case unknown:
		a.undo(claim, undoPasses[:])
	case left:
		a.undo(claim, undoOnce)
	}
}

// abandon ends an acquisition that made no hold: what its calls may have left is
// undone.
func (a *acquisition) abandon() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.end()
}

// end is abandon with mu held. It returns the owner whose place in the store's queue is
// being undone, if there may be one.
func (a *acquisition) end() (parting string) {
	if a.done {
		return ""
	}
	a.done = true
	switch {
	case a.doubt:
		a.undo(a.claim, undoPasses[:])
	case a.left, a.claim.Mode == Fair && a.sawContention:
		a.undo(a.claim, undoOnce)
	default:
		return ""
	}
	if a.claim.Mode != Fair {
		return ""
	}
	return a.claim.Owner
}

// mayHaveRun says whether a call that returned err may have run, or may still
// run in the store, without an answer.
func mayHaveRun(err error) bool {
	return err != nil && !isDecision(err) && outcomeOf(err) == OutcomeUnknown
}

var (
	errTooLate   = errors.New("granted too late to be trusted")
	errSuspended = errors.New("the process may have been suspended before the answer came")
)
