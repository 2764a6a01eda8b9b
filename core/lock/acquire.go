package lock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

var (
	errExpired  = errors.New("not renewed in time")
	errForced   = errors.New("force released")
	errGone     = errors.New("the store no longer has the hold")
	errTooLate  = errors.New("granted too late to be trusted")
	errWaitOver = fmt.Errorf("wait limit reached: %w", context.DeadlineExceeded)
)

// How long a failing store is asked again. A caller that never got an answer
// learns of a dead store soon; a waiter that was already told to wait rides
// out a restart or a failover.
const (
	freshTries     = 3
	waiterPatience = 10 * time.Second
	minBackoff     = 5 * time.Millisecond
	maxBackoff     = 250 * time.Millisecond
)

const (
	// defaultPatience is Redisson's fairLockWaitTimeout.
	defaultPatience = 5 * time.Minute
	// queueNap is the least that a waiter in a store's queue sleeps.
	queueNap = 50 * time.Millisecond
)

// acquisition is one call of Acquire or TryAcquire.
type acquisition struct {
	*Locker
	o       options
	claim   Claim
	once    bool
	start   time.Time
	caller  context.Context // what the lease's context descends from
	reenter bool

	ownership *ownership
	shared    bool            // others may acquire for the same owner
	refused   <-chan struct{} // ends the wait with ErrClosed

	waiter  *waiter
	endWait func()        // ends the Waiting hook
	told    bool          // somebody else was seen to have the key
	waited  bool          // it slept at least once
	naps    int           // without a subscription
	doubt   bool          // a call without an answer may have run
	noWatch time.Duration // when subscribing may be tried again
	unwatch func()        // of a waiter that is not in the process's queue
	asked   time.Duration // when the call was sent that was answered last

	// Guarded by mu, for calls that are answered when nobody waits any more.
	over bool
	hold *hold
}

func (l *Locker) acquire(ctx context.Context, key string, once bool, opts []Option) (*Lease, error) {
	a := &acquisition{Locker: l, o: l.defaults, caller: ctx, start: time.Now(), refused: l.closing}
	err := a.o.apply(opts)
	if err == nil {
		err = checkKey(key)
	}
	if err == nil {
		err = l.begin()
	}
	if err != nil {
		return nil, &Error{Op: "acquire", Key: key, Err: err}
	}
	defer l.running.Done()
	o := &a.o
	a.once = once || o.waitSet && o.wait == 0
	a.claim = Claim{Key: key, Owner: o.owner, Mode: o.mode, Holds: 1, TTL: o.ttl()}
	if o.mode == Semaphore {
		a.claim.Permits, a.claim.Size = o.permits, o.size
	}
	if o.owner != "" {
		a.ownership, a.shared = l.share(ownerKey{key, o.owner}), true
		defer l.unshare(a.ownership)
	}
	lease, err := a.run(ctx)
	if err != nil {
		err = &Error{Op: "acquire", Key: key, Err: err}
	}
	a.observe(ctx, err)
	return lease, err
}

func (a *acquisition) observe(ctx context.Context, err error) {
	if a.endWait != nil {
		a.endWait()
	}
	if hook := a.defaults.hooks.Acquired; hook != nil {
		hook(ctx, AcquireEvent{
			Event: a.event(), Elapsed: time.Since(a.start), Waited: a.waited, Reentrant: a.reenter, Err: err,
		})
	}
}

func (a *acquisition) event() Event {
	return Event{Key: a.claim.Key, Name: a.o.name, Mode: a.o.mode}
}

func (a *acquisition) run(ctx context.Context) (*Lease, error) {
	if ctx.Err() != nil {
		return nil, ended(ctx)
	}
	h, err := a.own(ctx)
	if err != nil {
		return nil, err
	}
	if h != nil && h.mode != a.o.mode {
		// A writer that reads: the same owner, a hold of its own.
		a.claim.Owner, a.ownership, a.shared = h.owner, h.ownership, true
		return a.askOnce(ctx)
	}
	if h != nil {
		lease, err := a.reenterHold(ctx, h)
		if a.o.owner == "" || !errors.Is(err, ErrReleased) {
			return lease, err
		}
	}
	if err := a.admit(); err != nil {
		return nil, err
	}
	if !a.shared {
		a.claim.Owner, a.ownership = a.newOwner(), new(ownership)
	}
	if a.once {
		return a.tryOnce(ctx)
	}
	return a.queueUp(ctx)
}

