package lock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

// Callers acquire, re-enter, extend, release and close side by side, on a network that is
// slow or loses answers. No key expires and nobody takes one by force. So nobody hears of
// a loss, and nothing is left.
func TestAStormMakesNoLoss(t *testing.T) {
	storms(t, upTo(100), func(s *storm) {
		s.early = s.draw(2) == 0
		s.patience = 5 * time.Second // contexts last for 4
		s.connect(network{usual: time.Millisecond, slow: 3 * time.Second, slowOf: 10, lostOf: 8})
		s.open(2, lock.WithCallTimeout(time.Second), lock.WithHandoff(63, time.Hour))
		s.run()
	})
}

// Callers stand in line for one key, some leave early, and nobody polls. Who misses a
// wake-up waits until places in the store's queue are named again, or for ever: in both
// cases far longer than all of them together take. A late call of a waiter that has left
// may use up the place of another (docs/wire.md). That happens in one storm of some 5,000.
func TestAStormLosesNoWakeUp(t *testing.T) {
	var late []uint64
	storms(t, upTo(1000), func(s *storm) {
		s.late = func(what string) {
			s.log()
			s.Logf("%s takes too long", what)
			s.mu.Lock()
			defer s.mu.Unlock()
			if !slices.Contains(late, s.seed) {
				late = append(late, s.seed)
			}
		}
		s.inLine()
	})
	if len(late) > 2 {
		t.Errorf("in storms %v somebody waits for too long", late)
	}
}

// A named reader held the key as an owner that it had left, and a fair waiter waited for a
// poll attempt of the one before it.
func TestStormsThatLostAWakeUpLoseNone(t *testing.T) {
	storms(t, []uint64{152, 28198}, (*storm).inLine)
}

// Leases end by their limits and by force, others are kept for a minimum, and a locker is
// drained and closed in between. Nobody waits for what has ended.
func TestAStormOfEndsKeepsNobodyWaiting(t *testing.T) {
	storms(t, upTo(800), func(s *storm) {
		s.ends = true
		s.inLine()
	})
}

// upTo are the first n seeds, or fewer of them with -short.
func upTo(n uint64) (seeds []uint64) {
	if testing.Short() {
		n /= 5
	}
	for seed := range n {
		seeds = append(seeds, seed)
	}
	return seeds
}

// storms runs a storm of each seed, up to the first that fails.
func storms(t *testing.T, seeds []uint64, run func(*storm)) {
	t.Helper()
	for _, seed := range seeds {
		if !t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			// Time stands still in a bubble where somebody spins.
			stuck := time.AfterFunc(time.Minute, func() { panic(fmt.Sprintf("seed %d: time stands still", seed)) })
			defer stuck.Stop()
			synctest.Test(t, func(t *testing.T) { run(newStorm(t, seed)) })
		}) {
			return
		}
	}
}

// storm is one run, made by its seed as far as goroutines allow.
type storm struct {
	*testing.T
	seed     uint64
	store    *faulty
	lockers  []*lock.Locker
	held     gauge                        // holds, by the hooks
	waiting  atomic.Int32                 // acquisitions, by the hooks
	early    bool                         // a locker is closed in between
	ends     bool                         // leases end in other ways than by their release
	patience time.Duration                // no acquisition takes longer
	late     func(what string)            // called if one does
	inside   [len(stormKeys)]atomic.Int32 // who has the key alone
	readers  [len(stormKeys)]atomic.Int32 // who reads
	began    time.Time

	mu        sync.Mutex
	modes     map[string]lock.Mode // of owners that called, or whose places were named
	misplaced string               // what queues found
	dice      *rand.Rand
	events    []event
}

// network is how calls travel to the store and back.
type network struct {
	usual, slow    time.Duration // the longest hop there is, and the longest of a slow one
	slowOf, lostOf int           // of so many hops one is slow, and of so many answers one is lost; 0: none
}

// Kinds of networks; the others are prompt.
const (
	slowNetwork = 1 + iota
	lossyNetwork
)

// event is what happened in a storm.
type event struct {
	at     time.Duration
	format string
	args   []any
}

var stormKeys = [...]string{"a", "b"}

// families are the modes that are used side by side.
var families = [][]lock.Mode{
	{lock.Exclusive},
	{lock.Exclusive, lock.Fair},
	{lock.Write, lock.Read},
	{lock.Semaphore},
}

