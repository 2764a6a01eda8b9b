package redisstore

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
)

const (
	// renewBatch is how many keys one script renews where one server has them
	// all. Larger scripts stall the server for others: 500 keys take 2 ms.
	renewBatch = 50
	// renewPipeline is how many scripts are sent at once.
	renewPipeline = 20
)

// renewal is one claim of a round, by its place in it.
type renewal struct {
	call
	index int
}

// shard is what one script on one server can renew.
type shard struct {
	script *script
	node   *redis.Client // nil outside a cluster
}

// Renew implements [lock.Store]. In a cluster the nodes are served in
// parallel, and each claim by a script of its own.
func (s *Store) Renew(ctx context.Context, claims []lock.Claim, report func(i int, err error)) {
	shards := make(map[shard][]renewal)
	for i, c := range claims {
		to, r, err := s.renewal(ctx, c)
		if err != nil {
			report(i, err)
			continue
		}
		r.index = i
		shards[to] = append(shards[to], r)
	}
	var running sync.WaitGroup
	for to, renewals := range shards {
		running.Go(func() { s.renewShard(ctx, to, renewals, report) })
	}
	running.Wait()
}

func (s *Store) renewal(ctx context.Context, claim lock.Claim) (shard, renewal, error) {
	t, err := s.target(ctx, claim, 0)
	if err != nil {
		return shard{}, renewal{}, err
	}
	c := t.renew(t)
	to := shard{script: c.script}
	if s.cluster != nil {
		if to.node, err = s.masterOf(ctx, t.name); err != nil {
			return shard{}, renewal{}, err
		}
	}
	return to, renewal{call: c}, nil
}

func (s *Store) renewShard(ctx context.Context, to shard, renewals []renewal, report func(int, error)) {
	size := 1 // the keys of a node are in many slots
	if to.node == nil && to.script == renewScript {
		size = renewBatch
	}
	batches := slices.Collect(slices.Chunk(renewals, size))
	for some := range slices.Chunk(batches, renewPipeline) {
		s.renewBatches(ctx, some, report)
	}
}

// renewBatches sends one script for each batch.
func (s *Store) renewBatches(ctx context.Context, batches [][]renewal, report func(int, error)) {
	calls := make([]call, len(batches))
	for i, batch := range batches {
		calls[i] = joined(batch)
	}
	outcomes := make([]outcome, len(calls))
	if failed := guarded(func() error { outcomes = s.pipeline(ctx, calls); return nil }); failed != nil {
		for i := range outcomes {
			outcomes[i].err = failed
		}
	}
	var alone [][]renewal
	for i, o := range outcomes {
		switch {
		case isRefused(o.err) && len(batches[i]) > 1:
			// One key spoiled it for all, or the server runs no such script. It
			// changed nothing.
			alone = slices.AppendSeq(alone, slices.Chunk(batches[i], 1))
			continue
		case isTryAgain(o.err) && calls[i].script == semaphoreRenewScript && len(calls[i].keys) == 2:
			r := batches[i][0]
			r.keys = r.keys[:1] // the permits matter, the number of free ones follows
			alone = append(alone, []renewal{r})
			continue
		case isWrongType(o.err):
			o.err = lock.ErrNotHeld
		}
		held, err := o.held(len(batches[i]))
		for j, r := range batches[i] {
			switch {
			case err != nil:
				report(r.index, err)
			case held[j] == 0:
				report(r.index, lock.ErrNotHeld)
			case held[j] == 1:
				report(r.index, nil)
			default:
				report(r.index, s.failure(errBadReply))
			}
		}
	}
	if len(alone) > 0 {
		s.renewBatches(ctx, alone, report)
	}
}

// joined makes one call of several of one script.
func joined(batch []renewal) call {
	if len(batch) == 1 {
		return batch[0].call
	}
	c := call{script: renewManyScript}
	for _, r := range batch {
		c.keys, c.args = append(c.keys, r.keys...), append(c.args, r.args...)
	}
	return c
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
