package world

import (
	"context"
	"errors"
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
		case c.has(ReadOn) && c.world().modes[key] == lock.Read && c.chance(30):
			c.readOn(key)
		case c.has(Java) && c.world().modes[key] == lock.Read && c.chance(10):
			c.readLong(key)
		default:
			c.hold(c.process.ctx, c.wish(key), nil, 0)
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
	long          bool          // its lease gets its length after the grant
	minHold       time.Duration
	maxHold       time.Duration
	term          term
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
	w.lasting(c.term())
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
	return w
}

// lasting sets how long the lease is to last.
func (w *wish) lasting(t term) {
	w.term, w.long, w.options = t, t.lasts > lock.DefaultWatchdog, append(w.options, t.option())
}

// nested is what a holder asks for when it acquires its key once more.
func (c *caller) nested(key string, mode lock.Mode) wish {
	w := wish{key: key, mode: mode, options: []lock.Option{lock.WithMode(mode)}}
	w.lasting(c.term())
	return w
}

// term is how long a lease is to last: fixed, or by a watchdog.
type term struct {
	lasts time.Duration
	fixed bool
}

func (t term) option() lock.Option {
	if t.fixed {
		return lock.WithLease(t.lasts)
	}
	return lock.WithWatchdog(t.lasts)
}

var watchdogs = []time.Duration{300 * time.Millisecond, time.Second, 3 * time.Second, 8 * time.Second, lock.DefaultWatchdog}

// term draws a time, on both sides of the grace that a fair lock is kept for its head.
func (c *caller) term() term {
	if c.has(Huge) && c.chance(2) {
		return c.huge()
	}
	d := watchdogs[c.rng.IntN(len(watchdogs))]
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
		return term{d, true}
	}
	return term{d, false}
}

// huge draws a duration near the end of the type.
func (c *caller) huge() term {
	c.world().journal.count("huge number")
	d := []time.Duration{math.MaxInt64, math.MaxInt64 - 999_999, math.MaxInt64 / 2, 1 << 61}[c.rng.IntN(4)]
	return term{d, c.chance(50)}
}

// permits is the size of every semaphore.
const permits = 3

// maxDepth bounds leases within leases.
const maxDepth = 3

// hold acquires, works and releases.
func (c *caller) hold(ctx context.Context, w wish, outer *held, depth int) {
	h := c.acquire(ctx, w, outer)
	if h == nil {
		pause(ctx, c.between(time.Millisecond, 50*time.Millisecond)) // it may be refused at once, again and again
		return
	}
	c.work(h, w, depth)
	if w.mode == lock.Write && w.minHold == 0 && c.has(Reenter) && c.chance(20) {
		c.goesOn(h)
	} else {
		c.release(h)
	}
	if c.has(Force) && w.mode == lock.Fair && depth == 0 && c.chance(10) {
		c.force(w.key) // from the owner that it was handed to, which has not called yet
	}
}

// acquire gets a lease, and judges it; nil means that there is none. outer is the lease
// that ctx has of the key, if any.
func (c *caller) acquire(ctx context.Context, w wish, outer *held) *held {
	world, within := c.world(), outer != nil
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
		done = world.waits(w.key, w.mode, c.process, began)
	}
	covered := within && outer.covers(w.term)
	counted, calls := counting(limited)
	lease, err := call(locker, w.once)(counted, w.key, w.options...)
	done()
	c.judgeCall(limited, w, id, began, within, err)
	if err != nil {
		return nil
	}
	if covered && lease.Owner() == outer.lease.Owner() {
		world.plant.counts(counted, lease)
		world.journal.count("re-entered without a call")
		world.journal.report(judge.Reentered(time.Now(), w.key, lease.Owner(), int(calls.Load())))
	}
	h := &held{lease: lease, process: c.process, began: began, permits: w.permits, size: w.size, term: w.term, minHold: w.minHold}
	if !c.has(Clock) { // the server's clock ends it
		h.maxHold = w.maxHold
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
	if w.once || w.wait > 0 {
		world.journal.report(judge.Overstayed(judge.Call{
			Op: "acquire", Key: w.key, Began: began, Ended: now, Limit: w.wait + 2*world.callTimeout + time.Second,
		}))
	}
	if ctx.Err() != nil && !c.process.dead.Load() {
		world.journal.count("cancelled while it waited")
	}
	if !within && w.mode == lock.Exclusive {
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
				Key: key, Owner: owner, Fence: world.plant.fence(h.lease.Fence()), At: time.Now(),
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
		mode := w.mode
		if w.mode == lock.Write && c.chance(30) {
			mode = lock.Read
		}
		c.hold(ctx, c.nested(w.key, mode), h, depth+1)
	}
	pause(working, c.between(time.Microsecond, most))
}

