package lock

import (
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
