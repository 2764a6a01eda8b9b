package quorum

import (
	"context"
	"slices"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

// Inspect implements [lock.Store] with what the majority sees: the owner that
// most nodes have, if these are a majority, or could be one together with the
// nodes that do not answer. The TTL is how long the majority lasts. If the nodes
// of a majority are held, but by several owners, as Redisson's RedLock does it
// and a split vote for a moment, all of them show, and the TTL is when a
// majority is free. Holds on a minority, which a vote that was lost leaves for a
// moment, do not show.
func (q *Store) Inspect(ctx context.Context, key string) (lock.State, error) {
	views, t := q.views(ctx, key, len(q.voters))
	switch {
	case t.refused != nil:
		return lock.State{}, t.refused
	case t.granted < q.need:
		return lock.State{}, t.failure()
	}
	owner, votes := views.leader()
	if silent := len(q.voters) - t.granted; votes == 0 || votes+silent < q.need {
		if len(views.states) < q.need {
			return lock.State{}, nil
		}
		return q.shared(views), nil
	}
	state := lock.State{Held: true, Mode: lock.Exclusive, TTL: views.lasts(owner)}
	state.Owners = []lock.OwnerHolds{{Owner: owner, Holds: views.holds(owner)}}
	return state, nil
}

// shared is the state of a key whose nodes several owners hold.
func (q *Store) shared(v views) lock.State {
	state := lock.State{Held: true, Mode: v.states[0].Mode}
	ttls := make([]time.Duration, len(v.states))
	for i, s := range v.states {
		state.Owners = append(state.Owners, s.Owners...)
		ttls[i] = s.TTL
	}
	slices.SortFunc(ttls, compareTTL)
	state.TTL = ttls[len(v.states)-q.need] // then fewer than a majority are held
	return state
}

// views are the states that the nodes see.
type views struct {
	need   int
	states []lock.State
}

// views asks all nodes, until that many are seen to have the same owner.
func (q *Store) views(ctx context.Context, key string, enough int) (views, *tally) {
	seen, t := views{need: q.need}, q.newTally()
	replies := askAll(ctx, q, q.timeout, func(ctx context.Context, v *voter) (lock.State, error) {
		return v.store.Inspect(ctx, key)
	})
	collect(ctx, q, q.timeout, replies, func(r reply[lock.State]) bool {
		t.count(r.err)
		if r.err == nil && r.value.Held {
			seen.states = append(seen.states, r.value)
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

func holdsOf(state lock.State, owner string) int {
	for _, o := range state.Owners {
		if o.Owner == owner {
			return o.Holds
		}
	}
	return 0
}
