package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/core/quorum"
	"github.com/redlatch/redlatch/core/storetest"
)

const nodeTimeout = 100 * time.Millisecond

// maxEcho is how late a call that runs twice may come the second time.
const maxEcho = 5 * time.Second

var errLink = errors.New("connection reset by peer at 10.1.2.3:6379")

// member is a store behind a link that a test breaks.
type member struct {
	mu    sync.Mutex
	store lock.BlockingStore
	fault fault
	hung  chan struct{} // calls wait until it is closed; nil while the node runs
	calls int
	// amnesia makes the node keep nothing.
	amnesia bool
}

type fault int

const (
	healthy   fault = iota
	refused         // the call does not reach the node
	lostReply       // the call runs, and nobody learns
	slow            // the call takes up to twice the node timeout
	twice           // a call runs again, up to maxEcho later
)

// set changes the fault of later calls.
func (m *member) set(f fault) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fault = f
}

// hang stops the node, as SIGSTOP does: what is sent to it runs when it goes
// on, however late that is.
func (m *member) hang() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.hung == nil {
		m.hung = make(chan struct{})
	}
}

func (m *member) resume() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.hung != nil {
		close(m.hung)
		m.hung = nil
	}
}

// wipe restarts the node without its data.
func (m *member) wipe() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.store = memory()
}

// pass runs a call under the fault of the moment.
func (m *member) pass(call func(lock.BlockingStore) error) (err error) {
	m.mu.Lock()
	m.calls++
	hung, fault, store, amnesia := m.hung, m.fault, m.store, m.amnesia
	m.mu.Unlock()
	time.Sleep(time.Duration(10+rand.IntN(500)) * time.Microsecond) // the way there
	if hung != nil {
		<-hung
	}
	switch fault {
	case refused:
		return &lock.StoreError{Outcome: lock.OutcomeNotExecuted, Err: errLink}
	case slow:
		time.Sleep(rand.N(2 * nodeTimeout))
	}
	if m.restarted(store) { // meanwhile, which cuts the connection
		return errLink
	}
	if !amnesia {
		err = call(store)
	}
	if fault == lostReply {
		return errLink
	}
	time.Sleep(time.Duration(10+rand.IntN(500)) * time.Microsecond) // the way back
	return err
}

// echo repeats a call, late.
func (m *member) echo(call func(lock.BlockingStore)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if store := m.store; m.fault == twice {
		time.AfterFunc(rand.N(maxEcho), func() { call(store) })
	}
}

// forgets makes the node keep nothing of what comes.
func (m *member) forgets() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.amnesia = true
}

func (m *member) restarted(before lock.BlockingStore) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.store != before
}

func (m *member) Acquire(_ context.Context, c lock.Claim) (fence uint64, err error) {
	err = m.pass(func(s lock.BlockingStore) error {
		fence, err = s.Acquire(context.Background(), c)
		return err
	})
	m.echo(func(s lock.BlockingStore) { _, _ = s.Acquire(context.Background(), c) })
	return fence, err
}

func (m *member) Renew(_ context.Context, claims []lock.Claim, report func(int, error)) {
	for i, c := range claims {
		err := m.pass(func(s lock.BlockingStore) error {
			var result error
			s.Renew(context.Background(), []lock.Claim{c}, func(_ int, err error) { result = err })
			return result
		})
		m.echo(func(s lock.BlockingStore) { s.Renew(context.Background(), []lock.Claim{c}, func(int, error) {}) })
		report(i, err)
	}
}

func (m *member) Release(_ context.Context, c lock.Claim) error {
	m.echo(func(s lock.BlockingStore) { _ = s.Release(context.Background(), c) })
	return m.pass(func(s lock.BlockingStore) error { return s.Release(context.Background(), c) })
}

func (m *member) Lower(_ context.Context, c lock.Claim) error {
	return m.pass(func(s lock.BlockingStore) error { return s.Lower(context.Background(), c) })
}

func (m *member) Traits() lock.Traits { return lock.Traits{} }

func (m *member) Watch(_ context.Context, c lock.Claim, wake func()) (stop func(), err error) {
	err = m.pass(func(s lock.BlockingStore) error {
		stop, err = s.Watch(context.Background(), c, wake)
		return err
	})
	if err != nil && stop != nil {
		stop()
	}
	return stop, err
}

func (m *member) Inspect(_ context.Context, key string) (state lock.State, err error) {
	err = m.pass(func(s lock.BlockingStore) error {
		state, err = s.Inspect(context.Background(), key)
		return err
	})
	return state, err
}

func (m *member) ForceRelease(_ context.Context, key string) (freed bool, err error) {
	err = m.pass(func(s lock.BlockingStore) error {
		freed, err = s.ForceRelease(context.Background(), key)
		return err
	})
	return freed, err
}

// called counts the calls so far.
func (m *member) called() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.calls
}

