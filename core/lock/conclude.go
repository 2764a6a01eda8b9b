package lock

import "fmt"

// Conclude is for stores that release the hold in a transaction of the caller's, before
// [Lease.Release] is called: from now on the hold is neither passed to another caller of
// this process nor re-entered, which fails with [ErrOwnHold]. The lease stays trusted, and
// must be released. A second call does nothing. Errors: [ErrReleased], [ErrLost],
// [ErrClosed], [ErrNotHeld] (a nil lease), or [ErrUnsupported] if other leases share the
// hold, others may hold the key at the same time, or a [WithMinHold] has not ended.
func (l *Lease) Conclude() error {
	if l == nil {
		return &Error{Op: "conclude", Err: ErrNotHeld}
	}
	err := l.status()
	if err == nil {
		err = l.conclude()
	}
	if err != nil {
		return &Error{Op: "conclude", Key: l.entry.key, Err: err}
	}
	return nil
}

func (l *Lease) conclude() error {
	sh := l.entry.shard
	now := sh.lock()
	defer sh.mu.Unlock()
	if !l.seated || !l.entry.holds(l.owner) {
		return ErrNotHeld
	}
	m := l.entry.awake()
	defer l.entry.settle()
	if !m.Conclude(l.slot, now) {
		return fmt.Errorf("%w: others share the hold, or its minimum has not ended", ErrUnsupported)
	}
	l.first.concluded = true
	return nil
}
