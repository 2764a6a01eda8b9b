package lock

import (
	"time"

	"github.com/redlatch/redlatch/core/lock/internal/machine"
)

// Suspend is for tests: the wall clock goes on for d, and nothing else does.
func (l *Locker) Suspend(d time.Duration) { l.wall.ahead.Add(-int64(d)) }

// DelayTrusts is for tests: the timer that ends trust is late, as after a pause of the
// process.
func (l *Locker) DelayTrusts() {
	l.timer.mu.Lock()
	defer l.timer.mu.Unlock()
	l.timer.timer.Stop()
}

// TTLAt is for tests: how long a renewal that is sent at that time makes the hold last.
func (l *Lease) TTLAt(at time.Time) time.Duration {
	sh := l.entry.shard
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return time.Duration(l.entry.awake().Lasts(l.slot, machine.Time(at.Sub(sh.epoch))))
}

// Locker is for tests.
func (l *Lease) Locker() *Locker { return l.entry.shard.Locker }

// Unanswered is for tests: how many acquires have no answer.
func (l *Locker) Unanswered() int { return int(l.tally.unsettled.Load()) }

// Left is for tests: how much there is that a closed locker must not have.
func (l *Locker) Left() (n int) {
	t := &l.tally
	n = int(t.waiting.Load() + t.unsettled.Load() + t.undoing.Load() + t.holds.Load())
	for i := range l.shards {
		sh := &l.shards[i]
		sh.mu.Lock()
		n += len(sh.entries) + len(sh.due.rows)
		sh.mu.Unlock()
	}
	return n
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
