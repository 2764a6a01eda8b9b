package lock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
)

// distant is a store behind a network that can fail; parts of its keys go by
// what is before the colon.
type distant struct {
	*faulty
	mu      sync.Mutex
	fail    map[string]func(ctx context.Context) error // by part
	probes  int
	probing int
	most    int // probes at a time
}

func newDistant() *distant {
	d := &distant{faulty: newFaulty(), fail: make(map[string]func(context.Context) error)}
	d.set(func(_ string, c lock.Claim) error { return d.trip(c.Key) }, nil)
	return d
}

var (
	errRefused = &lock.StoreError{Outcome: lock.OutcomeNotExecuted, Unreachable: true, Err: errors.New("connection refused")}
	errReset   = &lock.StoreError{Outcome: lock.OutcomeUnknown, Unreachable: true, Err: errors.New("connection reset")}
)

// Ways to fail.
func refused(context.Context) error { return errRefused }

func frozen(context.Context) error {
	time.Sleep(1500 * time.Millisecond) // the client's own timeout
	return errReset
}

func slow(context.Context) error { // but it does answer
	time.Sleep(60 * time.Millisecond)
	return nil
}

func hung(context.Context) error { // until long after the call timeout
	time.Sleep(5 * time.Second)
	return errReset
}

func (d *distant) Part(key string) string {
	part, _, _ := strings.Cut(key, ":")
	return part
}

// away makes the calls for a part fail from now on; nil heals it.
func (d *distant) away(part string, how func(context.Context) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fail[part] = how
}

func (d *distant) trip(key string) error {
	d.mu.Lock()
	how := d.fail[d.Part(key)]
	d.mu.Unlock()
	if how == nil {
		return nil
	}
	return how(context.Background())
}

func (d *distant) Inspect(ctx context.Context, key string) (lock.State, error) {
	d.mu.Lock()
	d.probes++
	d.probing++
	d.most = max(d.most, d.probing)
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.probing--
	}()
	if err := d.trip(key); err != nil {
		return lock.State{}, err
	}
	return d.Store.Inspect(ctx, key)
}

func (d *distant) probed() (probes, most int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.probes, d.most
}

// grouping is a distant store that grants several keys in one call.
type grouping struct{ *distant }

func (g grouping) AcquireGroup(ctx context.Context, claims []lock.Claim) (fences []uint64, err error) {
	err = g.through("acquire", claims[0], func() error {
		fences, err = g.Store.(lock.GroupStore).AcquireGroup(ctx, claims)
		return err
	})
	return fences, err
}

// changes are what the hook was told.
type changes struct {
	mu     sync.Mutex
	events []lock.CircuitEvent
}

func (c *changes) hook() lock.Option {
	return lock.WithHooks(lock.Hooks{Circuit: func(e lock.CircuitEvent) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.events = append(c.events, e)
	}})
}

func (c *changes) all() []lock.CircuitEvent {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.events)
}

// open lets requests fail until one is refused because the circuit is open.
func open(t *testing.T, l *lock.Locker, key string) {
	t.Helper()
	for range 10 {
		_, err := l.Acquire(t.Context(), key)
		if errors.Is(err, lock.ErrCircuitOpen) {
			wantErr(t, err, lock.ErrUnavailable)
			return
		}
	}
	t.Fatal("the circuit does not open")
}

func TestAStoreThatIsAwayCostsARequestNoTime(t *testing.T) {
	for name, how := range map[string]func(context.Context) error{"refused": refused, "frozen": frozen, "hung": hung} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newDistant()
				l := newLocker(t, store)
				store.away("k", how)
				open(t, l, "k")
				asked := store.count("acquire")
				var took []time.Duration
				for range 1000 {
					time.Sleep(10 * time.Millisecond)
					start := time.Now()
					_, err := l.Acquire(t.Context(), "k")
					wantErr(t, err, lock.ErrUnavailable, lock.ErrCircuitOpen)
					took = append(took, time.Since(start))
				}
				slices.Sort(took)
				if took[950] > 0 || took[999] > 50*time.Millisecond {
					t.Errorf("of 1000 requests the 95 %% took %v, the longest %v", took[950], took[999])
				}
				if n := store.count("acquire") - asked; n > 0 {
					t.Errorf("the store was asked for locks %d times", n)
				}
				if probes, most := store.probed(); probes < 3 || probes > 41 || most != 1 && name != "hung" {
					t.Errorf("%d probes in 10 s, %d at a time", probes, most)
				}
			})
		})
	}
}

