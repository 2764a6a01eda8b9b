package quorum

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
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
	// maxUndoing is how many clean-ups run at a time, so that they don't cost more than
	// the calls that people wait for.
	maxUndoing = 8
	// watchTimeouts is how many node timeouts a subscription may take: it may
	// have to connect first.
	watchTimeouts = 10
)

// Store implements [lock.Store] over an odd number of independent stores, as
// RedLock does over independent Redis servers: a key is held by the owner to whom a
// majority of them has granted it. It keeps excluding while a minority of them is
// down, hung, slow or cut off. Use [New].
//
// # Validity
//
// All nodes are called at once, within one call of Acquire. The engine counts a
// lease from before that call and ends its trust 1 % and 2 ms early: that is
// RedLock's validity, lease − elapsed − drift. Each round of votes has its own
// owner in the nodes, "<owner>#<number>", so that nothing that arrives late can
// touch a later round. One that did not get a majority is removed before the call
// returns, as far as the nodes answer within a node timeout. The rest is removed in
// the background, or by its TTL where a node does not answer.
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
// Every node has its own fence, its clock. A grant returns the largest of
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
	nodes   []*node
	need    int // a majority
	timeout time.Duration
	counter atomic.Uint64  // of rounds
	running sync.WaitGroup // calls, and what they left to do
	closing chan struct{}
	undoing chan struct{} // has an element for each clean-up that runs

	mu      sync.Mutex
	closed  bool
	holds   map[claimKey]*round
	sweepAt int // the number of holds at which expired ones are looked for
}

// claimKey names a claim, whatever its round.
type claimKey struct{ key, owner string }

// minSweep is the least of sweepAt.
const minSweep = 64

var _ lock.Store = (*Store)(nil)

// New returns a store over the given ones, an odd number of at least 3.
// Each must be on a different server that shares nothing with the others:
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
		closing: make(chan struct{}), undoing: make(chan struct{}, maxUndoing), holds: make(map[claimKey]*round), sweepAt: minSweep,
	}
	for i, store := range stores {
		if store == nil {
			return nil, fmt.Errorf("%w: quorum.New: store %d is nil", lock.ErrInvalid, i+1)
		}
		if reflect.ValueOf(store).Comparable() && slices.Contains(stores[:i], store) {
			return nil, fmt.Errorf("%w: quorum.New: store %d is there twice", lock.ErrInvalid, i+1)
		}
		q.nodes = append(q.nodes, &node{BlockingStore: lock.Blocking(store), store: store})
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

// Close waits for the calls that are under way and for what they have to remove, or
// until ctx ends, and cuts background removals short. Calls after it fail. Call it
// after the lockers on the store are closed and before the clients are.
func (q *Store) Close(ctx context.Context) error {
	q.mu.Lock()
	if !q.closed {
		q.closed = true
		close(q.closing)
	}
	q.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		q.running.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// hold notes which round has won a claim.
func (q *Store) hold(c lock.Claim, r *round) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.holds) >= q.sweepAt {
		now := time.Now()
		maps.DeleteFunc(q.holds, func(_ claimKey, r *round) bool { return now.After(r.until) })
		q.sweepAt = max(minSweep, 2*len(q.holds))
	}
	q.holds[claimKey{c.Key, c.Owner}] = r
}

// holding is the round that has won a claim; nil if none has.
func (q *Store) holding(c lock.Claim) *round {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.holds[claimKey{c.Key, c.Owner}]
}

// forget ends the note of a hold.
func (q *Store) forget(c lock.Claim, r *round) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if key := (claimKey{c.Key, c.Owner}); q.holds[key] == r {
		delete(q.holds, key)
	}
}

// prolong notes, before a call that may have no answer, that a hold may last until then.
func (q *Store) prolong(r *round, until time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if until.After(r.until) {
		r.until = until
	}
}

// Release implements [lock.Store]. It answers when a majority has answered.
// The other nodes are called all the same. A node that has not answered the vote
// yet is called when it has. A node that does not answer the release is called
// again until the hold has expired there.
func (q *Store) Release(ctx context.Context, c lock.Claim, by time.Time, answer lock.Answer) {
	q.start(ctx, by, answer, func(ctx context.Context) (uint64, error) {
		if c.Undo {
			select {
			case q.undoing <- struct{}{}:
				defer func() { <-q.undoing }()
			case <-ctx.Done():
				return 0, &lock.StoreError{Outcome: lock.OutcomeNotExecuted, Err: context.Cause(ctx)}
			}
		}
		return 0, q.release(context.WithoutCancel(ctx), c)
	})
}

// Lower implements [lock.Store] by refusing: a quorum has no mode that it is for.
func (*Store) Lower(_ context.Context, c lock.Claim, _ time.Time, answer lock.Answer) {
	answer.Answered(0, check(c))
}

// Traits implements [lock.Store]. Fences of several clocks leave no room.
func (*Store) Traits() lock.Traits { return lock.Traits{} }

func (q *Store) release(ctx context.Context, c lock.Claim) error {
	if err := check(c); err != nil {
		return err
	}
	r := q.holding(c)
	if r == nil {
		return lock.ErrNotHeld
	}
	// A renewal may have made the hold longer than the vote was. The engine says for how
	// long.
	t := q.end(ctx, r, max(r.claim.TTL, c.TTL), c.Keep, (*tally).decided)
	err := t.verdict()
	if err != nil && t.absent < t.need && t.granted+t.absent >= t.need {
		err = nil
	}
	if err == nil || isAnswer(err, lock.ErrNotHeld) {
		q.forget(c, r)
	}
	return err
}

// ForceRelease implements [lock.Store] on all nodes. It needs the answers of a
// majority; freed says that some node had a hold.
func (q *Store) ForceRelease(ctx context.Context, key string) (freed bool, err error) {
	if err := q.begin(); err != nil {
		return false, err
	}
	defer q.running.Done()
	t := q.newTally()
	ask(ctx, q, nil, q.timeout, func(ctx context.Context, _ int, node lock.BlockingStore) (bool, error) {
		return node.ForceRelease(ctx, key)
	}, func(_ int, held bool, err error) (enough bool) {
		t.count(err)
		freed = freed || err == nil && held
		return false
	})
	if err := t.verdict(); err != nil {
		return t.refused() == nil && freed, err
	}
	return freed, nil
}

// check refuses what no node has to be called for.
func check(c lock.Claim) error {
	if c.Mode != lock.Exclusive {
		return fmt.Errorf("%w: a quorum has mode %s only, not %s", lock.ErrUnsupported, lock.Exclusive, c.Mode)
	}
	return nil
}
