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

// attempt calls the store for the key now. Acquisitions of one owner do so one by one, as
// what the first is granted the others must re-enter. ErrReleased means that what was to
// be joined has been released meanwhile. One that is refused
// meanwhile does not call, whatever woke it: the store may be gone, too.
func (a *acquisition) attempt(ctx context.Context, now time.Duration) (*Lease, error) {
	if err := a.admitted(); err != nil {
		return nil, err
	}
	if !a.shared {
		return a.ask(ctx, now)
	}
	if err := a.takeTurn(ctx, a.ownership); err != nil {
		return nil, err
	}
	defer a.ownership.give()
	if err := a.admitted(); err != nil {
		return nil, err
	}
	h, err := a.joinable()
	if err != nil {
		return nil, err
	}
	if h != nil && h.mode == a.o.mode {
		return a.reenterInTurn(ctx, h)
	}
	a.claimAs(h)
	lease, err := a.ask(ctx, a.now())
	if h != nil && isDecision(err) {
		a.lose(because(ErrTaken, ErrNotHeld), h) // a writer may always read: somebody else has the key
	}
	return lease, err
}

// joinable returns the hold of the owner to join, or nil to acquire as a new owner.
// ErrReleased means that others come before a new owner: the hold was released while
// the acquisition waited for its turn.
func (a *acquisition) joinable() (*hold, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	h, w := a.ownership.find(a.o.mode), &a.waiter
	if w.err != nil {
		return nil, w.err // the sibling that had the turn found the store unavailable
	}
	if h != nil {
		return h, a.joins(h)
	}
	switch {
	case a.mine != nil, w.gate != nil && !w.gate.first(w):
		return nil, ErrReleased
	case a.once && a.claim.Owner != a.id && a.takenHere(): // only if it was to join a hold
		return nil, &BusyError{}
	}
	return nil, nil
}

// takeTurn waits for the other acquisitions of the owner while the store answers them.
// Each that it doesn't answer takes a call timeout: a caller that doesn't wait for
// another owner bears that once.
func (a *acquisition) takeTurn(ctx context.Context, o *ownership) error {
	patience := a.timeout
	if a.sawContention || a.behind {
		patience = MaxDuration
	}
	err := o.take(ctx, patience)
	if errors.Is(err, errNoAnswer) {
		return because(ErrUnavailable, err)
	}
	return err
}

// admitted is nil while the acquisition is not refused.
func (a *acquisition) admitted() error {
	select {
	case <-a.refused:
		return ErrClosed
	default:
		return nil
	}
}

// noteAnswer records that the store answers, for the siblings that wait for their turn.
func (a *acquisition) noteAnswer() {
	o := a.ownership
	if a.reenter {
		o = a.hold.ownership
	}
	if o != nil {
		o.noteAnswer()
	}
}

