package quorum

import (
	"context"
	"slices"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

// Inspect implements [lock.Store] with what the majority sees. A key is held if
// the nodes on which somebody has it are a majority, or could be one together
// with the nodes that do not answer. Its owner is the one that has a majority,
// and the TTL how long that lasts. If nobody has, as with Redisson's RedLock,
// whose owner is another one on each node, and for a moment with a split vote,
// all of them show, and the TTL is when a majority is free. Holds on a minority,
// which a vote that was lost leaves for a moment, do not show.
func (q *Store) Inspect(ctx context.Context, key string) (lock.State, error) {
	if err := q.begin(); err != nil {
		return lock.State{}, err
	}
	defer q.running.Done()
	views, t := q.views(ctx, key, len(q.nodes))
	silent := t.nodes - t.granted
	switch {
	case t.refused() != nil:
		return lock.State{}, t.refused()
	case t.granted < t.need:
		return lock.State{}, t.failure()
	case len(views.states)+silent < t.need || len(views.states) == 0:
		return lock.State{}, nil
	}
	owner, votes := views.leader()
	if votes+silent < t.need {
		return views.shared(), nil
	}
	return lock.State{
		Held: true, Foreign: views.foreign(owner), Mode: lock.Exclusive, TTL: views.lasts(owner),
		Owners: []lock.OwnerHolds{{Owner: claimant(owner), Holds: views.holds(owner), Kept: views.kept(owner)}},
	}, nil
}

// shared is the state of a key whose nodes several owners hold.
func (s views) shared() lock.State {
	state := lock.State{Held: true, Mode: s.states[0].Mode}
	ttls := make([]time.Duration, len(s.states))
	for i, seen := range s.states {
		state.Foreign = state.Foreign || seen.Foreign
		for _, o := range seen.Owners {
			o.Owner = claimant(o.Owner)
			state.Owners = append(state.Owners, o)
		}
		state.MoreOwners = max(state.MoreOwners, seen.MoreOwners)
		ttls[i] = seen.TTL
	}
	slices.SortFunc(ttls, compareTTL)
	state.TTL = ttls[max(0, len(ttls)-s.need)] // then fewer than a majority are held
	return state
}

// views are the states that the nodes see.
type views struct {
	need   int
	states []lock.State
}

// foreign says whether a node has the owner's hold in another format than ours.
func (s views) foreign(owner string) bool {
	return slices.ContainsFunc(s.of(owner), func(state lock.State) bool { return state.Foreign })
}

// views queries all nodes, until that many are seen to have the same owner.
func (q *Store) views(ctx context.Context, key string, enough int) (views, *tally) {
	seen, t := views{need: q.need}, q.newTally()
	ask(ctx, q, nil, q.timeout, func(ctx context.Context, _ int, node lock.BlockingStore) (lock.State, error) {
		return node.Inspect(ctx, key)
	}, func(_ int, state lock.State, err error) bool {
		t.count(err)
		if err == nil && state.Held {
			seen.states = append(seen.states, state)
		}
		_, votes := seen.leader()
		return votes >= enough
	})
	return seen, t
}

// leader is the owner that most nodes have.
func (s views) leader() (owner string, votes int) {
	count := make(map[string]int)
	for _, state := range s.states {
		for _, o := range state.Owners {
			count[o.Owner]++
			if n := count[o.Owner]; n > votes {
				owner, votes = o.Owner, n
			}
		}
	}
	return owner, votes
}

// of are the states in which the owner has the key.
func (s views) of(owner string) []lock.State {
	return slices.DeleteFunc(slices.Clone(s.states), func(state lock.State) bool { return holdsOf(state, owner) == 0 })
}

// lasts is for how long a majority of the nodes has the owner's hold.
func (s views) lasts(owner string) time.Duration {
	var ttls []time.Duration
	for _, state := range s.of(owner) {
		ttls = append(ttls, state.TTL)
	}
	if len(ttls) == 0 {
		return 0
	}
	slices.SortFunc(ttls, compareTTL)
	return ttls[max(0, len(ttls)-s.need)]
}

// holds is the hold count of which a majority has at least as much: some nodes
// may have missed a re-entry, and others a release.
func (s views) holds(owner string) int {
	var holds []int
	for _, state := range s.of(owner) {
		holds = append(holds, holdsOf(state, owner))
	}
	if len(holds) == 0 {
		return 0
	}
	slices.Sort(holds)
	return holds[max(0, len(holds)-s.need)]
}

// kept says whether the owner has released its hold, which stays for a while.
func (s views) kept(owner string) bool {
	return slices.ContainsFunc(s.states, func(state lock.State) bool {
		return slices.ContainsFunc(state.Owners, func(o lock.OwnerHolds) bool { return o.Owner == owner && o.Kept })
	})
}

func holdsOf(state lock.State, owner string) int {
	for _, o := range state.Owners {
		if o.Owner == owner {
			return o.Holds
		}
	}
	return 0
}
