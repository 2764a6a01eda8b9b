package lock_test

import (
	"context"
	"errors"
	"maps"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errLineCut = errors.New("line cut")

// remote is a store in memory whose calls wait for their answers, and whose fences leave
// no room for hand-offs. Fakes with calls that block embed one.
type remote struct{ lock.BlockingStore }

func newRemote() remote { return remote{lock.Blocking(memstore.New())} }

func (remote) Traits() lock.Traits { return lock.Traits{} }

// port is a store or a fake with calls that block, as lockers need it.
func port(store inspected) lock.Store {
	if fake, ok := store.(lock.BlockingStore); ok {
		return lock.Async(fake)
	}
	return store.(lock.Store)
}

// inspected is what a store and a fake with calls that block have in common.
type inspected interface {
	Inspect(ctx context.Context, key string) (lock.State, error)
}

// faulty is a store on a bad network: tests set what happens to each call.
type faulty struct {
	lock.BlockingStore
	Store lock.Store // that is at the other end

	mu sync.Mutex
	// before runs before a call reaches the store; an error keeps it away.
	before func(op string, c lock.Claim) error
	// after runs when the store is done; an error replaces its answer.
	after func(op string, c lock.Claim) error
	calls map[string]int
}

func newFaulty() *faulty { return lineTo(memstore.New()) }

// lineTo is a bad network before a store.
func lineTo(store lock.Store) *faulty {
	return &faulty{BlockingStore: remote{lock.Blocking(store)}, Store: store, calls: make(map[string]int)}
}

func (f *faulty) set(before, after func(string, lock.Claim) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.before, f.after = before, after
}

func (f *faulty) count(op string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[op]
}

// total is the number of all calls.
func (f *faulty) total() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, calls := range f.calls {
		n += calls
	}
	return n
}

func (f *faulty) through(op string, c lock.Claim, call func() error) error {
	f.mu.Lock()
	f.calls[op]++
	before, after := f.before, f.after
	f.mu.Unlock()
	if before != nil {
		if err := before(op, c); err != nil {
			return err
		}
	}
	err := call()
	if after != nil {
		if cut := after(op, c); cut != nil {
			return cut
		}
	}
	return err
}

// The wrapped store gets a context that never ends: like a server, it does
// not know that the caller has gone.

func (f *faulty) Acquire(_ context.Context, c lock.Claim) (fence uint64, err error) {
	err = f.through("acquire", c, func() error {
		fence, err = f.BlockingStore.Acquire(context.Background(), c)
		return err
	})
	return fence, err
}

func (f *faulty) Release(_ context.Context, c lock.Claim) error {
	return f.through("release", c, func() error { return f.BlockingStore.Release(context.Background(), c) })
}

func (f *faulty) Lower(_ context.Context, c lock.Claim) error {
	return f.through("lower", c, func() error { return f.BlockingStore.Lower(context.Background(), c) })
}

func (f *faulty) Renew(_ context.Context, claims []lock.Claim, report func(int, error)) {
	for i, c := range claims {
		report(i, f.through("renew", c, func() (err error) {
			f.BlockingStore.Renew(context.Background(), []lock.Claim{c}, func(_ int, e error) { err = e })
			return err
		}))
	}
}

func (f *faulty) Watch(_ context.Context, c lock.Claim, wake func()) (stop func(), err error) {
	err = f.through("watch", c, func() error {
		stop, err = f.BlockingStore.Watch(context.Background(), c, wake)
		return err
	})
	if err != nil && stop != nil {
		stop() // nobody will
		return nil, err
	}
	return stop, err
}

// only applies what to calls of one operation.
func only(op string, what func(c lock.Claim) error) func(string, lock.Claim) error {
	return func(o string, c lock.Claim) error {
		if o == op {
			return what(c)
		}
		return nil
	}
}

// times applies an error to the first n calls.
func times(n int, err error) func(lock.Claim) error {
	var mu sync.Mutex
	return func(lock.Claim) error {
		mu.Lock()
		defer mu.Unlock()
		if n--; n >= 0 {
			return err
		}
		return nil
	}
}

// gauge counts the holds that begin and end, by name and mode, as metrics do.
type gauge struct {
	mu   sync.Mutex
	held map[lock.Event]int
}

func (g *gauge) add(e lock.Event, n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.held == nil {
		g.held = make(map[lock.Event]int)
	}
	if g.held[e] += n; g.held[e] == 0 {
		delete(g.held, e)
	}
}

// left returns the numbers that are not zero.
func (g *gauge) left() map[lock.Event]int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return maps.Clone(g.held)
}

func (g *gauge) option() lock.Option {
	return lock.WithHooks(lock.Hooks{
		Acquired: func(_ context.Context, e lock.AcquireEvent) {
			if e.Err == nil && !e.Reentrant {
				g.add(e.Event, 1)
			}
		},
		Released: func(e lock.ReleaseEvent) {
			if e.Last {
				g.add(e.Event, -1)
			}
		},
		Lost: func(e lock.LossEvent) { g.add(e.Event, -1) },
	})
}

func newLocker(t *testing.T, store inspected, opts ...lock.Option) *lock.Locker {
	t.Helper()
	var held gauge
	l := lock.New(port(store), append(opts[:len(opts):len(opts)], held.option())...)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := l.Close(ctx); err != nil {
			t.Errorf("Close: %v", err)
		} else if n := l.Left(); n != 0 {
			t.Errorf("%d things are left of the locker", n)
		}
		if left := held.left(); len(left) > 0 {
			t.Errorf("by its hooks, holds have not ended: %v", left)
		}
	})
	return l
}

func acquire(t *testing.T, l *lock.Locker, ctx context.Context, key string, opts ...lock.Option) *lock.Lease {
	t.Helper()
	lease, err := l.Acquire(ctx, key, opts...)
	if err != nil {
		t.Fatalf("Acquire(%q): %v", key, err)
	}
	return lease
}

func release(t *testing.T, lease *lock.Lease) {
	t.Helper()
	if err := lease.Release(context.Background()); err != nil {
		t.Fatalf("Release: %v", err)
	}
}

// holds is the hold count in the store; 0 when the key is free.
func holds(t *testing.T, store inspected, key string) int {
	t.Helper()
	state, err := store.Inspect(context.Background(), key)
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, o := range state.Owners {
		total += o.Holds
	}
	return total
}

func wantErr(t *testing.T, err error, wants ...error) {
	t.Helper()
	for _, want := range wants {
		if !errors.Is(err, want) {
			t.Errorf("got %v, want it to match %q", err, want)
		}
	}
}
