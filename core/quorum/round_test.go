package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

// witness is a node that notes the owners of the votes that it gets.
type witness struct {
	lock.BlockingStore
	mu     sync.Mutex
	owners map[string]int
}

func (w *witness) Acquire(ctx context.Context, c lock.Claim) (uint64, error) {
	w.mu.Lock()
	w.owners[c.Owner]++
	w.mu.Unlock()
	return w.BlockingStore.Acquire(ctx, c)
}

// A claim is repeated for as long as another owner has the key. Each time the
// nodes see a new owner.
func TestEachRoundHasAnOwnerOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &witness{BlockingStore: memory(), owners: make(map[string]int)}
		others := []lock.BlockingStore{memory(), memory()}
		q := quorumOf(t, w, others[0], others[1])
		for _, node := range others {
			must(t, acquireOf(node, claimBy("other")))
		}
		for range 3 {
			if err := acquireOf(q, claimBy("a")); !errors.Is(err, lock.ErrBusy) {
				t.Fatalf("got %v, want ErrBusy", err)
			}
		}
		for _, node := range others {
			must(t, node.Release(t.Context(), claimBy("other")))
		}
		must(t, acquireOf(q, claimBy("a")))
		synctest.Wait()
		for owner, rounds := range w.owners {
			if rounds > 1 {
				t.Errorf("owner %q in %d rounds", owner, rounds)
			}
		}
		if len(w.owners) < 4 {
			t.Errorf("%d owners in 4 rounds", len(w.owners))
		}
	})
}

// echo is a node at which each release arrives again, a second later.
type echo struct {
	lock.BlockingStore
	late sync.WaitGroup
}

func (e *echo) Release(ctx context.Context, c lock.Claim) error {
	e.late.Go(func() {
		time.Sleep(time.Second)
		_ = e.BlockingStore.Release(context.Background(), c)
	})
	return e.BlockingStore.Release(ctx, c)
}

// An owner loses a round, so that its vote is removed, and wins the next one
// with that node in its majority. The removal arrives a second time.
func TestALateRemovalDoesNotTouchALaterRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, nodes := &echo{BlockingStore: memory()}, members(2)
		defer first.late.Wait()
		q := quorumOf(t, first, nodes[0], nodes[1])
		for _, m := range nodes {
			must(t, acquireOf(m, claimBy("other")))
		}
		if err := acquireOf(q, claimBy("a")); !errors.Is(err, lock.ErrBusy) {
			t.Fatalf("got %v, want ErrBusy", err)
		}
		must(t, nodes[0].Release(t.Context(), claimBy("other")))
		must(t, acquireOf(q, claimBy("a"))) // by the first node and the second
		time.Sleep(2 * time.Second)
		must(t, nodes[1].Release(t.Context(), claimBy("other")))
		if err := acquireOf(q, claimBy("b")); !errors.Is(err, lock.ErrBusy) {
			t.Errorf("while another owner has a lease of 30s: got %v, want ErrBusy", err)
		}
		must(t, q.Release(t.Context(), claimBy("a")))
	})
}

// A hold that was renewed lasts for longer than its vote. A node that missed its
// release must not keep it for that long: with another node away, the key would be
// busy although nobody has it.
func TestANodeThatMissesAReleaseIsToldUntilTheHoldEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := members(3)
		q := over(t, nodes)
		must(t, acquireOf(q, claimBy("a")))
		time.Sleep(time.Second) // all three have voted
		long := claimBy("a")
		long.TTL = time.Hour
		q.Renew(t.Context(), []lock.Claim{long}, func(_ int, err error) { must(t, err) })
		time.Sleep(time.Second)
		nodes[2].set(refused)
		must(t, q.Release(t.Context(), long))
		time.Sleep(40 * time.Second) // for longer than an acquire writes
		if n := on(nodes); n != 1 {
			t.Fatalf("%d nodes have the key, want the one that missed the release", n)
		}
		nodes[2].set(healthy)
		time.Sleep(5 * time.Second)
		if n := on(nodes); n != 0 {
			t.Errorf("%d nodes still have the key", n)
		}
		nodes[0].set(refused)
		must(t, acquireOf(q, claimBy("b")))
		must(t, q.Release(t.Context(), claimBy("b")))
		nodes[0].set(healthy)
	})
}

