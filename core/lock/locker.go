//go:build !machine

package lock

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Locker acquires leases from one store. It is safe for concurrent use. Use one per
// process and store, so that the callers of the process queue instead of all
// calling the store.
type Locker struct {
	store    Store
	traits   Traits    // of the store
	wakes    sync.Pool // of chan struct{}, for calls
	answers  sync.Pool // of *immediate
	timers   sync.Pool // of *time.Timer, for tries
	defaults *options

	acquireCall, releaseCall, lowerCall storeCall     // of the store
	client                              string        // first part of every owner
	counter                             atomic.Uint64 // second part
	epoch                               time.Time     // what trust is counted from, on the monotonic clock
	wall                                wall

	draining chan struct{}      // closed by Drain, and by Close
	idle     chan struct{}      // closed when, after that, nothing is held
	ending   chan struct{}      // closed by Close, or when nothing is held while it drains
	quiet    chan struct{}      // closed when, after that, nothing of ours runs
	unclosed error              // why Close could not release every hold; set before quiet is closed
	base     context.Context    // of background work; ends when Close gives up
	stop     context.CancelFunc // ends base
	running  sync.WaitGroup     // operations and background work

	mu         sync.Mutex // guards what follows, and the state of every hold
	refusing   bool       // draining is closed
	closed     bool
	gates      map[string]*gate
	spareGates []*gate             // that no key needs, for the next that does
	waiting    int                 // acquisitions that wait, of all gates
	watches    map[string]*watch   // by key, that were kept
	kept       agenda[*watch]      // until when
	held       map[string]*hold    // by key, in the modes that keep every other owner out
	sizes      sizes               // of the semaphores whose permits are held
	trusts     agenda[*hold]       // of all holds that are alive: when trust ends, or earlier
	renewals   agenda[*hold]       // when to renew which
	leapt      time.Duration       // when checkClock last found that the process may have been suspended
	releasing  int                 // holds whose last release is under way
	probes     map[probeKey]*probe // the next where one is under way; nil: nobody waits for it

	compensation compensation
	calls        calls
	presence     *presence // nil: operators don't know of it
}

// CheckOptions returns why [New] would panic with these options: an error that wraps
// [ErrInvalid]. It is for options that come from outside of the program.
func CheckOptions(opts ...Option) error { return defaultOptions().forNew(opts) }

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
		store:       store,
		traits:      store.Traits(),
		acquireCall: store.Acquire,
		releaseCall: store.Release,
		lowerCall:   store.Lower,
		defaults:    defaults,
		client:      newClientID(),
		epoch:       time.Now(),
		draining:    make(chan struct{}),
		idle:        make(chan struct{}),
		ending:      make(chan struct{}),
		quiet:       make(chan struct{}),
		base:        base,
		stop:        stop,
		gates:       make(map[string]*gate),
		watches:     make(map[string]*watch),
		held:        make(map[string]*hold),
		sizes:       make(sizes),
		probes:      make(map[probeKey]*probe),

		compensation: compensation{more: make(chan struct{}, 1)},
	}
	l.wall.start = l.epoch.UnixNano()
	l.trusts = agenda[*hold]{column: ofTrust, now: l.now, due: l.trustDue}
	l.renewals = agenda[*hold]{column: ofRenewal, now: l.now, due: l.renewDue}
	l.kept = agenda[*watch]{now: l.now, due: l.watchesDue}
	l.calls.agenda = agenda[*call]{column: ofPatience, now: l.now, due: l.callsDue}
	l.presence = newPresence(l)
	return l
}

