package world

import (
	"context"
	"time"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/test/sim/internal/judge"
)

const (
	// pace is how long the server takes for a script, where it is busy.
	pace = 10 * time.Millisecond
	// busy is how much of the time it is, in percent.
	busy = 60
	// shoppers are the callers of each process then.
	shoppers = 6

	warmUp   = 5 * time.Second
	usual    = 15 * time.Second // how long the service is measured, before and after
	standing = 2 * time.Second  // how long the server stands still
	catchUp  = 6 * time.Second  // until everything is as before
)

// shop uses locks at such a rate that the server is busy. A turn is an acquire and
// a release.
func (c *caller) shop() {
	world, keys := c.world(), c.world().keys
	rest := time.Duration(world.crowd)*2*pace*100/busy - 4*pace // without what the calls take
	for c.process.ctx.Err() == nil {
		pause(c.process.ctx, c.between(0, 2*rest))
		w := wish{key: keys[c.rng.IntN(len(keys))], mode: lock.Exclusive, wait: c.between(5*time.Millisecond, 300*time.Millisecond)}
		const lease = 3 * time.Second
		world.lasts(lease)
		w.term = term{lease, false}
		w.options = []lock.Option{lock.WithWait(w.wait), w.term.option()}
		c.visit(w)
	}
}

// visit is one turn. Some callers leave soon.
func (c *caller) visit(w wish) {
	ctx, cancel := context.WithCancel(c.process.ctx)
	defer cancel()
	if c.chance(10) {
		defer time.AfterFunc(c.between(time.Millisecond, 100*time.Millisecond), cancel).Stop()
	}
	h := c.acquire(ctx, w, nil)
	if h == nil {
		return
	}
	c.world().served.Add(1)
	pause(ctx, c.between(time.Millisecond, 10*time.Millisecond))
	c.release(h)
}

// rush makes the server stand still in the middle of its work, and judges that the
// service comes back.
func (w *World) rush() {
	pause(w.ctx, warmUp)
	before := w.serves(usual)
	w.server.stall(standing)
	w.disturb(standing + catchUp)
	w.journal.tell("           fault the busy server stalls, %v", standing)
	pause(w.ctx, standing+catchUp)
	after := w.serves(usual)
	if w.ctx.Err() != nil {
		return // it was too short to say anything
	}
	most := 0
	for _, p := range w.processes() {
		most = max(most, int(p.backlog.Load()))
	}
	w.journal.count("service compared")
	w.journal.report(judge.Recovered(time.Now(), judge.Service{Before: before, After: after, Backlog: most, Callers: w.callers}))
}

// serves counts grants for d.
func (w *World) serves(d time.Duration) int {
	before := w.served.Load()
	pause(w.ctx, d)
	return int(w.served.Load() - before)
}
