package quorum

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

const (
	// minLinger and maxLinger bound how long a wake-up from a minority of the
	// nodes is held back, give or take a half.
	minLinger = 10 * time.Millisecond
	maxLinger = 250 * time.Millisecond
)

// Watch implements [lock.Store]. It succeeds when a majority of the nodes is
// watched: every release of a majority's hold is then seen on one node at
// least. A node that could not be watched within ten node timeouts stays so
// for this watch.
//
// When a majority of the nodes has woken, wake is called at once. A wake-up
// from fewer may be all there will be, as others may be down, but more often
// it is a vote that was lost and is being removed. It is passed on a little
// later, so that waiters do not drive each other in circles. The delay grows from
// 10 ms to 250 ms as long as no majority wakes. It is random, by a half more or
// less: 5 ms at least and 375 ms at most.
func (q *Store) Watch(ctx context.Context, c lock.Claim, wake func()) (stop func(), err error) {
	if err := check(c); err != nil {
		return nil, err
	}
	if err := q.begin(); err != nil {
		return nil, err
	}
	defer q.running.Done()
	w := &watch{need: q.need, wake: wake, woken: make([]bool, len(q.nodes)), linger: minLinger}
	limit := watchTimeouts * q.timeout
	t := q.newTally()
	ask(ctx, q, nil, limit, func(ctx context.Context, i int, node lock.BlockingStore) (struct{}, error) {
		stop, err := node.Watch(ctx, c, func() { w.woke(i) })
		if err == nil {
			w.add(stop)
		}
		return struct{}{}, err
	}, func(_ int, _ struct{}, err error) (enough bool) { return t.count(err) })
	if t.won() {
		return w.stop, nil
	}
	w.stop()
	return nil, t.verdict()
}

// watch passes wake-ups on.
type watch struct {
	need int
	wake func()

	mu      sync.Mutex
	woken   []bool // the nodes that woke since the last call of wake
	count   int    // of them
	linger  time.Duration
	timer   *time.Timer // of a minority's wake-up; nil if there is none
	turn    int         // of the timer
	stops   []func()
	stopped bool
}

// add records the subscription of one node, unless it comes too late.
func (w *watch) add(stop func()) {
	w.mu.Lock()
	stopped := w.stopped
	if !stopped {
		w.stops = append(w.stops, stop)
	}
	w.mu.Unlock()
	if stopped {
		stop()
	}
}

func (w *watch) stop() {
	w.mu.Lock()
	stops := w.stops
	w.stopped, w.stops = true, nil
	w.disarm()
	w.mu.Unlock()
	// Without mu: a node may be waiting for it, to wake.
	for _, stop := range stops {
		stop()
	}
}

// woke records the wake-up of one node.
func (w *watch) woke(node int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return
	}
	if !w.woken[node] {
		w.woken[node] = true
		w.count++
	}
	switch {
	case w.count >= w.need:
		w.linger = minLinger
		w.pass()
	case w.timer == nil:
		turn := w.turn
		w.timer = time.AfterFunc(w.linger/2+rand.N(w.linger), func() { w.lingered(turn) })
	}
}

// lingered passes a minority's wake-up on.
func (w *watch) lingered(turn int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.turn != turn {
		return // stopped, or passed on meanwhile
	}
	w.linger = min(2*w.linger, maxLinger)
	w.pass()
}

// pass calls wake; mu is held, so that none comes after stop.
func (w *watch) pass() {
	w.disarm()
	clear(w.woken)
	w.count = 0
	w.wake()
}

// disarm stops the timer; mu is held.
func (w *watch) disarm() {
	if w.timer != nil {
		w.timer.Stop()
		w.timer = nil
		w.turn++
	}
}
