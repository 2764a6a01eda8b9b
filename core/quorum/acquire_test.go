package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

// busyFor answers that another owner has the key for that long, after a while.
func busyFor(ttl, after time.Duration) func(lock.Claim) (uint64, error) {
	return func(lock.Claim) (uint64, error) {
		time.Sleep(after)
		return 0, &lock.BusyError{TTL: ttl}
	}
}

// A majority is free when the last of the holds that are in its way has ended. A negative
// TTL has no end. The answer waits for no node that can't change it, and for no later vote.
func TestABusyKeyIsSaidToLastUntilAMajorityIsFree(t *testing.T) {
	for _, c := range []struct {
		holds []time.Duration // in the order of the answers
		want  time.Duration
	}{
		{[]time.Duration{3 * time.Second, time.Second}, 3 * time.Second},
		{[]time.Duration{time.Second, 3 * time.Second}, 3 * time.Second},
		{[]time.Duration{-1, time.Second}, -1},
		{[]time.Duration{time.Second, -1}, -1},
		{[]time.Duration{-1, -1}, -1},
		{[]time.Duration{2 * time.Second, 3 * time.Second, time.Second}, 3 * time.Second},
		{[]time.Duration{2 * time.Second, -1, 3 * time.Second}, -1},
	} {
		t.Run(fmt.Sprint(c.holds), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nodes, stores := stubs(2*len(c.holds) - 1)
				for i := range nodes {
					nodes[i].acquire = busyFor(time.Minute, 2*nodeTimeout) // nobody waits for these
				}
				for i, ttl := range c.holds {
					nodes[i].acquire = busyFor(ttl, time.Duration(i+1)*time.Millisecond)
				}
				q, began := quorumOf(t, stores...), time.Now()
				var busy *lock.BusyError
				if err := acquireOf(q, claimBy("a")); !errors.As(err, &busy) || busy.TTL != c.want {
					t.Errorf("got %v, %+v, want busy for %v", err, busy, c.want)
				}
				soon(t, "the refusal", began)
			})
		})
	}
}

// A claim that is repeated has its hold, or gets a new one: it does not get what the nodes
// have lost.
func TestAClaimThatIsRepeated(t *testing.T) {
	for lost := range 4 {
		t.Run(fmt.Sprintf("%d of 3 nodes have lost it", lost), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nodes := members(3)
				q := over(t, nodes)
				first, err := q.Acquire(t.Context(), claimBy("a"))
				must(t, err)
				time.Sleep(time.Second) // all three have voted
				for _, m := range nodes[:lost] {
					m.wipe()
				}
				again, err := q.Acquire(t.Context(), claimBy("a"))
				must(t, err)
				time.Sleep(time.Second)
				switch n := on(nodes); {
				case lost < 2 && (again != first || n != 3-lost):
					t.Errorf("fence %d after %d, and %d nodes have the key, want the same hold", again, first, n)
				case lost >= 2 && (again <= first || n < 2):
					t.Errorf("fence %d after %d, and %d nodes have the key, want a new hold", again, first, n)
				}
				must(t, q.Release(t.Context(), claimBy("a")))
				time.Sleep(time.Second)
				if n := on(nodes); n != 0 {
					t.Errorf("%d nodes have the key when it is released", n)
				}
			})
		})
	}
}

// Nobody can have a majority: two owners that died have a vote each, and one node hangs. The
// votes are not repeated for a caller who has gone, or by a store that is closed.
func TestASplitVoteEndsWithItsCaller(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, cancel func(), q quorumStore){
		"the context ends": func(_ *testing.T, cancel func(), _ quorumStore) { cancel() },
		"the store closes": func(t *testing.T, _ func(), q quorumStore) { t.Helper(); closeQuorum(t, q) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nodes := members(5)
				must(t, acquireOf(nodes[0], claimBy("dead#1")))
				must(t, acquireOf(nodes[1], claimBy("dead#1")))
				must(t, acquireOf(nodes[2], claimBy("dead#2")))
				q := over(t, nodes)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				answer := make(chan error, 1)
				q.Store.Acquire(ctx, claimBy("a"), time.Now().Add(time.Hour), lock.AnswerFunc(func(_ uint64, err error) { answer <- err }))
				time.Sleep(nodeTimeout) // after some votes, in a pause
				synctest.Wait()
				began, before := time.Now(), nodes[4].called()
				end(t, cancel, q)
				if err := <-answer; !errors.Is(err, lock.ErrBusy) {
					t.Errorf("got %v, want ErrBusy", err)
				}
				soon(t, "the end", began)
				time.Sleep(time.Second)
				if n := nodes[4].called() - before; n > 3 {
					t.Errorf("a node was called %d times after the end", n)
				}
			})
		})
	}
}

