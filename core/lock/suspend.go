//go:build !machine

package lock

import (
	"slices"
	"time"
)

// checkClock doubts all leases if the process seems to have been suspended:
// each is renewed at once, and lost if that is not confirmed soon. It is called when a
// lease is looked at, when one is renewed, and before an answer confirms one, which says
// nothing if it is of before. It returns the time. mu must not be held.
func (l *Locker) checkClock() (now time.Duration) {
	t := time.Now()
	now = t.Sub(l.epoch)
	if _, notable := l.wall.moved(t, now); !notable {
		return now
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.wall.leapt(t, now) {
		return now
	}
	l.leapt = now
	for _, row := range slices.Clone(l.trusts.rows) {
		h := row.of
		until := now + min(l.defaults.callTimeout, h.lasts/6)
		if until < h.trustedUntil() {
			h.trust.Store(int64(until))
			l.trusts.set(h, until)
		}
		h.suspect = true
		l.renewals.set(h, now)
	}
	return now
}

// suspendedSince says whether the process may have been suspended since then; mu is held.
func (l *Locker) suspendedSince(t time.Duration) bool { return t < l.leapt }
