package quorum

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

const (
	// defaultNodeTimeout is small against any sensible lease, as the time
	// that goes by before a grant is taken from it.
	defaultNodeTimeout = 100 * time.Millisecond
	// voteTimeouts is how many node timeouts an Acquire may go on for while
	// votes split.
	voteTimeouts = 10
	// watchTimeouts is how many node timeouts a subscription may take: it may
	// have to connect first.
	watchTimeouts = 10
)

// Store implements [lock.Store] over an odd number of independent
// stores, as RedLock does over independent Redis servers: a key is held by
// whom a majority of them has granted it to. It keeps excluding while a
// minority of them is down, hung, slow or cut off. Use [New].
//
// # Validity
//
// All nodes are asked at once, within the one call of Acquire. The engine
// counts a lease from before that call and ends its trust 1 % and 2 ms early:
// that is RedLock's validity, lease − elapsed − drift. An owner that did not
// get a majority is removed from all nodes in the background.
//
// # Assumptions
//
// At most one owner has a majority as long as the nodes fail independently,
// their clocks run at about the same rate and do not jump, and each node that
// restarts still has its holds. For the last one, run Redis with
// "appendonly yes" and "appendfsync always", or keep a node that comes back
// out of the quorum for as long as the longest lease.
//
// # Fences
//
// Every node has a fence of its own, its clock. A grant returns the largest of
// the majority that granted it. Another grant may come from another majority,
// which need not contain the node with the largest fence: that a later grant
// has a larger fence is promised only as far as the nodes' clocks agree, that
// is, when two grants of a key are further apart than the clocks are. For
// strict fences use a single Redis.
//
// # Modes
//
// Only [lock.Exclusive]. The others are refused with [lock.ErrUnsupported].
type Store struct {
	voters  []*voter
	need    int // a majority
	timeout time.Duration
	tasks   tasks
	closing chan struct{}
	close   sync.Once

	mu    sync.Mutex
	turns map[ballot]chan struct{} // of the calls of Acquire
}

var _ lock.Store = (*Store)(nil)

// New returns a store over the given ones, an odd number of at least 3.
// Each must be on a server of its own that shares nothing with the others:
// replicas or nodes of one cluster are no quorum. The error wraps
// [lock.ErrInvalid].
//
// The stores should talk to clients that dial once and fail soon; but no
// timeout of theirs delays a call: see [Store.SetNodeTimeout].
func New(stores ...lock.Store) (*Store, error) {
	if n := len(stores); n < 3 || n%2 == 0 {
		return nil, fmt.Errorf("%w: quorum.New: %d stores, need an odd number of at least 3", lock.ErrInvalid, n)
	}
	q := &Store{
		need: len(stores)/2 + 1, timeout: defaultNodeTimeout,
		closing: make(chan struct{}), turns: make(map[ballot]chan struct{}),
	}
	for i, store := range stores {
		if store == nil {
			return nil, fmt.Errorf("%w: quorum.New: store %d is nil", lock.ErrInvalid, i+1)
		}
		if reflect.ValueOf(store).Comparable() && slices.Contains(stores[:i], store) {
			return nil, fmt.Errorf("%w: quorum.New: store %d is there twice", lock.ErrInvalid, i+1)
		}
		q.voters = append(q.voters, newVoter(store, i))
	}
	return q, nil
}

// SetNodeTimeout sets how long a node may take to answer before the others
// decide without it; default 100 ms. It should be several round trips, and
// small against the lease. Call it before the store is used. Less than 1 ms
// panics.
func (q *Store) SetNodeTimeout(d time.Duration) {
	if d < time.Millisecond {
		panic("quorum.SetNodeTimeout: less than 1 ms") //nolint:forbidigo // documented: a wrong set-up cannot be run
	}
	q.timeout = d
}

// Close cuts short the background removals and waits for calls that are under
// way, or until ctx ends. Call it after the lockers on the store are
// closed and before the clients are. Without it, calls end when the clients
// give them up, and removals within two minutes.
func (q *Store) Close(ctx context.Context) error {
	q.close.Do(func() { close(q.closing) })
	return q.tasks.wait(ctx)
}

