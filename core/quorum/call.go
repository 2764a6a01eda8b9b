package quorum

import (
	"context"
	"errors"
	"runtime/debug"
	"sync"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

var errSilent = errors.New("no answer in time")

// ask calls all nodes at once and passes their answers to take, one at a time,
// until take has enough, all have come, limit has passed or ctx ends. The calls
// do not end with ctx: what is decided without a node still has to reach it.
// Those for a round, which may be nil, reach a node one after the other. The caller
// is counted in running.
func ask[T any](
	ctx context.Context, q *Store, r *round, limit time.Duration,
	call func(ctx context.Context, i int, node lock.BlockingStore) (T, error),
	take func(i int, value T, err error) (enough bool),
) {
	var mu sync.Mutex
	over, done, left := false, make(chan struct{}), len(q.nodes)
	for i, node := range q.nodes {
		await, end := r.queue(i)
		q.running.Go(func() {
			defer end()
			await()
			value, err := guarded(ctx, limit, func(ctx context.Context) (T, error) { return call(ctx, i, node) })
			mu.Lock()
			defer mu.Unlock()
			left--
			if !over && (take(i, value, err) || left == 0) {
				over = true
				close(done)
			}
		})
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	case <-ctx.Done():
	}
	mu.Lock()
	defer mu.Unlock()
	over = true
}

// guarded calls a node with the values of ctx and a separate deadline.
func guarded[T any](ctx context.Context, limit time.Duration, call func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), limit, errSilent)
	defer cancel()
	return recovered(func() (T, error) { return call(ctx) })
}

// recovered makes a failure of unknown outcome of a panic, which would end the
// process.
func recovered[T any](call func() (T, error)) (value T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &lock.PanicError{Value: p, Stack: debug.Stack()}
		}
	}()
	return call()
}

// errClosed is the failure of calls after [Store.Close].
var errClosed = &lock.StoreError{
	Outcome: lock.OutcomeRefused, Class: "client closed", Err: errors.New("quorum: the store is closed"),
}

// begin registers a call, so that Close waits for it and for what it has to undo. It
// returns an error if the store is closed.
func (q *Store) begin() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return errClosed
	}
	q.running.Add(1)
	return nil
}

// start makes a call of the quorum on a goroutine, whose ctx ends at that time. It makes
// none if ctx has ended.
func (q *Store) start(
	ctx context.Context, by time.Time, answer lock.Answer, call func(context.Context) (uint64, error),
) {
	if err := q.begin(); err != nil {
		answer.Answered(0, err)
		return
	}
	go func() {
		defer q.running.Done()
		ctx, cancel := context.WithDeadlineCause(ctx, by, errSilent)
		defer cancel()
		if ctx.Err() != nil {
			answer.Answered(0, &lock.StoreError{Outcome: lock.OutcomeNotExecuted, Err: context.Cause(ctx)})
			return
		}
		answer.Answered(recovered(func() (uint64, error) { return call(ctx) }))
	}()
}

// pause waits for d; it returns false when ctx or the store ended before.
func (q *Store) pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
	case <-q.closing:
	}
	return false
}