// queues are the same for callers in one line. Fair ones pass on what they know to the
// next, in any mode.
var queues = [][]lock.Mode{
	{lock.Fair},
	{lock.Fair, lock.Exclusive},
	{lock.Fair, lock.Semaphore},
	{lock.Fair, lock.Write, lock.Read},
	{lock.Fair, lock.Write, lock.Read, lock.Exclusive, lock.Semaphore},
	{lock.Exclusive, lock.Write, lock.Read, lock.Semaphore},
}

// in is the option for a mode.
func in(mode lock.Mode) lock.Option {
	if mode == lock.Semaphore {
		return lock.WithPermits(1, 2)
	}
	return lock.WithMode(mode)
}

func newStorm(t *testing.T, seed uint64) *storm {
	t.Helper()
	s := &storm{T: t, seed: seed, store: newFaulty(), dice: rand.New(rand.NewPCG(seed, 0)), began: time.Now(), modes: make(map[string]lock.Mode)}
	s.late = func(what string) { s.fail("%s takes too long", what) }
	return s
}

// connect puts a network before the store, or a better one.
func (s *storm) connect(n network) {
	kind := s.draw(3)
	if kind < slowNetwork {
		n.slowOf = 0
	}
	if kind < lossyNetwork {
		n.lostOf = 0
	}
	s.store.set(func(op string, c lock.Claim) error {
		if op == "acquire" {
			s.queues(c)
		}
		s.hop(n)
		return nil
	}, func(op string, c lock.Claim) error {
		state, _ := s.store.Inspect(context.Background(), c.Key)
		s.note("%s of %s of %s: now %+v", op, c.Mode, c.Owner, state)
		s.hop(n)
		if op != "renew" && s.oneOf(n.lostOf) {
			return errLineCut
		}
		return nil
	})
}

// queues checks that no place in the store's queue is that of a waiter in another mode:
// nobody would ever use it, nor leave it.
func (s *storm) queues(c lock.Claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, owner := range append([]string{c.Owner}, c.Places...) {
		known, ok := s.modes[owner]
		if ok && known != c.Mode && (known == lock.Fair || c.Mode == lock.Fair) {
			s.misplaced = fmt.Sprintf("a claim of %s has %s in mode %s, which is in mode %s", c.Owner, owner, c.Mode, known)
		}
		s.modes[owner] = c.Mode
	}
}

// open makes n lockers.
func (s *storm) open(n int, opts ...lock.Option) {
	hooks := lock.WithHooks(lock.Hooks{
		Lost: func(e lock.LossEvent) { s.noLoss("a "+e.Mode.String(), e.Cause) },
		Waiting: func(context.Context, lock.Event) func() {
			s.waiting.Add(1)
			return func() { s.waiting.Add(-1) }
		},
	})
	var store inspected = s.store
	if s.seed%2 == 1 {
		store = spaced{s.store} // they hand off
	}
	for range n {
		s.lockers = append(s.lockers, lock.New(port(store), append(opts[:len(opts):len(opts)], s.held.option(), hooks)...))
	}
}

func (s *storm) draw(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dice.IntN(n)
}

// oneOf says yes once in n times.
func (s *storm) oneOf(n int) bool { return n > 0 && s.draw(n) == 0 }

// hop is a call's way to the store or back. Some calls on a slow one are answered after
// their callers gave up.
func (s *storm) hop(n network) {
	limit := n.usual
	if s.oneOf(n.slowOf) {
		limit = n.slow
	}
	time.Sleep(time.Duration(s.draw(int(limit))))
}

func (s *storm) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, event{time.Since(s.began), format, args})
}

// fail says what is wrong, and the first time also what happened before.
func (s *storm) fail(format string, args ...any) {
	s.Helper()
	if !s.Failed() {
		s.log()
	}
	s.Errorf("seed %d, after %v: %s", s.seed, time.Since(s.began), fmt.Sprintf(format, args...))
}

// log shows the last events.
func (s *storm) log() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.events[max(0, len(s.events)-50):] {
		s.Logf("%v: %s", e.at, fmt.Sprintf(e.format, e.args...))
	}
}

// noLoss reports an error that says that a key was lost.
func (s *storm) noLoss(what string, err error) {
	if !s.ends && (errors.Is(err, lock.ErrLost) || errors.Is(err, lock.ErrNotHeld)) {
		s.fail("%s: %v", what, err)
	}
}