// own finds the hold that the caller already has: that of its context, or of
// the owner it names. A hold in another mode is an error, as waiting for it
// would be waiting for oneself, unless it is a writer's who wants to read.
func (a *acquisition) own(ctx context.Context) (*hold, error) {
	if a.o.mode == Semaphore {
		return nil, nil // permits do not re-enter, they add up
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	h := a.ofContext(ctx, func(h *hold) bool { return h.mode == a.o.mode })
	if h == nil {
		h = a.ofContext(ctx, func(*hold) bool { return true })
	}
	if h == nil && a.shared {
		h = a.ownership.find(a.o.mode)
	}
	return h, a.joins(h)
}

// joins says what speaks against an acquisition beside the owner's hold h.
func (a *acquisition) joins(h *hold) error {
	switch {
	case h == nil:
		return nil
	case h.mode != a.o.mode && (h.mode != Write || a.o.mode != Read):
		return fmt.Errorf("%w: the same owner already holds it in mode %s, which cannot become %s", ErrInvalid, h.mode, a.o.mode)
	case a.o.noReentry:
		return fmt.Errorf("%w: by the same owner, and re-entry is off", ErrBusy)
	}
	return nil
}

// ofContext finds a hold of the caller's context; mu is held.
func (a *acquisition) ofContext(ctx context.Context, match func(*hold) bool) *hold {
	lease := leaseOf(ctx, a.claim.Key, func(lease *Lease) bool {
		h := lease.hold
		return h.locker == a.Locker && h.state == holdAlive && (a.o.owner == "" || a.o.owner == h.owner) && match(h)
	})
	if lease == nil {
		return nil
	}
	return lease.hold
}

func (a *acquisition) tryOnce(ctx context.Context) (*Lease, error) {
	if a.heldHere(a.claim.Key, a.ownership) {
		return nil, ErrBusy
	}
	return a.askOnce(ctx)
}

func (a *acquisition) askOnce(ctx context.Context) (*Lease, error) {
	lease, err := a.attempt(ctx)
	if err == nil {
		return lease, nil
	}
	a.abandon()
	var busy *BusyError
	if errors.As(err, &busy) {
		return nil, ErrBusy
	}
	if ctx.Err() != nil {
		return nil, a.gaveUp(ctx)
	}
	return nil, err
}

// queueUp waits in the process's queue and, as its head, on the store.
func (a *acquisition) queueUp(ctx context.Context) (*Lease, error) {
	limited := ctx
	if wait, ok := a.o.longestWait(); ok {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeoutCause(ctx, wait, errWaitOver)
		defer cancel()
	}
	a.claim.Patience = a.patience(limited)
	a.claim.Transfer = a.takesTransfer()
	var err error
	if a.waiter, err = a.join(a.claim.Key, a.claim.Mode, a.o.limits); err != nil {
		return nil, err
	}
	if a.shared {
		defer a.await(a.ownership, a.waiter)()
	}
	var lease *Lease
	var shared error
	defer func() { a.leaveQueue(lease != nil, shared) }() // also when a hook panics
	lease, err = a.contend(limited)
	switch {
	case err == nil:
		return lease, nil
	case errors.Is(err, ErrClosed):
	case limited.Err() != nil:
		err = a.gaveUp(ctx)
	}
	// What the head learned of the store holds for those behind it: they
	// must not each find out for themselves, one after the other.
	if limited.Err() == nil && errors.Is(err, ErrUnavailable) {
		shared = err
	}
	return nil, err
}

// leaveQueue ends the wait, with a hold or without.
func (a *acquisition) leaveQueue(granted bool, shared error) {
	if a.unwatch != nil {
		a.unwatch()
	}
	if !granted {
		a.abandon()
	}
	a.leave(a.claim.Key, a.waiter, shared)
}

// contend loops until the key is granted or the wait is over.
func (a *acquisition) contend(ctx context.Context) (*Lease, error) {
	if a.waiter.place == nil && a.crowded() {
		a.watch(ctx) // will be needed, and saves asking once more after it
	}
	for {
		mayAsk, err := a.turn()
		if err != nil {
			return nil, err
		}
		if !mayAsk {
			if err := a.mustWait(); err != nil {
				return nil, err
			}
			if err := a.sleep(ctx, nil); err != nil {
				return nil, err
			}
			continue
		}
		lease, err := a.attempt(ctx)
		var busy *BusyError
		if !errors.As(err, &busy) {
			return lease, err
		}
		a.markContended()
		if err := a.mustWait(); err != nil {
			return nil, err
		}
		if a.watch(ctx) {
			continue // what happened before the subscription was not seen
		}
		timer := time.NewTimer(a.nap(busy.TTL))
		err = a.sleep(ctx, timer.C)
		timer.Stop()
		if err != nil {
			return nil, err
		}
		if fence := a.transferred(busy.Clock); fence > 0 {
			return a.granted(a.asked, a.transfer.TransferTTL(), fence)
		}
	}
}

// turn says whether the caller may ask the store now.
func (a *acquisition) turn() (mayAsk bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.waiter.err != nil {
		return false, a.waiter.err
	}
	if a.waiter.place == nil || a.shared && a.ownership.find(a.o.mode) != nil {
		return true, nil
	}
	g := a.gates[a.claim.Key]
	a.told = a.told || g.contended
	return g.hold == nil && g.first(a.waiter), nil
}

// crowded says whether a waiter in the store's queue will have to wait: others
// of this process do, or are about to find out.
func (a *acquisition) crowded() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	g := a.gates[a.claim.Key]
	return g.contended || g.elsewhere > 1
}

