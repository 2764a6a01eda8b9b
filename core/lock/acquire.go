package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redlatch/redlatch/core/lock/internal/machine"
)

// attempt is how an acquisition is made, besides its options.
type attempt struct {
	once  bool            // it doesn't wait for others
	group context.Context // that the caller of its AcquireAll gave; nil: it is no part of one
}

// acquisition is one call of Acquire or TryAcquire.
type acquisition struct {
	*Locker
	o       *options
	how     attempt
	ctx     context.Context
	key     string
	came    time.Duration
	around  *Lease // that ctx was derived from
	outer   *Lease // the same of the key, whose hold goes on
	held    Mode   // of its hold
	endWait func() // ends the Waiting hook
	waited  bool
}

func (l *Locker) acquire(ctx context.Context, key string, how attempt, opts []Option) (*Lease, error) {
	a := acquisition{Locker: l, o: l.defaults, how: how, ctx: ctx, key: key}
	var err error
	if len(opts) > 0 {
		a.o, err = l.defaults.with(opts)
	}
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
	l.presence.begin()
	a.how.once = how.once || a.o.waitSet && a.o.wait == 0
	lease, err := a.run()
	if err != nil {
		err = &Error{Op: "acquire", Key: key, Err: err}
	}
	a.observe(lease, err)
	return lease, err
}

// run makes the acquisition an event of the key's machine, and waits for the reply.
func (a *acquisition) run() (*Lease, error) {
	ev := machine.Event{Kind: machine.EvArrive, Of: machine.None}
	if a.around, _ = FromContext(a.ctx); a.around != nil {
		a.outer = a.own()
		ev.Terms.AtWork = a.atWork()
	}
	if a.ctx.Err() != nil {
		a.came = a.now()
		return nil, ended(a.ctx)
	}
	p := pump{Locker: a.Locker}
	lease, w, err := a.arrive(&p, &ev)
	if err != nil {
		return nil, err
	}
	p.run()
	return a.await(lease, w)
}

// arrive steps the machine, unless a try is refused at once.
func (a *acquisition) arrive(p *pump, ev *machine.Event) (*Lease, *wait, error) {
	sh := a.shardOf(a.key)
	now := sh.lock()
	defer sh.mu.Unlock()
	a.came = time.Duration(now)
	atWork := ev.Terms.AtWork
	ev.Terms = a.o.terms(a.how.once, now)
	ev.Terms.AtWork, ev.Terms.Part = atWork, a.how.group != nil
	if a.refusing.Load() && (a.refusesWork.Load() || !atWork) {
		return nil, nil, ErrClosed
	}
	if outer := a.outer; outer != nil && outer.first.concluded {
		return nil, nil, ErrOwnHold
	}
	e := sh.entryOf(a.key)
	m := e.awake()
	if held := int(m.Size()); a.o.mode == Semaphore && held != 0 && held != a.o.size {
		e.settle()
		return nil, nil, wrongSize(a.o.permits, a.o.size, held)
	}
	if a.outer == nil && m.Refuses(&ev.Terms, now) {
		e.settle()
		return nil, nil, a.busy(nil)
	}
	lease, w := e.newLease(), a.newWait()
	w.nudge = a.o.hooks.Waiting != nil || a.how.group != nil && a.o.mode == Semaphore
	p.answer = &w.answer
	lease.parent, lease.outer, lease.o, lease.wait = a.ctx, a.around, a.o, w
	if outer := a.outer; outer != nil && !outer.first.left.Load() {
		lease.first = outer.first
		ev.Of, ev.Owner = m.HeldBy(outer.owner), outer.owner
		if ev.Of != machine.None {
			a.held = Mode(m.Mode(ev.Of))
		}
	}
	e.seat(lease)
	ev.Caller = lease.slot
	p.step(e, ev, now, nil)
	return lease, w, nil
}

