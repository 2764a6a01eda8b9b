package lock

import (
	"context"
	"slices"
	"sync"
)

// turn is a FIFO mutex whose acquisition can be canceled. Its zero value is
// free. Unlike a channel it costs no memory until somebody waits.
type turn struct {
	mu    sync.Mutex
	taken bool
	queue []chan struct{} // each is closed when its turn has come
}

// take waits for the turn; give must follow. The error is ctx's.
func (t *turn) take(ctx context.Context) error { return t.await(ctx, false) }

// takeFirst is take, before all others that wait.
func (t *turn) takeFirst(ctx context.Context) error { return t.await(ctx, true) }

func (t *turn) await(ctx context.Context, first bool) error {
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
	select {
	case <-come:
		return nil
	case <-ctx.Done():
		t.leave(come)
		return ctx.Err()
	}
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
