package quorum

import (
	"context"
	"sync"
	"time"
)

// reply is what one node says.
type reply[T any] struct {
	value T
	err   error
}

// askAll calls all nodes at once. A call has its own bound and does not end
// with ctx: what is decided without a node is still to be told to it. The
// channel takes all replies, whether or not anybody waits for them.
func askAll[T any](
	ctx context.Context, q *Store, limit time.Duration, call func(context.Context, *voter) (T, error),
) <-chan reply[T] {
	replies := make(chan reply[T], len(q.voters))
	for _, v := range q.voters {
		q.tasks.start(func() {
			ctx, cancel := detached(ctx, limit)
			defer cancel()
			value, err := call(ctx, v)
			replies <- reply[T]{value, err}
		})
	}
	return replies
}

// collect hands replies to take until that has enough, all have come, the time
// is over, or ctx ends.
func collect[T any](
	ctx context.Context, q *Store, limit time.Duration, replies <-chan reply[T], take func(reply[T]) (enough bool),
) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for range q.voters {
		select {
		case r := <-replies:
			if take(r) {
				return
			}
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// detached keeps the values of ctx and has an end of its own.
func detached(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(context.WithoutCancel(ctx), limit, errSilent)
}

// tasks are goroutines that somebody may wait for.
type tasks struct {
	mu      sync.Mutex
	running int
	idle    chan struct{} // closed when none is left; nil while nobody waits
}

func (t *tasks) start(run func()) {
	t.mu.Lock()
	t.running++
	t.mu.Unlock()
	go func() {
		defer t.end()
		run()
	}()
}

func (t *tasks) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running--
	if t.running == 0 && t.idle != nil {
		close(t.idle)
		t.idle = nil
	}
}

func (t *tasks) wait(ctx context.Context) error {
	t.mu.Lock()
	if t.running == 0 {
		t.mu.Unlock()
		return nil
	}
	if t.idle == nil {
		t.idle = make(chan struct{})
	}
	idle := t.idle
	t.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
