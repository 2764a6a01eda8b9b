//go:build !machine

package lock

import (
	"time"
)

// Suspend is for tests: the wall clock goes on for d, and nothing else does.
func (l *Locker) Suspend(d time.Duration) { l.wall.ahead.Add(-int64(d)) }

// DelayTrusts is for tests: the timer that ends trust is late, as after a pause of the
// process.
func (l *Locker) DelayTrusts() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.trusts.timer.Stop()
}

// TTLAt is for tests: how long a renewal that is sent at that time makes the hold last.
func (l *Lease) TTLAt(at time.Time) time.Duration {
	return l.hold.claim(at.Sub(l.hold.locker.epoch)).TTL
}

// Locker is for tests.
func (l *Lease) Locker() *Locker { return l.hold.locker }

// Unanswered is for tests: how many calls have callers that wait.
func (l *Locker) Unanswered() int {
	l.calls.mu.Lock()
	defer l.calls.mu.Unlock()
	return len(l.calls.rows)
}

// Left is for tests: how much there is that a closed locker must not have.
func (l *Locker) Left() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.gates) + len(l.watches) + len(l.held) + len(l.probes) + len(l.trusts.rows) + len(l.renewals.rows) + len(l.kept.rows) +
		l.waiting + l.releasing + l.Unanswered() + int(l.compensation.places.Load())
}

// Looks is for tests: readings of a wall clock at the given times of it, on one of the
// monotonic clock. It returns which of them found a leap.
func Looks(at ...time.Duration) (leapt []bool) {
	w, began := wall{}, time.Unix(0, 0)
	for i, d := range at {
		now := time.Duration(i)
		if d == 0 {
			now = 0 // taken first, and looked at late
		}
		leapt = append(leapt, w.leapt(began.Add(d), now))
	}
	return leapt
}
