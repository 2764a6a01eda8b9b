package world

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
	"github.com/redlatch/redlatch/test/sim/internal/judge"
)

// latchKey is a latch that all processes count down.
const latchKey = "c0"

// latchPoll is how long a waiter of a latch relies on messages.
const latchPoll = 5 * time.Second

// latchRetry is how soon it asks again when a call has failed, as the first one does on a
// connection that was cut.
const latchRetry = time.Second

// latch is what the server knows about the latch, and what callers say.
type latch struct {
	mu       sync.Mutex
	openFrom time.Time // since when it is open; zero while it is closed
	lastOpen time.Time
	counts   judge.Counts
}

// look notes whether the latch is open.
func (l *latch) look(open bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	switch {
	case !open:
		l.openFrom = time.Time{}
		return
	case l.openFrom.IsZero():
		l.openFrom = now
	}
	l.lastOpen = now
}

// opened says since when the latch is open, and when it last was.
func (l *latch) opened() (from, last time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.openFrom, l.lastOpen
}

func (l *latch) count(change func(*judge.Counts)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(&l.counts)
}

// lookAtLatch is called before and after each script; mu is held.
func (s *server) lookAtLatch() {
	if s.world.Features[Latch] {
		s.world.latch.look(!s.keys.Exists(latchKey))
	}
}

// counter is the part of a process that uses the latch.
type counter struct {
	*caller
	latch *redisstore.Latch
}

func (w *World) newCounter(p *process, rng *rand.Rand) *counter {
	return &counter{caller: &caller{process: p, number: w.callers + 2, rng: rng}, latch: redisstore.NewLatch(p.store, latchKey)}
}

// run uses the latch until the process stops.
func (c *counter) run() {
	ctx, journal := c.process.ctx, c.world().journal
	for ctx.Err() == nil {
		switch n := c.rng.IntN(100); {
		case n < 30:
			journal.count("latch set: " + outcome(c.latch.TrySet(ctx, 1+c.rng.IntN(3))))
		case n < 65:
			c.countDown(ctx)
		case n < 90:
			c.await(ctx)
		case n < 95:
			_, err := c.latch.Count(ctx)
			journal.count("latch count: " + outcome(err))
		default:
			journal.count("latch delete: " + outcome(c.latch.Delete(ctx)))
		}
		pause(ctx, c.between(time.Millisecond, 2*time.Second))
	}
}

func (c *counter) countDown(ctx context.Context) {
	l := &c.world().latch
	l.count(func(n *judge.Counts) { n.Called++ })
	err := c.latch.CountDown(ctx)
	c.world().journal.count("latch count down: " + outcome(err))
	if err == nil {
		l.count(func(n *judge.Counts) { n.Confirmed++ })
	}
}

// await waits, and judges that the latch was open meanwhile.
func (c *counter) await(ctx context.Context) {
	world, began := c.world(), time.Now()
	limited, cancel := context.WithTimeout(ctx, c.between(100*time.Millisecond, 30*time.Second))
	defer cancel()
	done := world.waits(latchKey, lock.Exclusive, c.process, began)
	err := c.latch.Await(limited)
	done()
	world.journal.count("latch await: " + outcome(err))
	if err == nil {
		_, last := world.latch.opened()
		world.journal.report(judge.Opened(time.Now(), latchKey, began, last))
	}
}

// lookAtLatch judges that who waits for an open latch goes on.
func (w *watch) lookAtLatch() {
	s := w.world.server
	s.mu.Lock()
	s.keys.SetTime(s.clock())
	s.lookAtLatch()
	s.mu.Unlock()
	from, _ := w.world.latch.opened()
	if from.IsZero() {
		w.taken(latchKey)
		return
	}
	w.judge(time.Now(), latchKey, false)
}
