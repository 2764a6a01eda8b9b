// Package storetest tests implementations of [lock.Store] against their contract,
// alone and under the engine, blocking behaviour included.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

// patience bounds every wait for something that must happen.
const patience = 20 * time.Second

// brief is a TTL that a test lets end, after calls that have to come before: a busy
// machine makes them in time as well.
const brief = time.Second

// Option changes what [Run] demands.
type Option func(*settings)

type settings struct {
	required []lock.Mode
}

// Require makes it a failure that the store doesn't support one of the
// modes. Without it, the section of such a mode is skipped.
func Require(modes ...lock.Mode) Option {
	return func(s *settings) { s.required = append(s.required, modes...) }
}

// Run tests the stores that open returns. Each subtest calls open once and uses its
// own keys, so open may return the same store again. The subtests are parallel, since
// they mostly wait: open must be safe for concurrent use, and they end after Run has
// returned. open registers the clean-up with t.Cleanup.
//
// Every store must support mode Exclusive. Each other mode is tested in a subtest,
// which is skipped if the store returns [lock.ErrUnsupported] and the mode isn't
// required.
func Run(t *testing.T, open func(t *testing.T) lock.Store, opts ...Option) {
	t.Helper()
	var set settings
	for _, apply := range opts {
		apply(&set)
	}
	set.run(t, open, lock.Exclusive, exclusiveTests)
	set.run(t, open, lock.Exclusive, allTests)
	set.run(t, open, lock.Exclusive, operatorTests)
	for _, s := range sections {
		t.Run(s.name, func(t *testing.T) {
			b := set.newBench(t, open(t), s.modes[0])
			for _, m := range s.modes {
				if b.supports(m) {
					continue
				}
				if slices.Contains(set.required, m) {
					t.Fatalf("required, but unsupported: %s", m)
				}
				t.Skipf("unsupported: %s", m)
			}
			set.run(t, open, s.modes[0], s.tests)
		})
	}
}

type test struct {
	name string
	run  func(*testing.T, *bench)
}

var sections = []struct {
	name  string
	modes []lock.Mode // the first is that of the bench
	tests []test
}{
	{"fair", []lock.Mode{lock.Fair}, slices.Concat(holdTests, inspectTests, exclusionTests, keepTests, engineTests, fairTests)},
	{"read", []lock.Mode{lock.Read}, slices.Concat(holdTests, inspectTests, keepTests, wakeTests)},
	{"write", []lock.Mode{lock.Write}, exclusiveTests},
	{"read and write", []lock.Mode{lock.Read, lock.Write}, readWriteTests},
	{"semaphore", []lock.Mode{lock.Semaphore}, slices.Concat(holdTests, inspectTests, exclusionTests, keepTests, wakeTests, engineTests, semaphoreTests)},
}

// The tests of [lock.Exclusive]. Sections of other modes run the ones that hold
// there as well: a semaphore of one permit, say, excludes like a lock.
var exclusiveTests = slices.Concat(holdTests, inspectTests, exclusionTests, keepTests, wakeTests, engineTests)

var allTests = []test{
	{"renewal of several modes in one call", renewsModes},
	{"engine: AcquireAll takes all keys or none", engineAcquiresAll},
}

var holdTests = []test{
	{"a free key is granted with a fence", grantsFreeKey},
	{"the same claim twice is one hold", repeatsAreOneHold},
	{"the same claim again lengthens its hold, and never shortens it", repeatLengthens},
	{"a TTL is no whole number of seconds", keepsAllOfTheTTL},
	{"release of what is gone says so", releaseSaysGone},
	{"an undo is a release", undoReleases},
	{"renewal lengthens own holds only", renewsOwnOnly},
	{"a late, shorter renewal cuts nothing", lateRenewalCutsNothing},
	{"renewal never creates a hold", renewalNeverCreates},
	{"renewal of many reports each claim once, and gives each its own TTL", renewsMany},
	{"fences grow over release, expiry and force", fencesGrow},
	{"keys are independent", keysAreIndependent},
	{"a TTL beyond the maximum is refused", refusesLongTTLs},
	{"a claim without an owner is refused", refusesEmptyClaims},
}

var inspectTests = []test{{"inspect reports the truth", inspects}}

var exclusionTests = []test{
	{"a held key is busy and says for how long", saysBusy},
	{"release never touches another owner's hold", releasesOwnOnly},
	{"a hold that is not renewed expires", expires},
	{"of many claims at once exactly one is granted", oneWinner},
}

