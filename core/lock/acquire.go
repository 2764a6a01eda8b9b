package lock

import (
	"context"
	"errors"
	"fmt"
	"time"
)

var (
	errTooLate  = errors.New("granted too late to be trusted")
	errWaitOver = fmt.Errorf("wait limit reached: %w", context.DeadlineExceeded)
)

// acquisition is one call of Acquire or TryAcquire.
type acquisition struct {
	*Locker
	o       *options
	claim   Claim
	timeout time.Duration // of its calls
	came    time.Duration
	caller  context.Context // what the lease's context descends from
	once    bool
	reenter bool
	taken   bool // a try finds the key taken in this process
	shared  bool // others may acquire for the same owner

	sawContention bool // the store answered that another has the key
	behind        bool // it did so to another of the queue
	waited        bool // it slept at least once

	ownership *ownership
	refused   <-chan struct{} // ends the wait with ErrClosed
	mine      *hold           // that the caller had when it came
	conflict  error           // what it can't be joined for

	id      string    // the owner that is its own
	waiter  waiter    // in the queue of the key
	endWait func()    // ends the Waiting hook
	polls   int       // without a subscription
	named   []*waiter // whose places the call under way names
	namedAt time.Duration
	until   time.Duration // when its wait ends; 0: with its context

	// Guarded by mu, for calls that are answered after the caller gave up.

	done  bool  // it ended, with a hold or without
	doubt bool  // a call without an answer may have run
	left  bool  // a call that was given up has left a hold, or a place
	hold  *hold // that it made, or re-enters
}

func (l *Locker) acquire(ctx context.Context, key string, once bool, opts []Option) (*Lease, error) {
	a, err := l.newAcquisition(opts)
	o := a.o
	a.timeout, a.caller, a.came = o.callTimeout, ctx, l.now()
	if err == nil {
		err = checkKey(key)
	}
	a.once = once || o.waitSet && o.wait == 0
	a.claim = Claim{Key: key, Mode: o.mode, Holds: 1, TTL: o.acquireTTL()}
	if o.mode == Semaphore {
		a.claim.Permits, a.claim.Size = o.permits, o.size
	}
	if err == nil {
		err = a.enter()
	}
	if err != nil {
		return nil, &Error{Op: "acquire", Key: key, Err: err}
	}
	defer l.running.Done()
	if o.owner != "" {
		defer l.unshare(a.ownership)
	}
	lease, err := a.run(ctx)
	if err == nil {
		lease, err = a.prolonged(ctx, lease)
	}
	if err != nil {
		err = &Error{Op: "acquire", Key: key, Err: err}
	}
	a.observe(ctx, lease, err)
	if err == nil && a.o.group == nil {
		lease.keep()
	}
	return lease, err
}

// newAcquisition is one object, with the options of the call if it has any.
func (l *Locker) newAcquisition(opts []Option) (*acquisition, error) {
	if len(opts) == 0 {
		return &acquisition{Locker: l, o: l.defaults}, nil
	}
	a := new(struct {
		acquisition
		options
	})
	a.Locker, a.options, a.o = l, *l.defaults, &a.options
	return &a.acquisition, a.o.apply(opts)
}

// enter counts the acquisition in, so that Close waits for it, and finds what its
// caller has.
func (a *acquisition) enter() error {
	_, derived := FromContext(a.caller)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return ErrClosed
	}
	a.running.Add(1)
	if a.o.owner != "" {
		a.ownership, a.shared = a.share(ownerKey{a.claim.Key, a.o.owner}), true
	}
	a.taken = a.once && a.takenHere()
	if !derived && !a.shared { // it has nothing
		a.refused = a.draining
		return nil
	}
	a.mine, a.conflict = a.own()
	a.admit()
	return nil
}

// admit says what ends the wait: the work of a caller that holds a lease goes on
// until Close, or until nothing is held. mu is held.
func (a *acquisition) admit() {
	a.refused = a.draining
	if a.atWork() {
		a.refused = a.ending
	}
}

// readmit makes it the acquisition of a new owner, as what it was to join was released
// meanwhile.
func (a *acquisition) readmit() {
	a.mu.Lock()
	a.mine = nil
	a.admit()
	a.taken = a.once && a.takenHere()
	a.mu.Unlock()
	a.claimAs(nil)
}

// prolonged gives a new lease its full length, if that is more than an acquire
// writes.
func (a *acquisition) prolonged(ctx context.Context, lease *Lease) (*Lease, error) {
	if a.o.ttl() <= maxAcquireTTL {
		return lease, nil
	}
	if err := lease.lengthen(ctx, a.o.ttl()); err != nil {
		a.decline(lease)
		return nil, err
	}
	return lease, nil
}

