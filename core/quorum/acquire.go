package quorum

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

// minSplitPause and maxSplitPause bound the time after a split vote, give or
// take a half.
const (
	minSplitPause = 10 * time.Millisecond
	maxSplitPause = 250 * time.Millisecond
)

// Acquire implements [lock.Store]: granted by a majority of the nodes, each time
// to an owner that is made for this round of votes. A round that was lost is
// removed. While nobody has a majority the vote is repeated, for ten node timeouts or a
// quarter of the TTL at most, and until ctx or the time ends. The pauses are random, so
// that contenders do not stay in step. After that the key is busy, too.
//
// If too few nodes answer, the error says how many did. The caller has nothing to
// undo: the outcome is [lock.OutcomeNotExecuted], or [lock.OutcomeRefused] if a majority
// refuses.
func (q *Store) Acquire(ctx context.Context, c lock.Claim, by time.Time, answer lock.Answer) {
	q.start(ctx, by, answer, func(ctx context.Context) (uint64, error) { return q.acquire(ctx, c) })
}

func (q *Store) acquire(ctx context.Context, c lock.Claim) (uint64, error) {
	if err := check(c); err != nil {
		return 0, err
	}
	if c.Owner == "" { // the nodes don't see it
		return 0, fmt.Errorf("%w: a claim without an owner", lock.ErrInvalid)
	}
	limit := time.Now().Add(min(voteTimeouts*q.timeout, c.TTL/4))
	if end, limited := ctx.Deadline(); limited && end.Before(limit) {
		limit = end // a later answer is none
	}
	for tries := 0; ; tries++ {
		if r := q.holding(c); r != nil {
			fence, err := q.again(ctx, r, c)
			if !isAnswer(err, lock.ErrNotHeld) {
				return fence, err
			}
			q.forget(c, r)
			q.end(ctx, r, max(r.claim.TTL, c.TTL), time.Time{}, (*tally).decided)
		}
		asked := time.Now()
		r, t := q.vote(ctx, c)
		switch {
		case t.won():
			q.hold(c, r)
			return r.fence, nil
		case t.refused() != nil:
			return 0, t.refused()
		case t.answered() < t.need:
			return 0, without(t)
		case t.granted == 0 && len(t.busy) > 0:
			return 0, &lock.BusyError{TTL: freeIn(t.busy, t.need)}
		}
		// Some votes were won and lost again. Unless somebody has a majority,
		// waiting for it to expire is no use.
		if ttl, held := q.heldByAnother(ctx, c); held {
			return 0, &lock.BusyError{TTL: ttl}
		}
		// Apart by more than a vote takes, or the next one will split, too. Where
		// votes take long, the maximum has to do.
		took := time.Since(asked)
		pause := min(max(minSplitPause, 2*took)<<min(tries, 4), maxSplitPause)
		pause = pause/2 + rand.N(pause)
		if time.Now().Add(pause+took).After(limit) || !q.pause(ctx, pause) {
			return 0, &lock.BusyError{TTL: pause}
		}
	}
}

// again repeats a claim for the round that won it. It renews, so that a node which has
// lost the hold is not given it back.
func (q *Store) again(ctx context.Context, r *round, c lock.Claim) (fence uint64, err error) {
	q.renew(ctx, []lock.Claim{c}, func(_ int, result error) { err = result })
	return r.fence, err
}

// without is the failure of a vote that too few nodes answered. What it left is
// not the caller's to remove.
func without(t *tally) error {
	err := t.failure()
	var failed *lock.StoreError
	if errors.As(err, &failed) {
		failed.Outcome = lock.OutcomeNotExecuted
		if t.barred() {
			failed.Outcome = lock.OutcomeRefused
		}
	}
	return err
}

// freeIn is when a majority of the nodes will be free, if no hold is renewed.
// Among the holds in the way are enough for a majority.
func freeIn(holds []time.Duration, need int) time.Duration {
	slices.SortFunc(holds, compareTTL)
	return holds[min(need, len(holds))-1]
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
	return views.lasts(owner), claimant(owner) != c.Owner && votes >= q.need
}
