package lock

import (
	"context"
	"slices"
	"sync"
	"time"
)

// turn is a FIFO mutex whose acquisition can be canceled. Its zero value is
// free. Unlike a channel it costs no memory until somebody waits.
type turn struct {
	mu    sync.Mutex
	taken bool
	queue []chan struct{} // each is closed when its turn has come
	heard time.Time       // when the store last answered one that had the turn
}

// take waits for the turn; give must follow. The error is ctx's, or errNoAnswer when the
// store has answered none of those before for as long as patience.
func (t *turn) take(ctx context.Context, patience time.Duration) error {
	return t.await(ctx, patience, false)
}

// takeFirst is take, before all others that wait.
func (t *turn) takeFirst(ctx context.Context) error { return t.await(ctx, MaxDuration, true) }

func (t *turn) await(ctx context.Context, patience time.Duration, first bool) error {
	t.mu.Lock()
	if !t.taken {
		t.taken = true
		t.mu.Unlock()
		return nil
	}
	place := len(t.queue)
	if first {
		place = 0
	}
	come := make(chan struct{})
	t.queue = slices.Insert(t.queue, place, come)
	t.mu.Unlock()
	began, left := time.Now(), patience
	for {
		select {
		case <-come:
			return nil
		case <-ctx.Done():
			t.leave(come)
			return ctx.Err()
		case <-time.After(left):
		}
		if left = patience - t.silence(began); left <= 0 {
			t.leave(come)
			return errNoAnswer
		}
	}
}

// noteAnswer says that the store has answered the one that has the turn.
func (t *turn) noteAnswer() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.heard = time.Now()
}

// answeredSince says whether the store has answered anybody since.
func (t *turn) answeredSince(began time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.heard.After(began)
}

// silence is how long the store has answered nobody since.
func (t *turn) silence(began time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.heard.After(began) {
		began = t.heard
	}
	return time.Since(began)
}

// leave goes out of the queue. A turn that came meanwhile is given on.
func (t *turn) leave(come chan struct{}) {
	t.mu.Lock()
	place := slices.Index(t.queue, come)
	if place >= 0 {
		t.queue = slices.Delete(t.queue, place, place+1)
	}
	t.mu.Unlock()
	if place < 0 {
		t.give()
	}
}

func (t *turn) give() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.queue) == 0 {
		t.taken = false
		return
	}
	close(t.queue[0])
	t.queue = slices.Delete(t.queue, 0, 1)
}
