package worker

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/test/chaos/internal/history"
	"github.com/redlatch/redlatch/test/internal/process"
)

const (
	// tick is how often the control goroutine runs, if it can.
	tick = 20 * time.Millisecond
	// lateness is what it may be late without a note.
	lateness = 30 * time.Millisecond
	// pulses are so many ticks apart.
	pulses = 5
)

// pulse is the control goroutine of a worker. It does nothing but note how late
// it is itself, as nobody in the process can be expected to be quicker, and
// what the process has at the moment.
type pulse struct {
	*record
	backlog atomic.Int64
}

func (p *pulse) run(ctx context.Context) {
	timer := time.NewTimer(tick)
	defer timer.Stop()
	due := p.clock.Now() + int64(tick)
	for n := 0; ; n++ {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		now := p.clock.Now()
		if now-due > int64(lateness) {
			p.add(history.Event{Kind: history.Late, Call: due, Return: now})
		}
		if n%pulses == 0 {
			p.add(p.now(history.Pulse))
		}
		due = p.clock.Now() + int64(tick)
		timer.Reset(tick)
	}
}

// hooks note the backlog, and acquisitions that wait.
func (p *pulse) hooks() lock.Hooks {
	return lock.Hooks{
		Backlog: func(n int) { p.backlog.Store(int64(n)) },
		Waiting: func(ctx context.Context, e lock.Event) func() {
			if a, ok := ctx.Value(attemptKey{}).(attempt); ok {
				p.add(history.Event{
					Kind: history.Waiting, Client: a.client, ID: a.id, Key: e.Key, Mode: e.Mode.String(), Call: p.clock.Now(),
				})
			}
			return nil
		},
	}
}

// patience is how long what clients have left may take to end by itself: a call
// that got no answer, what undoes it, and the rest of a lazy dial.
const patience = 10 * time.Second

// settle waits until what the clients have left is done, and notes what there is
// then. idle is how many goroutines there were before them.
func (p *pulse) settle(idle int) {
	_ = process.Poll(patience, func() error { // what does not end shows in the pulse
		if e := p.now(history.Idle); e.Goroutines > idle+spare || e.Backlog > 0 {
			return errors.New("not yet")
		}
		return nil
	})
	e := p.now(history.Idle)
	e.Goroutines = max(0, e.Goroutines-idle-spare)
	p.add(e)
}

// spare goroutines keep the connection for messages.
const spare = 8

// now is a pulse of this moment.
func (p *pulse) now(kind history.Kind) history.Event {
	return history.Event{Kind: kind, Call: p.clock.Now(), Goroutines: runtime.NumGoroutine(), Backlog: int(p.backlog.Load())}
}