// has says whether somebody holds the key on the node.
func (m *member) has(key string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	state, err := m.store.Inspect(context.Background(), key)
	return err == nil && state.Held
}

func members(n int) []*member {
	nodes := make([]*member, n)
	for i := range nodes {
		nodes[i] = &member{store: memory()}
	}
	return nodes
}

// memory is a node that is never in trouble.
func memory() lock.BlockingStore { return lock.Blocking(memstore.New()) }

// quorumStore is a quorum whose calls block, as those of its nodes do.
type quorumStore struct{ *quorum.Store }

func (q quorumStore) Acquire(ctx context.Context, c lock.Claim) (uint64, error) {
	return lock.Blocking(q.Store).Acquire(ctx, c)
}

func (q quorumStore) Release(ctx context.Context, c lock.Claim) error {
	return lock.Blocking(q.Store).Release(ctx, c)
}

func (q quorumStore) Lower(ctx context.Context, c lock.Claim) error {
	return lock.Blocking(q.Store).Lower(ctx, c)
}

// over is a quorum of the nodes.
func over(t *testing.T, nodes []*member) quorumStore {
	t.Helper()
	stores := make([]lock.BlockingStore, len(nodes))
	for i, n := range nodes {
		stores[i] = n
	}
	return quorumOf(t, stores...)
}

func quorumOf(t *testing.T, nodes ...lock.BlockingStore) quorumStore {
	t.Helper()
	stores := make([]lock.Store, len(nodes))
	for i, n := range nodes {
		stores[i] = lock.Async(n)
	}
	return quorumOver(t, stores...)
}

// quorumOver is a quorum of the stores, with a node timeout of 100 ms.
func quorumOver(t *testing.T, stores ...lock.Store) quorumStore {
	t.Helper()
	store, err := quorum.New(stores...)
	if err != nil {
		t.Fatal(err)
	}
	store.SetNodeTimeout(nodeTimeout)
	q := quorumStore{store}
	t.Cleanup(func() { closeQuorum(t, q) })
	return q
}

func closeQuorum(t *testing.T, q quorumStore) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := q.Close(ctx); err != nil {
		t.Errorf("Close: %v", err)
	}
}

func claimBy(owner string) lock.Claim {
	return lock.Claim{Key: "k", Owner: owner, TTL: 30 * time.Second}
}

// on counts the nodes that have the key.
func on(nodes []*member) (n int) {
	for _, m := range nodes {
		if m.has("k") {
			n++
		}
	}
	return n
}

func TestAQuorumKeepsTheContract(t *testing.T) {
	storetest.Run(t, func(t *testing.T) lock.Store {
		stores := make([]lock.Store, 5)
		for i := range stores {
			stores[i] = memstore.New()
		}
		q := quorumOver(t, stores...)
		q.SetNodeTimeout(time.Second) // nobody is down, only busy
		return q.Store
	})
}

func TestAQuorumNeedsAnOddNumberOfStores(t *testing.T) {
	m := func() lock.Store { return memstore.New() }
	same := m()
	for name, tt := range map[string]struct {
		stores []lock.Store
		want   string // in the error; empty is none
	}{
		"none":  {nil, "0 stores, need an odd number of at least 3"},
		"one":   {[]lock.Store{m()}, "1 stores"},
		"two":   {[]lock.Store{m(), m()}, "2 stores"},
		"four":  {[]lock.Store{m(), m(), m(), m()}, "4 stores"},
		"nil":   {[]lock.Store{m(), nil, m()}, "store 2 is nil"},
		"twice": {[]lock.Store{same, m(), same}, "store 3 is there twice"},
		"three": {[]lock.Store{m(), m(), m()}, ""},
		"seven": {[]lock.Store{m(), m(), m(), m(), m(), m(), m()}, ""},
	} {
		_, err := quorum.New(tt.stores...)
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case tt.want != "" && (!errors.Is(err, lock.ErrInvalid) || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s: got %v, want ErrInvalid with %q", name, err, tt.want)
		}
	}
}

func TestTheNodeTimeoutBoundsCalls(t *testing.T) {
	for _, d := range []time.Duration{time.Millisecond, 10 * time.Millisecond, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			nodes := members(3)
			q := over(t, nodes)
			q.SetNodeTimeout(d)
			nodes[0].hang()
			nodes[1].hang()
			began := time.Now()
			if err := acquireOf(q, claimBy("a")); err == nil {
				t.Error("granted by one of three nodes")
			}
			if took := time.Since(began); took < d || took > 3*d {
				t.Errorf("with a timeout of %v it took %v", d, took)
			}
			nodes[0].resume()
			nodes[1].resume()
		})
	}
	defer func() {
		if recover() == nil {
			t.Error("less than 1 ms: no panic")
		}
	}()
	over(t, members(3)).SetNodeTimeout(time.Millisecond - 1)
}

