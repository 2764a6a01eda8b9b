package quorum

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

// minSplitPause and maxSplitPause bound the time after a split vote, give or
// take a half.
const (
	minSplitPause = 10 * time.Millisecond
	maxSplitPause = 250 * time.Millisecond
)

// Acquire implements [lock.Store]: granted by a majority of the nodes. A claim
// that loses to others is removed from the nodes that granted it, in the
// background. While nobody has a majority the vote is repeated, after pauses
// that are random so that contenders do not stay in step, for ten node
// timeouts at most; after that the key is busy, too.
//
// If too few nodes answer, the error names how many did. What they granted
// stays for the engine to repeat the claim, so that lost replies do no harm,
// or to release it.
func (q *Store) Acquire(ctx context.Context, c lock.Claim) (uint64, error) {
	if err := q.check(c); err != nil {
		return 0, err
	}
	endTurn, err := q.takeTurn(ctx, ballotOf(c))
	if err != nil {
		return 0, err
	}
	defer endTurn()
	began := time.Now()
	limit := min(voteTimeouts*q.timeout, c.TTL/4)
	for tries := 0; ; tries++ {
		asked := time.Now()
		r := q.poll(ctx, c)
		if r.won {
			return r.fence, nil
		}
		if err := r.refusal(c); err != nil {
			return 0, err
		}
		if r.granted == 0 {
			return 0, &lock.BusyError{TTL: q.freeIn(r.busy)}
		}
		// Some votes were won and lost again. Unless somebody has a majority,
		// waiting for it to expire is no use.
		if ttl, held := q.heldByAnother(ctx, c); held {
			return 0, &lock.BusyError{TTL: ttl}
		}
		// Apart by more than a vote takes, or the next one will split, too.
		pause := min(max(minSplitPause, 2*time.Since(asked))<<min(tries, 4), maxSplitPause)
		pause = pause/2 + rand.N(pause)
		if time.Since(began)+pause > limit || !q.pause(ctx, pause) {
			return 0, &lock.BusyError{TTL: pause}
		}
	}
}

// round is one vote on a claim. It is lost when no majority is left to be won,
// or when the time is over.
type round struct {
	*tally
	claim lock.Claim
	over  chan struct{} // closed when it is won or lost

	// The tally, too, is guarded by mu until the round is over.

	mu      sync.Mutex
	voted   []bool
	undo    []*voter // that may have a vote to remove
	fence   uint64
	won     bool
	decided bool
	// stays: its votes are not removed. It was won, or re-entered and made
	// nothing new, or too few answered: then the engine repeats the claim, for
	// which these votes count, or else releases it.
	stays bool
}

// poll asks all nodes for their votes.
func (q *Store) poll(ctx context.Context, c lock.Claim) *round {
	r := &round{tally: q.newTally(), claim: c, over: make(chan struct{}), voted: make([]bool, len(q.voters))}
	for i, v := range q.voters {
		q.tasks.start(func() {
			ctx, cancel := detached(ctx, q.timeout)
			defer cancel()
			fence, err := v.vote(ctx, c, r.over)
			if r.take(i, fence, err) {
				r.takeBack(v, err)
			}
		})
	}
	timer := time.NewTimer(q.timeout)
	defer timer.Stop()
	select {
	case <-r.over:
	case <-timer.C:
	case <-ctx.Done():
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.decide(false)
	return r
}

// take counts a vote. It returns true if it came too late and is to be taken
// back.
func (r *round) take(i int, fence uint64, err error) (tooLate bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.decided {
		return !r.stays
	}
	r.voted[i] = true
	r.count(err)
	if err == nil {
		r.fence = max(r.fence, fence)
	}
	if mayHold(err) {
		r.undo = append(r.undo, r.q.voters[i])
	}
	switch against := len(r.busy) + r.absent; {
	case r.granted >= r.q.need:
		r.decide(true)
	case r.refused != nil, against > len(r.q.voters)-r.q.need, r.answered()+len(r.failed) == len(r.q.voters):
		r.decide(false)
	}
	return false
}

// decide ends the round, if it is not over. What one has left that was lost to
// others is removed: at once what is known, and later what is still on its
// way. mu is held.
func (r *round) decide(won bool) {
	if r.decided {
		return
	}
	r.decided, r.won = true, won
	close(r.over)
	r.stays = won || r.claim.Holds > 1 || r.answered() < r.q.need && r.refused == nil
	if r.stays {
		return
	}
	for i, v := range r.q.voters {
		if !r.voted[i] {
			v.expectRemoval(r.claim) // takeBack will see to it
		}
	}
	for _, v := range r.undo {
		v.expectRemoval(r.claim)
		r.q.tasks.start(func() { r.removeFrom(v) })
	}
}

// takeBack removes the vote that came after the round was lost.
func (r *round) takeBack(v *voter, err error) {
	if mayHold(err) {
		r.removeFrom(v)
	} else {
		v.spare(r.claim)
	}
}

func (r *round) removeFrom(v *voter) {
	ctx, cancel := detached(context.Background(), r.q.timeout)
	defer cancel()
	_ = r.q.remove(ctx, v, r.claim) // on failure it goes on in the background
}

// refusal is why a lost round was not lost to another owner; nil if it was.
func (r *round) refusal(c lock.Claim) error {
	switch {
	case r.refused != nil:
		return r.refused
	case r.absent >= r.q.need:
		return lock.ErrNotHeld
	case r.answered() < r.q.need, c.Holds > 1:
		return r.failure()
	default:
		return nil
	}
}

// freeIn is when a majority of the nodes will be free, if no hold is renewed.
// Among the holds in the way are enough for a majority.
func (q *Store) freeIn(holds []time.Duration) time.Duration {
	slices.SortFunc(holds, compareTTL)
	return holds[min(q.need, len(holds))-1]
}

// compareTTL puts holds without an expiry, whose TTL is negative, last.
func compareTTL(a, b time.Duration) int {
	switch {
	case a == b, a < 0 && b < 0:
		return 0
	case b < 0, a >= 0 && a < b:
		return -1
	default:
		return 1
	}
}

// heldByAnother says whether an owner other than the claim's has a majority,
// and for how long.
func (q *Store) heldByAnother(ctx context.Context, c lock.Claim) (ttl time.Duration, held bool) {
	views, _ := q.views(ctx, c.Key, q.need)
	owner, votes := views.leader()
	return views.lasts(owner), owner != c.Owner && votes >= q.need
}

// takeTurn waits until no other call has the owner's vote for the key: the
// removals that one leaves behind would hit the votes of the other.
func (q *Store) takeTurn(ctx context.Context, b ballot) (end func(), err error) {
	for {
		q.mu.Lock()
		busy := q.turns[b]
		if busy == nil {
			turn := make(chan struct{})
			q.turns[b] = turn
			q.mu.Unlock()
			return func() { q.endTurn(b, turn) }, nil
		}
		q.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, &lock.StoreError{Outcome: lock.OutcomeNotExecuted, Err: context.Cause(ctx)}
		}
	}
}

func (q *Store) endTurn(b ballot, turn chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.turns, b)
	close(turn)
}

// pause waits for d; it returns false when ctx or the store ended before.
func (q *Store) pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-q.closing:
		return false
	default:
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
	case <-q.closing:
	}
	return false
}
