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
