package quorum

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

// round is one vote on a claim. Its owner is made for it: no node ever sees it
// in another round, so whatever arrives late can only touch what is left of
// this one. A round that was won is the claim's hold until it is released.
type round struct {
	claim lock.Claim // with the owner of the round
	fence uint64
	until time.Time // when the hold ends unless renewed; guarded by Store.mu
	votes []vote    // by node; each belongs to the call whose turn it is there

	mu   sync.Mutex
	last []chan struct{} // by node; closed when the last call so far has ended
	// without is since when a node says that it doesn't have the hold.
	without []time.Time
}

// vote is what a node may have of a round.
type vote uint8

const (
	none vote = iota
	granted
	unknown // the call has failed, and may run later
	removed // somebody sees to it
	refused // none, and none is asked for any longer: the hold has been released
)

// queue puts a call on a node behind the ones that the round has there already: a
// release must not overtake the vote. await returns when it is its turn; end
// ends that.
func (r *round) queue(i int) (await, end func()) {
	if r == nil {
		return func() {}, func() {}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	before, own := r.last[i], make(chan struct{})
	r.last[i] = own
	return func() {
		if before != nil {
			<-before
		}
	}, func() { close(own) }
}

// voteOf is what an acquire with that result may have left.
func voteOf(err error) vote {
	switch {
	case err == nil:
		return granted
	case answered(err), errors.Is(err, lock.ErrBusy), outcomeOf(err) != lock.OutcomeUnknown:
		return none
	default:
		return unknown
	}
}

// ownerMark stands between the owner of a claim and the number of the round.
const ownerMark = "#"

// claimant is the owner for whom a round's owner voted.
func claimant(owner string) string {
	if at := strings.LastIndex(owner, ownerMark); at > 0 {
		return owner[:at]
	}
	return owner
}

// vote sends the claim to all nodes, once. What a lost round has left is removed
// before it returns, as far as the nodes answer, so that it is in nobody's way.
func (q *Store) vote(ctx context.Context, c lock.Claim) (*round, *tally) {
	c.Owner += ownerMark + strconv.FormatUint(q.counter.Add(1), 10)
	r := &round{claim: c, votes: make([]vote, len(q.nodes)), last: make([]chan struct{}, len(q.nodes)), without: make([]time.Time, len(q.nodes))}
	sent, t := time.Now(), q.newTally()
	ask(ctx, q, r, q.timeout, func(ctx context.Context, i int, node lock.BlockingStore) (uint64, error) {
		r.votes[i] = unknown // unless it returns
		fence, err := node.Acquire(ctx, c)
		r.votes[i] = voteOf(err)
		return fence, err
	}, func(_ int, fence uint64, err error) (enough bool) {
		r.fence = max(r.fence, fence)
		return t.count(err)
	})
	if t.won() {
		r.until = sent.Add(c.TTL)
	} else {
		voted := t.returned()
		q.end(ctx, r, r.claim.TTL, time.Time{}, func(t *tally) bool { return t.returned() >= voted })
	}
	return r, t
}

// end removes a round from all nodes, from each as soon as its vote is known. A node
// may have it for ttl, and is called for that long. A hold is kept for nobody until
// keep, if that is in the future. end returns when the answers are enough.
func (q *Store) end(ctx context.Context, r *round, ttl time.Duration, keep time.Time, enough func(*tally) bool) *tally {
	t, claim := q.newTally(), r.claim
	claim.TTL, claim.Keep = ttl, keep
	ask(ctx, q, r, q.timeout, func(ctx context.Context, i int, _ lock.BlockingStore) (struct{}, error) {
		return struct{}{}, q.withdraw(ctx, r, i, claim)
	}, func(_ int, _ struct{}, err error) bool {
		t.count(err)
		return enough(t)
	})
	return t
}

// removalPasses are the pauses before further removals of a vote whose call had
// no answer: it may run after the first.
var removalPasses = []time.Duration{100 * time.Millisecond, 2 * time.Second}

const (
	// removalRetry and maxRemovalRetry bound the pause after a node did not answer
	// a removal. It doubles: a node that is away for long is not called all the time.
	removalRetry    = 250 * time.Millisecond
	maxRemovalRetry = 2 * time.Second
	// maxRemovals bounds, for each node, the removals that have to be repeated.
	// What is beyond is left to its TTL.
	maxRemovals = 64
)

// node is a store of the quorum.
type node struct {
	lock.BlockingStore

	store    lock.Store
	removals atomic.Int32 // that are repeated
}

// withdraw removes a round's vote from a node. Where that has no answer it goes
// on in the background. It is called when it is the round's turn there.
func (q *Store) withdraw(ctx context.Context, r *round, i int, claim lock.Claim) error {
	was := r.votes[i]
	if was == none || was == refused {
		r.votes[i] = refused
		return lock.ErrNotHeld
	}
	r.votes[i] = removed
	err := q.remove(ctx, q.nodes[i], claim)
	var passes []time.Duration
	if was == unknown {
		passes = removalPasses
	}
	if !answered(err) {
		passes = append([]time.Duration{removalRetry}, passes...)
	}
	if was != removed && len(passes) > 0 {
		q.persist(ctx, q.nodes[i], claim, passes)
	}
	return err
}

func (q *Store) remove(ctx context.Context, n *node, c lock.Claim) error {
	_, err := guarded(ctx, q.timeout, func(ctx context.Context) (struct{}, error) { return struct{}{}, n.Release(ctx, c) })
	return err
}

// answered: what is to be removed is gone. A wrong claim has left nothing; what a server
// refuses to remove is still there.
func answered(err error) bool {
	return err == nil || isAnswer(err, lock.ErrNotHeld) || wrong(err) && outcomeOf(err) == lock.OutcomeRefused
}

// persist repeats a removal in the background, after each of the pauses, until
// the node has answered each or the TTL of c has passed. Close cuts it short.
func (q *Store) persist(ctx context.Context, n *node, c lock.Claim, passes []time.Duration) {
	if n.removals.Add(1) > maxRemovals {
		n.removals.Add(-1)
		return
	}
	until := time.Now().Add(c.TTL)
	q.running.Go(func() {
		defer n.removals.Add(-1)
		open, wait, retry := true, passes[0], removalRetry
		for open && len(passes) > 0 && time.Now().Before(until) {
			open = q.pause(context.Background(), wait)
			if !answered(q.remove(ctx, n, c)) {
				wait, retry = retry, min(2*retry, maxRemovalRetry)
				continue
			}
			if passes = passes[1:]; len(passes) > 0 {
				wait, retry = passes[0], removalRetry
			}
		}
	})
}
