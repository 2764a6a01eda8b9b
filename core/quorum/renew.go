package quorum

import (
	"context"
	"sync"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

// renewalTime is what each claim of a round adds to the node timeout.
const renewalTime = 100 * time.Microsecond

// Renew implements [lock.Store]. A claim is renewed when a majority of the
// nodes has renewed it, whatever became of it on the others: a node that lost
// its data does not end a lease. It is not held when a majority says so.
func (q *Store) Renew(ctx context.Context, claims []lock.Claim, report func(i int, err error)) {
	if err := q.begin(); err != nil {
		for i := range claims {
			report(i, err)
		}
		return
	}
	defer q.running.Done()
	q.renew(ctx, claims, report)
}

// renew is Renew; the caller is counted in running.
func (q *Store) renew(ctx context.Context, claims []lock.Claim, report func(i int, err error)) {
	ctx, enough := context.WithCancel(ctx)
	defer enough()
	r := q.newRenewal(claims, report)
	if len(r.sent) == 0 {
		return
	}
	r.enough = enough
	r.invite = func(i int, nodes []int) { q.invite(ctx, r.guests[i].round, r.sent[i], nodes) }
	limit := q.timeout + time.Duration(len(claims))*renewalTime
	ask(ctx, q, r.alone, limit, func(ctx context.Context, n int, node lock.BlockingStore) (struct{}, error) {
		vote := r.vote(n)
		_, err := recovered(func() (struct{}, error) { node.Renew(ctx, r.sent, vote); return struct{}{}, nil })
		for i := range r.sent {
			if err != nil {
				vote(i, err) // unless it has
			}
		}
		return struct{}{}, nil
	}, func(int, struct{}, error) bool { return false })
	r.close()
}

// renewals counts the answers to a round of renewals, and reports each claim as
// soon as its fate is known.
type renewals struct {
	sent   []lock.Claim // for the rounds that hold them
	alone  *round       // of the only claim: a longer hold follows a vote at once, and must not overtake it
	index  []int        // for report
	report func(int, error)
	enough func() // ends the wait for further answers
	invite func(i int, nodes []int)
	// patience is how long a node lacks the hold before it is invited.
	patience time.Duration

	mu      sync.Mutex
	tallies []*tally // nil once reported
	guests  []guests
	open    int
}

func (q *Store) newRenewal(claims []lock.Claim, report func(int, error)) *renewals {
	r, began := &renewals{report: report, patience: 2 * q.timeout}, time.Now()
	for i, c := range claims {
		err, hold := check(c), q.holding(c)
		if err == nil && hold == nil {
			err = lock.ErrNotHeld
		}
		if err != nil {
			report(i, err)
			continue
		}
		q.prolong(hold, began.Add(c.TTL)) // whatever the answer
		if len(claims) == 1 {
			r.alone = hold
		}
		c.Owner = hold.claim.Owner
		r.sent, r.index = append(r.sent, c), append(r.index, i)
		r.tallies, r.guests = append(r.tallies, q.newTally()), append(r.guests, guests{round: hold})
	}
	r.open = len(r.sent)
	return r
}

// vote returns what counts the answer of node n for each claim: the first, should there be
// more.
func (r *renewals) vote(n int) func(i int, err error) {
	voted := make([]bool, len(r.sent))
	return func(i int, err error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if voted[i] {
			return
		}
		voted[i] = true
		if absent := isAnswer(err, lock.ErrNotHeld); absent || err == nil {
			if r.guests[i].round.lacks(n, absent, time.Now()) >= r.patience {
				r.invite(i, r.guests[i].add(n))
			}
		}
		if t := r.tallies[i]; t != nil && (t.count(err) || t.returned() == t.nodes) {
			r.end(i)
		}
	}
}

// end reports what became of a claim; mu is held.
func (r *renewals) end(i int) {
	err := r.tallies[i].verdict()
	r.tallies[i] = nil
	r.invite(i, r.guests[i].decide(err == nil))
	if r.open--; r.open == 0 {
		defer r.enough() // also when a hook panics
	}
	r.report(r.index[i], err)
}

// close reports the claims whose fate is still open when the time has passed.
func (r *renewals) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, t := range r.tallies {
		if t != nil {
			r.end(i)
		}
	}
}
