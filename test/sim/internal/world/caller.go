package world

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/test/sim/internal/judge"
)

// caller is somebody who uses locks, one after the other.
type caller struct {
	process *process
	number  int
	rng     *rand.Rand
}

func (c *caller) world() *World { return c.process.world }

func (c *caller) has(f Feature) bool { return c.world().Features[f] }

// chance says yes in percent of 100 cases.
func (c *caller) chance(percent int) bool { return c.rng.IntN(100) < percent }

// between draws a duration.
func (c *caller) between(least, most time.Duration) time.Duration {
	return least + time.Duration(c.rng.Int64N(int64(most-least)))
}

// run uses locks until the process stops.
func (c *caller) run() {
	if c.has(Pace) {
		c.shop()
		return
	}
	for c.process.ctx.Err() == nil {
		key := c.world().keys[c.rng.IntN(len(c.world().keys))]
		switch {
		case c.has(Try) && c.chance(20):
			c.burst(key)
		case c.has(Group) && c.chance(10):
			c.group()
		case c.has(Force) && c.chance(3):
			c.force(key)
		case c.has(ReadOn) && c.world().modes[key] == lock.Read && c.chance(5):
			c.readOn(key)
		default:
			c.hold(c.process.ctx, c.wish(key), 0)
		}
		c.rest()
	}
}

// rest thinks before the next lock; not always.
func (c *caller) rest() {
	if c.has(Idle) {
		pause(c.process.ctx, c.between(time.Millisecond, 5*time.Second))
		return
	}
	if c.chance(40) {
		pause(c.process.ctx, c.between(time.Millisecond, 100*time.Millisecond))
	}
}

// long draws how long some work takes at most.
func (c *caller) long() time.Duration {
	switch n := c.rng.IntN(100); {
	case c.has(Idle):
		return 2 * time.Second
	case n < 50:
		return 3 * time.Millisecond
	case n < 92:
		return 100 * time.Millisecond
	default:
		return 4 * time.Second
	}
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// wish is what an acquisition is to be.
type wish struct {
	key           string
	mode          lock.Mode
	permits, size int
	wait          time.Duration // 0: until the context ends
	once          bool          // TryAcquire
	named         bool
	long          bool // its lease gets its length after the grant
	minHold       time.Duration
	maxHold       time.Duration
	lasts         time.Duration
	options       []lock.Option
}

// wish draws an acquisition of key.
func (c *caller) wish(key string) wish {
	w := wish{key: key, mode: c.world().modes[key]}
	if w.mode == lock.Read && c.chance(40) {
		w.mode = lock.Write
	}
	if w.mode == lock.Semaphore {
		w.permits, w.size = 1+c.rng.IntN(2), permits
		w.options = append(w.options, lock.WithPermits(w.permits, w.size))
	} else {
		w.options = append(w.options, lock.WithMode(w.mode))
	}
	d, lasting := c.length()
	w.long, w.lasts, w.options = d > lock.DefaultWatchdog, d, append(w.options, lasting)
	if c.has(MinHold) && c.chance(30) {
		w.minHold = c.between(time.Millisecond, 600*time.Millisecond)
		w.options = append(w.options, lock.WithMinHold(w.minHold))
	}
	if c.has(MaxHold) && w.minHold == 0 && c.chance(30) {
		w.maxHold = c.between(20*time.Millisecond, 3*time.Second)
		w.options = append(w.options, lock.WithMaxHold(w.maxHold))
	}
	switch {
	case c.has(Short) && c.chance(30):
		w.wait = c.between(10*time.Microsecond, 20*time.Millisecond)
	case c.chance(60):
		w.wait = c.between(time.Millisecond, 4*time.Second)
	}
	if w.wait > 0 {
		w.options = append(w.options, lock.WithWait(w.wait))
	}
	if c.has(Named) && w.mode != lock.Semaphore && c.chance(50) {
		w.named = true
		w.options = append(w.options, lock.WithOwner(fmt.Sprintf("p%d-n%d", c.process.number, c.rng.IntN(2))))
	}
	return w
}

var watchdogs = []time.Duration{300 * time.Millisecond, time.Second, 3 * time.Second, 8 * time.Second, lock.DefaultWatchdog}

// lasting draws how long a lease is to last.
func (c *caller) lasting() lock.Option {
	_, lasting := c.length()
	return lasting
}

// length draws a time, on both sides of the grace that a fair lock is kept for its
// head, and the option that makes a lease last for it.
func (c *caller) length() (d time.Duration, lasting lock.Option) {
	if c.has(Huge) && c.chance(2) {
		return c.huge()
	}
	d = watchdogs[c.rng.IntN(len(watchdogs))]
	if c.world().Seed%4 == 1 { // hand-offs are between equals
		d = watchdogs[0]
	}
	if c.has(Long) && c.chance(30) {
		d = c.between(time.Minute, 10*time.Minute)
	}
	c.world().lasts(d)
	if c.has(Fixed) && c.chance(50) {
		if c.chance(20) {
			d = c.between(20*time.Millisecond, 500*time.Millisecond)
		}
		return d, lock.WithLease(d)
	}
	return d, lock.WithWatchdog(d)
}

// huge draws a duration near the end of the type.
func (c *caller) huge() (d time.Duration, lasting lock.Option) {
	c.world().journal.count("huge number")
	d = []time.Duration{math.MaxInt64, math.MaxInt64 - 999_999, math.MaxInt64 / 2, 1 << 61}[c.rng.IntN(4)]
	if c.chance(50) {
		return d, lock.WithLease(d)
	}
	return d, lock.WithWatchdog(d)
}

// permits is the size of every semaphore.
const permits = 3

// maxDepth bounds leases within leases.
const maxDepth = 3

// hold acquires, works and releases.
func (c *caller) hold(ctx context.Context, w wish, depth int) {
	h := c.acquire(ctx, w, depth > 0)
	if h == nil {
		pause(ctx, c.between(time.Millisecond, 50*time.Millisecond)) // it may be refused at once, again and again
		return
	}
	c.work(h, w, depth)
	c.release(h)
	if c.has(Force) && w.mode == lock.Fair && depth == 0 && c.chance(10) {
		c.force(w.key) // from the owner that it was handed to, which has not called yet
	}
}

// acquire gets a lease, and judges it; nil means that there is none.
func (c *caller) acquire(ctx context.Context, w wish, within bool) *held {
	world := c.world()
	locker, id := c.process.current()
	limited := ctx
	if c.has(Cancel) && c.chance(20) {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, c.between(100*time.Microsecond, time.Second))
		defer cancel()
	}
	began := time.Now()
	done := func() {}
	if !w.once && !within {
		done = world.waits(w.key, c.process, began)
	}
	lease, err := call(locker, w.once)(limited, w.key, w.options...)
	done()
	c.judgeCall(limited, w, id, began, within, err)
	if err != nil {
		return nil
	}
	h := &held{lease: lease, process: c.process, began: began, permits: w.permits, size: w.size, lasts: w.lasts, named: w.named}
	if !w.named { // a name's minimum counts from the grant of its hold, whose caller may have left without it
		h.minHold = w.minHold
		if !c.has(Clock) { // the server's clock ends it
			h.maxHold = w.maxHold
		}
	}
	c.granted(h, within, id)
	return h
}

