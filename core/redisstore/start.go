package redisstore

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
)

var _ lock.Store = (*Store)(nil)

// operation is what a call does to the hold of one claim.
type operation uint8

const (
	acquiring operation = iota
	releasing
	lowering
)

// starting is a call that is answered later.
type starting struct {
	sending
	operation
	claim  lock.Claim
	store  *Store
	answer lock.Answer
}

// Acquire implements [lock.Store].
func (s *Store) Acquire(ctx context.Context, c lock.Claim, by time.Time, answer lock.Answer) {
	t, err := s.target(c)
	if err != nil {
		answer.Answered(0, err)
		return
	}
	x := &starting{sending: sending{ctx: ctx, by: by}, operation: acquiring, claim: c, store: s, answer: answer}
	if s.replicas != nil {
		x.alone(nil)
		return
	}
	x.call = t.acquire(t)
	if s.quarantine != nil {
		x.script = s.quarantine.scripts[x.script]
	}
	x.start()
}

// Release implements [lock.Store].
func (s *Store) Release(ctx context.Context, c lock.Claim, by time.Time, answer lock.Answer) {
	t, err := s.releasing(c)
	if err != nil {
		answer.Answered(0, err)
		return
	}
	x := &starting{
		sending:   sending{call: t.release(t), ctx: ctx, by: by, urgent: !c.Undo, undo: c.Undo},
		operation: releasing, claim: c, store: s, answer: answer,
	}
	x.start()
}

// Lower implements [lock.Store].
func (s *Store) Lower(ctx context.Context, c lock.Claim, by time.Time, answer lock.Answer) {
	t, err := s.lowering(c)
	if err != nil {
		answer.Answered(0, err)
		return
	}
	x := &starting{
		sending:   sending{call: reader{}.lower(t), ctx: ctx, by: by, urgent: true},
		operation: lowering, claim: c, store: s, answer: answer,
	}
	if s.replicas != nil {
		x.alone(nil)
		return
	}
	x.start()
}

func (x *starting) start() {
	x.to = x
	x.store.senderOf(x.key()).submit(&x.sending)
}

// receive implements receiver.
func (x *starting) receive(reply *redis.Cmd, err error) {
	if isTryAgain(err) || isWrongType(err) || x.operation == acquiring && isNoScript(err) {
		_ = x.again(time.Now()) // an acquisition ends with its time
		x.alone(err)
		return
	}
	n, err := x.store.integer(reply, err)
	heard := uint64(0)
	if x.operation == acquiring {
		x.answer.Answered(x.store.granted(x.claim.Mode, n, err))
		return
	}
	if x.operation == releasing && err == nil {
		heard = x.store.heard(x.claim, n)
	}
	x.answer.Answered(heard, released(n, err))
}

// heard is what a release is answered with: one more than the number of watches that were
// woken, or 0. The reply counts connections. One of this store's may be one of them, and
// then counts for all of its watches.
func (s *Store) heard(c lock.Claim, n int64) uint64 {
	switch how := s.publishing(); {
	case n < 2, s.cluster != nil && how != "spublish":
		return 0
	case n == 2:
		return 1
	}
	t, err := s.releasing(c)
	if err != nil {
		return 0
	}
	return uint64(1 + s.wakeups.Reached(t.channels(t)[0], n-2)) //nolint:gosec // it is not negative
}

// alone makes a call that needs more than one script, on a separate goroutine. The first of
// them may have failed already.
func (x *starting) alone(failed error) {
	go x.store.alone(x.ctx, x.by, x.answer, func(ctx context.Context) (uint64, error) {
		switch x.operation {
		case releasing:
			return 0, x.store.release(ctx, x.claim, failed)
		case lowering:
			return 0, x.store.lower(ctx, x.claim, failed)
		default:
			return x.store.acquire(ctx, x.claim, failed)
		}
	})
}

// alone makes a call that may wait for several others.
func (s *Store) alone(
	ctx context.Context, by time.Time, answer lock.Answer, call func(context.Context) (uint64, error),
) {
	ctx, cancel := context.WithDeadline(ctx, by)
	defer cancel()
	var fence uint64
	err := guarded(func() (err error) {
		fence, err = call(ctx)
		return err
	})
	answer.Answered(fence, err)
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
