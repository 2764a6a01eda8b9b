package redisstore

import (
	"context"
	"errors"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
)

// renewBatch is how many keys one script renews where one server has them all.
// Larger scripts stall the server for others: 500 keys take 2 ms.
const renewBatch = 50

// renewal is one claim of a round, by its place in it.
type renewal struct {
	call
	index int
}

// renewed is the outcome of one script.
type renewed struct {
	outcome
	to    *sender
	batch []renewal
}

// round is one call of [Store.Renew].
type round struct {
	*Store
	report  func(i int, err error)
	answers chan renewed
	pending int // answers
}

// Renew implements [lock.Store]. Where one server has all keys, one script renews
// several; in a cluster every key has its own script.
func (s *Store) Renew(ctx context.Context, claims []lock.Claim, report func(i int, err error)) {
	type kind struct {
		to     *sender
		script *script
	}
	kinds := make(map[kind][]renewal)
	for i, c := range claims {
		t, err := s.target(c)
		if err != nil {
			report(i, err)
			continue
		}
		r := renewal{t.renew(t), i}
		k := kind{s.senderOf(t.name), r.script}
		kinds[k] = append(kinds[k], r)
	}
	r := &round{Store: s, report: report, answers: make(chan renewed, len(claims))}
	for k, renewals := range kinds {
		size := 1
		if s.cluster == nil && k.script == renewScript {
			size = renewBatch
		}
		r.send(ctx, k.to, slices.Collect(slices.Chunk(renewals, size)))
	}
	late := context.WithoutCancel(ctx)
	for ; r.pending > 0; r.pending-- {
		r.answered(late, <-r.answers)
	}
}

// send sends one script for each batch.
func (r *round) send(ctx context.Context, to *sender, batches [][]renewal) {
	r.pending += len(batches)
	if r.replicas != nil {
		go r.sendReplicated(ctx, to, batches)
		return
	}
	for _, batch := range batches {
		to.submit(&sending{
			call: joined(batch), ctx: ctx, by: limitOf(ctx), urgent: true,
			to: receiving(func(reply *redis.Cmd, err error) { r.answers <- renewed{outcome{cmd: reply, err: err}, to, batch} }),
		})
	}
}

func (r *round) sendReplicated(ctx context.Context, to *sender, batches [][]renewal) {
	calls, outcomes := make([]call, len(batches)), make([]outcome, len(batches))
	for i, batch := range batches {
		calls[i] = joined(batch)
	}
	failed := guarded(func() error { outcomes = r.replicatedLate(ctx, calls); return nil })
	for i, batch := range batches {
		switch o := &outcomes[i]; {
		case failed != nil:
			o.err = failed
		case o.err == nil:
			o.err = o.short
		}
		r.answers <- renewed{outcomes[i], to, batch}
	}
}

// answered reports the claims of a script, or sends them again one by one, late or not.
func (r *round) answered(ctx context.Context, a renewed) {
	first := &a.batch[0]
	switch {
	case isRefused(a.err) && len(a.batch) > 1:
		// One key spoiled it for all, or the server runs no such script. It
		// changed nothing.
		r.send(ctx, a.to, slices.Collect(slices.Chunk(a.batch, 1)))
		return
	case isTryAgain(a.err) && first.keys == 2: // not several locks: those are outside of clusters
		first.call = first.on(1) // permits matter more than their number, and a writer has no sentinel yet
		r.send(ctx, a.to, [][]renewal{a.batch})
		return
	case isWrongType(a.err):
		a.err = lock.ErrNotHeld
	}
	held, err := a.held(len(a.batch))
	for j, renewal := range a.batch {
		switch {
		case err != nil:
			r.report(renewal.index, err)
		case held[j] == 0:
			r.report(renewal.index, lock.ErrNotHeld)
		case held[j] == 1:
			r.report(renewal.index, nil)
		default:
			r.report(renewal.index, r.failure(errBadReply))
		}
	}
}

// joined makes one call of several of one script.
func joined(batch []renewal) call {
	if len(batch) == 1 {
		return batch[0].call
	}
	var keys []string
	var args []any
	for _, r := range batch {
		keys, args = append(keys, r.key()), append(args, r.args()...)
	}
	return renewManyScript.call(keys, args)
}

// held reads the reply to a batch of n.
func (o outcome) held(n int) ([]int64, error) {
	if o.err != nil {
		return nil, o.err
	}
	if n == 1 {
		held, err := o.cmd.Int64()
		return []int64{held}, err
	}
	held, err := o.cmd.Int64Slice()
	if err == nil && len(held) != n {
		err = errNoReply
	}
	return held, err
}

func isRefused(err error) bool {
	var failed *lock.StoreError
	return errors.As(err, &failed) && failed.Outcome == lock.OutcomeRefused
}