// own is the innermost lease of the key that the caller's context has, of a hold that goes
// on. The lease may have been released.
func (a *acquisition) own() *Lease {
	for lease := range leases(a.ctx) {
		if lease.entry.key == a.key && lease.entry.shard.Locker == a.Locker && !lease.first.left.Load() {
			if a.o.mode != Semaphore || lease.o.mode != Semaphore {
				return lease
			}
		}
	}
	return nil
}

// atWork says whether the caller's context was derived from a lease of the locker that
// has not ended. The parts of a group that are acquired already are no work: that begins
// with the last.
func (a *acquisition) atWork() bool {
	ctx := a.ctx
	if a.how.group != nil {
		ctx = a.how.group
	}
	for lease := range leases(ctx) {
		if lease.entry.shard.Locker == a.Locker && lease.fate.Load() == nil {
			return true
		}
	}
	return false
}

// await waits for the reply.
func (a *acquisition) await(lease *Lease, w *wait) (*Lease, error) {
	settled := false
	defer func() {
		if settled {
			return
		}
		if a.leave(lease); w.result == machine.ResGranted { // a hook has panicked
			a.decline(lease)
		}
	}()
	left, own := false, false // it has left as its context has ended, or as it would wait for itself
	for !w.done() {
		switch {
		case w.waits.Load() && a.how.group != nil && a.waitsForItself():
			own = true
			a.leave(lease)
		case w.waits.Load() && a.beginWait(): // the hook may have taken its time
		case w.park(a.ctx):
			left = true
			a.leave(lease)
		}
	}
	settled = true
	a.waited = w.waits.Load()
	result, why, cause := w.result, w.why, w.cause
	a.freeWait(w)
	switch {
	case result == machine.ResGranted && (left || a.waited && a.ctx.Err() != nil):
		a.decline(lease)
		return nil, a.gaveUp(true)
	case result == machine.ResGranted:
		return lease, nil
	case own:
		return nil, ErrOwnHold
	}
	if a.outer != nil && result != machine.ResLost {
		a.unjoined(a.outer)
	}
	if left {
		return nil, a.gaveUp(result == machine.ResBusy)
	}
	return nil, a.failure(result, why, cause)
}

// unjoined reports the end of a hold whose last lease would have been the one that was not
// granted.
func (l *Locker) unjoined(outer *Lease) {
	e := outer.entry
	e.shard.mu.Lock()
	over := !outer.first.left.Load() && !outer.first.ended && !e.holds(outer.owner)
	if over {
		outer.first.left.Store(true)
		outer.first.ended = true
	}
	e.shard.mu.Unlock()
	if over {
		l.reportRelease(outer, true, nil)
	}
}

// beginWait calls the hook, once. It returns whether it has.
func (a *acquisition) beginWait() bool {
	hook := a.o.hooks.Waiting
	if hook == nil || a.endWait != nil {
		return false
	}
	a.endWait = func() {}
	if end := hook(a.ctx, a.event()); end != nil {
		a.endWait = end
	}
	return true
}

// leave ends the wait, unless there is a reply. There is one afterwards.
func (a *acquisition) leave(lease *Lease) {
	p := pump{Locker: a.Locker}
	sh := lease.entry.shard
	now := sh.lock()
	if lease.wait != nil {
		p.step(lease.entry, &machine.Event{Kind: machine.EvLeave, Caller: lease.slot}, now, nil)
	}
	sh.mu.Unlock()
	p.run()
}

// decline releases a lease that its caller doesn't get.
func (a *acquisition) decline(lease *Lease) {
	lease.unwanted(uncanceled(a.ctx))
}

// failure is the error of an acquisition that has ended with a reply.
func (a *acquisition) failure(r machine.Result, why machine.Why, cause error) error {
	switch r {
	case machine.ResBusy:
		if a.how.once {
			return a.busy(nil)
		}
		return a.busy(errWaitOver)
	case machine.ResCrowded:
		return errCrowded
	case machine.ResBacklog:
		return errBacklog
	case machine.ResClosed:
		return ErrClosed
	case machine.ResInvalid:
		return a.conflict(why)
	case machine.ResLost:
		return cause
	}
	switch {
	case cause != nil:
	case a.waitIsOver():
		cause = errWaitOver
	default:
		cause = errNoAnswer
	}
	return undecided(cause)
}

