// Package shared lets many callers share one read.
package shared

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Looks shares reads by key: callers that come together get the result of one. It is safe
// for concurrent use.
type Looks[T any] struct {
	read  func(ctx context.Context, key string) (T, error)
	every time.Duration

	mu   sync.Mutex
	keys map[string]*look[T]
}

// look is the last read of a key, and the one under way.
type look[T any] struct {
	began time.Time // of the last read that is done
	value T
	err   error
	next  *reading // nil if none is under way
}

// reading is a read under way. It ends at the latest when the last of its callers leaves.
type reading struct {
	callers int
	cancel  context.CancelFunc
	done    chan struct{}
}

// NewLooks returns Looks whose reads of one key begin at least every apart.
func NewLooks[T any](every time.Duration, read func(ctx context.Context, key string) (T, error)) *Looks[T] {
	return &Looks[T]{read: read, every: every, keys: make(map[string]*look[T])}
}

// Get returns what a read found, or its error, and when the read began: no longer than old
// before the call. With old = 0 the caller sees everything that was there when it called.
// When ctx ends first, Get returns its cause.
func (l *Looks[T]) Get(ctx context.Context, key string, old time.Duration) (T, time.Time, error) {
	oldest := time.Now().Add(-old)
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		k := l.of(key)
		if !k.began.IsZero() && !k.began.Before(oldest) {
			return k.value, k.began, k.err
		}
		if k.next == nil {
			l.begin(ctx, key, k)
		}
		if err := l.await(ctx, k, k.next); err != nil {
			var none T
			return none, time.Time{}, err
		}
	}
}

// await waits for a read with the lock released, and ends it if nobody else waits.
func (l *Looks[T]) await(ctx context.Context, k *look[T], r *reading) error {
	r.callers++
	l.mu.Unlock()
	var err error
	select {
	case <-r.done:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	l.mu.Lock()
	if r.callers--; r.callers == 0 {
		r.cancel()
		if k.next == r {
			k.next = nil
		}
	}
	return err
}

// begin starts a read for everybody, once the last one is long enough ago. Callers that
// come until it begins join.
func (l *Looks[T]) begin(ctx context.Context, key string, k *look[T]) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := &reading{cancel: cancel, done: make(chan struct{})}
	k.next = r
	wait := l.every - time.Since(k.began)
	go func() {
		defer close(r.done)
		began, value, err := l.readAfter(ctx, wait, key)
		l.mu.Lock()
		defer l.mu.Unlock()
		if k.next == r { // somebody still waits
			k.began, k.value, k.err, k.next = began, value, err, nil
		}
	}()
}

func (l *Looks[T]) readAfter(ctx context.Context, wait time.Duration, key string) (began time.Time, value T, err error) {
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return time.Now(), value, ctx.Err()
		}
	}
	defer func() {
		if cause := recover(); cause != nil { // of the callers' own goroutines only one would see it
			err = fmt.Errorf("the read panicked: %v", cause)
		}
	}()
	began = time.Now()
	value, err = l.read(ctx, key)
	return began, value, err
}

// of returns the look of a key. The lock is held.
func (l *Looks[T]) of(key string) *look[T] {
	k := l.keys[key]
	if k == nil {
		l.forget()
		k = new(look[T])
		l.keys[key] = k
	}
	return k
}

// keep is how many looks are kept for callers that accept an old one.
const keep = 64

// forget makes room: it drops looks that no later read has to keep its distance from.
func (l *Looks[T]) forget() {
	if len(l.keys) < keep {
		return
	}
	for key, k := range l.keys {
		if k.next == nil && time.Since(k.began) > l.every {
			delete(l.keys, key)
		}
	}
}
