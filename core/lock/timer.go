package lock

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlatch/redlatch/core/lock/internal/machine"
)

// agenda is the entries of a shard that are due some time, a heap. They know their rows.
type agenda struct {
	rows []row
	fire func(at machine.Time) // has the timer fire at that time
}

type row struct {
	at machine.Time
	*entry
}

func (a *agenda) first() machine.Time {
	if len(a.rows) == 0 {
		return machine.Never
	}
	return a.rows[0].at
}

// within appends the entries that are due by then. They are the top of the heap.
func (a *agenda) within(i int, by machine.Time, due []*entry) []*entry {
	if i >= len(a.rows) || a.rows[i].at > by {
		return due
	}
	return a.within(2*i+2, by, a.within(2*i+1, by, append(due, a.rows[i].entry)))
}

// set sets when an entry is due.
func (a *agenda) set(e *entry, at machine.Time) {
	i := int(e.row)
	switch {
	case i < 0 && at >= machine.Never:
		return
	case i < 0:
		a.rows = append(a.rows, row{at, e})
		a.place(len(a.rows)-1, row{at, e})
	case at >= machine.Never:
		last := len(a.rows) - 1
		moved := a.rows[last]
		a.rows[last] = row{}
		a.rows = a.rows[:last]
		e.row = -1
		if i < last {
			a.place(i, moved)
		}
		return
	case a.rows[i].at == at:
		return
	default:
		a.place(i, row{at, e})
	}
	if e.row == 0 {
		a.fire(at)
	}
}

// place writes r where the heap wants it, and closes the gap at i.
func (a *agenda) place(i int, r row) {
	for i > 0 && a.rows[(i-1)/2].at > r.at {
		a.write(i, a.rows[(i-1)/2])
		i = (i - 1) / 2
	}
	for {
		child := 2*i + 1
		if child+1 < len(a.rows) && a.rows[child+1].at < a.rows[child].at {
			child++
		}
		if child >= len(a.rows) || a.rows[child].at >= r.at {
			break
		}
		a.write(i, a.rows[child])
		i = child
	}
	a.write(i, r)
}

func (a *agenda) write(i int, r row) {
	a.rows[i] = r
	r.row = int32(i) //nolint:gosec // there are not so many
}

// timer is the one of a locker. It fires when the first entry of a shard is due, or
// earlier.
type timer struct {
	fires   atomic.Int64 // a machine.Time; written with mu
	mu      sync.Mutex
	timer   *time.Timer
	stopped bool
}

// fireAt has the timer fire at that time, unless it does so earlier.
func (l *Locker) fireAt(at machine.Time) {
	t := &l.timer
	if int64(at) >= t.fires.Load() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped || int64(at) >= t.fires.Load() {
		return
	}
	t.fires.Store(int64(at))
	wait := max(0, time.Duration(at)-l.now())
	if t.timer == nil {
		t.timer = time.AfterFunc(wait, l.tick)
	} else {
		t.timer.Reset(wait)
	}
}

// stopTimer has it never fire again.
func (l *Locker) stopTimer() {
	t := &l.timer
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = true
	if t.timer != nil {
		t.timer.Stop()
	}
}

// begun says whether the timer was not stopped: then its work is counted in running.
func (t *timer) begun(l *Locker) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped {
		return false
	}
	t.fires.Store(int64(machine.Never))
	l.running.Add(1)
	return true
}

// tick serves what is due. If holds are to be renewed, holds that are due soon are renewed
// along with them: fewer, larger calls.
func (l *Locker) tick() {
	if !l.timer.begun(l) {
		return
	}
	defer l.running.Done()
	p := &pump{Locker: l, round: true}
	for i := range l.shards {
		p.serve(&l.shards[i], 0)
	}
	if slack := machine.Time(l.defaults.watchdog / 30); len(p.renewals) > 0 {
		for i := range l.shards {
			p.serve(&l.shards[i], slack)
		}
	}
	defer p.run() // last, as hooks may take their time
	p.round = false
	for i := range l.shards { // what is due and was not served, or has been set since
		sh := &l.shards[i]
		sh.mu.Lock()
		at := sh.due.first()
		sh.mu.Unlock()
		if at < machine.Never {
			l.fireAt(at)
		}
	}
}

// serve steps the machines of a shard that are due within slack.
func (p *pump) serve(sh *shard, slack machine.Time) {
	now := sh.lock()
	due := sh.due.within(0, now+slack, nil)
	sh.mu.Unlock()
	for _, e := range due {
		now := sh.lock()
		if e.stage != gone {
			p.step(e, &machine.Event{Kind: machine.EvTimer, TTL: slack}, now, nil)
		}
		sh.mu.Unlock()
		p.run()
	}
}
