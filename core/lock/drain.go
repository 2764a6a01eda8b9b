package lock

import (
	"context"
	"fmt"

	"github.com/redlatch/redlatch/core/lock/internal/machine"
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
	l.refuseNew()
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

// refuseNew lets no new work acquire from now on.
func (l *Locker) refuseNew() {
	if !l.refusing.Swap(true) {
		close(l.draining)
	}
	l.everywhere(machine.EvDrain)
	l.report()
}

// idled is that nothing is held while the locker drains. It stays so: only a caller that
// holds a lease may get another.
func (l *Locker) idled() {
	if !l.refusesWork.Swap(true) {
		close(l.idle)
		l.everywhere(machine.EvEnd)
	}
}

// everywhere steps all machines.
func (l *Locker) everywhere(kind machine.Kind) {
	p := pump{Locker: l}
	for i := range l.shards {
		sh := &l.shards[i]
		now := sh.lock()
		for _, e := range sh.entries {
			p.step(e, &machine.Event{Kind: kind}, now, nil)
		}
		sh.mu.Unlock()
		p.run()
	}
}

// unreleased counts the leases that are not released, and releases under way.
func (l *Locker) unreleased() (n int32) {
	for i := range l.shards {
		sh := &l.shards[i]
		sh.mu.Lock()
		for _, e := range sh.entries {
			if e.stage == resting {
				n++
			} else {
				n += e.m.Leases()
			}
		}
		sh.mu.Unlock()
	}
	return n
}
