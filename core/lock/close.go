package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redlatch/redlatch/core/lock/internal/machine"
)

// Close ends the locker. Waiters return [ErrClosed]; leases end with cause
// [ErrClosed] and are released in the store. Close waits for everything that runs
// in the background, so no hold, subscription, timer or goroutine of the locker is
// left. The store may keep its own connection for a moment. A lease that was lost before,
// and that its holder has not released, ends in the store with its TTL. Stop the work that
// holds leases first, or let it finish: see [Locker.Drain].
//
// If ctx ends first, Close returns its error. If the store does not answer, or refuses, Close
// gives up and returns [ErrUnavailable]. That takes one call timeout for each 4096
// holds, and, in an [Async] store, for each 8 acquisitions to undo. So bound it by ctx. In
// both cases what could not be released expires by itself.
//
// The store and its client stay open: they are the caller's. A second call waits for
// the first, and also returns an error if holds could not be released.
func (l *Locker) Close(ctx context.Context) error {
	if l.closing.Swap(true) {
		return l.awaitQuiet(ctx, nil)
	}
	l.running.Add(1)
	l.running.close()
	by := time.NewTimer(l.defaults.callTimeout)
	defer by.Stop()
	late := time.NewTimer(2 * l.defaults.callTimeout)
	defer late.Stop()
	l.refuseNew()
	all := l.closeAll()
	l.closed.Store(true)
	panicked, failed := l.awaitClosed(ctx, all)
	l.report()
	select {
	case <-l.settled:
	case <-ctx.Done():
	case <-by.C:
		l.stopTimer() // nothing is repeated from now on
		select {
		case <-l.settled:
		case <-ctx.Done():
		case <-late.C:
		}
	}
	l.unclosed = l.giveUp(failed)
	l.stop()
	l.running.Done()
	if panicked != nil {
		panic(panicked) //nolint:forbidigo // that of a hook, which is to be seen here
	}
	if ctx.Err() != nil && l.unclosed != nil {
		return &Error{Op: "close", Err: wrap(ended(ctx), failed)}
	}
	return l.awaitQuiet(ctx, failed)
}

// closedHold is a hold that Close releases.
type closedHold struct {
	lease *Lease // one of the hold
	wait  *wait  // for the answer
}

// closeAll ends all leases, and has their holds released.
func (l *Locker) closeAll() (all []closedHold) {
	p := pump{Locker: l}
	for i := range l.shards {
		sh := &l.shards[i]
		now := sh.lock()
		for _, e := range sh.entries {
			all = p.closeKey(e, now, all)
		}
		sh.mu.Unlock()
		p.run()
	}
	return all
}

func (p *pump) closeKey(e *entry, now machine.Time, all []closedHold) []closedHold {
	first := len(all)
	for _, lease := range e.seats {
		if lease != nil && lease.wait == nil {
			lease.wait = p.newWait()
			all = append(all, closedHold{lease, lease.wait})
		}
	}
	p.step(e, &machine.Event{Kind: machine.EvClose}, now, nil)
	left := all[:first]
	for _, c := range all[first:] {
		if c.lease.seated || c.wait.done() {
			c.lease.first.left.Store(true) // Close reports its end, and no re-entry that was under way
			left = append(left, c)
		} else {
			p.freeWait(c.wait)
		}
	}
	return left
}

// awaitClosed waits until the holds are released. It returns what a hook has panicked with,
// and what was not released.
func (l *Locker) awaitClosed(ctx context.Context, all []closedHold) (panicked any, err error) {
	failed, last := 0, error(nil)
	for _, c := range all {
		over := false
		for !c.wait.done() && !over {
			over = c.wait.park(ctx)
		}
		err := c.outcome(ctx)
		if v := recovered(func() { l.reportClosed(c.lease.first, err) }); v != nil {
			panicked = v
		}
		if errors.Is(err, ErrUnavailable) {
			failed, last = failed+1, err
		}
	}
	if failed == 0 {
		return panicked, nil
	}
	return panicked, fmt.Errorf("%d of %d holds were not released and will expire: %w", failed, len(all), last)
}

// outcome is the error of the release.
func (c closedHold) outcome(ctx context.Context) error {
	switch {
	case !c.wait.done():
		return wrap(ErrUnavailable, ended(ctx))
	case c.wait.result == machine.ResLost:
		return c.wait.cause
	case c.wait.result == machine.ResReleased:
		return nil
	case c.wait.cause != nil:
		return wrap(ErrUnavailable, c.wait.cause)
	}
	return wrap(ErrUnavailable, errNoAnswer)
}

// recovered calls hooks on a separate goroutine, which they may end, and on which a panic
// doesn't end the process.
func recovered(call func()) (panicked any) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { panicked = recover() }()
		call()
	}()
	<-done
	return panicked
}

// reportClosed reports the end of a hold to the hooks: by release, unless the store
// says that it was lost before.
func (l *Locker) reportClosed(first *Lease, err error) {
	p := pump{Locker: l}
	sh := first.entry.shard
	sh.mu.Lock()
	lost := errors.Is(err, ErrLost) && !errors.Is(err, ErrUnavailable) // else it is what ctx ended by
	known := false
	if lost {
		p.lost(first, err)
	} else {
		known = first.known()
	}
	sh.mu.Unlock()
	p.reportLosses()
	if known {
		l.reportRelease(first, true, err)
	}
}

// giveUp drops what is left. failed is what was not released.
func (l *Locker) giveUp(failed error) error {
	l.stopTimer()
	p := pump{Locker: l}
	left := int64(0)
	for i := range l.shards {
		sh := &l.shards[i]
		sh.mu.Lock()
		sh.over = true
		for _, e := range sh.entries {
			left += int64(e.awake().Unsettled())
			p.abandon(e)
		}
		sh.mu.Unlock()
	}
	p.run()
	if failed != nil || left == 0 {
		return failed
	}
	return fmt.Errorf("%w: %d calls were not undone, and what they may hold will expire", ErrUnavailable, left)
}

// abandon drops an entry.
func (p *pump) abandon(e *entry) {
	p.Locker.tally.change(tallyOf(e.m), counts{})
	for s, lease := range e.seats {
		if lease == nil {
			continue
		}
		lease.fate.CompareAndSwap(nil, &ErrClosed)
		e.unseat(machine.Slot(s)) //nolint:gosec // slots are small
		if lease.wait != nil {
			lease.wait.reply(machine.ResUnavailable, 0, nil)
		}
	}
	if w := e.watch; w != nil {
		e.watch, w.over = nil, true
		if w.stop != nil {
			p.add().stop = w.stop
		}
	}
	e.drop()
}

func (l *Locker) awaitQuiet(ctx context.Context, failed error) error {
	select {
	case <-l.running.quiet:
		failed = l.unclosed
	case <-ctx.Done():
		failed = wrap(ended(ctx), failed)
	}
	if failed != nil {
		return &Error{Op: "close", Err: failed}
	}
	return nil
}