func TestAQuorumHasOneMode(t *testing.T) {
	q := over(t, members(3))
	for _, mode := range []lock.Mode{lock.Fair, lock.Read, lock.Write, lock.Semaphore} {
		c := claimBy("a")
		c.Mode = mode
		_, err := q.Acquire(t.Context(), c)
		if !errors.Is(err, lock.ErrUnsupported) || !strings.Contains(err.Error(), mode.String()) {
			t.Errorf("acquire %s: %v", mode, err)
		}
		if err := q.Release(t.Context(), c); !errors.Is(err, lock.ErrUnsupported) {
			t.Errorf("release %s: %v", mode, err)
		}
		if _, err := q.Watch(t.Context(), c, func() {}); !errors.Is(err, lock.ErrUnsupported) {
			t.Errorf("watch %s: %v", mode, err)
		}
		q.Renew(t.Context(), []lock.Claim{c}, func(_ int, err error) {
			if !errors.Is(err, lock.ErrUnsupported) {
				t.Errorf("renew %s: %v", mode, err)
			}
		})
	}
}

// breaks are the ways in which a node can be of no help.
var breaks = map[string]func(*member){
	"killed":     func(m *member) { m.set(refused) },
	"hung":       (*member).hang,
	"slow":       func(m *member) { m.set(slow) },
	"mute":       func(m *member) { m.set(lostReply) },
	"no trouble": func(*member) {},
}

func TestAMinorityInTroubleIsNoTrouble(t *testing.T) {
	for first, breakFirst := range breaks {
		for second, breakSecond := range breaks {
			t.Run(first+" and "+second, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					nodes := members(5)
					q := over(t, nodes)
					breakFirst(nodes[1])
					breakSecond(nodes[3])

					began := time.Now()
					must(t, acquireOf(q, claimBy("a")))
					if took := time.Since(began); took > nodeTimeout {
						t.Errorf("the grant took %v", took)
					}
					began = time.Now()
					if _, err := q.Acquire(t.Context(), claimBy("b")); !errors.Is(err, lock.ErrBusy) {
						t.Errorf("another owner: got %v, want ErrBusy", err)
					}
					if took := time.Since(began); took > 3*nodeTimeout {
						t.Errorf("the refusal took %v", took)
					}
					began = time.Now()
					q.Renew(t.Context(), []lock.Claim{claimBy("a")}, func(_ int, err error) { must(t, err) })
					must(t, q.Release(t.Context(), claimBy("a")))
					if took := time.Since(began); took > 2*nodeTimeout {
						t.Errorf("renewal and release took %v", took)
					}
					must(t, acquireOf(q, claimBy("c")))
					must(t, q.Release(t.Context(), claimBy("c")))

					for _, m := range nodes { // all is well again
						m.set(healthy)
						m.resume()
					}
					time.Sleep(10 * time.Second)
					if n := on(nodes); n != 0 {
						t.Errorf("%d nodes still have the key", n)
					}
				})
			})
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

func acquireOf(s lock.BlockingStore, c lock.Claim) error {
	_, err := s.Acquire(context.Background(), c)
	return err
}

func TestWithoutAMajorityNothingIsGrantedAndNothingStays(t *testing.T) {
	for name, breakNode := range breaks {
		if name == "no trouble" || name == "slow" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nodes := members(5)
				q := over(t, nodes)
				for _, m := range nodes[:3] {
					breakNode(m)
				}
				began := time.Now()
				_, err := q.Acquire(t.Context(), claimBy("a"))
				if took := time.Since(began); took > nodeTimeout+10*time.Millisecond {
					t.Errorf("it took %v", took)
				}
				var failed *lock.StoreError
				if !errors.As(err, &failed) || failed.Outcome != lock.OutcomeNotExecuted {
					t.Fatalf("got %v, want a StoreError that leaves nothing to its caller", err)
				}
				if text := err.Error(); !strings.Contains(text, "2 of 5 nodes") || strings.Contains(text, "10.1.2.3") {
					t.Errorf("the error says %q", text)
				}
				if name != "hung" && !errors.Is(err, errLink) {
					t.Errorf("%v does not wrap the nodes' errors", err)
				}
				// Under the engine: it gives up, and nothing stays.
				l := lock.New(q.Store)
				if _, err := l.Acquire(t.Context(), "k"); !errors.Is(err, lock.ErrUnavailable) {
					t.Errorf("got %v, want ErrUnavailable", err)
				}
				for _, m := range nodes {
					m.set(healthy)
					m.resume()
				}
				time.Sleep(5 * time.Second)
				if n := on(nodes); n != 0 {
					t.Errorf("%d nodes still have the key", n)
				}
				must(t, acquireOf(q, claimBy("b")))
				must(t, q.Release(t.Context(), claimBy("b")))
				must(t, l.Close(t.Context()))
			})
		})
	}
}

