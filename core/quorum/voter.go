package quorum

import (
	"container/heap"
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

// removalPasses are the pauses before each removal of a hold that a node may
// get from a call without an answer. One is not enough: the call may sit in
// another connection's buffer and run after the removal.
var removalPasses = [...]time.Duration{0, 100 * time.Millisecond, time.Second}

const (
	// removeFor is how long a node that does not answer is asked again.
	removeFor = 2 * time.Minute
	// removalRetry is the pause after a node did not answer.
	removalRetry = 250 * time.Millisecond
	// minDoubts is the number of doubts from which old ones are looked for.
	minDoubts = 64
)

// voter is one node of a quorum, and what has to be removed from it.
//
// The engine asks again with the same owner until it gets the key. A removal
// of an earlier vote that is still on its way would take away the later one,
// after it was counted. So a node on which an owner's removal is not over has
// no vote for that owner.
type voter struct {
	store lock.Store
	index int

	mu       sync.Mutex
	doubts   map[ballot]*doubt // votes without an answer
	doubtsAt int               // the number at which old doubts are looked for
	removals map[ballot]*removal
	queue    removalQueue // the removals that need further passes
	sweeping bool         // a goroutine works on the queue
}

// ballot is an owner's vote for a key.
type ballot struct{ key, owner string }

func ballotOf(c lock.Claim) ballot { return ballot{c.Key, c.Owner} }

// doubt is about votes that may be on their way to the node, or in it.
type doubt struct {
	calls    int           // under way
	returned chan struct{} // closed when none is
	unknown  bool          // one returned without an answer
	until    time.Time     // when it is forgotten
}

// removal of one owner's vote.
type removal struct {
	claim lock.Claim
	calls int           // that may end in a removal
	pass  int           // the next of removalPasses, of a removal in the queue
	at    time.Time     // when that is due
	until time.Time     // when it is given up
	index int           // in the queue, -1 outside
	over  chan struct{} // closed when it is over
}

func newVoter(store lock.Store, index int) *voter {
	return &voter{
		store: store, index: index, doubts: make(map[ballot]*doubt), doubtsAt: minDoubts, removals: make(map[ballot]*removal),
	}
}

// vote asks for the node's vote, after the removals of the same owner's are
// over. When the round is over it does not ask any more.
func (v *voter) vote(ctx context.Context, c lock.Claim, over <-chan struct{}) (fence uint64, err error) {
	if c.Holds > 1 {
		return v.store.Acquire(ctx, c) // re-enters, so it leaves nothing behind
	}
	if err := v.begin(ctx, c, over); err != nil {
		return 0, err
	}
	select {
	case <-over:
		err = errNotAsked
	default:
		fence, err = v.store.Acquire(ctx, c)
	}
	v.voted(c, err)
	return fence, err
}

// errNotAsked is the result of a vote that nobody needs any more.
var errNotAsked = &lock.StoreError{Outcome: lock.OutcomeNotExecuted, Err: errSilent}

// begin waits until no removal is under way, and notes that a vote is.
func (v *voter) begin(ctx context.Context, c lock.Claim, over <-chan struct{}) error {
	for {
		v.mu.Lock()
		r := v.removals[ballotOf(c)]
		if r == nil {
			defer v.mu.Unlock()
			v.doubt(c)
			return nil
		}
		v.mu.Unlock()
		select {
		case <-r.over:
		case <-over:
			return errNotAsked
		case <-ctx.Done():
			return errNotAsked
		}
	}
}

// mayHold says whether an acquire with that result may have left a hold.
func mayHold(err error) bool {
	if errors.Is(err, lock.ErrBusy) || errors.Is(err, lock.ErrNotHeld) {
		return false
	}
	return err == nil || outcomeOfCall(err) == lock.OutcomeUnknown
}

// doubt notes that a vote is on its way to the node; mu is held.
func (v *voter) doubt(c lock.Claim) {
	now := time.Now()
	if len(v.doubts) >= v.doubtsAt {
		maps.DeleteFunc(v.doubts, func(_ ballot, d *doubt) bool { return d.calls == 0 && now.After(d.until) })
		v.doubtsAt = max(minDoubts, 2*len(v.doubts))
	}
	d := v.doubts[ballotOf(c)]
	if d == nil {
		d = &doubt{}
		v.doubts[ballotOf(c)] = d
	}
	if d.calls == 0 {
		d.returned = make(chan struct{})
	}
	d.calls++
	d.until = now.Add(removeFor)
}

// voted takes in the result of a vote. An answer settles only its own call: an
// earlier one may still be on its way.
func (v *voter) voted(c lock.Claim, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	d := v.doubts[ballotOf(c)]
	d.calls--
	d.unknown = d.unknown || err != nil && mayHold(err)
	if d.calls > 0 {
		return
	}
	close(d.returned)
	if !d.unknown {
		delete(v.doubts, ballotOf(c))
	}
}

// answered waits until the owner's votes are answered, if there are any on
// their way; false means that they were not.
func (v *voter) answered(ctx context.Context, c lock.Claim) bool {
	v.mu.Lock()
	d := v.doubts[ballotOf(c)]
	if d == nil {
		v.mu.Unlock()
		return true
	}
	returned := d.returned
	v.mu.Unlock()
	select {
	case <-returned:
	case <-ctx.Done():
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.doubts[ballotOf(c)] == nil
}

// expectRemoval keeps the owner's later votes back until a call of
// [Store.remove] or [voter.spare] has told what became of this one.
func (v *voter) expectRemoval(c lock.Claim) {
	v.mu.Lock()
	defer v.mu.Unlock()
	r := v.removals[ballotOf(c)]
	if r == nil {
		c.Holds = 0
		r = &removal{claim: c, index: -1, over: make(chan struct{})}
		v.removals[ballotOf(c)] = r
	}
	r.calls++
}

// spare ends an expected removal: there is nothing to remove.
func (v *voter) spare(c lock.Claim) {
	v.mu.Lock()
	defer v.mu.Unlock()
	r := v.removals[ballotOf(c)]
	r.calls--
	v.endIfOver(r)
}

// endIfOver lets the owner vote again when nothing is under way; mu is held.
func (v *voter) endIfOver(r *removal) {
	if r.calls == 0 && r.index < 0 {
		delete(v.removals, ballotOf(r.claim))
		close(r.over)
	}
}

// remove removes the owner's vote, after that was answered. If the node does
// not answer, to the vote or to the removal, it goes on in the background.
func (q *Store) remove(ctx context.Context, v *voter, c lock.Claim) error {
	c.Holds = 0
	answered := v.answered(ctx, c)
	ctx, cancel := detached(ctx, q.timeout)
	defer cancel()
	err := v.store.Release(ctx, c)
	v.mu.Lock()
	defer v.mu.Unlock()
	r := v.removals[ballotOf(c)]
	r.calls--
	if d := v.doubts[ballotOf(c)]; d != nil {
		d.unknown = false // the passes below see to it
		if d.calls == 0 {
			delete(v.doubts, ballotOf(c))
		}
	}
	if !answered || !isAnswer(err) && outcomeOfCall(err) != lock.OutcomeRefused {
		r.pass, r.until = 0, time.Now().Add(removeFor)
		if r.index < 0 {
			r.at = time.Now()
			heap.Push(&v.queue, r)
		}
		if !v.sweeping {
			v.sweeping = true
			q.tasks.start(func() { q.sweep(v) })
		}
	}
	v.endIfOver(r)
	return err
}

// isAnswer: the release is done, or there was nothing to release.
func isAnswer(err error) bool { return err == nil || errors.Is(err, lock.ErrNotHeld) }

// sweep works on the node's queue until it is empty. However many removals
// there are, one call at a time waits for the node.
func (q *Store) sweep(v *voter) {
	for {
		r := v.next()
		if r == nil {
			return
		}
		open := q.pause(context.Background(), time.Until(r.at))
		ctx, cancel := detached(context.Background(), q.timeout)
		err := v.store.Release(ctx, r.claim)
		cancel()
		answered := isAnswer(err) || outcomeOfCall(err) == lock.OutcomeRefused
		v.swept(r, answered, !open)
		if !answered && !q.pause(context.Background(), removalRetry) {
			v.giveUp()
		}
	}
}

// next is the removal that is due first; nil ends the sweep.
func (v *voter) next() *removal {
	v.mu.Lock()
	defer v.mu.Unlock()
	for len(v.queue) > 0 {
		r := v.queue[0]
		if time.Now().Before(r.until) {
			return r
		}
		v.drop(r)
	}
	v.sweeping = false
	return nil
}

// swept takes in the result of one pass.
func (v *voter) swept(r *removal, answered, last bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if answered {
		r.pass++
	}
	switch {
	case answered && (last || r.pass == len(removalPasses)):
		v.drop(r)
		return
	case answered:
		r.at = time.Now().Add(removalPasses[r.pass])
	default:
		r.at = time.Now().Add(removalRetry)
	}
	heap.Fix(&v.queue, r.index)
}

// drop takes a removal out of the queue; mu is held.
func (v *voter) drop(r *removal) {
	heap.Remove(&v.queue, r.index)
	v.endIfOver(r)
}

// giveUp leaves the holds that are still in the queue to expire.
func (v *voter) giveUp() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for len(v.queue) > 0 {
		v.drop(v.queue[0])
	}
}

// removalQueue is a heap by when removals are due.
type removalQueue []*removal

func (h removalQueue) Len() int           { return len(h) }
func (h removalQueue) Less(i, j int) bool { return h[i].at.Before(h[j].at) }

func (h removalQueue) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push implements heap.Interface.
func (h *removalQueue) Push(x any) {
	r := x.(*removal)
	r.index = len(*h)
	*h = append(*h, r)
}

// Pop implements heap.Interface.
func (h *removalQueue) Pop() any {
	last := len(*h) - 1
	r := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	r.index = -1
	return r
}
