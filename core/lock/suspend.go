package lock

import (
	"time"

	"github.com/redlatch/redlatch/core/lock/internal/machine"
)

// clock is the time. If the process seems to have been suspended, the leases are doubted
// first. The mutex of no shard is held.
func (l *Locker) clock() machine.Time {
	t := time.Now()
	now := t.Sub(l.epoch)
	if _, notable := l.wall.moved(t, now); notable {
		l.leapt(t, now)
	}
	return machine.Time(now)
}

// leapt doubts all leases if the process seems to have been suspended: each is renewed at
// once, and lost if that is not confirmed soon.
func (l *Locker) leapt(t time.Time, now time.Duration) {
	l.mu.Lock()
	leapt := l.wall.leapt(t, now)
	if leapt {
		l.leaps.Add(1)
	}
	l.mu.Unlock()
	if !leapt {
		return
	}
	for i := range l.shards { // none is looked at before it knows
		l.shards[i].lock()
		l.shards[i].mu.Unlock()
	}
}

// suspended tells the machines of the shard.
func (sh *shard) suspended(now machine.Time) {
	p := pump{Locker: sh.Locker}
	for _, e := range sh.entries {
		p.step(e, &machine.Event{Kind: machine.EvSuspended}, now, nil)
	}
	p.detach()
}