func (s *storm) run() {
	members := s.gather(10, 12, s.visit)
	if s.early {
		time.Sleep(time.Duration(s.draw(3000)) * time.Millisecond)
		_ = s.lockers[0].Close(context.Background())
	}
	members.Wait()
	s.close()
	time.Sleep(time.Minute)
	s.empty()
}

// inLine is a storm of callers who stand in line.
func (s *storm) inLine() {
	s.patience = 1500 * time.Millisecond
	s.connect(network{usual: 2 * time.Millisecond, slow: 60 * time.Millisecond, slowOf: 25, lostOf: 40})
	poll := time.Hour
	if s.ends {
		poll = 100 * time.Millisecond // nobody is woken by the end of a TTL
	}
	s.open(1+s.draw(3), lock.WithCallTimeout(20*time.Millisecond), lock.WithPoll(poll))
	members := s.gather(12, 6, s.stand)
	if s.ends {
		s.leave()
	}
	members.Wait()
	s.store.set(nil, nil)
	time.Sleep(5 * time.Second) // what was left undone is undone by then
	s.empty()
	s.close()
}

// leave drains a locker, or closes it, or both, or neither.
func (s *storm) leave() {
	time.Sleep(time.Duration(s.draw(150)) * time.Millisecond)
	var drained sync.WaitGroup
	defer drained.Wait()
	if l := s.lockers[0]; s.oneOf(6) {
		drained.Go(func() { _ = l.Drain(context.Background()) })
	}
	time.Sleep(time.Duration(s.draw(50)) * time.Millisecond)
	if s.oneOf(6) {
		_ = s.lockers[0].Close(context.Background())
	}
}

// gather lets members visit the store, each several times.
func (s *storm) gather(members, visits int, visit func(i int, dice *rand.Rand)) *sync.WaitGroup {
	var all sync.WaitGroup
	for i := range members {
		dice := rand.New(rand.NewPCG(s.seed, uint64(1+i)))
		all.Go(func() {
			for range visits {
				visit(i, dice)
				time.Sleep(time.Duration(dice.IntN(20)) * time.Millisecond)
			}
		})
	}
	return &all
}

// close closes the lockers, of which nothing is left then.
func (s *storm) close() {
	for _, l := range s.lockers {
		_ = l.Close(context.Background()) // may give up what a slow network left undone
		if n := l.Left(); n != 0 {
			s.fail("%d things are left of a locker", n)
		}
	}
	if s.misplaced != "" {
		s.fail("%s", s.misplaced)
	}
	if left := s.held.left(); len(left) > 0 {
		s.fail("by the hooks, holds have not ended: %v", left)
	}
	if n := s.waiting.Load(); n != 0 {
		s.fail("by the hooks, %d waits have not ended", n)
	}
}

// empty reports what is left in the store.
func (s *storm) empty() {
	for _, key := range stormKeys {
		if state, err := s.store.Inspect(context.Background(), key); err != nil || state.Held || len(state.Waiters) > 0 {
			s.fail("left of %q: %+v, %v", key, state, err)
		}
	}
}

// visit is one acquisition by member i, and what it does with the lease.
func (s *storm) visit(i int, dice *rand.Rand) {
	l, k := s.lockers[i%2], dice.IntN(len(stormKeys))
	family := families[s.seed%uint64(len(families))]
	mode := family[dice.IntN(len(family))]
	opts, alone := []lock.Option{in(mode)}, excludes(mode) && !s.early
	for _, other := range []lock.Option{
		lock.WithWait(time.Duration(dice.IntN(500)) * time.Millisecond),
		lock.WithWatchdog(2 * time.Minute),
		lock.WithMinHold(50 * time.Millisecond),
	} {
		if dice.IntN(6) == 0 {
			opts = append(opts, other)
		}
	}
	acquire := l.Acquire
	if dice.IntN(3) == 0 {
		acquire = l.TryAcquire
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(1+dice.IntN(4000))*time.Millisecond)
	defer cancel()
	lease := s.acquire(fmt.Sprintf("%s by member %d", mode, i), func() (*lock.Lease, error) { return acquire(ctx, stormKeys[k], opts...) })
	if lease != nil {
		s.use(ctx, lease, alone, 30*time.Millisecond, dice)
	}
}