// Release implements [lock.Store]. It returns when a majority has answered;
// the other nodes are told all the same, again until they answer.
func (q *Store) Release(ctx context.Context, c lock.Claim) error {
	if err := q.check(c); err != nil {
		return err
	}
	call := func(ctx context.Context, v *voter) (struct{}, error) { return struct{}{}, v.store.Release(ctx, c) }
	if c.Holds == 0 {
		for _, v := range q.voters {
			v.expectRemoval(c)
		}
		call = func(ctx context.Context, v *voter) (struct{}, error) { return struct{}{}, q.remove(ctx, v, c) }
	}
	t := q.newTally()
	collect(ctx, q, q.timeout, askAll(ctx, q, q.timeout, call), func(r reply[struct{}]) (enough bool) {
		t.count(r.err)
		return t.granted >= q.need || t.absent >= q.need || t.refused != nil
	})
	switch {
	case t.refused != nil:
		return t.refused
	case t.absent >= q.need:
		return lock.ErrNotHeld
	case t.granted+t.absent >= q.need:
		return nil
	default:
		return t.failure()
	}
}

// ForceRelease implements [lock.Store] on all nodes. It needs the answers of a
// majority; freed says that some node had a hold.
func (q *Store) ForceRelease(ctx context.Context, key string) (freed bool, err error) {
	t := q.newTally()
	replies := askAll(ctx, q, q.timeout, func(ctx context.Context, v *voter) (bool, error) {
		return v.store.ForceRelease(ctx, key)
	})
	collect(ctx, q, q.timeout, replies, func(r reply[bool]) (enough bool) {
		t.count(r.err)
		freed = freed || r.err == nil && r.value
		return false
	})
	switch {
	case t.refused != nil:
		return false, t.refused
	case t.granted < q.need:
		return freed, t.failure()
	default:
		return freed, nil
	}
}

// check refuses what no node has to be asked about.
func (q *Store) check(c lock.Claim) error {
	if c.Mode != lock.Exclusive {
		return fmt.Errorf("%w: a quorum has mode %s only, not %s", lock.ErrUnsupported, lock.Exclusive, c.Mode)
	}
	return nil
}

// tally counts answers. Its failures are those that left no answer.
type tally struct {
	q       *Store
	granted int             // or done
	absent  int             // not held
	busy    []time.Duration // what is left of the holds in the way
	failed  []error
	refused error // the claim is wrong, or no node can serve it
}

func (q *Store) newTally() *tally { return &tally{q: q} }

func (t *tally) count(err error) {
	var busy *lock.BusyError
	switch {
	case err == nil:
		t.granted++
	case errors.As(err, &busy):
		t.busy = append(t.busy, busy.TTL)
	case errors.Is(err, lock.ErrNotHeld):
		t.absent++
	default:
		t.failed = append(t.failed, err)
		wrong := errors.Is(err, lock.ErrInvalid) || errors.Is(err, lock.ErrUnsupported)
		if wrong && outcomeOfCall(err) == lock.OutcomeRefused {
			t.refused = err
		}
	}
}

func (t *tally) answered() int { return t.granted + t.absent + len(t.busy) }

// failure is the error when too few nodes answered. Nodes that stayed silent
// may have executed the call.
func (t *tally) failure() error {
	silent := len(t.q.voters) - t.answered() - len(t.failed)
	outcome := lock.OutcomeNotExecuted
	if t.granted > 0 || silent > 0 {
		outcome = lock.OutcomeUnknown
	}
	failure := &quorumError{answered: t.answered(), nodes: len(t.q.voters), need: t.q.need}
	if silent > 0 {
		failure.causes = append(failure.causes, errSilent)
	}
	away := false
	for _, err := range t.failed {
		var known *lock.StoreError
		away = away || errors.As(err, &known) && known.Unreachable
		if outcomeOfCall(err) == lock.OutcomeUnknown {
			outcome = lock.OutcomeUnknown
		}
		// The node's time being over is not the caller's being over.
		if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
			failure.causes = append(failure.causes, err)
		}
	}
	return &lock.StoreError{Outcome: outcome, Unreachable: silent > 0 || away, Err: failure}
}

var errSilent = errors.New("no answer in time")

// quorumError says how many nodes answered. The nodes' own errors are for
// [errors.Is]; their text may name addresses.
type quorumError struct {
	answered, nodes, need int
	causes                []error
}

func (e *quorumError) Error() string {
	return fmt.Sprintf("quorum: %d of %d nodes gave an answer, %d are needed", e.answered, e.nodes, e.need)
}

func (e *quorumError) Unwrap() []error { return e.causes }

// outcomeOfCall is the outcome of a failed call of a store.
func outcomeOfCall(err error) lock.Outcome {
	var failed *lock.StoreError
	switch {
	case errors.As(err, &failed):
		return failed.Outcome
	case errors.Is(err, lock.ErrUnsupported), errors.Is(err, lock.ErrInvalid):
		return lock.OutcomeRefused
	default:
		return lock.OutcomeUnknown
	}
}
