package lock

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/redlatch/redlatch/core/lock/internal/machine"
)

// maxRound is how many holds are renewed in one call.
const maxRound = 1000

// renewal is one call that renews holds.
type renewal struct {
	*Locker
	tasks  []task
	claims []Claim

	mu      sync.Mutex
	pending []bool
}

// renew sends the renewals that were collected. A hold travels with others that have about
// as much time for an answer.
func (p *pump) renew() {
	all := p.renewals
	p.renewals = nil
	time := func(t task) machine.Time { return t.call.By - t.call.Sent }
	slices.SortStableFunc(all, func(a, b task) int { return int(min(1, max(-1, time(a)-time(b)))) })
	for len(all) > 0 {
		n := 1
		for n < len(all) && n < maxRound && all[n].call.Caller == machine.None && time(all[n]) <= 2*time(all[0]) {
			n++
		}
		if all[0].call.Caller != machine.None {
			n = 1
		}
		p.renewAll(all[:n:n])
		all = all[n:]
	}
}

// renewAll makes one call.
func (p *pump) renewAll(tasks []task) {
	r := &renewal{Locker: p.Locker, tasks: tasks, claims: make([]Claim, len(tasks)), pending: make([]bool, len(tasks))}
	by := tasks[0].call.By
	for i := range tasks {
		r.claims[i], r.pending[i] = tasks[i].claim(), true
		by = max(by, tasks[i].call.By)
	}
	if p.traits.Immediate {
		r.call(tasks[0].ctx)
		return
	}
	r.background(tasks[0].ctx, p.at(by))
}

// background makes the call on a separate goroutine.
func (r *renewal) background(ctx context.Context, by time.Time) {
	r.running.Go(func() {
		ctx, cancel := context.WithDeadlineCause(context.WithoutCancel(ctx), by, errNoAnswer)
		defer cancel()
		r.running.Add(1)
		late := time.AfterFunc(time.Until(by), func() {
			defer r.running.Done()
			r.rest(errNoAnswer)
		})
		r.call(ctx)
		if late.Stop() {
			r.running.Done()
		}
	})
}

// call makes the call. What it doesn't report has failed.
func (r *renewal) call(ctx context.Context) {
	_, err := guarded(ctx, func(ctx context.Context) (struct{}, error) {
		r.store.Renew(ctx, r.claims, r.report)
		return struct{}{}, nil
	})
	if err == nil {
		err = errNoAnswer
	}
	r.rest(err)
}

// rest reports what has not been reported.
func (r *renewal) rest(err error) {
	for i := range r.claims {
		r.report(i, err)
	}
}

// report is the result of one claim. Of failures only the first counts. A success that
// comes later is still good news. The store may have a mutex of its own.
func (r *renewal) report(i int, err error) {
	r.mu.Lock()
	first := r.pending[i]
	r.pending[i] = false
	r.mu.Unlock()
	if err != nil && !first {
		return
	}
	p := pump{Locker: r.Locker}
	t := &r.tasks[i]
	about := p.renewed(t, err)
	defer p.detach() // also when the hook panics
	if hook := r.defaults.hooks.Renewed; hook != nil && about.Key != "" && t.call.Caller == machine.None {
		hook(RenewEvent{Event: about, Err: err})
	}
}

// renewed steps the machine by the answer, and returns what it is about if there still is
// such a hold.
func (p *pump) renewed(t *task, err error) (about Event) {
	e := t.entry
	ev := machine.Event{Kind: machine.EvRenewed, Call: &t.call, Answer: machine.AnsOK}
	if err != nil {
		classify(&ev, err)
	}
	now := e.shard.lock()
	defer e.shard.mu.Unlock()
	if e.stage == gone {
		return Event{}
	}
	if s := e.awake().Leased(&t.call); s != machine.None {
		about = e.seats[s].first.event()
	}
	p.step(e, &ev, now, err)
	return about
}
