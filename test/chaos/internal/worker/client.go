package worker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/test/chaos/internal/bug"
	"github.com/redlatch/redlatch/test/chaos/internal/history"
	"github.com/redlatch/redlatch/test/chaos/internal/resource"
)

// client is one user of the locks: a goroutine that does one thing at a time.
type client struct {
	Config
	*record
	number  int
	locker  *lock.Locker
	planted *bug.Bug
	random  *rand.Rand
	counter *resource.Client
}

func newClient(c Config, i int, locker *lock.Locker, planted *bug.Bug, r *record) *client {
	seed := c.Seed + uint64(c.Worker)<<32 + uint64(c.Life)<<16 + uint64(i)
	return &client{Config: c, record: r, number: i, locker: locker, planted: planted, random: rand.New(rand.NewPCG(seed, 1))}
}

func (c *client) run(ctx context.Context) error { return c.repeat(ctx, c.turn) }

// repeat calls do until ctx ends, with a connection to the counters.
func (c *client) repeat(ctx context.Context, do func(context.Context) error) error {
	conn, err := net.Dial("unix", c.Counter)
	if err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	defer conn.Close() //nolint:errcheck // nothing can be done about it
	c.counter = resource.Dial(conn)
	for ctx.Err() == nil {
		if err := do(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (c *client) chance(percent int) bool { return c.random.IntN(100) < percent }

func (c *client) between(low, high time.Duration) time.Duration {
	return low + time.Duration(c.random.Int64N(int64(high-low)))
}

// pause waits, or less if ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// SemaphoreSize is how many permits each semaphore has.
const SemaphoreSize = 3

// target is a key and how to ask for it.
type target struct {
	key, mode     string
	ttl           time.Duration
	options       []lock.Option
	permits, size int
	handed        bool          // callers of a process wait for the key, and hand it on
	nested        bool          // its holder acquires it again and again
	keep          time.Duration // minimum hold
}

// pick chooses what to lock. The name of a key has its generation.
func (c *client) pick() target {
	family := c.Modes[c.random.IntN(len(c.Modes))]
	if family == "fair" && len(c.Modes) > 1 && c.chance(90) {
		family = c.Modes[0] // who waits in a queue does nothing else for long
	}
	// Most traffic is for one key of each mode.
	n := 0
	if c.chance(20) {
		n = c.random.IntN(c.Load.Keys)
	}
	return c.ask(family, fmt.Sprintf("%s:%d:g%d", family, n, c.clock.Now()/int64(c.Load.Generation)))
}

// ask is how to ask for a key of a family.
func (c *client) ask(family, key string) target {
	t := target{key: key, mode: family, ttl: c.Load.Lease}
	switch family {
	case "exclusive":
	case "handed":
		t.mode, t.handed = "exclusive", true
	case "nested":
		t.mode, t.nested = "exclusive", true
	case "fair":
		t.options = append(t.options, lock.WithMode(lock.Fair))
	case "readwrite":
		t.read()
		if c.chance(50) {
			t.mode, t.options = "write", []lock.Option{lock.WithMode(lock.Write)}
		}
	case "semaphore":
		t.permits, t.size = 1+c.random.IntN(2), SemaphoreSize
		t.options = append(t.options, lock.WithPermits(t.permits, t.size))
	}
	return t
}

// read makes t ask for a read lease.
func (t *target) read() { t.mode, t.options = "read", []lock.Option{lock.WithMode(lock.Read)} }

// use is what a lease is for.
type use uint8

const (
	brief   use = iota // a moment
	watched            // longer than a lease, by the watchdog
	renewed            // longer than a lease, by several calls of Extend at a time
)

// turn is one acquisition and what follows.
func (c *client) turn(ctx context.Context) error {
	if c.Load.Think > 0 {
		pause(ctx, c.between(0, 2*c.Load.Think))
	}
	t, u := c.pick(), brief
	if c.chance(c.Load.Long) {
		u = watched + use(c.random.IntN(2))
	}
	fixed := u == renewed || u == brief && !t.handed && c.chance(50)
	if fixed {
		t.options = append(t.options, lock.WithLease(c.Load.Lease))
	}
	c.keeps(&t, fixed)
	if t.handed && c.clock.Now()/int64(c.Load.Generation)%2 == 1 && c.chance(1) {
		c.force(ctx, t.key) // the other keys are judged without excuse
	}
	tries := 1
	if c.chance(1) {
		tries = storm
	}
	var lease *lock.Lease
	var outcome history.Outcome
	for range tries {
		t.ttl = c.Load.Lease
		m := c.manner(ctx, &t)
		if lease, outcome = c.acquire(t, m); outcome != history.Busy {
			break
		}
	}
	switch outcome {
	case history.OK:
		return c.hold(ctx, t, lease, u)
	case history.Busy:
		c.idle(ctx)
	default:
		pause(ctx, c.between(0, 50*time.Millisecond)) // Redis may be down
	}
	return nil
}

// keeps gives an acquisition a minimum hold.
func (c *client) keeps(t *target, fixed bool) {
	if !c.chance(c.Load.Keep) {
		return
	}
	most := c.Load.Lease
	if !fixed {
		most *= 2
	}
	t.keep = c.between(lock.MinLease, most)
	t.options = append(t.options, lock.WithMinHold(t.keep))
}

// storm is how often a client tries who doesn't take busy for an answer.
const storm = 30

// idle leaves the processor to others.
func (c *client) idle(ctx context.Context) {
	if c.chance(20) {
		pause(ctx, c.between(0, 2*time.Millisecond))
	}
}

// fairWaiters is how many clients of a process wait in queues. Each that is
// killed there costs those behind it seconds.
const fairWaiters = 3

// manner is how long a client wants to wait.
type manner struct {
	ctx     context.Context
	cancel  context.CancelFunc
	try     bool
	options []lock.Option
}

// manner chooses: mostly one try, sometimes a wait, short or long, sometimes a
// context that ends. What is given up may be asked for with a long lease.
func (c *client) manner(ctx context.Context, t *target) manner {
	m := manner{ctx: ctx, cancel: func() {}, try: true}
	switch n := c.random.IntN(200); {
	case c.Load.Think > 0:
		c.waits(&m, c.between(5*time.Millisecond, 90*time.Millisecond))
	case c.chance(c.Load.Leave):
		c.leaves(&m, c.between(0, 10*time.Millisecond))
		m.try = c.chance(50)
		c.forgets(&m, t)
	case t.mode == "fair":
		if n >= 54 && c.number < fairWaiters {
			c.waits(&m, c.between(time.Second, 3*time.Second))
		}
	case t.handed && n < 100:
		c.waits(&m, c.between(5*time.Millisecond, 300*time.Millisecond))
		c.mayBeCut(&m, t)
	case n < 2: // less than a round trip
		c.waits(&m, c.between(10*time.Microsecond, time.Millisecond))
	case n < 4:
		c.waits(&m, c.between(5*time.Millisecond, 300*time.Millisecond))
		c.forgets(&m, t)
	case n < 6:
		c.waits(&m, c.between(time.Second, 3*time.Second))
	}
	return m
}

// forgets makes the lease as long as that of a client who doesn't come
// back to release it.
func (c *client) forgets(m *manner, t *target) {
	if c.Load.Forgotten > 0 && t.mode != "fair" && c.chance(30) {
		t.ttl = c.Load.Forgotten
		m.options = append(m.options, lock.WithLease(t.ttl))
	}
}

// waiter is a client that waits for a key.
type waiter struct {
	key    string
	client int
}

// mayBeCut lets another client of the process end the wait.
func (c *client) mayBeCut(m *manner, t *target) {
	before := m.cancel
	ctx, cancel := context.WithCancel(m.ctx)
	c.waiters.Store(waiter{t.key, c.number}, cancel)
	m.ctx, m.cancel = ctx, func() {
		cancel()
		before()
	}
}

// cut ends the wait of a client of the process for a key that is released next: the
// key may be handed to one who gives up.
func (c *client) cut(key string) {
	c.waiters.Range(func(w, cancel any) bool {
		if w.(waiter).key != key {
			return true
		}
		cancel.(context.CancelFunc)()
		return false
	})
}

// leaves ends the context after d, in one of two ways.
func (c *client) leaves(m *manner, d time.Duration) {
	if c.chance(50) {
		m.ctx, m.cancel = context.WithTimeout(m.ctx, d)
		return
	}
	ctx, cancel := context.WithCancel(m.ctx)
	timer := time.AfterFunc(d, cancel)
	m.ctx, m.cancel = ctx, func() {
		timer.Stop()
		cancel()
	}
}

// far is a deadline that no clock will see.
var far = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)

// waits makes a client wait for d: by the limit of its wait, by a context that
// ends while the limit is as long as it can be, or by one whose deadline is far
// away.
func (c *client) waits(m *manner, d time.Duration) {
	m.try = false
	limit := d
	switch n := c.random.IntN(10); {
	case n < 2:
		c.leaves(m, d)
		limit = lock.MaxDuration
	case n < 4:
		ctx, cancel := context.WithDeadline(m.ctx, far)
		m.ctx, m.cancel = ctx, cancel
	}
	m.options = append(m.options, lock.WithWait(limit))
}

// attemptKey is the name of an attempt among the values of its context.
type attemptKey struct{}

// attempt is one call of Acquire.
type attempt struct {
	client int
	id     uint64
}

// acquire calls Acquire or TryAcquire once.
func (c *client) acquire(t target, m manner) (*lock.Lease, history.Outcome) {
	e := history.Event{
		Op: history.Acquire, Kind: history.Begin, Client: c.number, ID: c.ids.Add(1), Key: t.key, Mode: t.mode,
		TTL: int64(max(t.ttl, t.keep)), Permits: t.permits, Size: t.size, Keep: int64(t.keep), Call: c.clock.Now(),
	}
	c.add(e)
	call := c.locker.Acquire
	if m.try {
		call = c.locker.TryAcquire
	}
	lease, err := call(context.WithValue(m.ctx, attemptKey{}, attempt{c.number, e.ID}), t.key, slices.Concat(t.options, m.options)...)
	e.Kind, e.Op, e.Return = history.Acquire, "", c.clock.Now()
	c.waiters.Delete(waiter{t.key, c.number})
	e.Canceled = m.ctx.Err() != nil
	_, e.Pending = c.pending.Load(attempt{c.number, e.ID})
	if lease != nil {
		// What the lease's context descends from must live on.
		context.AfterFunc(lease.Context(), m.cancel)
		c.planted.Got(lease)
		e.Owner, e.Fence = lease.Owner(), lease.Fence()
		outer, nested := lock.FromContext(m.ctx)
		e.Nested = nested && outer.Owner() == e.Owner
		e.Until = c.clock.Now() + int64(time.Until(c.planted.Deadline(lease))) // the clock first: a pause makes it earlier
	} else {
		m.cancel()
	}
	switch {
	case err == nil:
		e.Outcome = history.OK
	case errors.Is(err, lock.ErrBusy) && m.try && !e.Canceled:
		e.Outcome = history.Busy
	case errors.Is(err, lock.ErrBusy), e.Canceled:
		e.Outcome = history.GaveUp
	case errors.Is(err, lock.ErrLost):
		e.Outcome = history.Lost
	default:
		e.Outcome, e.Note = history.Unknown, err.Error()
	}
	c.add(e)
	return lease, e.Outcome
}

// force releases a key by force, although another caller may have it.
func (c *client) force(ctx context.Context, key string) {
	e := history.Event{
		Op: history.Force, Kind: history.Begin, Client: c.number, ID: c.ids.Add(1), Key: key, Mode: "exclusive", Call: c.clock.Now(),
	}
	c.add(e)
	e.Kind, e.Op, e.Outcome = history.Force, "", history.OK
	if _, err := c.locker.ForceRelease(ctx, key); err != nil {
		e.Outcome, e.Note = history.Unknown, err.Error()
	}
	e.Return = c.clock.Now()
	c.add(e)
}

// holding is a lease that a client works under.
type holding struct {
	target
	lease   *lock.Lease
	trusted int64 // when it last said that it is held
}

// hold does the work that the lock is for, and releases it.
func (c *client) hold(ctx context.Context, t target, lease *lock.Lease, u use) error {
	held := []*holding{{t, lease, c.trusts(lease, 0)}}
	odds := 10
	switch {
	case t.mode == "semaphore":
		odds = 0
	case t.nested:
		odds = 70
	case t.mode == "write":
		odds = 40
	}
	for len(held) <= depth && c.chance(odds) {
		inner := c.again(held[0])
		if inner == nil {
			break
		}
		held = append(held, inner)
	}
	err := c.work(ctx, t, lease, u, &held[0].trusted)
	c.random.Shuffle(len(held), func(i, j int) { held[i], held[j] = held[j], held[i] })
	if t.handed && c.chance(20) {
		c.cut(t.key)
	}
	for i, h := range held {
		if i > 0 {
			c.stay(ctx, h.lease, brief, &h.trusted)
		}
		h.trusted = c.trusts(h.lease, h.trusted)
		c.give(h, held[i+1:])
	}
	return err
}

// depth is how often a holder acquires its key once more.
const depth = 3

// again acquires the key of a holder once more, with its context; nil: it failed. A writer
// may only want to read. The lease may outlast the one of the holder.
func (c *client) again(outer *holding) *holding {
	t := outer.target
	t.ttl, t.keep = c.Load.Lease, 0 // the minimum is that of the first
	if t.mode == "write" && outer.keep == 0 && c.chance(70) {
		t.read()
	}
	m := manner{ctx: context.WithoutCancel(outer.lease.Context()), cancel: func() {}, try: true}
	lease, outcome := c.acquire(t, m)
	if outcome != history.OK {
		return nil
	}
	return &holding{t, lease, c.trusts(lease, 0)}
}

// give releases a lease whose hold others may share.
func (c *client) give(h *holding, others []*holding) {
	kind, nested := history.Release, false
	reads := h.mode == "write"
	for _, other := range others {
		if other.lease.Owner() == h.lease.Owner() {
			nested, reads = true, reads && other.mode == "read"
		}
	}
	if nested && reads {
		kind = history.Lower
	}
	c.release(kind, h.target, h.lease, nested, h.trusted)
}

// trusts returns the last time at which the lease said that it is held.
func (c *client) trusts(lease *lock.Lease, last int64) int64 {
	return c.alive(lease.Context(), last)
}

// alive returns the last time at which ctx hadn't ended. The clock is read first:
// the process may be stopped between the two.
func (r *record) alive(ctx context.Context, last int64) int64 {
	now := r.clock.Now()
	if ctx.Err() == nil {
		return now
	}
	return last
}

// work counts at the resource: with the fence, and as one does who knows of
// none.
func (c *client) work(ctx context.Context, t target, lease *lock.Lease, u use, trusted *int64) error {
	if t.mode == "read" || t.mode == "semaphore" { // several are in at a time
		c.stay(ctx, lease, u, trusted)
		return nil
	}
	r := resource.Request{Worker: c.Worker, Key: t.key, Mode: t.mode, Owner: lease.Owner(), Fence: lease.Fence()}
	read, err := c.counter.Claim(r)
	if err != nil {
		return err
	}
	c.stay(ctx, lease, u, trusted)
	if read.OK {
		r.Value, r.Plain = read.Value+1, read.Plain+1
		if _, err := c.counter.Write(r); err != nil {
			return err
		}
	}
	return nil
}

// stay keeps the lease for a while: a moment, or longer than it lasts without
// renewal.
func (c *client) stay(ctx context.Context, lease *lock.Lease, u use, trusted *int64) {
	*trusted = c.trusts(lease, *trusted)
	if u == brief {
		if c.chance(80) {
			pause(lease.Context(), c.between(0, 25*time.Millisecond))
		}
		*trusted = c.trusts(lease, *trusted)
		return
	}
	if u == renewed {
		c.extend(ctx, lease)
	}
	until := c.clock.Now() + int64(c.between(c.Load.Lease/2, 2*c.Load.Lease))
	for c.clock.Now() < until && lease.Context().Err() == nil && ctx.Err() == nil {
		pause(lease.Context(), 5*time.Millisecond)
		*trusted = c.trusts(lease, *trusted)
	}
}

// extend extends a lease twice at a time. Which is first is up to chance, and
// which of them fails to nobody: the lease lasts for as long as it says.
func (c *client) extend(ctx context.Context, lease *lock.Lease) {
	var both sync.WaitGroup
	for _, d := range []time.Duration{c.between(c.Load.Lease/2, c.Load.Lease), c.between(c.Load.Lease, 2*c.Load.Lease)} {
		both.Go(func() { _ = lease.Extend(ctx, d) }) // the deadline of the lease shows what it was worth
	}
	both.Wait()
}

func (c *client) release(kind history.Kind, t target, lease *lock.Lease, nested bool, trusted int64) {
	e := history.Event{
		Op: kind, Kind: history.Begin, Client: c.number, ID: c.ids.Add(1), Key: t.key, Mode: t.mode, Owner: lease.Owner(),
		Fence: lease.Fence(), Nested: nested, TTL: int64(max(t.ttl, t.keep)), Trusted: trusted, Call: c.clock.Now(),
	}
	c.add(e)
	c.released(e, lease.Release(context.Background()))
}

// released notes how a release has ended that e announced.
func (r *record) released(e history.Event, err error) {
	e.Kind, e.Op, e.Return, e.Outcome = e.Op, "", r.clock.Now(), history.OK
	switch {
	case err == nil:
	case errors.Is(err, lock.ErrNotHeld):
		e.Outcome = history.NotHeld
	case errors.Is(err, lock.ErrLost):
		e.Outcome = history.Lost
	default:
		e.Outcome, e.Note = history.Unknown, err.Error()
	}
	r.add(e)
}