// The replies of three nodes are lost, and the claim is repeated: the votes that
// nobody heard of are removed, and do not stand in the way.
func TestLostVotesDoNotBlockTheClaimThatIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := members(5)
		q := over(t, nodes)
		for _, m := range nodes[:3] {
			m.set(lostReply)
		}
		if err := acquireOf(q, claimBy("a")); err == nil {
			t.Fatal("granted by two of five nodes")
		}
		for _, m := range nodes[:3] {
			m.set(healthy)
		}
		must(t, acquireOf(q, claimBy("a")))
		time.Sleep(5 * time.Second)
		if n := on(nodes); n < 3 {
			t.Errorf("%d of 5 nodes have the key", n)
		}
		must(t, q.Release(t.Context(), claimBy("a")))
		time.Sleep(5 * time.Second)
		if n := on(nodes); n != 0 {
			t.Errorf("%d nodes still have the key", n)
		}
	})
}

func TestNothingThatWasNotExecutedIsUndone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := members(3)
		q := over(t, nodes)
		for _, m := range nodes {
			m.set(refused)
		}
		_, err := q.Acquire(t.Context(), claimBy("a"))
		var failed *lock.StoreError
		if !errors.As(err, &failed) || failed.Outcome != lock.OutcomeNotExecuted {
			t.Errorf("got %v, want a StoreError that says not executed", err)
		}
		synctest.Wait()
		for i, m := range nodes {
			if m.calls != 1 {
				t.Errorf("node %d was called %d times, want once", i, m.calls)
			}
		}
	})
}

// Nodes that were down for longer than the lease come back without their data: the lease goes
// on, nobody else gets in, and their votes are gained again.
func TestARestartedNodeDoesNotEndALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := members(5)
		q := over(t, nodes)
		must(t, acquireOf(q, claimBy("a")))
		time.Sleep(time.Second) // all five have voted
		nodes[0].wipe()
		nodes[1].wipe()
		must(t, renewOf(t.Context(), q, claimBy("a")))
		began := time.Now()
		_, err := q.Acquire(t.Context(), claimBy("b"))
		var busy *lock.BusyError
		if !errors.As(err, &busy) || busy.TTL < 29*time.Second {
			t.Errorf("another owner: got %v, %+v; want busy for what is left of 30s", err, busy)
		}
		if took := time.Since(began); took > nodeTimeout {
			t.Errorf("the refusal took %v", took)
		}
		if state, err := q.Inspect(t.Context(), "k"); err != nil || !state.Held || state.Owners[0].Owner != "a" {
			t.Errorf("Inspect: %+v, %v", state, err)
		}
		time.Sleep(time.Second)
		must(t, renewOf(t.Context(), q, claimBy("a")))
		time.Sleep(time.Second)
		if a, b := votes(t, nodes, "a"), votes(t, nodes, "b"); a != 5 || b != 0 {
			t.Errorf("%d votes for the holder and %d for the refused owner, want 5 and 0", a, b)
		}
		for _, n := range nodes[:3] { // a majority has lost it
			n.wipe()
		}
		q.Renew(t.Context(), []lock.Claim{claimBy("a")}, func(_ int, err error) {
			if !errors.Is(err, lock.ErrNotHeld) {
				t.Errorf("renewal without a majority: got %v, want ErrNotHeld", err)
			}
		})
		if err := q.Release(t.Context(), claimBy("a")); !errors.Is(err, lock.ErrNotHeld) {
			t.Errorf("release without a majority: got %v, want ErrNotHeld", err)
		}
	})
}

func TestARenewalThatCannotBeDecidedIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := members(5)
		q := over(t, nodes)
		must(t, acquireOf(q, claimBy("a")))
		time.Sleep(time.Second)
		nodes[0].wipe()
		nodes[1].hang()
		nodes[2].set(refused)
		reported := 0
		q.Renew(t.Context(), []lock.Claim{claimBy("a")}, func(_ int, err error) {
			reported++
			var failed *lock.StoreError
			if !errors.As(err, &failed) || errors.Is(err, lock.ErrNotHeld) || !strings.Contains(err.Error(), "on 2 of 5 nodes and not on 1, 3 must agree") {
				t.Errorf("got %v, want a failure that says what the nodes said", err)
			}
		})
		if reported != 1 {
			t.Errorf("reported %d times", reported)
		}
		nodes[1].resume()
		nodes[2].set(healthy)
		q.Renew(t.Context(), []lock.Claim{claimBy("a")}, func(_ int, err error) { must(t, err) })
		must(t, q.Release(t.Context(), claimBy("a")))
	})
}

// What a quorum rests on: a node that comes back without its data, and at
// once, votes a second time. This is not a wish; it shows that the rule in the
// documentation (keep the data, or stay out for a lease) is needed, and that
// the checker of the model test sees an overlap.
func TestANodeThatForgetsAtOnceBreaksExclusion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := members(5)
		q := over(t, nodes)
		nodes[3].set(refused)
		nodes[4].set(refused)
		must(t, acquireOf(q, claimBy("a"))) // on 0, 1, 2
		nodes[3].set(healthy)
		nodes[4].set(healthy)
		nodes[2].wipe()
		must(t, acquireOf(q, claimBy("b"))) // on 2, 3, 4
	})
}