func TestOneProbeAtATimeAndAllPassWhenItSucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newDistant()
		l := newLocker(t, store)
		store.away("k", frozen)
		open(t, l, "k")
		crowdOf := func(want error) {
			t.Helper()
			var all sync.WaitGroup
			for i := range 50 {
				all.Go(func() {
					lease, err := l.Acquire(t.Context(), fmt.Sprintf("k:%d", i))
					if !errors.Is(err, want) {
						t.Errorf("got %v, want %v", err, want)
					}
					if err == nil {
						_ = lease.Release(t.Context())
					}
				})
			}
			all.Wait()
		}
		for range 20 {
			crowdOf(lock.ErrCircuitOpen)
			time.Sleep(100 * time.Millisecond)
		}
		if _, most := store.probed(); most != 1 {
			t.Errorf("%d probes at a time", most)
		}
		store.away("k", nil)
		time.Sleep(5 * time.Second) // what is stuck gets its errors
		crowdOf(nil)
		crowdOf(nil)
	})
}

// What was sent before the store came back, and fails afterwards, says nothing.
func TestCallsThatWereStuckDoNotOpenItAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newDistant()
		var seen changes
		l := newLocker(t, store, seen.hook())
		lease := acquire(t, l, t.Context(), "k:held")
		store.away("k", hung)
		var stuck sync.WaitGroup
		for i := range 20 {
			stuck.Go(func() {
				_, err := l.Acquire(t.Context(), fmt.Sprintf("k:%d", i))
				wantErr(t, err, lock.ErrUnavailable)
			})
		}
		time.Sleep(time.Second)
		store.away("k", refused)
		open(t, l, "k:x")
		store.away("k", nil)
		release(t, lease) // gets through, while others are stuck
		store.set(func(op string, c lock.Claim) error {
			if op == "release" {
				time.Sleep(10 * time.Millisecond) // good news of clean-ups comes late
			}
			return store.trip(c.Key)
		}, nil)
		release(t, acquire(t, l, t.Context(), "k:y"))
		stuck.Wait()
		release(t, acquire(t, l, t.Context(), "k:z"))
		events := seen.all()
		if len(events) != 2 || !events[0].Open || events[0].Err == nil || events[1].Open {
			t.Errorf("events: %+v", events)
		}
	})
}

func TestHeldLeasesAreRenewedAndReleasedWhileTheCircuitIsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newDistant()
		l := newLocker(t, store)
		kept, given := acquire(t, l, t.Context(), "k:kept"), acquire(t, l, t.Context(), "k:given")
		store.away("k", refused)
		open(t, l, "k:other")
		before := store.count("renew")
		time.Sleep(20 * time.Second)
		if n := store.count("renew") - before; n < 5 {
			t.Errorf("%d renewals tried in 20 s", n)
		}
		before = store.count("release")
		wantErr(t, given.Release(t.Context()), lock.ErrUnavailable)
		if store.count("release") == before {
			t.Error("the release was not tried")
		}
		store.away("k", nil)
		time.Sleep(time.Hour)
		if err := kept.Context().Err(); err != nil {
			t.Errorf("lost: %v", context.Cause(kept.Context()))
		}
		release(t, kept)
		if n := holds(t, store, "k:given"); n != 0 {
			t.Error("the release was not repeated")
		}
	})
}

func TestARenewalThatGetsThroughClosesTheCircuit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newDistant()
		l := newLocker(t, store, lock.WithCircuit(3, time.Hour)) // no probe comes first
		lease := acquire(t, l, t.Context(), "k:held")
		store.away("k", refused)
		open(t, l, "k")
		_, err := l.Acquire(t.Context(), "k")
		wantErr(t, err, lock.ErrCircuitOpen)
		store.away("k", nil)
		_, err = l.Acquire(t.Context(), "k")
		wantErr(t, err, lock.ErrCircuitOpen)
		time.Sleep(11 * time.Second)
		release(t, acquire(t, l, t.Context(), "k"))
		release(t, lease)
	})
}

func TestAWaiterRidesOutAnOpenCircuit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newDistant()
		l, other := newLocker(t, store), newLocker(t, store.Store)
		blocker := acquire(t, other, t.Context(), "k")
		end := crowd(t, l, 1, "k")
		store.away("k", refused)
		open(t, l, "k:x")
		time.Sleep(5 * time.Second)
		release(t, blocker)
		store.away("k", nil)
		time.Sleep(2 * time.Second)
		if err := end()[0]; err != nil {
			t.Errorf("the waiter got %v", err)
		}
	})
}