var wakeTests = []test{
	{"a release wakes who watches", releaseWakes},
	{"a release knows how many watch, or that it doesn't", releaseCounts},
	{"a force release wakes and frees", forceWakes},
	{"nothing is called after stop", silentAfterStop},
	{"many watch and stop at once", watchStorm},
}

var engineTests = []test{
	{"engine: a waiter elsewhere gets a released key", engineHandsOver},
	{"engine: a waiter gets an abandoned key", engineSurvivesDeath},
	{"engine: a counter under contention is exact", engineExcludes},
	{"engine: a cancelled waiter strands nobody", engineCancels},
	{"engine: the watchdog keeps a key", engineRenews},
	{"engine: one attempt never waits", engineTries},
	{"engine: closing leaves nothing", engineCloses},
}

func (s *settings) run(t *testing.T, open func(t *testing.T) lock.Store, m lock.Mode, tests []test) {
	t.Helper()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.run(t, s.newBench(t, open(t), m))
		})
	}
}

var ids atomic.Int64

func newID() string { return fmt.Sprint(ids.Add(1)) }

// bench is a store under test, with what tests do to it all the time.
type bench struct {
	*testing.T
	lock.BlockingStore

	store  lock.Store // which has the answers of BlockingStore
	mode   lock.Mode  // of claims and lockers that name no other
	prefix string
	fences map[string]uint64 // the largest of each key, and the last of each owner
	asides sync.WaitGroup
}

func (s *settings) newBench(t *testing.T, store lock.Store, m lock.Mode) *bench {
	t.Helper()
	b := &bench{T: t, BlockingStore: lock.Blocking(store), store: store, mode: m, fences: make(map[string]uint64)}
	b.prefix = fmt.Sprintf("storetest:%d:%s:", time.Now().UnixNano(), newID())
	t.Cleanup(b.asides.Wait) // the last: lockers that close let their waiters go
	return b
}

// aside runs fn concurrently with the test, which doesn't end before fn has.
func (b *bench) aside(fn func()) { b.asides.Go(fn) }

// supports says whether the store has a mode; one that hasn't must say so in
// every call.
func (b *bench) supports(m lock.Mode) bool {
	b.Helper()
	c := b.in(m, "probe")(minute)
	_, refused := b.BlockingStore.Acquire(b.Context(), c)
	if refused == nil {
		b.release(c, nil)
		return true
	}
	if !errors.Is(refused, lock.ErrUnsupported) {
		b.Fatalf("Acquire(%+v): %v", c, refused)
	}
	b.renew(c, lock.ErrUnsupported)
	b.release(c, lock.ErrUnsupported)
	if _, err := b.BlockingStore.Watch(b.Context(), c, func() {}); !errors.Is(err, lock.ErrUnsupported) {
		b.Errorf("Watch(%+v): got %v, want ErrUnsupported", c, err)
	}
	return false
}

func (b *bench) key(name string) string { return b.prefix + name }

// owner returns claims of one owner on one key.
func (b *bench) owner(key string) func(ttl time.Duration) lock.Claim {
	return b.in(b.mode, key)
}

// in returns claims of one owner in a mode; those of a semaphore take the one
// permit it has.
func (b *bench) in(m lock.Mode, key string) func(ttl time.Duration) lock.Claim {
	owner := fmt.Sprintf("5f0c0e1a-9d5a-8c9e-8f57-%012x:1", ids.Add(1)) // of a new locker
	return func(ttl time.Duration) lock.Claim {
		c := lock.Claim{Key: b.key(key), Owner: owner, Mode: m, TTL: ttl}
		if m == lock.Semaphore {
			c.Permits, c.Size = 1, 1
		}
		return c
	}
}

// as is c in another mode: by the same owner, on the same key.
func as(m lock.Mode, c lock.Claim) lock.Claim {
	c.Mode = m
	return c
}

// acquire fails unless c is granted, with a fence that is larger than those of all
// owners before, and that doesn't fall while its own owner has the key.
func (b *bench) acquire(c lock.Claim) uint64 {
	b.Helper()
	fence, err := b.BlockingStore.Acquire(b.Context(), c)
	if err != nil {
		b.Fatalf("Acquire(%+v): %v", c, err)
	}
	owner := c.Key + " of " + c.Owner
	least := b.fences[owner] // of a repetition
	if least == 0 {
		least = b.fences[c.Key] + 1
	}
	if fence < least {
		b.Errorf("Acquire(%+v): fence %d, want %d at least", c, fence, least)
	}
	b.fences[c.Key], b.fences[owner] = max(fence, b.fences[c.Key]), fence
	return fence
}