// Three owners call five nodes in the same moment, again and again.
func TestASplitVoteIsDecidedSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := members(5)
		var lockers []*lock.Locker
		for range 3 {
			l := lock.New(over(t, nodes).Store)
			lockers = append(lockers, l)
			defer func() { must(t, l.Close(context.Background())) }()
		}
		var took []time.Duration
		for round := range 200 {
			var wg sync.WaitGroup
			var winners atomic.Int32
			began := time.Now()
			for _, l := range lockers {
				wg.Go(func() {
					lease, err := l.Acquire(t.Context(), "k")
					if err != nil {
						t.Errorf("round %d: %v", round, err)
						return
					}
					if winners.Add(1) == 1 {
						took = append(took, time.Since(began))
					}
					must(t, lease.Release(t.Context()))
				})
			}
			wg.Wait()
		}
		slices.Sort(took)
		if p99 := took[len(took)*99/100]; p99 > time.Second {
			t.Errorf("p99 of the first grant is %v, the longest %v", p99, took[len(took)-1])
		}
	})
}

// The votes of an owner that lost a round are removed while it calls again.
// The removal must not hit what it wins then.
func TestARemovalNeverHitsALaterVote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := members(3)
		q := over(t, nodes)
		// Two nodes are hung: one vote is won, the others may be, and all are
		// to be removed. The owner calls again before the nodes go on.
		nodes[0].hang()
		nodes[1].hang()
		if err := acquireOf(q, claimBy("a")); err == nil {
			t.Fatal("granted by one of three nodes")
		}
		asked := make(chan error, 1)
		go func() { asked <- acquireOf(q, claimBy("a")) }()
		time.Sleep(nodeTimeout / 2)
		nodes[0].resume()
		nodes[1].resume()
		if err := <-asked; err == nil {
			time.Sleep(10 * time.Second) // let all that is on its way arrive
			if n := on(nodes); n < 2 {
				t.Errorf("granted, and %d of 3 nodes have it", n)
			}
		}
		// Soon the nodes are clean, and the same owner gets the key for good.
		time.Sleep(10 * time.Second)
		must(t, acquireOf(q, claimBy("a")))
		time.Sleep(10 * time.Second)
		if n := on(nodes); n < 2 {
			t.Errorf("%d of 3 nodes have the key", n)
		}
		must(t, q.Release(t.Context(), claimBy("a")))
	})
}

// Two calls with one claim, as when the engine has given the first one up: what
// one removes must not be what the other was granted. One may be in the way of the other.
func TestTwoCallsOfOneOwnerDoNotDisturbEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := members(3)
		q := over(t, nodes)
		must(t, acquireOf(nodes[0], claimBy("b")))
		nodes[2].hang()
		answers := make(chan error, 2)
		go func() { answers <- acquireOf(q, claimBy("a")) }() // one vote for it, one against, one missing
		time.Sleep(nodeTimeout / 2)
		must(t, nodes[0].Release(t.Context(), claimBy("b")))
		go func() { answers <- acquireOf(q, claimBy("a")) }()
		left := 1
		if err := <-answers; errors.Is(err, lock.ErrBusy) {
			must(t, <-answers)
			left--
		} else {
			must(t, err)
		}
		for range 10 * nodeTimeout / time.Millisecond {
			if n := on(nodes); n < 2 {
				t.Errorf("granted, and %d of 3 nodes have it", n)
			}
			time.Sleep(time.Millisecond / 2)
		}
		for range left {
			if err := <-answers; !errors.Is(err, lock.ErrBusy) {
				must(t, err)
			}
		}
		nodes[2].resume()
		time.Sleep(10 * time.Second)
		must(t, acquireOf(q, claimBy("a")))
		must(t, q.Release(t.Context(), claimBy("a")))
	})
}