// contended says whether another owner was seen to have the key.
func (a *acquisition) contended() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	g := a.gates[a.claim.Key]
	return g != nil && g.contended
}

func (a *acquisition) markContended() {
	a.told = true
	a.mu.Lock()
	defer a.mu.Unlock()
	if g := a.gates[a.claim.Key]; g != nil {
		g.contended = true
	}
}

// sleep waits for a hint, the timer, or the end.
func (a *acquisition) sleep(ctx context.Context, timer <-chan time.Time) error {
	a.waited = true
	if hook := a.defaults.hooks.Waiting; hook != nil && a.endWait == nil {
		if a.endWait = hook(ctx, a.event()); a.endWait == nil {
			a.endWait = func() {}
		}
	}
	select {
	case <-a.waiter.wake:
	case <-timer:
	case <-ctx.Done():
		return ctx.Err()
	case <-a.refused:
		return ErrClosed
	}
	return ctx.Err() // an ended wait must not go on because a hint came too
}

// nap is how long to rely on hints: until the hold that is in the way
// expires, at most the poll interval. Without a subscription it is short, and
// scattered so that processes do not ask in step.
func (a *acquisition) nap(ttl time.Duration) time.Duration {
	d := a.o.poll
	if !a.watching() {
		a.naps++
		d = min(d, backoff(a.naps))
	}
	if ttl >= 0 {
		d = min(d, ttl+time.Millisecond) // the store counts in milliseconds
	}
	if a.claim.Mode == Fair {
		d = max(d, min(queueNap, a.o.poll)) // free, but another's turn: 0 is not "at once"
	}
	return d
}

func (a *acquisition) watching() bool {
	if a.waiter.place == nil {
		return a.unwatch != nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.gates[a.claim.Key].unwatch != nil
}

// watch subscribes the queue to wake-ups of the key; true means that it just
// did. Where that fails, polling goes on.
func (a *acquisition) watch(ctx context.Context) bool {
	if a.watching() || a.now() < a.noWatch {
		return false
	}
	key, wake := a.claim.Key, a.waiter.signal
	if a.waiter.place != nil { // for whoever is head then
		wake = func() { a.woken(key) }
	}
	subscribe := func(ctx context.Context) (func(), error) { return a.store.Watch(ctx, a.claim, wake) }
	if a.claim.Transfer {
		subscribe = func(ctx context.Context) (func(), error) {
			return a.transfer.WatchTransfer(ctx, a.claim, a.waiter.hear)
		}
	}
	late := func(unwatch func(), err error) {
		if err == nil {
			unwatch()
		}
	}
	unwatch, err := bounded(ctx, a.Locker, a.o.callTimeout, subscribe, late)
	if err != nil {
		a.noWatch = a.now() + a.o.poll
		return false
	}
	if a.waiter.place == nil {
		a.unwatch = unwatch
	} else {
		a.subscribed(key, unwatch)
	}
	return true
}

// patience is how long the caller is going to wait at most.
func (a *acquisition) patience(ctx context.Context) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		return max(time.Until(deadline), time.Millisecond)
	}
	return defaultPatience
}

// gaveUp is the error of a wait that ended: with ctx, or else by WithWait.
func (a *acquisition) gaveUp(ctx context.Context) error {
	cause := error(context.DeadlineExceeded)
	if ctx.Err() != nil {
		cause = ended(ctx)
	}
	if !errors.Is(cause, context.DeadlineExceeded) {
		return cause
	}
	if a.told || a.contended() {
		return because(ErrBusy, cause)
	}
	return because(ErrUnavailable, cause)
}

// attempt asks for the key. Acquisitions of one owner do so one by one, as
// what the first is granted the others must re-enter.
func (a *acquisition) attempt(ctx context.Context) (*Lease, error) {
	if !a.shared {
		return a.ask(ctx)
	}
	if err := a.ownership.take(ctx); err != nil {
		return nil, err
	}
	defer a.ownership.give()
	a.mu.Lock()
	h := a.ownership.find(a.o.mode)
	a.mu.Unlock()
	if err := a.joins(h); err != nil {
		return nil, err
	}
	if h != nil && h.mode == a.o.mode {
		return a.reenterInTurn(ctx, h)
	}
	return a.ask(ctx)
}