// denied fails unless c is refused with that error.
func (b *bench) denied(c lock.Claim, want error) {
	b.Helper()
	if _, err := b.BlockingStore.Acquire(b.Context(), c); !errors.Is(err, want) {
		b.Fatalf("Acquire(%+v): got %v, want %v", c, err, want)
	}
}

// busy returns for how long c is refused.
func (b *bench) busy(c lock.Claim) time.Duration {
	b.Helper()
	return b.refused(c).TTL
}

func (b *bench) refused(c lock.Claim) *lock.BusyError {
	b.Helper()
	_, err := b.BlockingStore.Acquire(b.Context(), c)
	busy, ok := errors.AsType[*lock.BusyError](err)
	if !ok || !errors.Is(err, lock.ErrBusy) {
		b.Fatalf("Acquire(%+v): got %v, want a BusyError", c, err)
	}
	return busy
}

// busyFor fails unless c is busy, for d at most.
func (b *bench) busyFor(c lock.Claim, d time.Duration) {
	b.Helper()
	if ttl := b.busy(c); ttl <= 0 || ttl > d {
		b.Errorf("%s: busy for %v, want what is left of %v", c.Mode, ttl, d)
	}
}

func (b *bench) release(c lock.Claim, want error) {
	b.Helper()
	if err := b.BlockingStore.Release(b.Context(), c); !errors.Is(err, want) {
		b.Fatalf("Release(%+v): got %v, want %v", c, err, want)
	}
}

func (b *bench) lower(c lock.Claim, want error) {
	b.Helper()
	if err := b.BlockingStore.Lower(b.Context(), c); !errors.Is(err, want) {
		b.Fatalf("Lower(%+v): got %v, want %v", c, err, want)
	}
}

func (b *bench) renew(c lock.Claim, want error) {
	b.Helper()
	reported := 0
	b.BlockingStore.Renew(b.Context(), []lock.Claim{c}, func(_ int, err error) {
		reported++
		if !errors.Is(err, want) {
			b.Errorf("Renew(%+v): got %v, want %v", c, err, want)
		}
	})
	if reported != 1 {
		b.Fatalf("Renew(%+v) reported %d times", c, reported)
	}
}

// renewAll renews the claims in one call. It returns what was reported of each, and
// fails unless each was reported once.
func (b *bench) renewAll(claims []lock.Claim) []error {
	b.Helper()
	var mu sync.Mutex
	results, reported := make([]error, len(claims)), make([]int, len(claims))
	b.BlockingStore.Renew(b.Context(), claims, func(i int, err error) {
		mu.Lock()
		defer mu.Unlock()
		results[i] = err
		reported[i]++
	})
	for i, n := range reported {
		if n != 1 {
			b.Fatalf("claim %d of %d reported %d times", i, len(claims), n)
		}
	}
	return results
}

func (b *bench) force(key string) {
	b.Helper()
	if freed, err := b.BlockingStore.ForceRelease(b.Context(), b.key(key)); err != nil || !freed {
		b.Fatalf("ForceRelease: %v, %v", freed, err)
	}
}

func (b *bench) state(key string) lock.State {
	b.Helper()
	state, err := b.BlockingStore.Inspect(b.Context(), b.key(key))
	if err != nil {
		b.Fatalf("Inspect: %v", err)
	}
	return state
}

// once fails unless the key has one hold.
func (b *bench) once(key string) {
	b.Helper()
	if state := b.state(key); len(state.Owners) != 1 || state.Owners[0].Holds != 1 {
		b.Errorf("owners %+v, want one hold", state.Owners)
	}
}

// lasts fails unless the key is held for longer than least, and no longer than most.
func (b *bench) lasts(key string, least, most time.Duration) {
	b.Helper()
	if state := b.state(key); !state.Held || state.TTL <= least || state.TTL > most {
		b.Errorf("%s: held %v, for %v; want %v to %v", key, state.Held, state.TTL, least, most)
	}
}

// isFree fails if anybody holds the key.
func (b *bench) isFree(key string) {
	b.Helper()
	if state := b.state(key); state.Held { // a late release may still leave owners of a minority
		b.Errorf("not free: %+v", state)
	}
}

// ends waits until nobody holds the key.
func (b *bench) ends(key string) {
	b.Helper()
	b.eventually("the end of the hold", func() bool { return !b.state(key).Held })
}