// lengthen gives a lease that its caller doesn't have yet its length.
func (l *Lease) lengthen(ctx context.Context, d time.Duration) error {
	err := l.hold.locker.extend(ctx, l, d)
	if errors.Is(err, context.DeadlineExceeded) {
		err = because(ErrUnavailable, err) // whichever of its calls was not answered
	}
	return err
}

// observe calls the hooks. If one of them panics, the caller does not get the lease.
func (a *acquisition) observe(ctx context.Context, lease *Lease, err error) {
	declined := lease
	defer func() {
		if declined != nil {
			a.decline(declined)
		}
	}()
	if a.endWait != nil {
		a.endWait()
	}
	reentrant, ended := a.reenter, false
	if lease != nil && a.defaults.hooks.observeEnds() {
		reentrant, ended = lease.hold.report(a.o.name)
	}
	if hook := a.defaults.hooks.Acquired; hook != nil {
		hook(ctx, AcquireEvent{
			Event: a.event(), Elapsed: a.now() - a.came, Waited: a.waited, Reentrant: reentrant, Err: err,
		})
	}
	declined = nil
	if ended {
		a.reportEnd(lease.hold)
	}
}

func (a *acquisition) event() Event {
	return Event{Key: a.claim.Key, Name: a.o.name, Mode: a.o.mode}
}

func (a *acquisition) run(ctx context.Context) (*Lease, error) {
	h := a.mine
	switch {
	case ctx.Err() != nil:
		return nil, ended(ctx)
	case a.conflict != nil:
		return nil, a.conflict
	case h != nil && h.mode != a.o.mode:
		// A writer that reads: the same owner, another hold.
		a.ownership, a.shared = h.ownership, true
		lease, err := a.attempt(ctx, a.came)
		for isGone(err) && a.holdStatus(h) == nil { // what it read before
			lease, err = a.attempt(ctx, a.now())
		}
		if !isDecision(err) && !isGone(err) || a.holdStatus(h) == nil {
			return a.tried(ctx, lease, err)
		}
		a.readmit() // the writer has gone: whatever that is an answer to, it waits as any other
	case h != nil:
		lease, err := a.reenterHold(ctx, h)
		if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
			err = a.gaveUp(ctx)
		}
		if a.o.owner == "" || !isGone(err) {
			return lease, err
		}
		a.readmit()
	}
	if err := a.admitted(); err != nil {
		return nil, err
	}
	if a.taken {
		return nil, a.busy(nil)
	}
	if a.claim.Owner == "" { // else a late answer may look at it
		a.claim.Owner = a.newID()
	}
	if a.once {
		return a.tryOnce(ctx)
	}
	return a.queueUp(ctx)
}

// own finds the hold that the caller already has: that of its context, or of
// the owner it names. A hold in another mode is an error, as waiting for it
// would be waiting for oneself, unless it is a writer's who wants to read. mu is held.
func (a *acquisition) own() (*hold, error) {
	if a.o.mode == Semaphore { // permits do not re-enter, they add up
		return nil, a.joins(a.ofContext(func(h *hold) bool { return h.mode != Semaphore }))
	}
	h := a.ofContext(func(h *hold) bool { return h.mode == a.o.mode })
	if h == nil {
		h = a.ofContext(func(*hold) bool { return true })
	}
	if h == nil && a.shared {
		h = a.ownership.find(a.o.mode)
	}
	if h != nil {
		h.share()
	}
	return h, a.joins(h)
}

// waitsForItself says whether the caller's context holds what the acquisition
// wants, as another owner; mu is held.
func (a *acquisition) waitsForItself(ctx context.Context) bool {
	permits := a.claim.Permits
	for lease, _ := FromContext(ctx); lease != nil; lease = lease.outer() {
		h := lease.hold
		switch {
		case h.locker != a.Locker || h.key != a.claim.Key || h.state != holdAlive || lease.over.Load() != nil:
		case h.mode == Semaphore:
			permits += h.permits
		case !h.actsFor(a.ownership) && (h.mode != Read || a.o.mode != Read):
			return true
		}
	}
	return permits > a.claim.Size
}

// busy is the error of a key that others have, and the cause if there is one.
func (a *acquisition) busy(cause error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.waitsForItself(a.caller) {
		return because(ErrOwnHold, cause)
	}
	return because(ErrBusy, cause)
}

// joins returns what speaks against an acquisition on top of the owner's hold h; mu
// is held.
func (a *acquisition) joins(h *hold) error {
	switch {
	case h == nil:
		return nil
	case h.mode != a.o.mode && (h.mode != Write || a.o.mode != Read):
		return fmt.Errorf("%w: the same owner already holds it in mode %s, which cannot become %s", ErrInvalid, h.mode, a.o.mode)
	case a.keepsBoth(h.ownership):
		return fmt.Errorf("%w: WithMinHold: a writer under it cannot read as well; release the other first", ErrInvalid)
	case h.limit > 0 && h.granted+a.o.minHold > h.limit:
		return fmt.Errorf("%w: WithMinHold(%v): WithMaxHold of the hold ends earlier", ErrInvalid, a.o.minHold)
	case a.o.noReentry:
		return ErrOwnHold
	}
	return nil
}