// alone says whether a hold in that mode keeps everybody else out.
func alone(m lock.Mode) bool { return m == lock.Exclusive || m == lock.Fair || m == lock.Write }

func call(locker *lock.Locker, once bool) func(context.Context, string, ...lock.Option) (*lock.Lease, error) {
	if once {
		return locker.TryAcquire
	}
	return locker.Acquire
}

// judgeCall judges an acquisition by itself: how long it took, and the order in
// its locker.
func (c *caller) judgeCall(ctx context.Context, w wish, id int, began time.Time, within bool, err error) {
	world, now := c.world(), time.Now()
	world.journal.count("result: " + outcome(err))
	if (w.once || w.wait > 0) && !w.named { // those of one name wait for each other's calls
		world.journal.report(judge.Overstayed(judge.Call{
			Op: "acquire", Key: w.key, Began: began, Ended: now, Limit: w.wait + 2*world.callTimeout + time.Second,
		}))
	}
	if ctx.Err() != nil && !c.process.dead.Load() {
		world.journal.count("cancelled while it waited")
	}
	if !within && !w.named && w.mode == lock.Exclusive {
		world.journal.waited(judge.Wait{
			Key: w.key, Locker: id, Began: began, Ended: now, Granted: err == nil,
			Waits: !w.once && (err == nil || !w.long), // one that fails to last has had the key, and passed nobody by
		})
	}
}

// outcome is the kind of an error.
func outcome(err error) string {
	for _, kind := range []error{
		lock.ErrBusy, lock.ErrUnavailable, lock.ErrClosed, lock.ErrInvalid, lock.ErrLost, lock.ErrUnsupported, lock.ErrReleased,
		context.Canceled, context.DeadlineExceeded,
	} {
		if errors.Is(err, kind) {
			return kind.Error()
		}
	}
	if err != nil {
		return "another error"
	}
	return "granted"
}