// eventually polls until ok holds.
func (b *bench) eventually(what string, ok func() bool) {
	b.Helper()
	deadline := time.Now().Add(patience)
	for tick := time.NewTicker(2 * time.Millisecond); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			b.Fatalf("never happened: %s", what)
		}
	}
}

// locker returns a locker in the mode of the bench.
func (b *bench) locker(opts ...lock.Option) *lock.Locker {
	l := lock.New(b.store, b.options(opts)...)
	b.Cleanup(func() { b.close(l) })
	return l
}

// slow are n lockers whose waiters only a hint can bring back before the test ends.
func (b *bench) slow(n int) []*lock.Locker {
	lockers := make([]*lock.Locker, n)
	for i := range lockers {
		lockers[i] = b.locker(lock.WithPoll(4 * patience))
	}
	return lockers
}

func (b *bench) close(l *lock.Locker) {
	b.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(b.Context()), patience)
	defer cancel()
	if err := l.Close(ctx); err != nil {
		b.Errorf("Close: %v", err)
	}
}

// closes closes a locker while an acquisition of the key waits.
func (b *bench) closes(l *lock.Locker, key string, opts ...lock.Option) {
	b.Helper()
	waiting := make(chan error, 1)
	go func() {
		_, err := l.Acquire(b.Context(), b.key(key), opts...)
		waiting <- err
	}()
	b.close(l)
	if err := <-waiting; !errors.Is(err, lock.ErrClosed) {
		b.Errorf("the waiter: got %v, want ErrClosed", err)
	}
}

func (b *bench) options(opts []lock.Option) []lock.Option {
	mode := lock.WithMode(b.mode)
	if b.mode == lock.Semaphore {
		mode = lock.WithPermits(1, 1)
	}
	return append([]lock.Option{mode, lock.WithCallTimeout(patience / 2)}, opts...) // a busy machine answers late
}

func (b *bench) lease(l *lock.Locker, key string, opts ...lock.Option) *lock.Lease {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	b.Cleanup(cancel)
	lease, err := l.Acquire(ctx, b.key(key), opts...)
	if err != nil {
		b.Fatal(err)
	}
	return lease
}

// do runs fn under the lock of k.
func (b *bench) do(l *lock.Locker, fn func(ctx context.Context), opts ...lock.Option) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), 3*patience)
	defer cancel()
	err := l.Do(ctx, b.key("k"), func(ctx context.Context) error {
		fn(ctx)
		return nil
	}, opts...)
	if err != nil {
		b.Errorf("Do: %v", err)
	}
}

// tries fails unless one attempt at k gets the lock.
func (b *bench) tries(ctx context.Context, l *lock.Locker, opts ...lock.Option) *lock.Lease {
	b.Helper()
	lease, err := l.TryAcquire(ctx, b.key("k"), opts...)
	if err != nil {
		b.Fatalf("TryAcquire: %v", err)
	}
	return lease
}

// refuses fails unless one attempt at k ends with that error, without a wait.
func (b *bench) refuses(ctx context.Context, l *lock.Locker, want error, opts ...lock.Option) {
	b.Helper()
	_, err := l.TryAcquire(ctx, b.key("k"), opts...)
	if !errors.Is(err, want) || errors.Is(err, context.DeadlineExceeded) {
		b.Errorf("TryAcquire: got %v, want %v", err, want)
	}
}

// outlive waits until a hold that was granted before, with that TTL at most,
// has expired by the clock of the store.
func (b *bench) outlive(ttl time.Duration) {
	b.Helper()
	witness := newID()
	b.acquire(b.in(lock.Exclusive, witness)(ttl))
	b.ends(witness)
}

// free releases whatever the lease holds.
func (b *bench) free(lease *lock.Lease) {
	b.Helper()
	if err := lease.Release(b.Context()); err != nil {
		b.Errorf("Release: %v", err)
	}
}

// await waits until done is closed.
func (b *bench) await(what string, done <-chan struct{}) {
	b.Helper()
	select {
	case <-done:
	case <-time.After(patience):
		b.Fatalf("never happened: %s", what)
	}
}

// together runs n copies of fn at once and waits for them.
func together(n int, fn func(i int)) {
	var start, done sync.WaitGroup
	start.Add(1)
	for i := range n {
		done.Go(func() {
			start.Wait()
			fn(i)
		})
	}
	start.Done()
	done.Wait()
}
