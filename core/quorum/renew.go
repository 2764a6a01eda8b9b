package quorum

import (
	"context"
	"sync"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

// renewalTime is what each claim of a round adds to the node timeout.
const renewalTime = 100 * time.Microsecond

// vote is what a node says of one claim of a round of renewals.
type renewalVote struct {
	node, claim int
	err         error
}

// Renew implements [lock.Store]. A claim is renewed when a majority of the
// nodes has renewed it, whatever became of it on the others: a node that lost
// its data does not end a lease. It is not held when a majority says so.
func (q *Store) Renew(ctx context.Context, claims []lock.Claim, report func(i int, err error)) {
	round := q.newRenewal(claims, report)
	if len(round.sent) == 0 {
		return
	}
	limit := q.timeout + time.Duration(len(claims))*renewalTime
	votes, stop := make(chan renewalVote, len(q.voters)), make(chan struct{})
	defer close(stop)
	for i, v := range q.voters {
		q.tasks.start(func() {
			ctx, cancel := detached(ctx, limit)
			defer cancel()
			v.renew(ctx, round.sent, func(claim int, err error) {
				select {
				case votes <- renewalVote{i, claim, err}:
				case <-stop: // too late
				}
			})
		})
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for round.open > 0 {
		select {
		case vote := <-votes:
			round.take(vote)
			continue
		case <-timer.C:
		case <-ctx.Done():
		}
		break
	}
	round.close()
}

// renew has every claim reported once.
func (v *voter) renew(ctx context.Context, claims []lock.Claim, report func(int, error)) {
	var mu sync.Mutex
	reported := make([]bool, len(claims))
	once := func(i int, err error) {
		mu.Lock()
		first := !reported[i]
		reported[i] = true
		mu.Unlock()
		if first {
			report(i, err)
		}
	}
	v.store.Renew(ctx, claims, once)
	for i := range claims {
		once(i, errSilent)
	}
}

// renewals counts the votes of a round, and reports each claim as soon as its
// fate is known.
type renewals struct {
	q       *Store
	sent    []lock.Claim
	index   []int // of the claims that were sent, for report
	report  func(int, error)
	tallies []*tally // nil once reported
	open    int
}

func (q *Store) newRenewal(claims []lock.Claim, report func(int, error)) *renewals {
	r := &renewals{q: q, report: report}
	for i, c := range claims {
		if err := q.check(c); err != nil {
			report(i, err)
			continue
		}
		r.sent, r.index, r.tallies = append(r.sent, c), append(r.index, i), append(r.tallies, q.newTally())
	}
	r.open = len(r.sent)
	return r
}

func (r *renewals) take(vote renewalVote) {
	t := r.tallies[vote.claim]
	if t == nil {
		return
	}
	t.count(vote.err)
	switch {
	case t.granted >= r.q.need:
		r.end(vote.claim, nil)
	case t.absent >= r.q.need:
		r.end(vote.claim, lock.ErrNotHeld)
	case t.refused != nil:
		r.end(vote.claim, t.refused)
	case t.answered()+len(t.failed) == len(r.q.voters):
		r.end(vote.claim, t.failure())
	}
}

func (r *renewals) end(i int, err error) {
	r.tallies[i] = nil
	r.open--
	r.report(r.index[i], err)
}

// close reports the claims whose fate is still open when the time is over.
func (r *renewals) close() {
	for i, t := range r.tallies {
		if t != nil {
			r.end(i, t.failure())
		}
	}
}
