package quorum

import (
	"context"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

// A lease that only lost votes would end with the third node that restarts. So the nodes
// that answer a renewal by "not held" are invited: they are asked for their vote again.
//
// Only a majority of true renewals invites, as nobody else can have a majority then, also if
// a node has lost its data. A vote that is won so counts from the next renewal on, which
// finds it there. Only a node that has said so for two node timeouts is invited: one that
// said so first may be the first that a forced release, which calls all nodes at once, has
// reached.

// lacks notes that a node has or doesn't have the hold. It returns for how long it has not.
func (r *round) lacks(node int, absent bool, now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case !absent:
		r.without[node] = time.Time{}
	case r.without[node].IsZero():
		r.without[node] = now
	default:
		return now.Sub(r.without[node])
	}
	return 0
}

// guests are the nodes that a renewal invites to the hold of a claim.
type guests struct {
	round  *round
	absent []int // answered "not held" while the renewal was undecided
	won    bool
}

// add notes a node that doesn't have the hold, and returns the nodes to invite now.
func (g *guests) add(node int) []int {
	if g.won {
		return []int{node}
	}
	g.absent = append(g.absent, node)
	return nil
}

// decide returns the nodes to invite when the renewal has been decided.
func (g *guests) decide(won bool) []int {
	g.won = won
	invited := g.absent
	g.absent = nil
	if !won {
		return nil
	}
	return invited
}

// invite asks nodes for their vote for a round that has been won. The caller is counted in
// running.
func (q *Store) invite(ctx context.Context, r *round, c lock.Claim, nodes []int) {
	if len(nodes) == 0 {
		return
	}
	q.prolong(r, time.Now().Add(c.TTL+q.timeout)) // whatever the answers
	for _, i := range nodes {
		await, end := r.queue(i)
		q.running.Go(func() {
			defer end()
			await()
			was := r.votes[i]
			if was == removed || was == refused { // the hold has been released meanwhile
				return
			}
			r.votes[i] = unknown
			_, err := guarded(ctx, q.timeout, func(ctx context.Context) (uint64, error) { return q.nodes[i].Acquire(ctx, c) })
			if was != unknown { // what is unknown of an earlier call stays so
				r.votes[i] = voteOf(err)
			}
		})
	}
}