// ask sends the claim until the store answers it, and makes a lease of a
// grant. Repeating is safe: the claim is absolute, and its owner unique.
func (a *acquisition) ask(ctx context.Context) (*Lease, error) {
	began := a.now()
	for tries := 1; ; tries++ {
		var fence uint64
		err := a.permit(ctx, a.claim.Key)
		sent := a.now()
		if err == nil {
			fence, err = a.send(ctx)
			a.judge(a.claim.Key, sent, err)
		}
		switch {
		case err == nil:
			return a.granted(sent, a.claim.TTL, fence)
		case isAnswer(err):
			a.asked = sent
			return nil, err
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case outcomeOf(err) == OutcomeRefused, !a.patient(tries, began, err):
			return nil, failure(ctx, err)
		case !a.pause(ctx, backoff(tries)):
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			return nil, ErrClosed
		}
	}
}

// isAnswer tells a store's decision from a failure to decide.
func isAnswer(err error) bool { return errors.Is(err, ErrBusy) || errors.Is(err, ErrNotHeld) }

// patient says whether a failing store is worth another try.
func (a *acquisition) patient(tries int, began time.Duration, err error) bool {
	if a.told {
		return a.now()-began < waiterPatience
	}
	return !errors.Is(err, ErrCircuitOpen) && tries < freshTries && a.now()-began < a.o.callTimeout
}

func backoff(tries int) time.Duration {
	d := min(minBackoff<<min(tries, 10), maxBackoff)
	return d/2 + rand.N(d/2)
}

// send makes one bounded call.
func (a *acquisition) send(ctx context.Context) (uint64, error) {
	// An answer that comes when trust would be over is of no use.
	timeout := min(a.o.callTimeout, a.claim.TTL-margin(a.claim.TTL))
	fence, err := a.callAcquire(ctx, timeout)
	if err != nil && !isAnswer(err) && outcomeOf(err) == OutcomeUnknown {
		a.doubt = true
	}
	return fence, err
}

// callAcquire makes one bounded call.
func (a *acquisition) callAcquire(ctx context.Context, timeout time.Duration) (uint64, error) {
	if a.prompt { // as bounded would do, without closures on the heap
		return a.store.Acquire(ctx, a.claim)
	}
	return bounded(ctx, a.Locker, timeout, func(ctx context.Context) (uint64, error) {
		return a.store.Acquire(ctx, a.claim)
	}, a.late)
}

// late sees the answer of a call that was given up. If the acquisition is
// over without a hold, and the call may have made one, it is undone now.
func (a *acquisition) late(_ uint64, err error) {
	if err == nil || isAnswer(err) {
		a.judge(a.claim.Key, a.now(), err)
	}
	if err != nil && (isAnswer(err) || outcomeOf(err) != OutcomeUnknown) {
		return
	}
	a.mu.Lock()
	orphan := a.over && (a.hold == nil || a.hold.state != holdAlive)
	a.mu.Unlock()
	if orphan {
		a.undo(a.ownership, a.claim, undoPasses[:])
	}
}

// abandon ends an acquisition without a hold.
func (a *acquisition) abandon() {
	a.mu.Lock()
	a.over = true
	a.mu.Unlock()
	switch {
	case a.hold != nil:
	case a.doubt:
		a.undo(a.ownership, a.claim, undoPasses[:])
	case a.claim.Mode == Fair && a.told:
		a.undo(a.ownership, a.claim, undoPasses[:1]) // leave the store's queue
	}
}

// granted makes a hold of a grant and a lease of it. The TTL counts from when
// the grant was asked for.
func (a *acquisition) granted(sent, ttl time.Duration, fence uint64) (*Lease, error) {
	if a.reenter {
		return a.regranted(sent)
	}
	h := &hold{
		locker: a.Locker, key: a.claim.Key, owner: a.claim.Owner, mode: a.claim.Mode, name: a.o.name,
		fence: fence, start: time.Now(), ownership: a.ownership,
		permits: a.claim.Permits, size: a.claim.Size, caller: a.caller,
		count: 1, index: -1, doubt: a.doubt,
	}
	if a.o.limits.hold > 0 {
		h.limit = sent + a.o.limits.hold
	}
	h.confirm(sent, ttl)
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.closed, !a.mayHold(a.caller, a.ownership):
		a.doubt = true // abandon undoes it
		return nil, ErrClosed
	case !h.trusted():
		a.doubt = true
		return nil, because(ErrUnavailable, errTooLate)
	}
	lease := h.addLease(a.caller, &a.o)
	a.over, a.hold = true, h
	a.holds[h] = struct{}{}
	a.ownership.add(h)
	if h.mode.alone() {
		g := a.gateOf(h.key)
		g.hold, g.contended, g.fence = h, true, max(g.fence, fence)
	}
	h.timer = time.AfterFunc(h.trustedUntil()-a.now(), func() { h.locker.checkTrust(h) }) // h alone: a is not kept with it
	a.watchdogOn(h, sent, ttl)
	return lease, nil
}