// readOn writes for a moment, and reads for longer than that.
func (c *caller) readOn(key string) {
	writes := wish{key: key, mode: lock.Write, wait: time.Second, options: []lock.Option{lock.WithMode(lock.Write), lock.WithWait(time.Second)}}
	writes.lasting(c.term())
	if c.chance(50) {
		writes.lasting(term{c.between(20*time.Millisecond, 500*time.Millisecond), true})
	}
	write := c.acquire(c.process.ctx, writes, nil)
	if write != nil {
		c.goesOn(write)
	}
}

// goesOn makes a reader of a writer: when its last write lease is released, the hold becomes
// that of a reader. Or it stops reading first.
func (c *caller) goesOn(write *held) {
	read := c.acquire(context.WithoutCancel(write.lease.Context()), c.nested(write.lease.Key(), lock.Read), write)
	pause(write.lease.Context(), c.writing(write))
	if read == nil || c.chance(20) {
		write, read = read, write
	}
	var extended sync.WaitGroup
	if d := c.between(lock.MinLease, 40*time.Second); read != nil && c.chance(30) {
		c.world().lasts(d)
		extended.Go(func() { _ = read.lease.Extend(c.process.ctx, d) })
	}
	if write != nil {
		c.release(write)
	}
	if read == nil {
		return
	}
	if write != nil && write.lease.Mode() == lock.Write && trusts(read.lease) {
		c.world().journal.count("writer read on")
	}
	longest := 50 * time.Millisecond
	if c.chance(35) {
		longest = 20 * time.Second
	}
	pause(read.lease.Context(), c.between(time.Millisecond, longest))
	extended.Wait()
	c.release(read)
}

// writing draws how long a writer writes: often until its first renewal is due, as what
// it does next may overtake that.
func (c *caller) writing(h *held) time.Duration {
	due := time.Until(h.began.Add(h.term.lasts / 3))
	if h.term.fixed || due < 0 || due > 3*time.Second || c.chance(50) {
		return c.between(time.Microsecond, 100*time.Millisecond)
	}
	return due + c.between(0, 2*time.Millisecond)
}

// readLong reads for longer than a reader of Redisson lets the lock last.
func (c *caller) readLong(key string) {
	w := wish{key: key, mode: lock.Read, wait: time.Second, options: []lock.Option{lock.WithMode(lock.Read), lock.WithWait(time.Second)}}
	w.lasting(term{c.between(time.Minute, 3*time.Minute), c.chance(50)})
	c.world().lasts(w.term.lasts)
	h := c.acquire(c.process.ctx, w, nil)
	if h == nil {
		return
	}
	pause(h.lease.Context(), c.between(15*time.Second, 45*time.Second))
	c.release(h)
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
	if errors.Is(err, lock.ErrNotRenewed) && c.renewsInTime() {
		world.journal.report(judge.Away(h.lease.Key(), h.lease.Deadline(), world.reachable(c.process), h.term.lasts))
	}
	world.journal.report(judge.Overstayed(judge.Call{
		Op: "release", Key: h.lease.Key(), Began: began, Ended: time.Now(), Limit: world.callTimeout + 50*time.Millisecond,
	}))
}

// renewsInTime says whether each lease is renewed for itself, by a process that lives, on a
// network that takes no seconds.
func (c *caller) renewsInTime() bool {
	shared := c.has(Reenter) || c.has(ReadOn) || c.has(Twins)
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
		if h := c.acquire(c.process.ctx, w, nil); h != nil {
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
			requests = append(requests, locker.Request(key, c.term().option()))
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