func TestAWakeUpFromAMajorityIsPassedOnAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stores := make([]lock.BlockingStore, 5)
		for i := range stores {
			stores[i] = memory()
		}
		q := quorumOf(t, stores...)
		var w wakes
		stop, err := q.Watch(t.Context(), claimBy("b"), w.note)
		if err != nil {
			t.Fatal(err)
		}
		must(t, acquireOf(q, claimBy("a")))
		synctest.Wait()
		w.take()
		must(t, q.Release(t.Context(), claimBy("a")))
		synctest.Wait()
		if woken := w.take(); len(woken) != 1 || woken[0] != 0 {
			t.Errorf("woken after %v, want once and at once", woken)
		}
		time.Sleep(time.Second) // the minority that came after the majority
		if woken := w.take(); len(woken) > 1 {
			t.Errorf("woken %d times more by one release", len(woken))
		}

		// One node alone wakes, too, only later and ever later.
		alone := func() {
			must(t, acquireOf(stores[0], claimBy("x")))
			must(t, stores[0].Release(t.Context(), claimBy("x")))
		}
		for round := range 10 {
			w.take()
			alone()
			time.Sleep(time.Second)
			woken := w.take()
			if len(woken) != 1 || woken[0] == 0 || woken[0] > 400*time.Millisecond {
				t.Fatalf("woken after %v, want once and soon", woken)
			}
			if round == 9 && woken[0] < 100*time.Millisecond {
				t.Errorf("the tenth time woken after %v, want that it got longer", woken)
			}
		}

		alone()
		stop() // with the wake-up held back
		w.take()
		time.Sleep(time.Second)
		if w.take() != nil {
			t.Error("woken after stop")
		}
	})
}

// wakes notes when a watch was woken, since the last look.
type wakes struct {
	mu    sync.Mutex
	since time.Time
	after []time.Duration
}

func (w *wakes) note() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.after = append(w.after, time.Since(w.since))
}

func (w *wakes) take() []time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	after := w.after
	w.since, w.after = time.Now(), nil
	return after
}

func TestAWatchNeedsAMajority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := members(5)
		q := over(t, nodes)
		nodes[0].set(refused)
		nodes[1].hang()
		stop, err := q.Watch(t.Context(), claimBy("a"), func() {})
		if err != nil {
			t.Fatal(err)
		}
		stop()
		nodes[2].set(refused)
		if _, err := q.Watch(t.Context(), claimBy("a"), func() {}); err == nil || !strings.Contains(err.Error(), "2 of 5") {
			t.Errorf("with three nodes in trouble: %v", err)
		}
		nodes[1].resume()
	})
}

// Redisson's RedLock has a different owner on each node.
func TestInspectShowsAKeyThatSeveralOwnersHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := members(3)
		q := over(t, nodes)
		for i, owner := range []string{"java-1", "java-2", "java-3"} {
			if state, err := q.Inspect(t.Context(), "k"); err != nil || state.Held != (i >= 2) {
				t.Errorf("on %d nodes: %+v, %v", i, state, err)
			}
			c := claimBy(owner)
			c.TTL = time.Duration(i+1) * time.Second
			must(t, acquireOf(nodes[i], c))
		}
		state, err := q.Inspect(t.Context(), "k")
		if err != nil || len(state.Owners) != 3 || state.TTL <= time.Second || state.TTL > 2*time.Second {
			t.Errorf("got %+v, %v; want three owners for 2s", state, err)
		}
		time.Sleep(2 * time.Second)
		if state, err := q.Inspect(t.Context(), "k"); err != nil || state.Held {
			t.Errorf("on the last node: %+v, %v", state, err)
		}
	})
}

func TestInspectShowsWhatTheMajoritySees(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := members(5)
		q := over(t, nodes)
		look := func() (lock.State, error) { return q.Inspect(t.Context(), "k") }
		must(t, acquireOf(nodes[0], claimBy("stray")))
		short := claimBy("stray")
		short.TTL = time.Second
		must(t, acquireOf(nodes[1], short))
		if state, err := look(); err != nil || state.Held {
			t.Errorf("two stray votes: %+v, %v", state, err)
		}
		must(t, acquireOf(nodes[2], claimBy("stray")))
		if state, err := look(); err != nil || !state.Held || state.TTL > time.Second {
			t.Errorf("three votes, one for a second: %+v, %v", state, err)
		}
		nodes[2].set(refused)
		if state, err := look(); err != nil || !state.Held {
			t.Errorf("two votes, and one that nobody knows: %+v, %v", state, err)
		}
		nodes[3].set(refused)
		nodes[4].set(refused)
		if _, err := look(); err == nil || !strings.Contains(err.Error(), "2 of 5") {
			t.Errorf("two nodes left: %v", err)
		}
		for _, m := range nodes {
			m.set(healthy)
		}
		if freed, err := q.ForceRelease(t.Context(), "k"); err != nil || !freed {
			t.Errorf("ForceRelease: %v, %v", freed, err)
		}
		if n := on(nodes); n != 0 {
			t.Errorf("%d nodes still have the key", n)
		}
	})
}

// foreign is a node on which every hold is in the format of other software.
type foreign struct{ lock.BlockingStore }

func (f foreign) Inspect(ctx context.Context, key string) (lock.State, error) {
	state, err := f.BlockingStore.Inspect(ctx, key)
	state.Foreign = state.Held
	return state, err
}

