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
	target
	index int
	owner string
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

func (s *Store) renewal(ctx context.Context, c lock.Claim) (shard, renewal, error) {
	t, err := s.target(c, 0)
	if err != nil {
		return shard{}, renewal{}, err
	}
	to := shard{script: t.renew}
	if s.cluster != nil {
		if to.node, err = s.cluster.MasterForKey(ctx, t.name); err != nil {
			// The topology is not known, so nothing was sent.
			return shard{}, renewal{}, &lock.StoreError{Outcome: lock.OutcomeNotExecuted, Err: err}
		}
	}
	return to, renewal{target: t, owner: c.Owner}, nil
}

func (s *Store) renewShard(ctx context.Context, to shard, renewals []renewal, report func(int, error)) {
	size := renewBatch
	if to.node != nil {
		size = 1 // the keys of a node are in many slots
	}
	batches := slices.Collect(slices.Chunk(renewals, size))
	for some := range slices.Chunk(batches, renewPipeline) {
		s.renewBatches(ctx, to.script, some, report)
	}
}

// renewBatches sends one script for each batch.
func (s *Store) renewBatches(ctx context.Context, script *script, batches [][]renewal, report func(int, error)) {
	calls := make([]call, len(batches))
	for i, batch := range batches {
		calls[i] = renewCall(script, batch)
	}
	var alone [][]renewal
	for i, o := range s.pipeline(ctx, calls) {
		if isRefused(o.err) && len(batches[i]) > 1 {
			// One key spoiled it for all, which changed nothing.
			alone = slices.AppendSeq(alone, slices.Chunk(batches[i], 1))
			continue
		}
		held, err := o.held(len(batches[i]))
		for j, r := range batches[i] {
			switch {
			case err != nil:
				report(r.index, err)
			case held[j] == 0:
				report(r.index, lock.ErrNotHeld)
			default:
				report(r.index, nil)
			}
		}
	}
	if len(alone) > 0 {
		s.renewBatches(ctx, script, alone, report)
	}
}

func renewCall(script *script, batch []renewal) call {
	c := call{script, make([]string, len(batch)), make([]any, 0, 2*len(batch))}
	for i, r := range batch {
		c.keys[i] = r.name
		c.args = append(c.args, r.owner, r.ttl)
	}
	return c
}

// held reads the reply to a batch of n.
func (o outcome) held(n int) ([]int64, error) {
	if o.err != nil {
		return nil, o.err
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
