//go:build !machine

package lock

import (
	"context"
	"errors"
	"time"
)

// acquisition is one call of Acquire or TryAcquire.
type acquisition struct {
	*Locker
	o       *options
	how     attempt
	claim   Claim
	timeout time.Duration // of its calls
	came    time.Duration
	caller  context.Context // what the lease's context descends from
	taken   bool            // a try finds the key taken in this process

	sawContention bool // the store answered that another has the key
	behind        bool // it did so to another of the queue
	waited        bool // it slept at least once

	refused  <-chan struct{} // ends the wait with ErrClosed
	joined   *Lease          // of the hold that the caller had when it came
	longer   bool            // joined asks for more than the hold has
	conflict error           // why the hold of the caller can't be joined

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
	hold  *hold // that it made
}

// attempt is how an acquisition is made, besides its options.
type attempt struct {
	once  bool            // it doesn't wait for others
	group context.Context // that the caller of its AcquireAll gave; nil: it is no part of one
}

func (l *Locker) acquire(ctx context.Context, key string, how attempt, opts []Option) (*Lease, error) {
	a, err := l.newAcquisition(opts)
	o := a.o
	a.how, a.timeout, a.caller, a.came = how, o.callTimeout, ctx, l.now()
	if err == nil {
		err = checkKey(key)
	}
	a.how.once = how.once || o.waitSet && o.wait == 0
	a.claim = Claim{Key: key, Mode: o.mode, TTL: o.acquireTTL()}
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
	l.presence.begin()
	lease, err := a.run(ctx)
	if err == nil {
		lease, err = a.prolonged(ctx, lease)
	}
	if err != nil {
		err = &Error{Op: "acquire", Key: key, Err: err}
	}
	a.observe(ctx, lease, err)
	if err == nil && how.group == nil {
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

// enter counts the acquisition in, so that Close waits for it, and joins the hold that
// its caller has, if any.
func (a *acquisition) enter() error {
	_, derived := FromContext(a.caller)
	if derived {
		a.checkOwn()
	}
	over := a.caller.Err() != nil // asked without mu: a lease as a context looks at its hold
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return ErrClosed
	}
	if err := a.sizes.check(a.claim); err != nil {
		return err
	}
	a.running.Add(1)
	a.refused = a.draining
	if derived {
		if a.atWork() {
			a.refused = a.ending // its work goes on until Close, or until nothing is held
		}
		if !over {
			a.reenter()
		}
	}
	a.taken = a.how.once && a.joined == nil && a.takenHere()
	return nil
}

// prolonged gives a new lease its full length, if that is more than an acquire
// writes, or than the hold that it joined has.
func (a *acquisition) prolonged(ctx context.Context, lease *Lease) (*Lease, error) {
	if a.joined == nil && a.o.ttl() <= maxAcquireTTL || a.joined != nil && !a.longer {
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
		err = wrap(ErrUnavailable, err) // whichever of its calls was not answered
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
	reentrant, ended := a.joined != nil, false
	if lease != nil && a.defaults.hooks.observeEnds() {
		reentrant, ended = lease.hold.report(a.o.name)
	}
	if hook := a.defaults.hooks.Acquired; hook != nil {
		hook(ctx, AcquireEvent{
			Event: a.event(), Elapsed: a.now() - a.came, Waited: a.waited, Reentrant: reentrant, Err: err, Fence: lease.Fence(),
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
	switch {
	case a.joined != nil:
		return a.joined, nil
	case ctx.Err() != nil:
		return nil, ended(ctx)
	case a.conflict != nil:
		return nil, a.conflict
	}
	if err := a.admitted(); err != nil {
		return nil, err
	}
	if a.taken {
		return nil, a.busy(nil)
	}
	a.claim.Owner = a.newOwner()
	if a.how.once {
		return a.tryOnce(ctx)
	}
	return a.queueUp(ctx)
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

// busy is the error of a key that others have, and the cause if there is one.
func (a *acquisition) busy(cause error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.waitsForItself(a.caller) {
		return wrap(ErrOwnHold, cause)
	}
	return wrap(ErrBusy, cause)
}

// waitsForItself says whether the caller's context holds permits that the acquisition
// needs; mu is held.
func (a *acquisition) waitsForItself(ctx context.Context) bool {
	permits := a.claim.Permits
	for lease := range leases(ctx) {
		if h := lease.hold; h.locker == a.Locker && h.key == a.claim.Key && h.mode == Semaphore && lease.alive() {
			permits += h.permits
		}
	}
	return permits > a.claim.Size
}

// tryOnce calls the store, or shares a call of another try: the store's answer to one
// owner that wants to be alone is its answer to any.
func (a *acquisition) tryOnce(ctx context.Context) (*Lease, error) {
	if a.traits.Immediate || !a.claim.Mode.exclusive() {
		return a.askOnce(ctx, a.came)
	}
	return a.tryTogether(ctx)
}

func (a *acquisition) askOnce(ctx context.Context, now time.Duration) (*Lease, error) {
	lease, err := a.ask(ctx, now)
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
	case a.sawContention || a.answeredBusy():
		return a.busy(cause)
	}
	return wrap(ErrUnavailable, cause)
}

// granted makes a hold of a grant and a lease of it. The TTL counts from when
// the grant was asked for.
func (a *acquisition) granted(sent time.Duration, fence uint64) (*Lease, error) {
	a.checkClock()
	h := &hold{
		locker: a.Locker, key: a.claim.Key, owner: a.claim.Owner, mode: a.claim.Mode, name: a.o.name,
		fence: fence, granted: sent, permits: a.claim.Permits, size: a.claim.Size,
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
		return nil, wrap(ErrUnavailable, errTooLate)
	}
	a.done, a.hold = true, h
	lease := a.register(a.caller, h, a.o, now)
	a.trusts.set(h, h.trustedUntil())
	a.renewLater(h, sent, a.claim.TTL)
	return lease, nil
}
