package worker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"time"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/test/chaos/internal/history"
	"github.com/redlatch/redlatch/test/chaos/internal/resource"
)

// client is one user of the locks: a goroutine that does one thing at a time.
type client struct {
	Config
	*record
	number  int
	locker  *lock.Locker
	random  *rand.Rand
	counter *resource.Client
}

func newClient(c Config, i int, locker *lock.Locker, r *record) *client {
	seed := c.Seed + uint64(c.Worker)<<32 + uint64(c.Life)<<16 + uint64(i)
	return &client{Config: c, record: r, number: i, locker: locker, random: rand.New(rand.NewPCG(seed, 1))}
}

func (c *client) run(ctx context.Context) error {
	conn, err := net.Dial("unix", c.Counter)
	if err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	defer conn.Close() //nolint:errcheck // nothing can be done about it
	c.counter = resource.Dial(conn)
	for ctx.Err() == nil {
		if err := c.turn(ctx); err != nil {
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
	options       []lock.Option
	permits, size int
}

// pick chooses what to lock. The name of a key tells its generation.
func (c *client) pick() target {
	family := c.Modes[c.random.IntN(len(c.Modes))]
	if family == "fair" && len(c.Modes) > 1 && c.chance(90) {
		family = c.Modes[0] // who waits in a queue does nothing else for long
	}
	t := target{mode: family}
	// Most traffic is for one key of each mode.
	n := 0
	if c.chance(20) {
		n = c.random.IntN(c.Load.Keys)
	}
	t.key = fmt.Sprintf("%s:%d:g%d", family, n, c.clock.Now()/int64(c.Load.Generation))
	switch family {
	case "exclusive":
	case "fair":
		t.options = append(t.options, lock.WithMode(lock.Fair))
	case "readwrite":
		t.mode = "read"
		mode := lock.Read
		if c.chance(50) {
			t.mode, mode = "write", lock.Write
		}
		t.options = append(t.options, lock.WithMode(mode))
	case "semaphore":
		t.permits, t.size = 1+c.random.IntN(2), SemaphoreSize
		t.options = append(t.options, lock.WithPermits(t.permits, t.size))
	}
	return t
}

// turn is one acquisition and what follows.
func (c *client) turn(ctx context.Context) error {
	t := c.pick()
	long := c.chance(c.Load.Long)
	if !long && c.chance(50) {
		t.options = append(t.options, lock.WithLease(c.Load.Lease))
	}
	lease, outcome := c.acquire(ctx, t, 1)
	switch outcome {
	case history.OK:
		return c.hold(ctx, t, lease, long)
	case history.Busy:
		c.idle(ctx)
	default:
		pause(ctx, c.between(0, 50*time.Millisecond)) // Redis may be down
	}
	return nil
}

// idle leaves the processor to others.
func (c *client) idle(ctx context.Context) {
	if c.chance(20) {
		pause(ctx, c.between(0, 2*time.Millisecond))
	}
}

// fairWaiters is how many clients of a process wait in queues. Each that is
// killed there costs those behind it seconds.
const fairWaiters = 3

// acquire asks for a key: mostly at once, sometimes waiting, sometimes with a
// context that ends.
func (c *client) acquire(ctx context.Context, t target, holds int) (*lock.Lease, history.Outcome) {
	asking, cancel, try := ctx, context.CancelFunc(func() {}), true
	options := t.options
	switch n := c.random.IntN(100); {
	case holds > 1:
	case n < 3:
		// Not a deadline: clients of Redis see those, and drop the connection.
		try = c.chance(50)
		asking, cancel = context.WithCancel(ctx)
		timer := time.AfterFunc(c.between(0, 10*time.Millisecond), cancel)
		defer timer.Stop()
	case t.mode == "fair":
		if try = n < 30 || c.number >= fairWaiters; !try {
			options = append(options, lock.WithWait(c.between(time.Second, 3*time.Second)))
		}
	case n < 5:
		try = false
		options = append(options, lock.WithWait(c.between(5*time.Millisecond, 300*time.Millisecond)))
	}
	e := history.Event{
		Op: history.Acquire, Kind: history.Begin, Client: c.number, ID: c.ids.Add(1), Key: t.key, Mode: t.mode, Holds: holds,
		TTL: int64(c.Load.Lease), Permits: t.permits, Size: t.size, Call: c.clock.Now(),
	}
	c.add(e)
	call := c.locker.Acquire
	if try {
		call = c.locker.TryAcquire
	}
	lease, err := call(asking, t.key, options...)
	e.Kind, e.Op, e.Return = history.Acquire, "", c.clock.Now()
	if lease != nil {
		// What the lease's context descends from must live on.
		context.AfterFunc(lease.Context(), cancel)
		e.Owner, e.Fence = lease.Owner(), lease.Fence()
	} else {
		cancel()
	}
	switch {
	case err == nil:
		e.Outcome = history.OK
	case errors.Is(err, lock.ErrBusy) && try && asking.Err() == nil:
		e.Outcome = history.Busy
	case errors.Is(err, lock.ErrBusy), asking.Err() != nil:
		e.Outcome = history.GaveUp
	case errors.Is(err, lock.ErrUnavailable):
		e.Outcome, e.Note = history.Unknown, err.Error()
	case errors.Is(err, lock.ErrLost):
		e.Outcome = history.Lost
	default:
		e.Outcome, e.Note = history.Unknown, err.Error()
	}
	c.add(e)
	return lease, e.Outcome
}

// hold does the work that the lock is for, and gives it back.
func (c *client) hold(ctx context.Context, t target, lease *lock.Lease, long bool) error {
	trusted := c.trusts(lease, 0)
	inner, outcome := (*lock.Lease)(nil), history.Outcome("")
	if t.mode != "semaphore" && c.chance(10) {
		inner, outcome = c.acquire(lease.Context(), t, 2)
	}
	err := c.work(ctx, t, lease, long, &trusted)
	if outcome == history.OK {
		trusted = c.trusts(lease, trusted)
		c.release(ctx, t, inner, 1, trusted)
	}
	trusted = c.trusts(lease, trusted)
	c.release(ctx, t, lease, 0, trusted)
	return err
}

// trusts returns the last time at which the lease said that it is held. The
// clock is read first: the process may be stopped between the two.
func (c *client) trusts(lease *lock.Lease, last int64) int64 {
	now := c.clock.Now()
	if lease.Context().Err() == nil {
		return now
	}
	return last
}

// work counts at the resource: with the fence, and as one does who knows of
// none.
func (c *client) work(ctx context.Context, t target, lease *lock.Lease, long bool, trusted *int64) error {
	if t.mode == "read" || t.mode == "semaphore" {
		c.stay(ctx, lease, long, trusted)
		return nil
	}
	r := resource.Request{Worker: c.Worker, Key: t.key, Mode: t.mode, Owner: lease.Owner(), Fence: lease.Fence()}
	read, err := c.counter.Claim(r)
	if err != nil {
		return err
	}
	c.stay(ctx, lease, long, trusted)
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
func (c *client) stay(ctx context.Context, lease *lock.Lease, long bool, trusted *int64) {
	*trusted = c.trusts(lease, *trusted)
	if !long {
		if c.chance(80) {
			pause(lease.Context(), c.between(0, 25*time.Millisecond))
		}
		*trusted = c.trusts(lease, *trusted)
		return
	}
	until := c.clock.Now() + int64(c.between(c.Load.Lease/2, 2*c.Load.Lease))
	for c.clock.Now() < until && lease.Context().Err() == nil && ctx.Err() == nil {
		pause(lease.Context(), 5*time.Millisecond)
		*trusted = c.trusts(lease, *trusted)
	}
}

func (c *client) release(ctx context.Context, t target, lease *lock.Lease, remain int, trusted int64) {
	e := history.Event{
		Op: history.Release, Kind: history.Begin, Client: c.number, ID: c.ids.Add(1), Key: t.key, Mode: t.mode, Owner: lease.Owner(),
		Fence: lease.Fence(), Holds: remain, TTL: int64(c.Load.Lease), Trusted: trusted, Call: c.clock.Now(),
	}
	c.add(e)
	err := lease.Release(ctx)
	e.Kind, e.Op, e.Return, e.Outcome = history.Release, "", c.clock.Now(), history.OK
	switch {
	case err == nil:
	case errors.Is(err, lock.ErrNotHeld):
		e.Outcome = history.NotHeld
	case errors.Is(err, lock.ErrLost):
		e.Outcome = history.Lost
	default:
		e.Outcome, e.Note = history.Unknown, err.Error()
	}
	c.add(e)
}
