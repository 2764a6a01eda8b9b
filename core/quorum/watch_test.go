package quorum_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

// wakers are what the nodes were given to wake the watch with.
func wakers(nodes []*stub) (wake []func(), open *atomic.Int32) {
	wake, open = make([]func(), len(nodes)), new(atomic.Int32)
	for i, n := range nodes {
		n.watch = func(_ lock.Claim, w func()) (func(), error) {
			open.Add(1)
			wake[i] = w
			return func() { open.Add(-1) }, nil
		}
	}
	return wake, open
}

// No node keeps a subscription that nobody wants: of a watch that was stopped, of one that
// too few nodes accepted, and of nodes that were late for either.
func TestASubscriptionEndsOnEachNode(t *testing.T) {
	for name, c := range map[string]struct {
		late, refuse int // of five nodes
		watched      bool
	}{
		"all accept it":               {0, 0, true},
		"two accept it later":         {2, 0, true},
		"three refuse it":             {0, 3, false},
		"two refuse, and one is late": {1, 2, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nodes, stores := stubs(5)
				_, open := wakers(nodes)
				for _, n := range nodes[:c.refuse] {
					n.watch = func(lock.Claim, func()) (func(), error) {
						return func() { t.Error("a subscription that there isn't is stopped") }, errLink
					}
				}
				for _, n := range nodes[5-c.late:] {
					accept := n.watch
					n.watch = func(c lock.Claim, wake func()) (func(), error) {
						time.Sleep(30 * nodeTimeout)
						return accept(c, wake)
					}
				}
				stop, err := quorumOf(t, stores...).Watch(t.Context(), claimBy("a"), func() {})
				if (err == nil) != c.watched {
					t.Fatalf("Watch: %v", err)
				}
				if err == nil {
					synctest.Wait()
					if n := int(open.Load()); n != 5-c.late {
						t.Errorf("%d nodes are watched, want %d", n, 5-c.late)
					}
					stop()
				}
				synctest.Wait()
				if n := open.Load(); n != 0 {
					t.Errorf("%d subscriptions are left", n)
				}
				time.Sleep(time.Minute)
				if n := open.Load(); n != 0 {
					t.Errorf("%d subscriptions came later, and are left", n)
				}
			})
		})
	}
}

// A node that accepts the subscription when a majority has is heard from then on.
func TestANodeThatAcceptsASubscriptionLateIsHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes, stores := stubs(3)
		wake, open := wakers(nodes)
		accept := nodes[2].watch
		nodes[2].watch = func(c lock.Claim, wake func()) (func(), error) {
			time.Sleep(nodeTimeout)
			return accept(c, wake)
		}
		var w wakes
		stop, err := quorumOf(t, stores...).Watch(t.Context(), claimBy("a"), w.note)
		must(t, err)
		time.Sleep(2 * nodeTimeout)
		synctest.Wait()
		w.take()
		wake[2]()
		time.Sleep(time.Second)
		if woken := w.take(); len(woken) != 1 {
			t.Errorf("woken after %v, want once", woken)
		}
		stop()
		if n := open.Load(); n != 0 {
			t.Errorf("%d subscriptions are left", n)
		}
	})
}

func TestWakeUpsOfNodesArePassedOn(t *testing.T) {
	const at, linger, longest = 0, 15 * time.Millisecond, 375 * time.Millisecond
	type step struct {
		nodes []int         // that wake
		by    time.Duration // when the watch is woken at the latest, once
		least time.Duration
	}
	alone := step{[]int{0}, longest, 5 * time.Millisecond}
	for name, steps := range map[string][]step{
		"each majority at once":                 {{[]int{0, 1, 2}, at, 0}, {[]int{0, 1, 2}, at, 0}, {[]int{2, 3, 4}, at, 0}},
		"a node that wakes often is one":        {{[]int{0, 0, 0, 0}, linger, 5 * time.Millisecond}},
		"a minority that a majority follows":    {{[]int{0, 1, 2}, at, 0}, {[]int{3}, linger, 5 * time.Millisecond}},
		"a minority's delay grows":              {alone, alone, alone, alone, alone, alone, {[]int{0}, longest, 125 * time.Millisecond}},
		"a majority makes the delay small anew": {alone, alone, alone, alone, alone, alone, {[]int{0, 1, 2}, at, 0}, {[]int{0}, linger, 5 * time.Millisecond}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nodes, stores := stubs(5)
				wake, _ := wakers(nodes)
				var w wakes
				stop, err := quorumOf(t, stores...).Watch(t.Context(), claimBy("a"), w.note)
				must(t, err)
				synctest.Wait()
				for i, s := range steps {
					w.take()
					for _, n := range s.nodes {
						wake[n]()
					}
					time.Sleep(time.Second)
					if woken := w.take(); len(woken) != 1 || woken[0] > s.by || woken[0] < s.least {
						t.Fatalf("step %d: woken after %v, want once, from %v to %v", i, woken, s.least, s.by)
					}
				}
				stop()
				for _, wake := range wake { // it was on its way
					wake()
				}
				time.Sleep(time.Second)
				if woken := w.take(); woken != nil {
					t.Errorf("woken after %v behind stop", woken)
				}
			})
		})
	}
}
