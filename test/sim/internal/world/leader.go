package world

import (
	"context"
	"time"

	"github.com/redlatch/redlatch/core/leader"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/test/sim/internal/judge"
)

// leaderKey is what the processes elect a leader by. Callers take it as well, and
// take it away.
const leaderKey = "l0"

// leaderPause is the longest that a candidate rests between two rounds.
const leaderPause = 2 * time.Second

// candidate is the part of a process that wants to lead.
type candidate struct {
	*caller
	began time.Time // of the campaign
	waits func()    // ends the wait that is noted
}

// run campaigns until the process stops.
func (c *candidate) run() {
	for c.process.ctx.Err() == nil {
		locker, id := c.process.current()
		c.await()
		err := leader.Run(c.process.ctx, locker, leaderKey, func(ctx context.Context, term uint64) error {
			return c.lead(ctx, term, id)
		}, leader.WithLock(lock.WithWatchdog(watchdogs[c.rng.IntN(len(watchdogs))])), leader.WithHooks(leader.Hooks{})) // which doesn't log
		c.waits()
		c.world().journal.count("leader: " + outcome(err))
		pause(c.process.ctx, c.between(time.Millisecond, time.Second))
	}
}

// await notes that the process wants to lead.
func (c *candidate) await() {
	c.began = time.Now()
	c.waits = c.world().waits(leaderKey, lock.Exclusive, c.process, c.began)
}

// lead is a term. Some last until they are lost.
func (c *candidate) lead(ctx context.Context, term uint64, id int) error {
	c.waits()
	defer c.await()
	world := c.world()
	lease, _ := lock.FromContext(ctx)
	h := &held{lease: lease, process: c.process, began: c.began}
	defer world.ledger.remove(h)
	c.granted(h, false, id)
	world.journal.report(judge.Term(time.Now(), leaderKey, term, lease.Fence()))
	limited, cancel := context.WithTimeout(ctx, c.between(time.Millisecond, 10*time.Second))
	defer cancel()
	<-limited.Done()
	if ctx.Err() != nil && c.process.ctx.Err() == nil {
		world.journal.count("term lost")
	}
	return nil
}
