package interop_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
)

// locker is a separate Go process, as far as locks can see.
type locker struct {
	*lock.Locker
	t     *testing.T
	parks chan struct{}
}

// locker starts one whose waiters rely on wake-ups: they don't poll.
func (w world) locker(opts ...redisstore.Option) *locker {
	w.Helper()
	return w.lockerOf(redisstore.New(w.rdb, slices.Concat(w.store, opts)...))
}

func (w world) lockerOf(store lock.Store, opts ...lock.Option) *locker {
	w.Helper()
	l := &locker{t: w.T, parks: make(chan struct{}, 1000)}
	hooks := lock.Hooks{Waiting: func(context.Context, lock.Event) func() {
		select {
		case l.parks <- struct{}{}:
		default: // enough for a test that counts them
		}
		return nil
	}}
	l.Locker = lock.New(store, slices.Concat([]lock.Option{
		withMode(w.mode), lock.WithPoll(long), lock.WithWatchdog(watchdog), lock.WithHooks(hooks),
	}, opts)...)
	w.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := l.Close(ctx); err != nil {
			w.Errorf("Close: %v", err)
		}
	})
	return l
}

// withMode asks for a kind of lock; of permits, for the only one.
func withMode(m lock.Mode) lock.Option {
	if m == lock.Semaphore {
		return lock.WithPermits(1, 1)
	}
	return lock.WithMode(m)
}

// awaitParked returns once another waiter of the locker has subscribed, tried
// again, and sleeps until a message arrives or a timer fires.
func (l *locker) awaitParked() {
	l.t.Helper()
	select {
	case <-l.parks:
	case <-time.After(patience):
		l.t.Fatalf("Go does not wait after %v", patience)
	}
}

func (l *locker) acquire(key string, opts ...lock.Option) *lock.Lease {
	l.t.Helper()
	return l.acquiring(key, opts...).lease()
}

// acquisition is an Acquire that runs.
type acquisition struct {
	t   *testing.T
	got chan *lock.Lease
	err chan error
}

func (l *locker) acquiring(key string, opts ...lock.Option) *acquisition {
	a := &acquisition{t: l.t, got: make(chan *lock.Lease, 1), err: make(chan error, 1)}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	ended := make(chan struct{})
	l.t.Cleanup(func() { cancel(); <-ended })
	go func() {
		defer close(ended)
		lease, err := l.Acquire(ctx, key, opts...)
		if err != nil {
			a.err <- err
			return
		}
		a.got <- lease
	}()
	return a
}

func (a *acquisition) lease() *lock.Lease {
	a.t.Helper()
	select {
	case lease := <-a.got:
		return lease
	case err := <-a.err:
		a.t.Fatalf("Acquire: %v", err)
		return nil
	}
}

// refused says that Go can't have the key.
func (l *locker) refused(key string, opts ...lock.Option) {
	l.t.Helper()
	if lease, err := l.TryAcquire(l.t.Context(), key, opts...); !errors.Is(err, lock.ErrBusy) {
		l.t.Fatalf("TryAcquire of what Java holds: %v, %v, want ErrBusy", lease, err)
	}
}

// free says that Go can have the key at once.
func (l *locker) free(key string, opts ...lock.Option) {
	l.t.Helper()
	lease, err := l.TryAcquire(l.t.Context(), key, opts...)
	if err != nil {
		l.t.Fatalf("TryAcquire of what nobody holds: %v", err)
	}
	if err := lease.Release(l.t.Context()); err != nil {
		l.t.Fatalf("Release: %v", err)
	}
}

func (l *locker) inspect(key string) lock.State {
	l.t.Helper()
	state, err := l.Inspect(l.t.Context(), key)
	if err != nil {
		l.t.Fatalf("Inspect: %v", err)
	}
	return state
}

// held says that one owner has the key, and how often.
func (l *locker) held(key, owner string, holds int) {
	l.t.Helper()
	got := l.inspect(key).Owners
	if len(got) != 1 || got[0] != (lock.OwnerHolds{Owner: owner, Holds: holds}) {
		l.t.Errorf("Go sees the owners %v, want %s with %d", got, owner, holds)
	}
}
