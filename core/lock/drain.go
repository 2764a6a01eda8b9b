//go:build !machine

package lock

import (
	"context"
	"fmt"
	"time"
)

// Drain refuses new acquisitions and waits until the work that holds leases has
// finished. It is the first half of a graceful stop, and [Locker.Close] the second.
//
// From the call on, acquisitions are refused with [ErrClosed], and waiting
// ones end with it, an [AcquireAll] that has only some of its keys among them. Work
// that holds a lease goes on as before: its leases are renewed, and a caller whose
// context derives from a live lease of this locker may take that key again and other
// keys as well. What such work still
// waits for when nothing is held any longer ends with [ErrClosed], too.
//
// Drain returns nil once nothing is held, be it released or lost. If ctx ends
// first, the error wraps that of ctx and says how many leases are left. These
// leases go on, and new acquisitions are still refused: a drained locker can't be
// reopened. A second call waits like the first; Close ends the wait of both.
func (l *Locker) Drain(ctx context.Context) error {
	l.mu.Lock()
	l.refuseNew()
	l.mu.Unlock()
	select {
	case <-l.idle:
		return nil
	case <-ctx.Done():
	}
	if n := l.unreleased(); n > 0 {
		return &Error{Op: "drain", Err: fmt.Errorf("leases still held: %d: %w", n, ended(ctx))}
	}
	return nil
}

// Draining returns a channel that is closed when [Locker.Drain] or [Locker.Close]
// is first called. Work that holds a lease for as long as it can must end then, or
// Drain waits for it forever.
func (l *Locker) Draining() <-chan struct{} { return l.draining }

// refuseNew lets no new work acquire from now on; mu is held.
func (l *Locker) refuseNew() {
	if l.refusing {
		return
	}
	l.refusing = true
	close(l.draining)
	l.checkIdle()
}

// checkIdle closes idle when nothing is held; mu is held. It stays so: only a
// caller that holds a lease may get another.
func (l *Locker) checkIdle() {
	if !l.refusing || len(l.trusts.rows)+l.releasing > 0 {
		return
	}
	select {
	case <-l.idle:
	default:
		close(l.idle)
		l.end()
	}
}

// end refuses the acquisitions of work, too, when none is left or the locker is closed; mu
// is held.
func (l *Locker) end() {
	select {
	case <-l.ending:
	default:
		close(l.ending)
	}
}

// unreleased counts the leases that are not released, and releases under way.
func (l *Locker) unreleased() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.releasing
	for _, row := range l.trusts.rows {
		n += int(row.of.count)
	}
	return n
}

// mayHold says whether a grant may become a hold; mu is held. An acquisition
// that was admitted may be refused here: the locker drains meanwhile, or what
// it was part of has ended.
func (a *acquisition) mayHold() bool { return !a.refusing || a.atWork() }

// atWork says whether the caller's context was derived from a lease of the locker that
// is not over, or the owner has a hold; mu is held. The parts of a group that are
// acquired already are no work: that begins with the last.
func (a *acquisition) atWork() bool {
	ctx := a.caller
	if a.how.group != nil {
		ctx = a.how.group
	}
	for lease := range leases(ctx) {
		if lease.hold.locker == a.Locker && lease.alive() {
			return true
		}
	}
	return false
}

// pause waits for d; it returns false when ctx ended or a is refused before.
func (a *acquisition) pause(ctx context.Context, d time.Duration) bool {
	return pause(ctx, d, a.refused)
}