// Acquire waits until it has key, ctx ends, or [WithWait] has passed. Callers of
// one locker get a contended key in the order of their calls. The first who ask for permits
// call side by side, and the store decides. Between processes there is no order unless the
// mode promises one.
//
// If ctx was derived from a lease of key of this locker, Acquire re-enters
// it: the new lease shares its hold and must be released as well. It makes no call, unless
// the new lease asks for more time than the hold has.
//
// Errors: [ErrBusy] (with [context.DeadlineExceeded] when a limit of time was
// reached, with [ErrTooManyWaiters] when a limit of waiters was), ctx's error,
// [ErrUnavailable], [ErrUnsupported], [ErrInvalid], [ErrClosed]; [ErrLost] when a hold
// was taken away before it had the length that the lease asks for. After an error nothing
// more is held than before: what calls may have left in the store is removed in the
// background.
//
// A call that still waits after ten seconds on a context that can't end, such as
// *gin.Context, and without a limit, logs a line to [log/slog]. [context.Background] and
// [context.TODO] say that no end is meant.
func (l *Locker) Acquire(ctx context.Context, key string, opts ...Option) (*Lease, error) {
	if !deliberate(ctx) {
		defer watchEndless(func() bool {
			o, _ := l.defaults.with(opts)
			_, bounded := o.longestWait()
			return bounded
		}).Stop()
	}
	return l.acquire(ctx, key, attempt{}, opts)
}

// TryAcquire is [Locker.Acquire] that never waits for another owner: it returns
// [ErrBusy] at once. It makes no call to the store if this locker itself holds the
// key, or if another caller of it waits for the key already. Tries of one key in an
// exclusive mode that come while the store is called for another share the answer to
// the next call, which is sent after they came. [WithWait] is ignored.
func (l *Locker) TryAcquire(ctx context.Context, key string, opts ...Option) (*Lease, error) {
	return l.acquire(ctx, key, attempt{once: true}, opts)
}

// Check returns the [ErrInvalid] that acquisitions of key with these options would
// get, and nil if they may succeed. It makes no call. It is for code that keeps
// options for later: a mistake shows when the program starts.
func (l *Locker) Check(key string, opts ...Option) error {
	_, err := l.defaults.with(opts)
	if err == nil {
		err = checkKey(key)
	}
	if err != nil {
		return &Error{Op: "check", Key: key, Err: err}
	}
	return nil
}

// Inspect reports who holds key. A free key is a State that is not Held. A key that the
// store uses for something else is [ErrInvalid]. With [WithIdentity] it names the holders
// that are registered, with one more call.
func (l *Locker) Inspect(ctx context.Context, key string) (State, error) {
	state, err := query(ctx, l, "inspect", key, l.store.Inspect)
	if err == nil {
		l.identify(ctx, &state)
	}
	return state, err
}

// ForceRelease takes key away from its current holders and wakes waiters. A store may
// look first who they are: a lease that is granted after that look stays, however late the
// removal arrives. freed reports whether anybody held the key. A holder elsewhere notices
// at once if its locker has an identity ([WithIdentity]) and the store is a [Registry], else
// at its next renewal, at the latest when its lease ends; its fence is older than the next
// owner's.
func (l *Locker) ForceRelease(ctx context.Context, key string) (freed bool, err error) {
	defer l.presence.forcing(key)()
	before := l.holdsOf(key) // what is granted from now on may not be gone
	freed, err = query(ctx, l, "force release", key, l.store.ForceRelease)
	if err == nil {
		l.lose(ErrForced, before...)
	}
	return freed, err
}

// query makes a call to the store that needs no clean-up when it stays
// unanswered.
func query[T any](ctx context.Context, l *Locker, op, key string, ask func(context.Context, string) (T, error)) (T, error) {
	var none T
	err := checkKey(key)
	if err == nil {
		err = l.begin()
	}
	if err != nil {
		return none, &Error{Op: op, Key: key, Err: err}
	}
	defer l.running.Done()
	answer, err := bounded(ctx, l, l.defaults.callTimeout, func(ctx context.Context) (T, error) { return ask(ctx, key) }, nil)
	if err != nil {
		return none, &Error{Op: op, Key: key, Err: failure(ctx, err)}
	}
	return answer, nil
}

// begin counts an operation in, so that Close waits for it.
func (l *Locker) begin() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return ErrClosed
	}
	l.running.Add(1)
	return nil
}

func (l *Locker) newOwner() string {
	var room [64]byte
	owner := append(room[:0], l.client...)
	return string(strconv.AppendUint(append(owner, ':'), l.counter.Add(1), 10))
}

// now is the time on the monotonic clock that trust is counted in.
func (l *Locker) now() time.Duration { return time.Since(l.epoch) }