// A node that is away for long is called every few seconds, not four times a second.
func TestARemovalThatGoesOnForLongSlowsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := members(3)
		q := over(t, nodes)
		c := claimBy("a")
		must(t, acquireOf(q, c))
		time.Sleep(time.Second)
		nodes[1].set(refused)
		nodes[2].set(refused)
		c.TTL = time.Hour
		for range 5 { // the engine repeats a release that fails
			if err := q.Release(t.Context(), c); err == nil {
				t.Error("released on one of three nodes")
			}
		}
		nodes[1].set(healthy)
		must(t, q.Release(t.Context(), c))
		time.Sleep(10 * time.Second)
		before := nodes[2].called()
		time.Sleep(10 * time.Minute)
		if calls := nodes[2].called() - before; calls < 100 || calls > 600 {
			t.Errorf("%d calls in 10 minutes, want one each few seconds", calls)
		}
		time.Sleep(time.Hour)
		before = nodes[2].called()
		time.Sleep(time.Hour)
		if calls := nodes[2].called() - before; calls > 0 {
			t.Errorf("%d calls in an hour, after the hold has ended", calls)
		}
	})
}

// What is owed to a node that does not answer is bounded. The rest expires.
func TestANodeThatIsAwayCostsNoMemory(t *testing.T) {
	for name, broken := range map[string]fault{"down": refused, "mute": lostReply} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const cycles = 3000
				nodes := members(3)
				q := over(t, nodes)
				cycle := func(i int) {
					c := claimBy(fmt.Sprintf("owner:%d", i))
					c.Key = fmt.Sprintf("key:%d", i)
					must(t, acquireOf(q, c))
					must(t, q.Release(t.Context(), c))
				}
				cycle(0)
				nodes[2].set(broken)
				nodes[2].forgets() // so that only the quorum's memory is measured
				before := objects()
				for i := range cycles {
					cycle(i + 1)
				}
				synctest.Wait()
				if kept := objects() - before; kept > cycles {
					t.Errorf("%d objects are kept after %d cycles", kept, cycles)
				}
				nodes[2].set(healthy)
			})
		})
	}
}

// A hold that nobody releases is forgotten when it has expired.
func TestHoldsThatExpireCostNoMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const holds = 3000
		q := over(t, members(3))
		before := objects()
		for i := range holds {
			c := claimBy("a")
			c.Key, c.TTL = fmt.Sprintf("key:%d", i), time.Second
			must(t, acquireOf(q, c))
			time.Sleep(10 * time.Millisecond)
		}
		if kept := objects() - before; kept > holds {
			t.Errorf("%d objects are kept after %d holds", kept, holds)
		}
	})
}

// objects is the number of objects that are in use.
func objects() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapObjects)
}

// panicking is a node whose client has a bug.
type panicking struct{ lock.BlockingStore }

func (panicking) Acquire(context.Context, lock.Claim) (uint64, error) { panic("acquire") }
func (panicking) Release(context.Context, lock.Claim) error           { panic("release") }
func (panicking) Inspect(context.Context, string) (lock.State, error) { panic("inspect") }
func (panicking) ForceRelease(context.Context, string) (bool, error)  { panic("force release") }
func (panicking) Renew(context.Context, []lock.Claim, func(int, error)) {
	panic("renew")
}

func (panicking) Watch(context.Context, lock.Claim, func()) (func(), error) {
	panic("watch")
}

func TestAPanicOfANodeIsAFailureOfThatNode(t *testing.T) {
	bad := func() lock.BlockingStore { return panicking{memory()} }
	use := func(stores ...lock.BlockingStore) (errs []error) {
		q := quorumOf(t, stores...)
		ctx := t.Context()
		errs = append(errs, acquireOf(q, claimBy("a")))
		q.Renew(ctx, []lock.Claim{claimBy("a")}, func(_ int, err error) { errs = append(errs, err) })
		stop, err := q.Watch(ctx, claimBy("b"), func() {})
		if err == nil {
			stop()
		}
		_, looked := q.Inspect(ctx, "k")
		_, forced := q.ForceRelease(ctx, "free")
		return append(errs, err, looked, forced, q.Release(ctx, claimBy("a")))
	}
	for i, err := range use(memory(), bad(), memory()) {
		if err != nil {
			t.Errorf("one of three panics, call %d: %v", i, err)
		}
	}
	for i, err := range use(bad(), bad(), memory()) {
		var panicked *lock.PanicError
		if held := errors.Is(err, lock.ErrNotHeld); !held && !errors.As(err, &panicked) {
			t.Errorf("two of three panic, call %d: got %v, want a PanicError", i, err)
		}
		if err != nil && strings.Contains(err.Error(), "goroutine") {
			t.Errorf("call %d: the error has a stack: %v", i, err)
		}
	}
}

