package lock

import (
	"slices"
	"sync/atomic"
	"time"
)

// maxLeap is how far the wall clock may get ahead of the monotonic one, in all, before
// leases are doubted: the margin of a lease of 10 s.
const maxLeap = 100 * time.Millisecond

// wall compares the wall clock with the monotonic one, which stands still while
// a machine is suspended or migrated: the leases of a process that wakes up look
// younger than they are.
type wall struct {
	start int64 // the wall clock at the locker's epoch, in ns
	ahead atomic.Int64
}

// leapt says whether the wall clock has moved ahead of the monotonic one, which
// reads now, by more than maxLeap since leapt said so last, or the clock was set back.
func (w *wall) leapt(t time.Time, now time.Duration) bool {
	ahead := t.UnixNano() - w.start - int64(now)
	last := w.ahead.Load()
	switch {
	case ahead < last:
		w.ahead.CompareAndSwap(last, ahead)
		return false
	case ahead-last <= int64(maxLeap):
		return false
	}
	return w.ahead.CompareAndSwap(last, ahead)
}

// checkClock doubts all leases if the process seems to have been suspended:
// each is renewed at once, and lost if that is not confirmed soon. It is called
// when a lease is looked at and when one is renewed. It returns the time. mu must not
// be held.
func (l *Locker) checkClock() (now time.Duration) {
	t := time.Now()
	now = t.Sub(l.epoch)
	if !l.wall.leapt(t, now) {
		return now
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leapt = now
	for _, row := range slices.Clone(l.trusts.rows) {
		h := row.of
		until := now + min(l.defaults.callTimeout, h.lasts/6)
		if until < h.trustedUntil() {
			h.trust.Store(int64(until))
			l.trusts.set(h, until)
		}
		h.suspect = true
		l.schedule(h, now)
	}
	return now
}
