package lock

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlatch/redlatch/core/lock/internal/machine"
)

// Locker acquires leases from one store. It is safe for concurrent use. Use one per
// process and store, so that the callers of the process queue instead of all
// calling the store.
type Locker struct {
	store    Store
	traits   Traits // of the store
	defaults *options
	params   machine.Params
	client   string    // first part of every owner
	epoch    time.Time // what trust is counted from, on the monotonic clock

	draining    chan struct{}      // closed by Drain, and by Close
	idle        chan struct{}      // closed when, after that, nothing is held
	refusing    atomic.Bool        // draining is closed
	refusesWork atomic.Bool        // idle is closed: nobody gets anything
	closing     atomic.Bool        // Close was called
	closed      atomic.Bool        // it has ended all leases
	settled     chan struct{}      // closed when, after that, nothing is held or to be undone
	settling    atomic.Bool        // settled is closed
	unclosed    error              // why Close could not release every hold; set before running is quiet
	base        context.Context    // of background work; ends when Close gives up
	stop        context.CancelFunc // ends base
	running     operations

	mu    sync.Mutex // guards wall.seen
	wall  wall
	leaps atomic.Int64 // how often the process may have been suspended

	waits  sync.Pool // of *wait
	tally  tally
	timer  timer
	shards [shards]shard

	presence *presence // nil: operators don't know of it
}

// New returns a locker on store, which the caller still owns. It starts
// nothing before the first acquisition. Options are the defaults of every
// acquisition; a wrong one makes New panic: see [CheckOptions].
func New(store Store, opts ...Option) *Locker {
	defaults := defaultOptions()
	if err := defaults.forNew(opts); err != nil {
		panic("lock.New: " + err.Error()) //nolint:forbidigo // documented: options are part of the program
	}
	if store == nil {
		panic("lock.New: store is nil") //nolint:forbidigo // as above
	}
	base, stop := context.WithCancel(context.Background())
	l := &Locker{
		store:    store,
		traits:   store.Traits(),
		defaults: defaults,
		client:   newClientID(),
		epoch:    time.Now().Add(-time.Second), // no moment of a machine is 0
		draining: make(chan struct{}),
		idle:     make(chan struct{}),
		settled:  make(chan struct{}),
		base:     base,
		stop:     stop,
		running:  operations{quiet: make(chan struct{})},
	}
	l.params = params(defaults, l.traits)
	l.wall.start = l.epoch.UnixNano()
	l.timer.fires.Store(int64(machine.Never))
	for i := range l.shards {
		sh := &l.shards[i]
		sh.Locker, sh.number, sh.entries = l, uint64(i), make(map[string]*entry)
		sh.due.fire = l.fireAt
	}
	l.presence = newPresence(l)
	return l
}

// bounded makes a call that blocks, and waits for its answer until ctx ends or the timeout
// is over. A call that has been sent is left to run until the store answers. An answer that
// comes after that goes to late, if that is not nil.
func bounded[T any](
	ctx context.Context, l *Locker, timeout time.Duration, call func(context.Context) (T, error), late func(T, error),
) (T, error) {
	if l.traits.Immediate {
		return guarded(ctx, call)
	}
	type result struct {
		value T
		err   error
	}
	callCtx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), timeout, errNoAnswer)
	defer cancel()
	var decided atomic.Bool // that it was answered, or given up
	answers := make(chan result, 1)
	l.running.Go(func() {
		value, err := guarded(callCtx, call)
		answers <- result{value, err}
		if decided.Swap(true) && late != nil {
			late(value, err)
		}
	})
	var why error
	select {
	case r := <-answers:
		return r.value, r.err
	case <-ctx.Done():
		why = context.Cause(ctx)
	case <-callCtx.Done():
		why = errNoAnswer
	}
	if decided.Swap(true) {
		r := <-answers
		return r.value, r.err
	}
	var none T
	return none, why
}

// begin counts an operation in, so that Close waits for it.
func (l *Locker) begin() error {
	if !l.running.begin() {
		return ErrClosed
	}
	return nil
}

// now is the time on the monotonic clock that trust is counted in.
func (l *Locker) now() time.Duration { return time.Since(l.epoch) }

// usable returns ErrClosed when the locker is closed.
func (l *Locker) usable() error {
	if l.closed.Load() {
		return ErrClosed
	}
	return nil
}

// over is closed when the locker ends, and nothing is held.
func (l *Locker) over() <-chan struct{} { return l.idle }