// claimAs makes the claim that of writer h, who wants to read as well, or if h
// is nil that of a new owner.
func (a *acquisition) claimAs(h *hold) {
	owner := a.newID()
	if h != nil {
		owner = h.owner
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if h != nil {
		h.ownership.read = true
	}
	a.quit(owner)
	a.reenter, a.hold = false, nil
	a.claim.Owner, a.claim.Holds, a.claim.TTL = owner, 1, a.o.acquireTTL()
}

// quit has undone what the calls as the present owner may have left, if the next owner is
// another one; mu is held.
func (a *acquisition) quit(next string) {
	claim := a.unjoined()
	if claim.Owner == next {
		return
	}
	if a.doubt || a.left {
		a.orphaned(a.ownership, claim, undoPasses[:])
		a.doubt, a.left = false, false
	}
	if claim.Owner == a.id {
		a.id = a.newOwner() // the store never sees again an owner that is undone
	}
}

// newID returns the owner that is the acquisition's own.
func (a *acquisition) newID() string {
	if a.id == "" {
		a.id = a.newOwner()
	}
	return a.id
}

// ask sends the claim now, and again until the store answers it, and makes a lease of
// a grant. Repeating is safe: the claim is absolute, and its owner unique.
func (a *acquisition) ask(ctx context.Context, now time.Duration) (*Lease, error) {
	began, sent := now, now
	for tries := 1; ; tries++ {
		if a.reenter && tries > 1 {
			if err := a.holdStatus(a.hold); err != nil {
				return nil, err // it has ended between two calls
			}
		}
		if a.reenter {
			a.claim.TTL = a.hold.within(a.o.acquireTTL(), sent)
		}
		fence, err := a.send(ctx, sent)
		if err == nil || isDecision(err) {
			a.noteAnswer()
		}
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

// isDecision reports whether err is a store's decision, and not a failure to decide,
// whose cause may be the caller's, and wrap anything.
func isDecision(err error) bool {
	if _, failed := errors.AsType[*StoreError](err); failed {
		return false
	}
	if _, abandoned := errors.AsType[*abandonedError](err); abandoned {
		return false
	}
	return errors.Is(err, ErrBusy) || errors.Is(err, ErrNotHeld)
}

// isGone reports whether what was to be joined has been released, and not that a store
// failed with such an error of another lock.
func isGone(err error) bool { return errors.Is(err, ErrReleased) && !errors.Is(err, ErrUnavailable) }

// busyAnswer returns the store's decision that another owner has the key, if err is that.
func busyAnswer(err error) (busy *BusyError, ok bool) {
	if !isDecision(err) {
		return nil, false
	}
	return errors.AsType[*BusyError](err)
}

// patient says whether a failing store is worth another try.
func (a *acquisition) patient(tries int, began time.Duration, err error) bool {
	if a.sawContention || a.behind {
		return a.now()-began < waiterPatience && !a.waitOver() && !a.storeAway()
	}
	return !errors.Is(err, ErrCircuitOpen) && tries < freshTries && a.now()-began < a.timeout
}

// storeAway says whether a sibling found that the store is unavailable.
func (a *acquisition) storeAway() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.waiter.err != nil
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
	if a.nonBlocking { // as bounded would do, without closures on the heap
		fence, err := guarded(ctx, func(ctx context.Context) (uint64, error) { return a.store.Acquire(ctx, a.claim) })
		a.noteDoubt(err)
		return fence, err
	}
	if err := a.compensation.reserve(); err != nil {
		return 0, err
	}
	claim, named := a.claim, a.named
	fence, err := a.callAcquire(ctx, now, a.patience(), claim, func(_ uint64, err error) {
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

// mayHaveRun says whether a call that returned err may have run, or may still
// run in the store, without an answer.
func mayHaveRun(err error) bool {
	return err != nil && !isDecision(err) && outcomeOf(err) == OutcomeUnknown
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
// either does it. A re-entry leaves nothing: it is not granted without the hold,
// and goes with it.
func (a *acquisition) mayHaveLeft(claim Claim, unknown, left bool) {
	switch {
	case claim.Holds > 1:
	case !a.done && claim.Owner == a.present():
		a.doubt, a.left = a.doubt || unknown, a.left || left
	case a.hold != nil && a.hold.owner == claim.Owner && a.hold.latest().unreleased():
		h := a.hold.latest()
		h.doubt = h.doubt || unknown || left && h.inRelease() // the release may have come first
	case unknown:
		a.orphaned(a.ownership, claim, undoPasses[:])
	case left:
		a.orphaned(a.ownership, claim, undoOnce)
	}
}

// abandon ends an acquisition that made no hold: what its calls may have left is
// undone. One that joined another's hold may have had a place in the store's queue
// under its own owner.
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
	claim := a.unjoined()
	switch {
	case a.doubt:
		a.orphaned(a.ownership, claim, undoPasses[:])
	case a.left, claim.Mode == Fair && a.sawContention:
		a.orphaned(a.ownership, claim, undoOnce)
	default:
		return ""
	}
	if claim.Mode != Fair {
		return ""
	}
	return claim.Owner
}

// present is the owner that it calls as, or goes on as if the hold that it re-enters
// ends. mu is held, and what else the claim has is not looked at: it changes without mu.
func (a *acquisition) present() string {
	if a.reenter {
		return a.id
	}
	return a.claim.Owner
}

// unjoined is the claim without the hold that it re-enters, which goes with that hold.
func (a *acquisition) unjoined() Claim {
	claim := a.claim
	if a.reenter {
		claim.Owner, claim.Holds = a.id, 1
	}
	return claim
}

// orphaned has undone what nobody has a lease of; mu is held. A writer that
// reads has one owner for both: what may be left of its reading goes when
// nothing of that owner is held.
func (l *Locker) orphaned(o *ownership, claim Claim, passes []time.Duration) {
	if o == nil {
		l.undo(claim, passes)
		return
	}
	if h := o.holds[claim.Mode]; h != nil && h.owner == claim.Owner {
		h.doubt = true // another call got it: its end does it
		return
	}
	if o.writing(claim) {
		if o.owed != nil {
			claim.TTL = max(claim.TTL, o.owed.TTL)
		}
		o.owed, o.doubt = &claim, true
		return
	}
	l.undo(claim, passes)
}
