package redisstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

const (
	// latchPoll bounds how long a waiter relies on messages.
	latchPoll = 5 * time.Second
	// latchRetry is how soon a waiter without messages, or without an answer,
	// looks again.
	latchRetry = time.Second
)

// Latch is a counter that several processes count down to zero while others wait
// for it: Redisson's getCountDownLatch. A latch whose count was never set, or has
// reached zero, is open. Use [NewLatch].
//
// Its errors are [*lock.Error]s. They wrap [lock.ErrUnavailable] when Redis did not answer or
// refuses, and [lock.ErrInvalid] when the key holds something that is no latch. A latch
// exists only in Redis and never expires: remove one that is no longer needed with
// [Latch.Delete].
type Latch struct {
	store *Store
	key   string
}

// NewLatch returns the latch of that key, without I/O. The key must not be that
// of a lock or a semaphore. In a cluster, keys with a brace are refused by every
// call with [lock.ErrInvalid]: Redisson's channel of such a latch is in another
// slot.
func NewLatch(store *Store, key string) *Latch { return &Latch{store: store, key: key} }

// MaxLatchCount is the largest count of a [Latch].
const MaxLatchCount = math.MaxInt32

// TrySet sets the count of an open latch, from 1 to [MaxLatchCount]. One that is closed keeps its count:
// [lock.ErrBusy]. A second call after an error may get ErrBusy by the first.
func (l *Latch) TrySet(ctx context.Context, count int) error {
	if count < 1 || count > MaxLatchCount {
		return l.error("set latch", fmt.Errorf("%w: count %d, use 1 to %d", lock.ErrInvalid, count, MaxLatchCount))
	}
	n, err := l.run(ctx, latchSetScript, func(channel string, publish any) []any { return []any{count, channel, publish} })
	switch {
	case err == nil && n == 0:
		err = lock.ErrBusy
	case err == nil:
		l.tell(ctx, "1")
	}
	return l.error("set latch", err)
}

// CountDown counts down by one; the last count wakes all waiters. On an open latch
// it does nothing. It is sent once: after an error other than [lock.ErrInvalid] it
// may have counted or not, and [Latch.Count] doesn't show which if others count as
// well.
func (l *Latch) CountDown(ctx context.Context) error {
	n, err := l.run(ctx, latchCountDownScript, func(channel string, publish any) []any { return []any{channel, publish} })
	if err == nil && n == 0 {
		l.tell(ctx, "0")
	}
	return l.error("count down", err)
}

// Count returns the remaining count, which is 0 for an open latch.
func (l *Latch) Count(ctx context.Context) (int, error) {
	n, err := l.count(ctx)
	return n, l.error("count", err)
}

func (l *Latch) count(ctx context.Context) (int, error) {
	n, err := l.run(ctx, latchCountScript, func(string, any) []any { return nil })
	return int(min(n, math.MaxInt)), err // more than that, where an int has 32 bits, is not open
}

// Delete opens the latch, whatever its count. It wakes the waiters of this
// package; those of Redisson go on waiting, for a count that may be set anew.
// Deleting an open latch does nothing.
func (l *Latch) Delete(ctx context.Context) error {
	n, err := l.run(ctx, latchDeleteScript, func(channel string, publish any) []any { return []any{channel, publish} })
	if err == nil && n == 1 {
		l.tell(ctx, "1")
	}
	return l.error("delete latch", err)
}

// Await waits until the latch is open, or ctx ends, whose cause it returns then. It
// checks the count when it is woken, and every 5 s. While Redis doesn't answer, it
// goes on until ctx ends; an error that won't go away ends it.
func (l *Latch) Await(ctx context.Context) error { return l.error("await latch", l.await(ctx)) }

func (l *Latch) await(ctx context.Context) error {
	name, err := l.name()
	if err != nil {
		return err
	}
	wake := make(chan struct{}, 1)
	timer := time.NewTimer(0)
	defer timer.Stop()
	var stop func()
	defer func() {
		if stop != nil {
			stop()
		}
	}()
	for {
		if stop == nil {
			stop = l.watch(ctx, name, wake)
		}
		left, err := l.count(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err == nil && left == 0 || isRefused(err) {
			return err
		}
		wait := latchPoll
		if stop == nil || err != nil {
			wait = latchRetry
		}
		timer.Reset(wait)
		select {
		case <-wake:
		case <-timer.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// watch subscribes; nil means that the waiter has to poll for now.
func (l *Latch) watch(ctx context.Context, name string, wake chan struct{}) (stop func()) {
	if l.store.wakeups == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, latchPoll)
	defer cancel()
	stop, err := l.store.wakeups.Watch(ctx, []string{latchChannel(name)}, func() {
		select {
		case wake <- struct{}{}:
		default: // it looks already
		}
	})
	if err != nil {
		return nil // looking reports what is wrong
	}
	return stop
}

// run sends a script with the arguments that it needs of the channel and the
// commands to publish with.
func (l *Latch) run(ctx context.Context, script *script, args func(channel string, publish any) []any) (int64, error) {
	name, err := l.name()
	if err != nil {
		return 0, err
	}
	return l.store.number(ctx, script.call([]string{name}, args(latchChannel(name), l.store.publishing())))
}

// tell publishes what a script may not publish itself; see [WithoutScriptPublish]. It
// can't travel behind that script: a waiter of Redisson takes it for the state of the latch,
// which only the answer says. So it travels behind one that reads. If that fails, it is a
// message that was lost.
func (l *Latch) tell(ctx context.Context, state string) {
	if l.store.quiet {
		_, _ = l.run(ctx, latchTellScript, func(channel string, publish any) []any { return []any{channel, state, publish} })
	}
}

func (l *Latch) name() (string, error) {
	name, err := l.store.nameOf(l.key)
	if err == nil && l.store.cluster != nil && hashTag(latchChannel(name)) != hashTag(name) {
		err = fmt.Errorf("%w: latch name %q: in a cluster it must not have a brace", lock.ErrInvalid, name)
	}
	return name, err
}

func (l *Latch) error(op string, err error) error {
	if err == nil {
		return nil
	}
	var failed *lock.StoreError
	switch {
	case isWrongType(err):
		err = fmt.Errorf("%w: %w", lock.ErrInvalid, err)
	case errors.As(err, &failed):
		err = fmt.Errorf("%w: %w", lock.ErrUnavailable, err)
	}
	return &lock.Error{Op: op, Key: l.key, Err: err}
}