// A vote that other software has lost, on a minority of the nodes, doesn't show.
func TestInspectMarksOnlyWhatIsHeldByOtherSoftware(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := []lock.BlockingStore{foreign{memory()}, foreign{memory()}, memory(), memory(), memory()}
		q := quorumOf(t, nodes...)
		must(t, acquireOf(nodes[0], claimBy("java-1")))
		for _, n := range nodes[2:] {
			must(t, acquireOf(n, claimBy("a")))
		}
		state, err := q.Inspect(t.Context(), "k")
		if err != nil || !state.Held || state.Owners[0].Owner != "a" || state.Foreign {
			t.Errorf("next to a stray vote: %+v, %v; want held, and not foreign", state, err)
		}
		must(t, nodes[2].Release(t.Context(), claimBy("a")))
		if state, err = q.Inspect(t.Context(), "k"); err != nil || len(state.Owners) != 3 || !state.Foreign {
			t.Errorf("with two of one owner and one of another: %+v, %v; want three owners, and foreign", state, err)
		}
		must(t, acquireOf(nodes[1], claimBy("java-1")))
		must(t, acquireOf(nodes[2], claimBy("java-1")))
		state, err = q.Inspect(t.Context(), "k")
		if err != nil || !state.Held || state.Owners[0].Owner != "java-1" || !state.Foreign {
			t.Errorf("with the majority: %+v, %v; want foreign", state, err)
		}
	})
}

// The model: several processes contend for one key, over nodes that fail at
// random, a minority at a time; a node whose data is lost stays out for a
// lease. What is reported as held must never overlap, fences must grow (the
// nodes share a clock here), and in the end nothing is left.
func TestNoTwoOwnersHoldWhateverAMinorityDoes(t *testing.T) {
	for _, seed := range []uint64{1, 2, 3, 4, 5, 6} {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { runModel(t, seed) })
		})
	}
}

func runModel(t *testing.T, seed uint64) {
	t.Helper()
	const (
		processes = 4
		watchdog  = 2 * time.Second
		length    = 3 * time.Minute
	)
	nodes := members(5)
	ctx, end := context.WithTimeout(t.Context(), length)
	defer end()

	var mu sync.Mutex
	var history []interval
	var wg sync.WaitGroup
	var lockers []*lock.Locker
	var stores []quorumStore
	for p := range processes {
		q := over(t, nodes)
		l := lock.New(q.Store, lock.WithWatchdog(watchdog))
		stores, lockers = append(stores, q), append(lockers, l)
		random := rand.New(rand.NewPCG(seed, uint64(p)))
		wg.Go(func() {
			for ctx.Err() == nil {
				lease, err := l.Acquire(ctx, "k", lock.WithWait(5*time.Second))
				if err != nil {
					time.Sleep(time.Duration(1+random.IntN(50)) * time.Millisecond)
					continue
				}
				held := interval{from: time.Now(), fence: lease.Fence(), owner: lease.Owner()}
				work := time.NewTimer(time.Duration(random.IntN(300)) * time.Millisecond)
				if random.IntN(20) == 0 {
					work.Reset(2 * watchdog)
				}
				select {
				case <-work.C:
				case <-lease.Context().Done():
				}
				work.Stop()
				held.to = time.Now()
				if deadline := lease.Deadline(); deadline.Before(held.to) {
					held.to = deadline
				}
				_ = lease.Release(context.Background())
				mu.Lock()
				history = append(history, held)
				mu.Unlock()
			}
		})
	}
	wg.Go(func() { breakAMinority(ctx, rand.New(rand.NewPCG(seed, 99)), nodes, watchdog) })
	wg.Wait()

	checkHistory(t, history)
	closing, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, l := range lockers {
		must(t, l.Close(closing))
	}
	time.Sleep(maxEcho + watchdog) // what is still on its way, and what that leaves
	if n := on(nodes); n != 0 {
		t.Errorf("%d nodes still have the key", n)
	}
	for _, q := range stores {
		closeQuorum(t, q)
	}
	if len(history) < 100 {
		t.Errorf("only %d grants in %v: the model does not run", len(history), length)
	}
}

type interval struct {
	from, to time.Time
	fence    uint64
	owner    string
}

func checkHistory(t *testing.T, history []interval) {
	t.Helper()
	slices.SortFunc(history, func(a, b interval) int { return a.from.Compare(b.from) })
	for i := 1; i < len(history); i++ {
		before, after := history[i-1], history[i]
		if after.from.Before(before.to) {
			t.Errorf("%s holds until %v, %s from %v", before.owner, before.to, after.owner, after.from)
		}
		if after.fence <= before.fence {
			t.Errorf("fence %d after %d", after.fence, before.fence)
		}
	}
}

