package lock

import (
	"sync"
	"sync/atomic"

	"github.com/redlatch/redlatch/core/lock/internal/machine"
)

// tally is what the machines of a locker have together.
type tally struct {
	waiting   atomic.Int64 // callers
	unsettled atomic.Int64 // acquires without an answer, and claims to undo
	undoing   atomic.Int64 // claims
	holds     atomic.Int64 // and releases under way

	mu       sync.Mutex // of a report
	reported int64      // claims to undo
}

// counts are those of one machine.
type counts struct{ waiting, unsettled, undoing, holds int32 }

func tallyOf(m *machine.Machine) counts {
	return counts{m.Waiting(), m.Unsettled(), m.Undoing(), m.Holds()}
}

func (t *tally) change(before, after counts) {
	if before == after {
		return
	}
	add := func(n *atomic.Int64, by int32) {
		if by != 0 {
			n.Add(int64(by))
		}
	}
	add(&t.waiting, after.waiting-before.waiting)
	add(&t.unsettled, after.unsettled-before.unsettled)
	add(&t.undoing, after.undoing-before.undoing)
	add(&t.holds, after.holds-before.holds)
}

// report tells what has changed to the hook, and to Drain.
func (l *Locker) report() {
	if l.refusing.Load() && l.tally.holds.Load() == 0 {
		l.idled()
		if l.closed.Load() && l.tally.unsettled.Load() == 0 && !l.settling.Swap(true) {
			close(l.settled)
		}
	}
	hook := l.defaults.hooks.Backlog
	if hook == nil {
		return
	}
	t := &l.tally
	t.mu.Lock()
	defer t.mu.Unlock()
	for n := t.undoing.Load(); n != t.reported; n = t.undoing.Load() {
		t.reported = n
		hook(int(n))
	}
}