// granted notes a lease and judges it together with the others.
func (c *caller) granted(h *held, within bool, id int) {
	world, key, owner := c.world(), h.lease.Key(), h.lease.Owner()
	world.journal.tell("p%d.%d grant    %s %s fence %d until %s", c.process.number, c.number, key, readable([]string{owner}),
		h.lease.Fence(), h.lease.Deadline().Sub(world.journal.start).Round(time.Millisecond))
	world.adopt(owner, id, c.process)
	world.ledger.add(h, world.server.grantedTo(owner))
	world.judgeDrained(id)
	if world.ledger.isExcused(owner) {
		return
	}
	if within {
		world.journal.count("re-entered")
	} else {
		world.journal.count("grant: " + h.lease.Mode().String())
		if alone(h.lease.Mode()) {
			if h.lease.Fence()%lock.FenceStep != 0 && !c.has(Tokens) {
				world.journal.count("handed off")
			}
			world.journal.granted(judge.Grant{
				Key: key, Owner: owner, Fence: world.plant.fence(h.lease.Fence()), At: time.Now(), Named: h.named,
			})
		}
	}
	others := world.ledger.trusted(func(other *held) bool { return other.lease.Key() == key })
	if len(others) > 1 && trusts(h.lease) {
		world.journal.report(judge.Holders(time.Now(), others))
	}
}

// work does what somebody does under a lease.
func (c *caller) work(h *held, w wish, depth int) {
	ctx, most := h.lease.Context(), c.long()
	working := ctx
	if w.maxHold > 0 && c.chance(50) { // some don't notice when they have held it for too long
		working = c.process.ctx
	}
	pause(working, c.between(time.Microsecond, most))
	if c.has(Extend) && c.chance(30) {
		c.extend(h, 1)
	}
	if c.has(Extends) && c.chance(30) {
		c.extend(h, 2)
	}
	if c.has(Reenter) && w.mode != lock.Semaphore && depth < maxDepth && c.chance(30) {
		again := w
		again.options = []lock.Option{lock.WithMode(w.mode), c.lasting()}
		if w.mode == lock.Write && c.chance(30) {
			again.mode = lock.Read
			again.options = []lock.Option{lock.WithMode(lock.Read), c.lasting()}
		}
		again.wait, again.named, again.minHold, again.maxHold = 0, false, 0, 0
		if again.mode == lock.Read && w.mode == lock.Write && c.chance(50) {
			c.readTwice(ctx, again)
		} else {
			c.hold(ctx, again, depth+1)
		}
	}
	pause(working, c.between(time.Microsecond, most))
}

// readTwice reads as a writer. The first lease may be over when the second begins, and
// is released after that.
func (c *caller) readTwice(ctx context.Context, w wish) {
	c.world().journal.count("writer read twice")
	brief := w
	brief.options = []lock.Option{lock.WithMode(lock.Read), lock.WithLease(c.between(20*time.Millisecond, 300*time.Millisecond))}
	first := c.acquire(ctx, brief, true)
	pause(ctx, c.between(time.Microsecond, 400*time.Millisecond))
	second := c.acquire(ctx, w, true)
	for _, h := range []*held{first, second} {
		if h != nil {
			c.release(h)
			pause(ctx, c.between(time.Microsecond, 400*time.Millisecond))
		}
	}
}

// readOn writes for a moment, and reads long after that lease has ended, or only while it
// lasts. It may be long before it releases what has ended.
func (c *caller) readOn(key string) {
	brief := lock.WithLease(c.between(20*time.Millisecond, 500*time.Millisecond))
	writes := wish{key: key, mode: lock.Write, wait: time.Second, options: []lock.Option{lock.WithMode(lock.Write), brief, lock.WithWait(time.Second)}}
	reads := wish{key: key, mode: lock.Read, options: []lock.Option{lock.WithMode(lock.Read), c.lasting()}}
	first := c.acquire(c.process.ctx, writes, false)
	if first == nil {
		return
	}
	second := c.acquire(context.WithoutCancel(first.lease.Context()), reads, true)
	if second != nil {
		longest := 20 * time.Second
		if c.chance(30) {
			longest = 50 * time.Millisecond
		}
		pause(c.process.ctx, c.between(time.Millisecond, longest))
		if !trusts(first.lease) && trusts(second.lease) {
			c.world().journal.count("writer read on")
		}
		c.release(second)
	}
	if c.chance(30) {
		pause(c.process.ctx, c.between(time.Millisecond, 10*time.Second))
	}
	c.release(first)
}

