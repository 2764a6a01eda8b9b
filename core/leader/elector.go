package leader

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/redlatch/redlatch/core/lock"
)

// Elector lets code that is called from outside, such as jobs of a scheduler, run
// in the leader only. Use [NewElector].
type Elector struct {
	locker *lock.Locker
	key    string
	opts   []Option

	mu   sync.Mutex
	runs bool
	term context.Context // of the term; nil while this process does not lead
	work sync.WaitGroup  // calls of Do in this term
}

// NewElector returns an elector for key. It starts nothing: call [Elector.Run]. The
// options are those of [Run], and [WithRepeat] is always on. A nil locker, and a wrong option
// or key, make it panic: the elector would never lead.
func NewElector(locker *lock.Locker, key string, opts ...Option) *Elector {
	if locker == nil {
		panic("leader.NewElector: locker is nil") //nolint:forbidigo // as below
	}
	if err := locker.Check(key, newOptions(opts).lock...); err != nil {
		panic("leader.NewElector: " + err.Error()) //nolint:forbidigo // documented: a wrong set-up cannot be run
	}
	return &Elector{locker: locker, key: key, opts: append(opts[:len(opts):len(opts)], WithRepeat())}
}

// Run campaigns, and leads when elected, until ctx ends or the locker drains; its
// errors are those of [Run]. Call it on its own goroutine; a call while another one runs is
// [lock.ErrInvalid]. It resigns when the work of [Elector.Do] has returned.
func (e *Elector) Run(ctx context.Context) error {
	if !e.start() {
		return &lock.Error{Op: "lead", Key: e.key, Err: fmt.Errorf("%w: Run of the elector is called already", lock.ErrInvalid)}
	}
	defer e.stop()
	return Run(ctx, e.locker, e.key, func(ctx context.Context, _ uint64) error {
		e.begin(ctx)
		<-ctx.Done()
		e.end()
		return ctx.Err()
	}, e.opts...)
}

// start reports whether no other call of Run runs.
func (e *Elector) start() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.runs {
		return false
	}
	e.runs = true
	return true
}

func (e *Elector) stop() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.runs = false
}

func (e *Elector) begin(term context.Context) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.term = term
}

// end refuses new work and waits for the work that runs.
func (e *Elector) end() {
	e.mu.Lock()
	e.term = nil
	e.mu.Unlock()
	e.work.Wait()
}

// IsLeader returns nil if this process leads at this moment, and an error that
// wraps [lock.ErrNotHeld] otherwise. It makes no call, and ignores its context.
// Work that begins after it may outlast the term: prefer [Elector.Do].
func (e *Elector) IsLeader(context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.leads()
}

// leads is IsLeader; mu is held.
func (e *Elector) leads() error {
	if !e.runs {
		return &lock.Error{Op: "lead", Key: e.key, Err: fmt.Errorf("%w: Run of the elector is not called, or has returned", lock.ErrNotHeld)}
	}
	if e.term == nil || e.term.Err() != nil {
		return &lock.Error{Op: "lead", Key: e.key, Err: lock.ErrNotHeld}
	}
	return nil
}

// Do calls fn if this process leads, and returns its error. Otherwise it returns
// an error that wraps [lock.ErrNotHeld], and fn didn't run. fn's context ends with
// the term and with ctx, has the earlier deadline of the two and the values of the
// term's context, and carries the lease. The lock isn't released before fn has
// returned.
func (e *Elector) Do(ctx context.Context, fn func(ctx context.Context) error) error {
	e.mu.Lock()
	term, err := e.term, e.leads()
	if err == nil {
		e.work.Add(1)
	}
	e.mu.Unlock()
	if err != nil {
		return err
	}
	defer e.work.Done()
	both, cancel := join(term, ctx)
	defer cancel()
	return fn(both)
}

// join returns a context of term that ends with caller as well.
func join(term, caller context.Context) (both context.Context, stop func()) {
	expire := func() {}
	deadline, limited := caller.Deadline()
	if limited {
		term, expire = context.WithDeadline(term, deadline)
	}
	both, cancel := context.WithCancelCause(term)
	follow := func() {
		if !limited || !errors.Is(caller.Err(), context.DeadlineExceeded) { // both has the deadline
			cancel(context.Cause(caller))
		}
	}
	unfollow := context.AfterFunc(caller, follow)
	if caller.Err() != nil { // AfterFunc may come later than the work looks
		follow()
	}
	return both, func() { unfollow(); cancel(nil); expire() }
}