// A hold that others have without a majority, and a node that does not answer,
// may be one with a majority.
func TestInspectCountsSilentNodesForTheHolders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := members(5)
		q := over(t, nodes)
		must(t, acquireOf(nodes[0], claimBy("java-1")))
		must(t, acquireOf(nodes[1], claimBy("java-2")))
		if state, err := q.Inspect(t.Context(), "k"); err != nil || state.Held {
			t.Errorf("two of five nodes: %+v, %v; want free", state, err)
		}
		nodes[4].set(refused)
		state, err := q.Inspect(t.Context(), "k")
		if err != nil || !state.Held || len(state.Owners) != 2 {
			t.Errorf("two of five nodes, and one that does not answer: %+v, %v; want held by two", state, err)
		}
	})
}

// An extension, or a repeated claim, whose answers are lost may have run on each node.
func TestAReleaseComesAfterAnExtensionWithoutAnAnswer(t *testing.T) {
	for name, extend := range map[string]func(q quorumStore, c lock.Claim) error{
		"an extension":     func(q quorumStore, c lock.Claim) error { return renewOf(context.Background(), q, c) },
		"a repeated claim": func(q quorumStore, c lock.Claim) error { return acquireOf(q, c) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nodes := members(3)
				q := over(t, nodes)
				must(t, acquireOf(q, claimBy("a")))
				long := claimBy("a")
				long.TTL = time.Hour
				for _, n := range nodes {
					n.set(lostReply)
				}
				if err := extend(q, long); err == nil {
					t.Error("confirmed, although no node answered")
				}
				for _, n := range nodes {
					n.set(healthy)
				}
				time.Sleep(time.Minute)
				for i := range 65 { // so many that rounds which have ended are forgotten
					c := claimBy(fmt.Sprint("o:", i))
					c.Key = fmt.Sprint("k:", i)
					must(t, acquireOf(q, c))
				}
				must(t, q.Release(t.Context(), long))
				time.Sleep(time.Minute)
				if n := on(nodes); n != 0 {
					t.Errorf("%d nodes have the hold", n)
				}
			})
		})
	}
}

// A node that is slow to vote is called for the removal when it has voted: one that came
// first would find nothing, and leave the vote in the way.
func TestARemovalDoesNotOvertakeTheVote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes, stores := stubs(3)
		nodes[2].acquire = func(c lock.Claim) (uint64, error) {
			time.Sleep(nodeTimeout / 2)
			return nodes[2].BlockingStore.Acquire(context.Background(), c)
		}
		q := quorumOf(t, stores...)
		must(t, acquireOf(q, claimBy("a")))
		must(t, q.Release(t.Context(), claimBy("a")))
		time.Sleep(nodeTimeout * 6 / 10)
		if n := hold(t, nodes); n != 0 {
			t.Errorf("%d nodes have the key when all have voted", n)
		}
	})
}

// A vote whose connection is cut may sit in a buffer, and run after its removal.
func TestAVoteThatRunsAfterItsRemovalIsRemoved(t *testing.T) {
	for _, late := range []time.Duration{50 * time.Millisecond, time.Second} {
		for name, outcome := range map[string]func(q quorumStore, nodes []*stub) error{
			"of a round that is lost": func(q quorumStore, nodes []*stub) error {
				_ = acquireOf(nodes[0], claimBy("other"))
				if err := acquireOf(q, claimBy("a")); err == nil {
					return errors.New("granted by one of three nodes")
				}
				return nodes[0].BlockingStore.Release(context.Background(), claimBy("other"))
			},
			"of a hold that is released": func(q quorumStore, _ []*stub) error {
				return errors.Join(acquireOf(q, claimBy("a")), q.Release(context.Background(), claimBy("a")))
			},
		} {
			t.Run(fmt.Sprintf("%v late, %s", late, name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					nodes, stores := stubs(3)
					nodes[2].acquire = func(c lock.Claim) (uint64, error) {
						time.AfterFunc(late, func() { _, _ = nodes[2].BlockingStore.Acquire(context.Background(), c) })
						return 0, errLink
					}
					must(t, outcome(quorumOf(t, stores...), nodes))
					time.Sleep(3 * time.Second)
					if n := hold(t, nodes); n != 0 {
						t.Errorf("%d nodes have the key", n)
					}
				})
			})
		}
	}
}