// keepsBoth says whether the owner would write and read, and keep one of both for a
// minimum: the store keeps what is released last, as nobody's, and the other would
// be in its way. mu is held.
func (a *acquisition) keepsBoth(o *ownership) bool {
	writes, reads, keeps := a.o.mode == Write, a.o.mode == Read || o.owed != nil, a.o.minHold > 0
	for _, h := range o.holds {
		if h != nil {
			writes, reads = writes || h.mode == Write, reads || h.mode == Read
			keeps = keeps || h.keepUntil() > a.now() || h.willKeep()
		}
	}
	return writes && reads && keeps
}

// ofContext finds a hold of the caller's context; mu is held.
func (a *acquisition) ofContext(match func(*hold) bool) *hold {
	lease := leaseOf(a.caller, a.claim.Key, func(lease *Lease) bool {
		h := lease.hold
		return h.locker == a.Locker && h.state == holdAlive && (a.o.owner == "" || h.named(a.o.owner)) && match(h)
	})
	if lease == nil {
		return nil
	}
	return lease.hold
}

// tryOnce calls the store, or shares a call of another try: the store's answer to one
// owner that wants to be alone is its answer to any.
func (a *acquisition) tryOnce(ctx context.Context) (*Lease, error) {
	if a.nonBlocking || a.shared || !a.claim.Mode.alone() {
		return a.askOnce(ctx, a.came)
	}
	return a.tryTogether(ctx)
}

func (a *acquisition) askOnce(ctx context.Context, now time.Duration) (*Lease, error) {
	lease, err := a.attempt(ctx, now)
	for isGone(err) {
		lease, err = a.attempt(ctx, a.now())
	}
	return a.tried(ctx, lease, err)
}

// tried ends an acquisition that does not wait with the result of its attempt.
func (a *acquisition) tried(ctx context.Context, lease *Lease, err error) (*Lease, error) {
	if err == nil {
		return lease, nil
	}
	a.abandon()
	if _, busy := busyAnswer(err); busy {
		return nil, a.busy(nil)
	}
	if ctx.Err() != nil {
		return nil, a.gaveUp(ctx)
	}
	return nil, err
}

// gaveUp is the error of a wait that ended with ctx.
func (a *acquisition) gaveUp(ctx context.Context) error {
	cause := ended(ctx)
	switch {
	case !errors.Is(cause, context.DeadlineExceeded):
		return cause
	case a.mine == nil && (a.sawContention || a.answeredBusy()):
		return a.busy(cause)
	case a.siblingAnswered():
		return cause // the store is well, and nobody else has the key
	}
	return because(ErrUnavailable, cause)
}

// siblingAnswered says whether the store has answered another call for the same owner
// since the acquisition came.
func (a *acquisition) siblingAnswered() bool {
	o := a.ownership
	if a.mine != nil {
		o = a.mine.ownership
	}
	return o != nil && o.answeredSince(a.epoch.Add(a.came))
}

// granted makes a hold of a grant and a lease of it. The TTL counts from when
// the grant was asked for.
func (a *acquisition) granted(sent time.Duration, fence uint64) (*Lease, error) {
	a.checkClock()
	if a.reenter {
		return a.regranted(sent)
	}
	h := &hold{
		locker: a.Locker, key: a.claim.Key, owner: a.claim.Owner, mode: a.claim.Mode, name: a.o.name,
		fence: fence, granted: sent, ownership: a.ownership, count: 1,
		permits: a.claim.Permits, size: a.claim.Size,
	}
	if a.o.limits.hold > 0 {
		h.limit = sent + a.o.limits.hold
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.now()
	h.doubt = a.doubt
	h.confirm(sent, a.claim.TTL)
	switch {
	case a.closed, !a.mayHold():
		a.doubt = true // abandon undoes it
		return nil, ErrClosed
	case now >= h.trustedUntil():
		a.doubt = true
		return nil, because(ErrUnavailable, errTooLate)
	case a.id != a.claim.Owner && !a.ownership.writing(a.claim):
		a.doubt = true // the writer has gone, and its owner with it
		return nil, ErrReleased
	}
	a.done, a.hold = true, h
	lease := a.register(a.caller, h, a.o, now)
	a.trusts.set(h, h.trustedUntil())
	a.watchdogOn(h, sent, a.claim.TTL)
	return lease, nil
}
