package quorum_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

// votes counts the nodes on which a round of the owner has the key.
func votes(t *testing.T, nodes []*member, owner string) (n int) {
	t.Helper()
	for _, m := range nodes {
		m.mu.Lock()
		state, err := m.store.Inspect(context.Background(), "k")
		m.mu.Unlock()
		must(t, err)
		for _, o := range state.Owners {
			if strings.HasPrefix(o.Owner, owner+"#") {
				n++
			}
		}
	}
	return n
}

// Two of five nodes refuse while it is acquired. Then all are well, and two of the others die.
func TestALeaseGainsTheVotesThatItDidNotGet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := members(5)
		q := over(t, nodes)
		nodes[3].set(refused)
		nodes[4].set(refused)
		must(t, acquireOf(q, claimBy("a")))
		nodes[3].set(healthy)
		nodes[4].set(healthy)
		for want := range 2 { // it may be a forced release that has reached them first
			must(t, renewOf(t.Context(), q, claimBy("a")))
			time.Sleep(3 * nodeTimeout)
			if n := votes(t, nodes, "a"); n != 3+2*want {
				t.Errorf("%d votes after %d renewals", n, want+1)
			}
		}
		nodes[0].set(refused)
		nodes[1].set(refused)
		must(t, renewOf(t.Context(), q, claimBy("a")))
		nodes[0].set(healthy)
		nodes[1].set(healthy)
		must(t, q.Release(t.Context(), claimBy("a")))
		time.Sleep(time.Second)
		if n := on(nodes); n != 0 {
			t.Errorf("%d nodes have the key when it is released", n)
		}
	})
}

// Each node in turn is away for longer than the watchdog and has lost its data, or has kept it,
// when it is back. No other owner gets in, and the lease is never lost.
func TestALeaseOutlivesARollingRestart(t *testing.T) {
	for name, back := range map[string]func(*member){"with its data": func(*member) {}, "without": (*member).wipe} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const watchdog = 3 * time.Second
				nodes := members(5)
				l := lock.New(over(t, nodes).Store, lock.WithWatchdog(watchdog))
				lease, err := l.Acquire(t.Context(), "k")
				must(t, err)
				other := lock.New(over(t, nodes).Store, lock.WithWatchdog(watchdog))
				for i, m := range nodes {
					m.set(refused)
					time.Sleep(watchdog + time.Second)
					back(m)
					m.set(healthy)
					time.Sleep(watchdog)
					if err := lease.Context().Err(); err != nil {
						t.Fatalf("lost at node %d: %v", i, context.Cause(lease.Context()))
					}
					if _, err := other.TryAcquire(t.Context(), "k"); !errors.Is(err, lock.ErrBusy) {
						t.Errorf("another owner, at node %d: got %v", i, err)
					}
				}
				must(t, lease.Release(t.Context()))
				time.Sleep(time.Second)
				if n := on(nodes); n != 0 {
					t.Errorf("%d nodes have the key when it is released", n)
				}
				must(t, l.Close(t.Context()))
				must(t, other.Close(t.Context()))
			})
		})
	}
}

// Without a majority of true renewals nobody is invited: another owner may have the others.
func TestAMinorityInvitesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := members(5)
		q := over(t, nodes)
		must(t, acquireOf(q, claimBy("a")))
		time.Sleep(time.Second)
		for _, m := range nodes[:3] {
			m.wipe()
		}
		for name, broken := range map[string]fault{"not held": healthy, "not decided": refused} {
			nodes[0].set(broken)
			for range 3 {
				if err := renewOf(t.Context(), q, claimBy("a")); err == nil {
					t.Errorf("%s: renewed", name)
				}
				time.Sleep(time.Second)
			}
			if n := votes(t, nodes, "a"); n != 2 {
				t.Errorf("%s: %d votes, want the 2 that were not lost", name, n)
			}
		}
	})
}

// An invitation that is under way when the hold is released leaves nothing, whether its answer
// comes, and one that would follow is not sent.
func TestAReleaseEndsInvitations(t *testing.T) {
	for name, answer := range map[string]error{"answered": nil, "its answer is lost": errLink} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nodes, stores := stubs(3)
				q := quorumOf(t, stores...)
				slow := nodes[2]
				slow.acquire = func(lock.Claim) (uint64, error) {
					return 0, &lock.StoreError{Outcome: lock.OutcomeNotExecuted, Err: errLink}
				}
				must(t, acquireOf(q, claimBy("a")))
				synctest.Wait()
				slow.acquire = func(c lock.Claim) (uint64, error) {
					time.Sleep(nodeTimeout / 2)
					fence, err := slow.BlockingStore.Acquire(context.Background(), c)
					return fence, errors.Join(err, answer)
				}
				must(t, renewOf(t.Context(), q, claimBy("a")))
				time.Sleep(3 * nodeTimeout)
				must(t, renewOf(t.Context(), q, claimBy("a")))
				must(t, q.Release(t.Context(), claimBy("a")))
				time.Sleep(10 * time.Second)
				if n := hold(t, nodes); n != 0 {
					t.Errorf("%d nodes have the key", n)
				}
				asked := slow.called("acquire")
				_ = renewOf(t.Context(), q, claimBy("a"))
				time.Sleep(time.Second)
				if n := slow.called("acquire"); n != asked {
					t.Errorf("%d invitations after the release", n-asked)
				}
			})
		})
	}
}

// A forced release reaches the nodes one after the other, and the holder hears of each
// and renews in between. It must not win back what was taken.
func TestNoVoteIsGainedBackFromAForcedRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := members(3)
		q := over(t, nodes)
		must(t, acquireOf(q, claimBy("a")))
		time.Sleep(time.Second)
		for i, m := range nodes {
			m.wipe()
			if err := renewOf(t.Context(), q, claimBy("a")); (err == nil) != (i == 0) {
				t.Errorf("after %d of 3 nodes: got %v", i+1, err)
			}
			time.Sleep(nodeTimeout / 2)
		}
		if n := on(nodes); n != 0 {
			t.Errorf("%d nodes have the key", n)
		}
	})
}