// A client that panics may have sent the vote.
func TestAVoteThatPanicsIsRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes, stores := stubs(3)
		nodes[2].acquire = func(c lock.Claim) (uint64, error) {
			_, _ = nodes[2].BlockingStore.Acquire(context.Background(), c)
			panic("acquire")
		}
		q := quorumOf(t, stores...)
		must(t, acquireOf(q, claimBy("a")))
		must(t, q.Release(t.Context(), claimBy("a")))
		time.Sleep(time.Second)
		if n := hold(t, nodes); n != 0 {
			t.Errorf("%d nodes have the key", n)
		}
	})
}

// Rounds that have ended are looked for when there are many. One that lasts is kept.
func TestAHoldIsKnownAmongManyOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := over(t, members(3))
		claims := make([]lock.Claim, 200)
		for i := range claims {
			claims[i] = claimBy("a")
			claims[i].Key = fmt.Sprint("k:", i)
			must(t, acquireOf(q, claims[i]))
		}
		for _, c := range claims {
			must(t, q.Release(t.Context(), c))
		}
	})
}

// What a node has answered is not asked of it again.
func TestARemovalThatIsAnsweredIsNotRepeated(t *testing.T) {
	for name, answer := range map[string]error{"gone": nil, "not there": lock.ErrNotHeld, "refused": errWrong} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nodes, stores := stubs(3)
				nodes[2].release = func(lock.Claim) error { return answer }
				q := quorumOf(t, stores...)
				must(t, acquireOf(q, claimBy("a")))
				must(t, q.Release(t.Context(), claimBy("a")))
				time.Sleep(time.Minute)
				for i, n := range nodes {
					if calls := n.called("release"); calls != 1 {
						t.Errorf("node %d: %d releases, want 1", i, calls)
					}
				}
			})
		})
	}
}

// A node that was away once, with more votes than are removed, has the later ones removed.
func TestANodeThatWasAwayIsOwedLaterRemovals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := members(3)
		q := over(t, nodes)
		missed := func(n int) { // n releases
			keys := make([]lock.Claim, n)
			for i := range keys {
				keys[i] = claimBy("a")
				keys[i].Key = fmt.Sprint("k", i)
				must(t, acquireOf(q, keys[i]))
			}
			time.Sleep(time.Second) // all three have voted
			nodes[2].set(refused)
			for _, c := range keys {
				must(t, q.Release(t.Context(), c))
			}
		}
		missed(200)
		time.Sleep(time.Minute) // all have expired
		nodes[2].set(healthy)
		missed(1)
		time.Sleep(time.Second)
		nodes[2].set(healthy)
		time.Sleep(3 * time.Second)
		if nodes[2].has("k0") {
			t.Error("the node still has the key")
		}
	})
}

// fate is what becomes of a call at a node.
type fate int

const (
	does   fate = iota
	lost        // the hold is not there
	fails       // not executed
	severs      // no answer, and it may have run
	hangs       // no answer in time
)

// befall makes the fates those of calls at the nodes.
func befall(nodes []*stub, fates []fate) {
	for i, f := range fates {
		var call func() error
		switch f {
		case does:
			continue
		case lost:
			call = func() error { return lock.ErrNotHeld }
		case fails:
			call = func() error { return away("connection refused", errLink) }
		case severs:
			call = func() error { return errLink }
		case hangs:
			call = func() error { time.Sleep(2 * nodeTimeout); return errLink }
		}
		nodes[i].renew = func(lock.Claim) error { return call() }
		nodes[i].release = nodes[i].renew
		nodes[i].acquire = func(lock.Claim) (uint64, error) { return 0, call() }
	}
}

var errUndecided = errors.New("a failure, as there is no majority")