// breakAMinority changes the faults of at most two nodes at a time.
func breakAMinority(ctx context.Context, random *rand.Rand, nodes []*member, lease time.Duration) {
	heal := func() {
		for _, m := range nodes {
			m.set(healthy)
			m.resume()
		}
	}
	defer heal()
	for ctx.Err() == nil {
		for _, i := range random.Perm(len(nodes))[:random.IntN(3)] {
			m := nodes[i]
			switch random.IntN(6) {
			case 0:
				m.set(refused)
			case 1:
				m.set(lostReply)
			case 2:
				m.set(slow)
			case 3:
				m.hang()
			case 4:
				m.set(twice)
			case 5: // its data is lost, so it stays out for a lease
				m.set(refused)
				m.wipe()
				time.Sleep(lease + time.Second)
			}
		}
		time.Sleep(time.Duration(random.IntN(3000)) * time.Millisecond)
		heal()
		// A vote of a node that was hung or slow may still be on its way.
		time.Sleep(time.Duration(random.IntN(1000)) * time.Millisecond)
	}
}

// talkative reports each claim twice.
type talkative struct{ lock.BlockingStore }

func (s talkative) Renew(ctx context.Context, claims []lock.Claim, report func(int, error)) {
	s.BlockingStore.Renew(ctx, claims, func(i int, err error) {
		report(i, err)
		report(i, err)
	})
}

// Whatever a node reports, it has one vote.
func TestANodeThatReportsTwiceHasOneVote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stores := []lock.BlockingStore{memory(), memory(), memory()}
		q := quorumOf(t, talkative{stores[0]}, stores[1], stores[2])
		c := claimBy("a")
		if _, err := q.Acquire(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // for the node that wasn't waited for
		for _, store := range stores[1:] {
			if _, err := store.ForceRelease(t.Context(), "k"); err != nil {
				t.Fatal(err)
			}
		}
		q.Renew(t.Context(), []lock.Claim{c}, func(_ int, err error) {
			if !errors.Is(err, lock.ErrNotHeld) {
				t.Errorf("got %v, want %v", err, lock.ErrNotHeld)
			}
		})
	})
}

// wrong refuses every claim, such as a server where the key is something else.
type wrong struct{ lock.BlockingStore }

var errWrong = fmt.Errorf("%w: the key holds a string", lock.ErrInvalid)

func (wrong) Acquire(context.Context, lock.Claim) (uint64, error) { return 0, errWrong }
func (wrong) Release(context.Context, lock.Claim) error           { return errWrong }
func (wrong) Renew(_ context.Context, claims []lock.Claim, report func(int, error)) {
	for i := range claims {
		report(i, errWrong)
	}
}

// last answers after the others.
type last struct{ lock.BlockingStore }

func (s last) Acquire(ctx context.Context, c lock.Claim) (uint64, error) {
	time.Sleep(time.Millisecond)
	return s.BlockingStore.Acquire(ctx, c)
}

func (s last) Release(ctx context.Context, c lock.Claim) error {
	time.Sleep(time.Millisecond)
	return s.BlockingStore.Release(ctx, c)
}

func (s last) Renew(ctx context.Context, claims []lock.Claim, report func(int, error)) {
	time.Sleep(time.Millisecond)
	s.BlockingStore.Renew(ctx, claims, report)
}

// A minority that refuses decides nothing, however soon it does.
func TestAMinorityThatRefusesDecidesNothing(t *testing.T) {
	for refusing, want := range map[int]error{1: nil, 2: lock.ErrInvalid} {
		synctest.Test(t, func(t *testing.T) {
			stores := []lock.BlockingStore{last{memory()}, last{memory()}, last{memory()}}
			for i := range refusing {
				stores[i] = wrong{stores[i]}
			}
			q, c := quorumOf(t, stores...), claimBy("a")
			if _, err := q.Acquire(t.Context(), c); !errors.Is(err, want) {
				t.Fatalf("%d refuse: acquire: %v", refusing, err)
			}
			if want != nil {
				return
			}
			q.Renew(t.Context(), []lock.Claim{c}, func(_ int, err error) {
				if err != nil {
					t.Errorf("renew: %v", err)
				}
			})
			if err := q.Release(t.Context(), c); err != nil {
				t.Errorf("release: %v", err)
			}
		})
	}
}

// One node has the vote of somebody who died, one hangs, and one is free: nobody can have a
// majority, and the nodes that answer are one. However long a call may take, the answer is
// that of the last vote that it had time for.
func TestASplitVoteIsBusyWithinTheCallTimeout(t *testing.T) {
	for timeout := 350 * time.Millisecond; timeout < time.Second; timeout += 7 * time.Millisecond {
		synctest.Test(t, func(t *testing.T) {
			nodes := members(3)
			must(t, acquireOf(nodes[0], claimBy("dead#1")))
			nodes[1].hang()
			l := lock.New(over(t, nodes).Store, lock.WithCallTimeout(timeout))
			_, err := l.TryAcquire(t.Context(), "k")
			if !errors.Is(err, lock.ErrBusy) {
				t.Errorf("with a call timeout of %v: got %v, want ErrBusy", timeout, err)
			}
			nodes[1].resume()
			must(t, l.Close(t.Context()))
		})
	}
}