func (a *acquisition) waitIsOver() bool {
	wait, limited := a.o.longestWait()
	return limited && !a.how.once && a.now()-a.came >= wait
}

// conflict is why a re-entry is refused.
func (a *acquisition) conflict(why machine.Why) error {
	switch why {
	case machine.WhyApart:
		return ErrOwnHold
	case machine.WhyKept:
		return fmt.Errorf("%w: WithMinHold: a writer under it cannot read as well; release the other first", ErrInvalid)
	case machine.WhyLimit:
		return fmt.Errorf("%w: WithMinHold(%v): WithMaxHold of the hold ends earlier", ErrInvalid, a.o.minHold)
	}
	return fmt.Errorf("%w: the same owner already holds it in mode %s, which cannot become %s", ErrInvalid, a.held, a.o.mode)
}

// gaveUp is the error of a wait that ended with its context. busy says that another owner is
// known to have the key.
func (a *acquisition) gaveUp(busy bool) error {
	cause := ended(a.ctx)
	switch {
	case !errors.Is(cause, context.DeadlineExceeded):
		return cause
	case busy:
		return a.busy(cause)
	}
	return wrap(ErrUnavailable, cause)
}

// busy is the error of a key that others have, and the cause if there is one.
func (a *acquisition) busy(cause error) error {
	if a.waitsForItself() {
		return wrap(ErrOwnHold, cause)
	}
	return wrap(ErrBusy, cause)
}

// waitsForItself says whether the caller's context holds permits that the acquisition
// needs.
func (a *acquisition) waitsForItself() bool {
	if a.o.mode != Semaphore {
		return false
	}
	permits := a.o.permits
	for lease := range leases(a.ctx) {
		if lease.entry.key == a.key && lease.entry.shard.Locker == a.Locker && lease.o.mode == Semaphore && lease.fate.Load() == nil {
			permits += lease.o.permits
		}
	}
	return permits > a.o.size
}

// observe calls the hooks. If one of them panics, the caller does not get the lease.
func (a *acquisition) observe(lease *Lease, err error) {
	declined := lease
	defer func() {
		if declined != nil {
			a.decline(declined)
		}
	}()
	if a.endWait != nil {
		a.endWait()
	}
	reentrant, owed := false, false
	if lease != nil {
		reentrant, owed = lease.report()
	}
	if hook := a.o.hooks.Acquired; hook != nil {
		hook(a.ctx, AcquireEvent{
			Event: a.event(), Elapsed: a.now() - a.came, Waited: a.waited, Reentrant: reentrant || a.rejoins(lease), Err: err, Fence: lease.Fence(),
		})
	}
	declined = nil
	if owed {
		a.reportEnd(lease.first)
	}
}

// rejoins says whether a lease, or the acquisition that failed, is one of a hold that the
// caller had.
func (a *acquisition) rejoins(lease *Lease) bool {
	return lease != nil && lease.first != lease
}

func (a *acquisition) event() Event { return Event{Key: a.key, Name: a.o.name, Mode: a.o.mode} }

// report records that the acquisition of the lease is reported as granted. reentrant says
// that it is not the first of its hold, and owed that the end of the hold is to be reported
// after it.
func (l *Lease) report() (reentrant, owed bool) {
	if !l.o.hooks.observeEnds() {
		return false, false
	}
	sh := l.entry.shard
	sh.mu.Lock()
	defer sh.mu.Unlock()
	reentrant, owed = !l.first.reported.CompareAndSwap(nil, l.o), l.first.endOwed
	l.first.endOwed = false
	return reentrant, owed
}

// reportEnd reports the end of a hold that ended before its acquisition was reported.
func (l *Locker) reportEnd(first *Lease) {
	end := *first.fate.Load()
	if errors.Is(end, ErrLost) {
		l.reportLoss(first, end)
		return
	}
	l.reportRelease(first, true, nil)
}
