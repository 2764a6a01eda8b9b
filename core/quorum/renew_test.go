package quorum_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

// Each claim is reported when its fate is known, whatever the others wait for.
func TestEachRenewalIsReportedWhenItsFateIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes, stores := stubs(3)
		q := quorumOf(t, stores...)
		const nobodys, torn, held, slowly, gone = 0, 1, 2, 3, 4
		claims := make([]lock.Claim, 5)
		for i, key := range []string{"free", "torn", "k", "slow", "gone"} {
			claims[i] = claimBy("a")
			claims[i].Key = key
			if i != nobodys {
				must(t, acquireOf(q, claims[i]))
			}
		}
		synctest.Wait()
		for i, n := range nodes[:2] {
			n.renew = func(c lock.Claim) error {
				switch c.Key {
				case "torn":
					return []error{nil, lock.ErrNotHeld}[i]
				case "slow":
					time.Sleep(nodeTimeout / 2)
				case "gone":
					return lock.ErrNotHeld
				}
				return nil
			}
		}
		nodes[2].renew = func(c lock.Claim) error {
			if c.Key != "torn" {
				time.Sleep(2 * nodeTimeout)
			}
			return errLink
		}
		began := time.Now()
		at := make(map[int]time.Duration)
		q.Renew(t.Context(), claims, func(i int, err error) {
			at[i] = time.Since(began)
			want := []error{lock.ErrNotHeld, errLink, nil, nil, lock.ErrNotHeld}[i]
			if err != nil && want == nil || !errors.Is(err, want) {
				t.Errorf("claim %d: got %v, want %v", i, err, want)
			}
		})
		if took := time.Since(began); took != nodeTimeout/2 {
			t.Errorf("it took %v, though all was known after %v", took, nodeTimeout/2)
		}
		// The nodes of the test serve one claim after the other.
		if len(at) != 5 || at[nobodys] != 0 || at[torn] != 0 || at[held] != 0 || at[slowly] != nodeTimeout/2 || at[gone] != nodeTimeout/2 {
			t.Errorf("reported after %v", at)
		}
		time.Sleep(time.Second)
	})
}

func TestAClaimThatNobodyHasIsNoCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes, stores := stubs(3)
		q := quorumOf(t, stores...)
		for name, err := range map[string]error{
			"renewal": renewOf(t.Context(), q, claimBy("a")),
			"release": q.Release(t.Context(), claimBy("a")),
		} {
			if !errors.Is(err, lock.ErrNotHeld) {
				t.Errorf("%s: got %v, want ErrNotHeld", name, err)
			}
		}
		synctest.Wait()
		for _, n := range nodes {
			if calls := n.called("renew") + n.called("acquire") + n.called("release"); calls != 0 {
				t.Errorf("a node was called %d times", calls)
			}
		}
	})
}

// A longer lease is extended as soon as it is won. A node whose vote is still on its way has
// it for as long as the others.
func TestAnExtensionDoesNotOvertakeTheVote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes, stores := stubs(3)
		slow := nodes[2]
		slow.acquire = func(c lock.Claim) (uint64, error) {
			time.Sleep(20 * time.Millisecond)
			return slow.BlockingStore.Acquire(context.Background(), c)
		}
		q := quorumOf(t, stores...)
		must(t, acquireOf(q, claimBy("a")))
		longer := claimBy("a")
		longer.TTL = 10 * time.Minute
		must(t, renewOf(t.Context(), q, longer))
		time.Sleep(time.Minute)
		if n := hold(t, nodes); n != 3 {
			t.Errorf("%d of 3 nodes have the key", n)
		}
	})
}
