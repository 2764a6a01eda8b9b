package lock

import (
	"context"
	"slices"
	"time"

	"github.com/redlatch/redlatch/core/lock/internal/machine"
)

// pump steps machines, and does what they want. What they want is done without a mutex, as
// it runs code of others. A store that never blocks answers at once, and its answer is the
// next step: run goes on until nothing is left.
type pump struct {
	*Locker

	ctx      context.Context // of the caller whose event it is, for the values of its calls
	answer   *immediate      // for its calls, or nil
	round    bool            // renewals and what hooks are to hear are collected
	force    *machine.Call   // that the caller makes
	calls    int             // that are answered once
	n        int             // how many tasks there are
	room     [2]task         // the first
	tasks    []task          // the others
	renewals []task
	ended    []*Lease // whose contexts are to be ended
	losses   []loss   // of which the hooks are to hear
}

// task is a call to the store, or the end of a subscription.
type task struct {
	entry  *entry
	call   machine.Call
	ctx    context.Context
	owner  string
	places []string
	named  []machine.Owner // the same
	stop   func()
}

// step gives a machine an event. cause is the error of an answer. The mutex of the shard is
// held.
func (p *pump) step(e *entry, ev *machine.Event, now machine.Time, cause error) {
	sh, m := e.shard, e.awake()
	before, calls := tallyOf(m), p.calls
	ev.Crowd = int32(p.tally.waiting.Load())
	ev.LedgerFull = p.tally.unsettled.Load() >= maxUnsettled
	m.Rebase(sh.owners)
	sh.effects = m.Step(ev, now, sh.effects[:0])
	sh.owners = m.Owner()
	for i := range sh.effects {
		p.note(e, &sh.effects[i], ev, now, cause)
	}
	for s, until := range m.Trusts {
		e.seats[s].trust.Store(int64(until))
	}
	p.Locker.tally.change(before, tallyOf(m))
	if p.calls == calls || !p.traits.Immediate { // else the answer follows, before any timer
		e.settle()
	}
}

// note does what can be done of an effect with the mutex, and keeps the rest for run.
func (p *pump) note(e *entry, f *machine.Effect, ev *machine.Event, now machine.Time, cause error) {
	switch f.Do {
	case machine.DoSend:
		p.send(e, f)
	case machine.DoReply:
		if f.Result == machine.ResLost {
			cause = *endCause(ev, f.Why)
		}
		e.reply(f, now, cause)
	case machine.DoEnd:
		p.end(e.seats[f.Caller], endCause(ev, f.Why))
	case machine.DoForget:
		e.unseat(f.Caller)
	case machine.DoWait:
		if w := e.seats[f.Caller].wait; w != nil {
			w.mustWait()
		}
	case machine.DoUnwatch:
		if w := e.watch; w != nil {
			e.watch, w.over = nil, true
			if w.stop != nil {
				p.add().stop = w.stop
			}
		}
	}
}

// add returns a new task, which is empty.
func (p *pump) add() *task {
	p.n++
	if p.n > len(p.room) {
		p.tasks = append(p.tasks, task{})
	}
	t := p.task(p.n - 1)
	*t = task{}
	return t
}

// task is the one with that number.
func (p *pump) task(i int) *task {
	if i < len(p.room) {
		return &p.room[i]
	}
	return &p.tasks[i-len(p.room)]
}

// send keeps a call for run.
func (p *pump) send(e *entry, f *machine.Effect) {
	if f.Call.Op == machine.OpForce {
		*p.force = f.Call
		return
	}
	t := p.add()
	t.entry, t.call = e, f.Call
	switch {
	case p.ctx != nil && !f.Call.Undo:
		t.ctx = p.ctx
	case e.shard.over: // base has ended
		t.ctx = context.Background()
	default:
		t.ctx = p.base
	}
	switch f.Call.Op {
	case machine.OpAcquire:
		t.ctx = e.seats[e.m.Asker(&f.Call)].parent
		p.calls++
	case machine.OpRelease, machine.OpLower:
		p.calls++
	case machine.OpWatch:
		e.watch = &subscription{}
	}
	t.owner = e.nameOf(f.Call.Owner)
	if f.Call.Named > 0 {
		for _, o := range e.m.Places() {
			t.places = append(t.places, e.shard.nameOf(o))
		}
	}
	if f.Call.Named > 1 {
		t.named = slices.Clone(e.m.Places())
	}
}

// run does what the steps want.
func (p *pump) run() {
	p.endLeases()
	for i := 0; i < p.n; i++ {
		switch t := p.task(i); {
		case t.stop != nil:
			t.stop()
		case t.call.Op == machine.OpWatch:
			p.subscribe(*t)
		case t.call.Op == machine.OpRenew:
			p.renewals = append(p.renewals, *t)
		default:
			p.start(t)
		}
		p.endLeases()
	}
	p.n, p.tasks = 0, p.tasks[:0]
	if p.round {
		return
	}
	if len(p.renewals) > 0 {
		p.renew()
	}
	p.report()
	p.reportLosses()
}

// detach runs what is left on a separate goroutine: the caller must not block, or has a
// mutex of the store.
func (p *pump) detach() {
	if p.n+len(p.ended)+len(p.losses) > 0 {
		q := *p
		p.running.Go(q.run)
	}
}

// start makes a call that is answered once.
func (p *pump) start(t *task) {
	if p.traits.Immediate {
		fence, err := t.immediately(p.answer)
		p.answered(t.entry, &t.call, t.named, fence, err)
		return
	}
	p.running.Add(1)
	a := &answer{entry: t.entry, call: t.call, named: t.named}
	defer func() {
		if v := recover(); v != nil {
			a.Answered(0, panicError(v))
		}
	}()
	t.send(p.at(t.call.By), a)
}

// send makes the call.
func (t *task) send(by time.Time, a Answer) {
	switch store := t.entry.shard.store; t.call.Op {
	case machine.OpAcquire:
		store.Acquire(t.ctx, t.claim(), by, a)
	case machine.OpRelease:
		store.Release(t.ctx, t.claim(), by, a)
	case machine.OpLower:
		store.Lower(t.ctx, t.claim(), by, a)
	}
}

// claim is the argument of a call.
func (t *task) claim() Claim {
	k := &t.call
	c := Claim{
		Key: t.entry.key, Owner: t.owner, Mode: Mode(k.Mode), TTL: time.Duration(k.TTL),
		Places: t.places, Undo: k.Undo, Permits: int(k.Permits), Size: int(k.Size),
	}
	switch {
	case k.Op == machine.OpLower:
		c.Mode = Read
	case k.Op == machine.OpRelease && k.Keep > 0:
		c.Keep = t.entry.shard.at(k.Keep)
	}
	return c
}

// at is a moment of a machine.
func (l *Locker) at(t machine.Time) time.Time { return l.epoch.Add(time.Duration(t)) }
