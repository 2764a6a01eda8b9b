//go:build !machine

package lock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// Close ends the locker. Waiters return [ErrClosed]; leases end with cause
// [ErrClosed] and are released in the store. Close waits for everything that runs
// in the background, so no hold, subscription, timer or goroutine of the locker is
// left. The store may keep its own connection for a moment. A lease that was lost before,
// and that its holder has not released, ends in the store with its TTL. Stop the work that
// holds leases first, or let it finish: see [Locker.Drain].
//
// If ctx ends first, Close returns its error. If the store does not answer, or refuses, Close
// gives up and returns [ErrUnavailable]. That takes one call timeout for each 4096
// holds, and, in an [Async] store, for each 8 acquisitions to undo. So bound it by ctx. In
// both cases what could not be released expires by itself.
//
// The store and its client stay open: they are the caller's. A second call waits for
// the first, and also returns an error if holds could not be released.
func (l *Locker) Close(ctx context.Context) error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return l.awaitQuiet(ctx, nil)
	}
	defer l.stop()
	l.closed = true
	l.refuseNew()
	l.end()
	var holds []closedHold
	now := l.now()
	for _, row := range slices.Clone(l.trusts.rows) {
		h := row.of
		h.state = holdClosing
		l.releasing++
		l.trusts.remove(h)
		l.renewals.remove(h)
		holds = append(holds, closedHold{h, h.release(now)})
	}
	var watches []*watch
	for key := range l.watches { // none stays for the timer, which may be running already
		watches = append(watches, l.takeWatch(key))
	}
	l.watches = nil
	l.trusts.stop()
	l.renewals.stop()
	l.kept.stop()
	l.mu.Unlock()
	for _, w := range watches {
		w.end()
	}
	l.compensation.finish(l.now() + l.defaults.callTimeout)
	for _, h := range holds {
		h.endLeases(&ErrClosed)
	}
	panicked, failed := l.releaseHolds(ctx, holds)
	l.unclosed = failed
	go func() {
		l.running.Wait()
		l.calls.stop()
		close(l.quiet)
	}()
	if panicked != nil {
		panic(panicked) //nolint:forbidigo // that of a hook, which is to be seen here
	}
	return l.awaitQuiet(ctx, failed)
}

// closedHold is a hold that Close ended, and what to send to the store.
type closedHold struct {
	*hold
	claim Claim
}

// closeWorkers is how many holds are released at a time while closing.
const closeWorkers = 4096

// releaseHolds returns what a hook has panicked with, and what was not released.
func (l *Locker) releaseHolds(ctx context.Context, holds []closedHold) (panicked any, err error) {
	jobs := make(chan closedHold)
	var mu sync.Mutex
	var failed int
	var last error
	var workers sync.WaitGroup
	for range min(closeWorkers, len(holds)) {
		workers.Go(func() {
			for h := range jobs {
				now := l.now()
				err := l.sendRelease(ctx, h.hold, h.claim, now, now+l.defaults.callTimeout)
				doubt := l.endClosing(h.hold, err)
				v, away := recovered(func() { l.reportClosed(h.hold, err) }), errors.Is(err, ErrUnavailable)
				mu.Lock()
				if v != nil {
					panicked = v
				}
				if away {
					failed, last = failed+1, err
				}
				mu.Unlock()
				if doubt && !away {
					l.undo(h.claim, undoPasses[:])
				}
			}
		})
	}
	for _, h := range holds {
		jobs <- h
	}
	close(jobs)
	workers.Wait()
	if failed == 0 {
		return panicked, nil
	}
	return panicked, fmt.Errorf("%d of %d holds were not released and will expire: %w", failed, len(holds), last)
}

// recovered calls hooks on a separate goroutine, which they may end, and on which a panic
// doesn't end the process.
func recovered(call func()) (panicked any) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { panicked = recover() }()
		call()
	}()
	<-done
	return panicked
}

// endClosing ends a hold whose release by Close has ended with err. doubt says that
// something is to be undone after it.
func (l *Locker) endClosing(h *hold, err error) (doubt bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h.state, h.ended = holdClosed, err
	l.releasing--
	l.retire(h)
	return h.doubt
}

// reportClosed reports the end of a hold to the hooks: by release, unless the store
// says that it was lost before.
func (l *Locker) reportClosed(h *hold, err error) {
	if errors.Is(err, ErrLost) && !errors.Is(err, ErrUnavailable) { // else it is what ctx ended by
		l.reportLoss(h, err)
		return
	}
	if l.defaults.hooks.Released != nil && l.hooksKnow(h) {
		l.reportRelease(h, h.first.start, true, err)
	}
}

func (l *Locker) awaitQuiet(ctx context.Context, failed error) error {
	select {
	case <-l.quiet:
		failed = l.compensation.closed(l.unclosed)
	case <-ctx.Done():
		failed = wrap(ended(ctx), failed)
	}
	if failed != nil {
		return &Error{Op: "close", Err: failed}
	}
	return nil
}