// A split vote is repeated for ten node timeouts, a quarter of the TTL, or until the caller's
// deadline: whichever ends first.
func TestASplitVoteHasALimit(t *testing.T) {
	const never = time.Hour
	for _, c := range []struct{ ttl, deadline, want time.Duration }{
		{30 * time.Second, never, 10 * nodeTimeout},
		{30 * time.Second, 0, 10 * nodeTimeout},
		{2 * time.Second, never, 500 * time.Millisecond},
		{30 * time.Second, 300 * time.Millisecond, 300 * time.Millisecond},
		{2 * time.Second, 300 * time.Millisecond, 300 * time.Millisecond},
	} {
		t.Run(fmt.Sprint(c.ttl, c.deadline), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nodes, stores := stubs(3)
				must(t, acquireOf(nodes[0].BlockingStore, claimBy("dead#1")))
				must(t, acquireOf(nodes[1].BlockingStore, claimBy("dead#2")))
				nodes[1].acquire = func(c lock.Claim) (uint64, error) { // so that the free node has voted
					time.Sleep(time.Millisecond)
					return nodes[1].BlockingStore.Acquire(context.Background(), c)
				}
				ctx, began := t.Context(), time.Now()
				if c.deadline > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.deadline)
					defer cancel()
				}
				claim := claimBy("a")
				claim.TTL = c.ttl
				if _, err := quorumOf(t, stores...).Acquire(ctx, claim); !errors.Is(err, lock.ErrBusy) {
					t.Errorf("got %v, want ErrBusy", err)
				}
				// The last pause may be 375 ms, and is not begun if it would end too late.
				if took := time.Since(began); took > c.want || took < c.want-380*time.Millisecond {
					t.Errorf("it took %v, want %v at most", took, c.want)
				}
				if calls := nodes[2].called("acquire"); calls < 2 {
					t.Errorf("%d votes", calls)
				}
			})
		})
	}
}

// What a majority refuses is not tried again, and is no failure.
func TestWhatAMajorityRefusesIsCalledOnce(t *testing.T) {
	for name, refusal := range map[string]error{
		"an invalid claim":    errWrong,
		"an unsupported call": fmt.Errorf("%w: no WAIT", lock.ErrUnsupported),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nodes, stores := stubs(3)
				q := quorumOf(t, stores...)
				must(t, acquireOf(q, claimBy("a")))
				synctest.Wait()
				for _, n := range nodes[:2] {
					n.acquire = func(lock.Claim) (uint64, error) { return 0, refusal }
					n.renew = func(lock.Claim) error { return refusal }
					n.release = func(lock.Claim) error { return refusal }
					n.inspect = func() (lock.State, error) { return lock.State{}, refusal }
					n.watch = func(lock.Claim, func()) (func(), error) { return nil, refusal }
				}
				l := lock.New(q.Store)
				_, acquired := l.TryAcquire(t.Context(), "other")
				_, looked := q.Inspect(t.Context(), "k")
				_, watched := q.Watch(t.Context(), claimBy("b"), func() {})
				for call, err := range map[string]error{
					"acquire": acquired, "inspect": looked, "watch": watched,
					"repeated claim": acquireOf(q, claimBy("a")), "renewal": renewOf(t.Context(), q, claimBy("a")),
					"release": q.Release(t.Context(), claimBy("a")),
				} {
					var failed *lock.StoreError
					if !errors.Is(err, refusal) || errors.As(err, &failed) {
						t.Errorf("%s: got %v, want the refusal", call, err)
					}
				}
				must(t, l.Close(t.Context()))
				time.Sleep(time.Minute)
				for i, n := range nodes[:2] {
					if calls := n.called("acquire"); calls != 2 { // one before, and one by the engine
						t.Errorf("node %d: %d acquires, want 2", i, calls)
					}
					if calls := n.called("release"); calls != 1 {
						t.Errorf("node %d: %d releases, want 1", i, calls)
					}
				}
			})
		})
	}
}

// Nothing is sent for a caller who has gone before the call, or when its time has passed.
func TestACallThatComesTooLateIsNotSent(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, late := range map[string]struct {
		ctx context.Context
		by  time.Duration
	}{
		"the context has ended": {ended, time.Hour},
		"the time has passed":   {t.Context(), -time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nodes := members(3)
				q := over(t, nodes)
				must(t, acquireOf(q, claimBy("a")))
				synctest.Wait()
				before := nodes[0].called()
				for call, begin := range map[string]func(context.Context, lock.Claim, time.Time, lock.Answer){
					"acquire": q.Store.Acquire, "release": q.Store.Release,
				} {
					answer := make(chan error, 1)
					begin(late.ctx, claimBy("a"), time.Now().Add(late.by), lock.AnswerFunc(func(_ uint64, err error) { answer <- err }))
					var failed *lock.StoreError
					if err := <-answer; !errors.As(err, &failed) || failed.Outcome != lock.OutcomeNotExecuted {
						t.Errorf("%s: got %v, want a StoreError that says not executed", call, err)
					}
				}
				if n := nodes[0].called() - before; n != 0 {
					t.Errorf("a node was called %d times", n)
				}
			})
		})
	}
}
