package worker

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/test/chaos/internal/bug"
	"github.com/redlatch/redlatch/test/chaos/internal/history"
)

const (
	// listeners are the clients of a process that rely on wake-ups. Each shares its
	// key with one of another process, and with nobody else: a caller that comes to a
	// free key takes it, and hides that a waiter wasn't woken.
	listeners = 2
	// rarely is how often they poll, and rareLease is for how long they ask: a waiter
	// also looks when the hold in its way expires.
	rarely    = time.Minute
	rareLease = 3 * time.Second
)

// listener is a client that waits for a key of two processes, keeps it, and rests.
type listener struct {
	*client
	pair int
}

func newListener(c Config, i int, locker *lock.Locker, planted *bug.Bug, r *record) *listener {
	return &listener{client: newClient(c, c.Clients+c.Load.Offices+i, locker, planted, r), pair: i}
}

func (l *listener) run(ctx context.Context) error { return l.repeat(ctx, l.turn) }

// choose names the key of the moment. Both processes choose the same mode.
func (l *listener) choose() target {
	families := slices.DeleteFunc(slices.Clone(l.Modes), func(family string) bool { return family == "handed" || family == "nested" })
	slices.Sort(families)
	if families = slices.Compact(families); len(families) == 0 {
		families = []string{"exclusive"}
	}
	generation := l.clock.Now() / int64(l.Load.Generation)
	family := families[generation%int64(len(families))]
	t := l.ask(family, fmt.Sprintf("%s%s%d-%d:g%d", family, history.Rare, l.pair, l.Worker&^(1<<l.pair), generation))
	t.ttl = rareLease
	t.options = append(t.options, lock.WithLease(t.ttl), lock.WithPoll(rarely))
	return t
}

func (l *listener) turn(ctx context.Context) error {
	t, m := l.choose(), manner{ctx: ctx, cancel: func() {}}
	l.waits(&m, l.between(time.Second, 3*time.Second))
	lease, outcome := l.acquire(t, m)
	if outcome == history.OK {
		trusted := l.trusts(lease, 0)
		pause(ctx, l.between(300*time.Millisecond, 800*time.Millisecond))
		l.release(history.Release, t, lease, false, l.trusts(lease, trusted))
	}
	pause(ctx, l.between(500*time.Millisecond, 1200*time.Millisecond))
	return nil
}
