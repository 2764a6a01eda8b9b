package redisstore

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
)

var _ lock.AsyncStore = (*Store)(nil)

// Async implements [lock.AsyncStore].
func (s *Store) Async() lock.Store { return s }

// StartAcquire implements [lock.AsyncStore].
func (s *Store) StartAcquire(ctx context.Context, c lock.Claim, by time.Time, answered func(fence uint64, err error)) {
	alone := func() {
		go s.alone(ctx, by, answered, func(ctx context.Context) (uint64, error) { return s.Acquire(ctx, c) })
	}
	if s.replicas != nil || !s.knowsPublishing() {
		alone()
		return
	}
	t, err := s.target(ctx, c, 1)
	if err != nil {
		answered(0, err)
		return
	}
	script := t.acquire(t)
	if s.quarantine != nil {
		script.script = s.quarantine.scripts[script.script]
	}
	s.senderOf(t.name).submit(&sending{call: script, ctx: ctx, by: by, done: func(reply *redis.Cmd, err error) {
		if isTryAgain(err) || isWrongType(err) || isNoScript(err) {
			alone() // needs more than one call
			return
		}
		n, err := s.integer(reply, err)
		answered(s.granted(c.Mode, n, err))
	}})
}

// StartRelease implements [lock.AsyncStore].
func (s *Store) StartRelease(ctx context.Context, c lock.Claim, by time.Time, answered func(_ uint64, err error)) {
	alone := func() {
		go s.alone(ctx, by, answered, func(ctx context.Context) (uint64, error) { return 0, s.Release(ctx, c) })
	}
	if !s.knowsPublishing() {
		alone()
		return
	}
	t, err := s.releasing(ctx, c)
	if err != nil {
		answered(0, err)
		return
	}
	s.senderOf(t.name).submit(&sending{call: t.release(t), ctx: ctx, by: by, urgent: true, done: func(reply *redis.Cmd, err error) {
		if isTryAgain(err) {
			alone()
			return
		}
		n, err := s.integer(reply, err)
		answered(0, released(n, err))
	}})
}

// knowsPublishing says whether it is known without a call how to publish.
func (s *Store) knowsPublishing() bool {
	return s.cluster == nil || s.publish != Auto || shardSupport(s.shards.Load()) != unknown
}

// alone makes a call that may wait for several others.
func (s *Store) alone(
	ctx context.Context, by time.Time, answered func(uint64, error), call func(context.Context) (uint64, error),
) {
	ctx, cancel := context.WithDeadline(ctx, by)
	defer cancel()
	var fence uint64
	err := guarded(func() (err error) {
		fence, err = call(ctx)
		return err
	})
	answered(fence, err)
}

// senderOf is the sender of the server that keeps a key. While it is not known
// where the slots of a cluster are, it is one for all of them.
func (s *Store) senderOf(name string) *sender {
	if s.cluster == nil {
		return s.sender
	}
	node, err := s.cluster.MasterForKey(ended, name) // does not load the topology then
	if err != nil {
		return s.sender
	}
	return s.senderAt(node)
}

func (s *Store) senderAt(node *redis.Client) *sender {
	if known, ok := s.senders.Load(node); ok {
		return known.(*sender)
	}
	known, _ := s.senders.LoadOrStore(node, &sender{store: s, node: node})
	return known.(*sender)
}

// masterOf is the client of the node of a cluster that keeps a key. An error
// means that the topology is not known, so that nothing was sent.
func (s *Store) masterOf(ctx context.Context, name string) (*redis.Client, error) {
	node, err := s.cluster.MasterForKey(ctx, name)
	if err != nil {
		return nil, &lock.StoreError{Outcome: lock.OutcomeNotExecuted, Unreachable: isUnreachable(err), Err: err}
	}
	return node, nil
}