func TestOnlyAStoreThatIsAwayOpensTheCircuit(t *testing.T) {
	failing := func(err error) func(context.Context) error { return func(context.Context) error { return err } }
	for name, tt := range map[string]struct {
		how  func(context.Context) error
		opts []lock.Option
		stay time.Duration // of the caller
		want bool
	}{
		"refused connections":     {how: refused, want: true},
		"broken connections":      {how: frozen, want: true},
		"no answers":              {how: hung, want: true},
		"callers that leave late": {how: hung, stay: 300 * time.Millisecond, want: true},
		"an error of no class":    {how: failing(errLineCut), want: true},
		"callers that leave before there can be an answer": {how: hung, stay: 20 * time.Millisecond, want: true},
		"callers that leave a little later":                {how: hung, stay: 90 * time.Millisecond, want: true},
		"callers that are cancelled before that":           {how: hung, stay: -20 * time.Millisecond, want: true},
		"callers that leave early": {
			how: slow, stay: 10 * time.Millisecond,
		},
		"callers that are cancelled early": {how: slow, stay: -10 * time.Millisecond},
		"a busy key":                       {how: failing(&lock.BusyError{TTL: time.Second})},
		"no permission":                    {how: failing(&lock.StoreError{Outcome: lock.OutcomeRefused, Err: errors.New("NOPERM")})},
		"a server that is loading":         {how: failing(&lock.StoreError{Outcome: lock.OutcomeNotExecuted, Err: errors.New("LOADING")})},
		"too few replicas":                 {how: failing(&lock.StoreError{Err: errors.New("1 of 2")})},
		"a circuit that is off":            {how: refused, opts: []lock.Option{lock.WithCircuit(0, 0)}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newDistant()
				var seen changes
				l := newLocker(t, store, append(tt.opts, seen.hook())...)
				store.away("k", tt.how)
				for range 20 {
					ctx, cancel := context.WithCancel(t.Context())
					switch {
					case tt.stay > 0:
						ctx, cancel = context.WithTimeout(ctx, tt.stay)
					case tt.stay < 0:
						time.AfterFunc(-tt.stay, cancel)
					}
					_, err := l.TryAcquire(ctx, "k")
					if err == nil {
						t.Error("granted")
					}
					cancel()
				}
				synctest.Wait()
				if opened := len(seen.all()) > 0; opened != tt.want {
					t.Errorf("open is %v, want %v", opened, tt.want)
				}
				store.away("k", nil)
			})
		})
	}
}

// A connection that dies fails all calls that it carries: that is one failure.
func TestCallsThatFailTogetherAreOneFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newDistant()
		var seen changes
		l := newLocker(t, store, seen.hook())
		broken := time.Now().Add(50 * time.Millisecond)
		store.away("k", func(context.Context) error {
			if left := time.Until(broken); left > 0 {
				time.Sleep(left)
				return errReset
			}
			return nil
		})
		var all sync.WaitGroup
		for i := range 64 {
			all.Go(func() {
				lease, err := l.Acquire(t.Context(), fmt.Sprintf("k:%d", i))
				if err != nil {
					t.Error(err)
					return
				}
				release(t, lease)
			})
		}
		all.Wait()
		if events := seen.all(); len(events) > 0 {
			t.Errorf("events: %+v", events)
		}
	})
}

func TestAPartThatIsAwayLeavesTheOthersAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newDistant()
		l := newLocker(t, store)
		store.away("a", frozen)
		open(t, l, "a:1")
		start := time.Now()
		for range 100 {
			release(t, acquire(t, l, t.Context(), "b:1"))
			_, err := l.Acquire(t.Context(), "a:2")
			wantErr(t, err, lock.ErrCircuitOpen)
		}
		if took := time.Since(start); took > 50*time.Millisecond {
			t.Errorf("took %v", took)
		}
		// What nobody asks for is forgotten, and then found out again.
		time.Sleep(2 * time.Minute)
		release(t, acquire(t, l, t.Context(), "b:1"))
		before := store.count("acquire")
		_, err := l.Acquire(t.Context(), "a:1")
		wantErr(t, err, lock.ErrUnavailable)
		if store.count("acquire") == before {
			t.Error("a circuit of long ago is still open")
		}
	})
}

func TestAllKeysAtOnceRespectTheCircuit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := grouping{newDistant()}
		l := newLocker(t, store)
		store.away("k", refused)
		open(t, l, "k:1")
		before := store.count("acquire")
		_, err := lock.AcquireAll(t.Context(), l.Request("k:1"), l.Request("k:2"))
		wantErr(t, err, lock.ErrUnavailable, lock.ErrCircuitOpen)
		if store.count("acquire") != before {
			t.Error("the store was asked")
		}
	})
}

func TestAStoreInMemoryHasNoCircuit(t *testing.T) {
	l := newLocker(t, memstore.New())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20 {
		_, err := l.TryAcquire(ctx, "k")
		wantErr(t, err, context.Canceled)
	}
	release(t, acquire(t, l, t.Context(), "k"))
}
