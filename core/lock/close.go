package lock

import (
	"context"
	"fmt"
	"sync"
)

// Close ends the locker: waiters return [ErrClosed], leases end with cause
// [ErrClosed] and are released in the store, and everything that runs in the
// background is waited for. Nothing of the locker is left then: no key,
// subscription, timer or goroutine. Stop the work that holds leases before.
//
// If ctx ends first, Close returns its error; what could not be released
// expires by itself. The store and its client stay open: they are the
// caller's. A second call waits for the first.
func (l *Locker) Close(ctx context.Context) error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return l.awaitDrained(ctx, nil)
	}
	defer l.stop()
	l.closed = true
	close(l.closing)
	if l.renewals.timer != nil {
		l.renewals.timer.Stop()
	}
	var leases []*Lease
	var claims []Claim
	for h := range l.holds {
		if h.state != holdAlive {
			continue // being released by its own caller
		}
		h.state = holdClosed
		claims = append(claims, h.claim(0))
		if h.doubt {
			l.undo(h.ownership, h.claim(0), undoPasses[:])
		}
		leases = append(leases, h.takeLeases()...)
		l.retire(h)
	}
	l.mu.Unlock()
	endLeases(leases, ErrClosed)
	failed := l.releaseAll(ctx, claims)
	go func() {
		l.running.Wait()
		close(l.drained)
	}()
	return l.awaitDrained(ctx, failed)
}

// closeWorkers release in parallel while closing.
const closeWorkers = 16

func (l *Locker) releaseAll(ctx context.Context, claims []Claim) error {
	jobs := make(chan Claim)
	var mu sync.Mutex
	var failed int
	var last error
	var workers sync.WaitGroup
	for range min(closeWorkers, len(claims)) {
		workers.Go(func() {
			for c := range jobs {
				if err := l.releaseClaim(ctx, c); err != nil && !isAnswer(err) {
					mu.Lock()
					failed, last = failed+1, err
					mu.Unlock()
				}
			}
		})
	}
	for _, c := range claims {
		jobs <- c
	}
	close(jobs)
	workers.Wait()
	if failed == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d holds were not released and will expire: %w", failed, len(claims), because(ErrUnavailable, last))
}

func (l *Locker) awaitDrained(ctx context.Context, failed error) error {
	select {
	case <-l.drained:
	case <-ctx.Done():
		failed = because(ended(ctx), failed)
	}
	if failed != nil {
		return &Error{Op: "close", Err: failed}
	}
	return nil
}