// extend extends a lease several times at once.
func (c *caller) extend(h *held, times int) {
	var all sync.WaitGroup
	for range times {
		d := c.between(lock.MinLease, 40*time.Second)
		if c.has(Long) && c.chance(20) {
			d = c.between(time.Minute, 10*time.Minute)
		}
		c.world().lasts(d)
		if c.has(Huge) && c.chance(2) {
			d = math.MaxInt64
		}
		delay := c.between(time.Microsecond, time.Millisecond)
		all.Go(func() {
			pause(h.lease.Context(), delay)
			err := h.lease.Extend(c.process.ctx, d)
			c.world().journal.tell("p%d.%d extend   %s %s by %v: %v", c.process.number, c.number, h.lease.Key(),
				readable([]string{h.lease.Owner()}), d, err)
			c.world().journal.count("extend: " + outcome(err))
		})
	}
	all.Wait()
}

func (c *caller) release(h *held) {
	began := time.Now()
	err := h.lease.Release(context.Background())
	world := c.world()
	world.ledger.remove(h)
	if errors.Is(err, lock.ErrHeldTooLong) {
		world.journal.count("held too long")
	}
	if err == nil && h.minHold > 0 && alone(h.lease.Mode()) {
		world.ledger.keep(h)
	}
	world.journal.tell("p%d.%d release  %s %s: %v", c.process.number, c.number, h.lease.Key(), readable([]string{h.lease.Owner()}), err)
	world.journal.count("release: " + outcome(err))
	if errors.Is(err, lock.ErrStoreAway) && c.renewsInTime() {
		world.journal.report(judge.Away(h.lease.Key(), h.lease.Deadline(), world.reachable(c.process), h.lasts))
	}
	world.journal.report(judge.Overstayed(judge.Call{
		Op: "release", Key: h.lease.Key(), Began: began, Ended: time.Now(), Limit: world.callTimeout + 50*time.Millisecond,
	}))
}

// renewsInTime says whether each lease is renewed for itself, by a process that lives, on a
// network that takes no seconds.
func (c *caller) renewsInTime() bool {
	shared := c.has(Reenter) || c.has(Named) || c.has(Twins)
	return !shared && !c.has(Slow) && !c.has(Pace) && !c.process.dead.Load()
}

// burst tries again and again, with no pause to speak of.
func (c *caller) burst(key string) {
	for range 1 + c.rng.IntN(40) {
		if c.process.ctx.Err() != nil {
			return
		}
		w := c.wish(key)
		w.once = true
		c.world().journal.count("tried")
		if h := c.acquire(c.process.ctx, w, false); h != nil {
			pause(h.lease.Context(), c.between(time.Microsecond, 10*time.Millisecond))
			c.release(h)
		}
		if c.chance(50) {
			pause(c.process.ctx, c.between(time.Microsecond, time.Millisecond))
		}
	}
}

// group acquires some keys, all or none.
func (c *caller) group() {
	locker, id := c.process.current()
	var requests []lock.Request
	named := make(map[string]bool)
	for range 1 + c.rng.IntN(3) {
		key := c.world().keys[c.rng.IntN(len(c.world().keys))]
		again := named[key] && !c.has(Reenter) // the same key twice is a re-entry
		if c.world().modes[key] == lock.Exclusive && !again {
			requests = append(requests, locker.Request(key, c.lasting()))
		}
		named[key] = true
	}
	if len(requests) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(c.process.ctx, 2*time.Second)
	defer cancel()
	began := time.Now()
	leases, err := lock.AcquireAll(ctx, requests...)
	c.world().journal.count("group: " + outcome(err))
	if err != nil {
		return
	}
	var all []*held
	for _, lease := range leases.Each() {
		h := &held{lease: lease, process: c.process, began: began}
		c.granted(h, true, id)
		all = append(all, h)
	}
	pause(c.process.ctx, c.between(time.Microsecond, 50*time.Millisecond))
	err = leases.Release(context.Background())
	for _, h := range all {
		c.world().ledger.remove(h)
	}
	c.world().journal.count("group release: " + outcome(err))
}

// force looks at a key, and takes it away from its holders. They notice
// when they renew: what the server takes from them is excused.
func (c *caller) force(key string) {
	locker, _ := c.process.current()
	state, err := locker.Inspect(c.process.ctx, key)
	c.world().journal.count("inspect: " + outcome(err))
	if err != nil || !state.Held {
		return
	}
	freed, err := locker.ForceRelease(c.process.ctx, key)
	c.world().journal.tell("p%d.%d force    %s: %v %v", c.process.number, c.number, key, freed, err)
	c.world().journal.count("force: " + outcome(err))
}
