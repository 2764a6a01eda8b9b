package quorum_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

// One node has another owner, one grants, and one hangs: the round is lost when the node
// timeout has passed, and the store is closed by then. The votes would be in everybody's
// way for 30 s.
func TestARoundThatIsLostBehindCloseIsRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := members(3)
		q := over(t, nodes)
		must(t, acquireOf(nodes[0], claimBy("other")))
		nodes[2].hang()
		answer := make(chan error, 1)
		go func() { answer <- acquireOf(q, claimBy("a")) }()
		time.Sleep(nodeTimeout / 2)
		time.AfterFunc(time.Second, nodes[2].resume)
		closeQuorum(t, q)
		if err := <-answer; !errors.Is(err, lock.ErrBusy) {
			t.Errorf("got %v, want ErrBusy", err)
		}
		if n := on(nodes); n != 1 {
			t.Errorf("%d nodes have the key, want the one of the other owner", n)
		}
	})
}

func TestCloseWaitsForCallsUntilItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := members(3)
		q := over(t, nodes)
		nodes[0].hang()
		must(t, acquireOf(q, claimBy("a")))
		cause := errors.New("no time left")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, cause)
		defer cancel()
		began := time.Now()
		if err := q.Close(ctx); !errors.Is(err, cause) || time.Since(began) != time.Minute {
			t.Errorf("with a node that hangs: %v after %v", err, time.Since(began))
		}
		nodes[0].resume()
		closeQuorum(t, q) // a second time
	})
}

// calls are all that make calls of nodes.
var calls = map[string]func(ctx context.Context, q quorumStore) error{
	"acquire": func(ctx context.Context, q quorumStore) error {
		_, err := q.Acquire(ctx, claimBy("b"))
		return err
	},
	"acquire again": func(ctx context.Context, q quorumStore) error {
		_, err := q.Acquire(ctx, claimBy("a"))
		return err
	},
	"renew": func(ctx context.Context, q quorumStore) error { return renewOf(ctx, q, claimBy("a")) },
	"watch": func(ctx context.Context, q quorumStore) error {
		stop, err := q.Watch(ctx, claimBy("b"), func() {})
		if err == nil {
			stop()
		}
		return err
	},
	"inspect":       func(ctx context.Context, q quorumStore) error { _, err := q.Inspect(ctx, "k"); return err },
	"force release": func(ctx context.Context, q quorumStore) error { _, err := q.ForceRelease(ctx, "k"); return err },
	"release":       func(ctx context.Context, q quorumStore) error { return q.Release(ctx, claimBy("a")) },
}

// renewOf renews one claim, which must be reported once.
func renewOf(ctx context.Context, s lock.BlockingStore, c lock.Claim) error {
	var got []error
	s.Renew(ctx, []lock.Claim{c}, func(_ int, err error) { got = append(got, err) })
	if len(got) != 1 {
		return errors.New("not reported once")
	}
	return got[0]
}

func TestCallsBehindCloseSayThatTheStoreIsClosed(t *testing.T) {
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nodes := members(3)
				q := over(t, nodes)
				must(t, acquireOf(q, claimBy("a")))
				closeQuorum(t, q)
				before := nodes[0].called()
				err := call(t.Context(), q)
				var failed *lock.StoreError
				if !errors.As(err, &failed) || failed.Outcome != lock.OutcomeRefused {
					t.Errorf("got %v, want a StoreError that says refused", err)
				}
				if class := lock.ClassOf(err); class != "client closed" {
					t.Errorf("the class of %v is %q", err, class)
				}
				if n := nodes[0].called() - before; n != 0 {
					t.Errorf("a node was called %d times", n)
				}
			})
		})
	}
}