// stand is one acquisition by member i of the queue.
func (s *storm) stand(i int, dice *rand.Rand) {
	modes := queues[s.seed%uint64(len(queues))]
	mode := modes[dice.IntN(len(modes))]
	opts, alone := []lock.Option{in(mode)}, excludes(mode)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	soon := time.Duration(dice.IntN(int(30 * time.Millisecond)))
	switch dice.IntN(6) {
	case 0, 1:
		time.AfterFunc(soon, cancel)
	case 2:
		opts = append(opts, lock.WithWait(soon))
	}
	l := s.lockers[dice.IntN(len(s.lockers))]
	if s.ends {
		alone = false
		opts = append(opts, s.end(l, dice)...)
	}
	lease := s.acquire(fmt.Sprintf("%s by member %d", mode, i), func() (*lock.Lease, error) { return l.Acquire(ctx, stormKeys[0], opts...) })
	if lease != nil {
		s.use(ctx, lease, alone, 5*time.Millisecond, dice)
	}
}

// end is how a lease ends, or how one of another did.
func (s *storm) end(l *lock.Locker, dice *rand.Rand) []lock.Option {
	switch dice.IntN(12) {
	case 0:
		return []lock.Option{lock.WithLease(15 * time.Millisecond)}
	case 1:
		return []lock.Option{lock.WithMaxHold(15 * time.Millisecond)}
	case 2:
		return []lock.Option{lock.WithMinHold(10 * time.Millisecond)}
	case 3:
		return []lock.Option{lock.WithWatchdog(15 * time.Millisecond)}
	case 4:
		_, _ = l.ForceRelease(context.Background(), stormKeys[0]) // may have no answer
	}
	return nil
}

// acquire returns what call does, or nil, and reports a call that takes too long.
func (s *storm) acquire(what string, call func() (*lock.Lease, error)) *lock.Lease {
	late := time.AfterFunc(s.patience, func() { s.late(what) })
	defer late.Stop()
	s.note("%s begins", what)
	lease, err := call()
	s.note("%s: %v", what, err)
	s.noLoss(what, err)
	return lease
}

// use is what a member does with a lease, which it has alone or not, for up to so long.
func (s *storm) use(ctx context.Context, lease *lock.Lease, alone bool, long time.Duration, dice *rand.Rand) {
	k := slices.Index(stormKeys[:], lease.Key())
	inside, readers := &s.inside[k], &s.readers[k]
	if alone && (inside.Add(1) > 1 || readers.Load() > 0) {
		s.fail("two have the key")
	}
	reads := lease.Mode() == lock.Read && !s.early && !s.ends
	if reads {
		if readers.Add(1); inside.Load() > 0 {
			s.fail("a reader has the key of a writer")
		}
	}
	var work sync.WaitGroup
	defer work.Wait()
	for range dice.IntN(3) {
		pause := time.Duration(dice.IntN(int(long)))
		switch dice.IntN(3) {
		case 0:
			work.Go(func() { s.noLoss("extend", lease.Extend(ctx, time.Minute)) })
		case 1:
			mode := lease.Mode()
			if mode == lock.Write && dice.IntN(2) == 0 {
				mode = lock.Read
			}
			work.Go(func() { s.reenter(lease, mode, pause, readers) })
		}
	}
	time.Sleep(time.Duration(dice.IntN(int(long))))
	if dice.IntN(2) == 0 {
		work.Wait()
	}
	if alone {
		inside.Add(-1)
	}
	if reads {
		readers.Add(-1)
	}
	s.noLoss("release", lease.Release(ctx))
}

// reenter takes the key once more, as a reader if a writer likes, or other permits if they
// come soon. What a writer reads may outlast its writing.
func (s *storm) reenter(outer *lock.Lease, mode lock.Mode, pause time.Duration, readers *atomic.Int32) {
	inner := s.acquire("re-entry", func() (*lock.Lease, error) {
		return outer.Locker().Acquire(outer.Context(), outer.Key(), in(mode), lock.WithWait(pause))
	})
	if inner == nil {
		return
	}
	goesOn := mode != outer.Mode() && !s.early && !s.ends
	if goesOn {
		readers.Add(1)
		pause += 20 * time.Millisecond
	}
	time.Sleep(pause)
	if goesOn {
		readers.Add(-1)
	}
	s.noLoss("release of a re-entry", inner.Release(context.Background()))
}

// excludes says whether who has the key in that mode has it alone.
func excludes(mode lock.Mode) bool { return mode != lock.Read && mode != lock.Semaphore }
