package lock

import (
	"errors"
	"slices"
	"sync/atomic"
	"time"
)

// maxLeap is how far the wall clock may get ahead of the monotonic one, in all, before
// leases are doubted: the margin of a lease of 10 s.
const maxLeap = 100 * time.Millisecond

var errSuspended = errors.New("the process may have been suspended before the answer came")

// wall compares the wall clock with the monotonic one, which stands still while
// a machine is suspended or migrated: the leases of a process that wakes up look
// younger than they are.
type wall struct {
	start int64         // the wall clock at the locker's epoch, in ns
	ahead atomic.Int64  // of the monotonic clock, when it leapt last or was set back
	seen  time.Duration // when that was; Locker.mu guards it
}

// moved is by how much the wall clock has moved ahead of the monotonic one, which reads
// now, and whether leapt is to look at it.
func (w *wall) moved(t time.Time, now time.Duration) (by time.Duration, notable bool) {
	by = time.Duration(t.UnixNano()-w.start-w.ahead.Load()) - now
	return by, by < 0 || by > maxLeap
}

// leapt says whether it has moved by more than maxLeap; mu is held. A reading of before
// the one that said so last says nothing.
func (w *wall) leapt(t time.Time, now time.Duration) bool {
	by, notable := w.moved(t, now)
	if !notable || now < w.seen {
		return false
	}
	w.ahead.Add(int64(by))
	w.seen = now
	return by > maxLeap
}

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