// A majority decides. Without one, what is not known to have failed may have run.
func TestWhatBecomesOfAHold(t *testing.T) {
	notExecuted, unknown := lock.OutcomeNotExecuted, lock.OutcomeUnknown
	for _, c := range []struct {
		fates   []fate
		renewed error
		// A release counts nodes without the hold as free.
		released error
		failed   lock.Outcome // if it is undecided
		at       bool         // decided at once
	}{
		{[]fate{does, does, hangs}, nil, nil, 0, true},
		{[]fate{does, lost, hangs}, errUndecided, nil, unknown, false},
		{[]fate{does, lost, fails}, errUndecided, nil, unknown, true},
		{[]fate{lost, lost, hangs}, lock.ErrNotHeld, lock.ErrNotHeld, 0, true},
		{[]fate{lost, lost, does}, lock.ErrNotHeld, lock.ErrNotHeld, 0, true},
		{[]fate{lost, fails, fails}, errUndecided, errUndecided, notExecuted, true},
		{[]fate{lost, fails, severs}, errUndecided, errUndecided, unknown, true},
		{[]fate{does, fails, fails}, errUndecided, errUndecided, unknown, true},
		{[]fate{does, severs, hangs}, errUndecided, errUndecided, unknown, false},
		{[]fate{fails, fails, fails}, errUndecided, errUndecided, notExecuted, true},
		{[]fate{fails, fails, hangs}, errUndecided, errUndecided, unknown, false},
		{[]fate{severs, fails, fails}, errUndecided, errUndecided, unknown, true},
		{[]fate{does, does, hangs, hangs, does}, nil, nil, 0, true},
		{[]fate{does, lost, hangs, lost, does}, errUndecided, nil, unknown, false},
		{[]fate{does, lost, lost, hangs, lost}, lock.ErrNotHeld, lock.ErrNotHeld, 0, true},
	} {
		for name, call := range map[string]func(q quorumStore) (got, want error){
			"renewal": func(q quorumStore) (got, want error) {
				return renewOf(context.Background(), q, claimBy("a")), c.renewed
			},
			"release": func(q quorumStore) (got, want error) {
				return q.Release(context.Background(), claimBy("a")), c.released
			},
		} {
			t.Run(fmt.Sprint(name, c.fates), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					nodes, stores := stubs(len(c.fates))
					q := quorumOf(t, stores...)
					must(t, acquireOf(q, claimBy("a")))
					synctest.Wait() // all have voted
					befall(nodes, c.fates)
					began := time.Now()
					got, want := call(q)
					if c.at {
						soon(t, "the decision", began)
					}
					var failed *lock.StoreError
					if errors.As(got, &failed) {
						got = errUndecided
					}
					if got != want { //nolint:errorlint // as they are
						t.Errorf("got %v, want %v", got, want)
					}
					if failed != nil && failed.Outcome != c.failed {
						t.Errorf("outcome %v, want %v", failed.Outcome, c.failed)
					}
					befall(nodes, make([]fate, len(nodes)))
				})
			})
		}
	}
}

// A release that failed can be repeated: the hold is still known.
func TestAReleaseThatFailedIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := members(3)
		q := over(t, nodes)
		must(t, acquireOf(q, claimBy("a")))
		time.Sleep(time.Second)
		nodes[0].set(refused)
		nodes[1].set(refused)
		if err := q.Release(t.Context(), claimBy("a")); err == nil || errors.Is(err, lock.ErrNotHeld) {
			t.Errorf("with a minority: got %v, want a failure", err)
		}
		nodes[0].set(healthy)
		nodes[1].set(healthy)
		must(t, q.Release(t.Context(), claimBy("a")))
		if err := q.Release(t.Context(), claimBy("a")); !errors.Is(err, lock.ErrNotHeld) {
			t.Errorf("when it is released: got %v, want ErrNotHeld", err)
		}
	})
}

// What a node refuses to remove is there until somebody changes its set-up. So is what a node
// failed to remove, whatever the failure wraps.
func TestARemovalThatIsRefusedIsRepeated(t *testing.T) {
	for name, refusal := range map[string]error{
		"refused": &lock.StoreError{Outcome: lock.OutcomeRefused, Class: "NOPERM", Err: errors.New("NOPERM")},
		"failed":  &lock.StoreError{Outcome: lock.OutcomeUnknown, Err: lock.ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nodes, stores := stubs(3)
				var well atomic.Bool
				nodes[2].release = func(c lock.Claim) error {
					if !well.Load() {
						return refusal
					}
					return nodes[2].BlockingStore.Release(context.Background(), c)
				}
				q := quorumOf(t, stores...)
				must(t, acquireOf(q, claimBy("a")))
				must(t, q.Release(t.Context(), claimBy("a")))
				time.Sleep(5 * time.Second)
				well.Store(true)
				time.Sleep(3 * time.Second) // less than its TTL
				if n := hold(t, nodes); n != 0 {
					t.Errorf("%d nodes have the key", n)
				}
			})
		})
	}
}
