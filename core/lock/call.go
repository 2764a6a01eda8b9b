//go:build !machine

package lock

import (
	"context"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// bounded makes a call that blocks, on a new goroutine, and waits for
// the answer as [await] does: clients do not look at a canceled context while
// they read a reply. A call that has been sent is left to run until the store
// answers: its context has no deadline but the timeout.
func bounded[T any](
	ctx context.Context, l *Locker, timeout time.Duration,
	call func(context.Context) (T, error), late func(value T, err error),
) (T, error) {
	if l.traits.Immediate {
		return guarded(ctx, call)
	}
	callCtx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), timeout, errNoAnswer)
	defer cancel() // a call that was not sent yet ends with it
	return await(ctx, l, l.now()+timeout, func(p *pending[T]) {
		go func() { p.Answered(guarded(callCtx, call)) }()
	}, late)
}

// await starts a call and waits for its answer, until ctx ends or the time comes. An
// answer that arrives after the caller gave up is passed to late, if non-nil, on the
// goroutine that brings it. The caller must be counted in running.
func await[T any](
	ctx context.Context, l *Locker, until time.Duration,
	start func(p *pending[T]), late func(value T, err error),
) (T, error) {
	var none T
	if ctx.Err() != nil {
		return none, &StoreError{Outcome: OutcomeNotExecuted, Err: context.Cause(ctx)}
	}
	wake, ok := l.wakes.Get().(chan struct{})
	if !ok {
		wake = make(chan struct{}, 1)
	}
	p := &pending[T]{call: call{running: &l.running, wake: wake}, late: late}
	l.calls.add(&p.call, until)
	p.start(start)
	cause := p.wait(ctx)
	l.calls.drop(&p.call)
	l.wakes.Put(wake)
	if cause != nil {
		return none, &abandonedError{cause}
	}
	return p.value, p.err
}

// call is a call to the store whose caller waits for the answer.
type call struct {
	running *sync.WaitGroup
	wake    chan struct{} // gets one hint when it was not the caller that decided
	place   int32         // in the agenda
	ended   atomic.Bool   // an answer has come
	decided atomic.Bool   // the wait has ended: by an answer, or by giving up
	overdue bool          // it was given up as its time came
}

func (c *call) row(column) *int32 { return &c.place }

// giveUp decides that the caller waits no longer, unless there is an answer. Without
// one the call goes on in the background.
func (c *call) giveUp() bool {
	c.running.Add(1) // until it is answered
	if c.decided.CompareAndSwap(false, true) {
		return true
	}
	c.running.Done()
	return false
}

// wait returns nil when there is an answer, and otherwise why to give up.
func (c *call) wait(ctx context.Context) (cause error) {
	select {
	case <-c.wake:
	case <-ctx.Done():
		if c.giveUp() {
			return context.Cause(ctx)
		}
		<-c.wake
	}
	if c.overdue {
		return errNoAnswer
	}
	return nil
}

// calls have callers who wait, and are sorted by when these give up.
type calls struct {
	mu sync.Mutex
	agenda[*call]
}

func (s *calls) add(c *call, until time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set(c, until)
}

func (s *calls) drop(c *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(c)
}

// callsDue gives up the calls whose time has come.
func (l *Locker) callsDue() {
	s := &l.calls
	s.mu.Lock()
	defer s.mu.Unlock()
	now := l.now()
	for c := s.next(now); c != nil; c = s.next(now) {
		s.remove(c)
		if c.giveUp() {
			c.overdue = true
			c.wake <- struct{}{}
		}
	}
	s.served()
}

// pending is a call that has no answer yet.
type pending[T any] struct {
	call

	late  func(value T, err error)
	value T
	err   error
}

func (p *pending[T]) start(start func(p *pending[T])) {
	defer func() {
		if v := recover(); v != nil {
			var none T
			p.Answered(none, &PanicError{Value: v, Stack: debug.Stack()})
		}
	}()
	start(p)
}

// Answered ends the call; for a call of the store it implements [Answer]. A second answer
// is ignored.
func (p *pending[T]) Answered(value T, err error) {
	if p.ended.Swap(true) {
		return
	}
	p.value, p.err = value, err
	if p.decided.CompareAndSwap(false, true) {
		p.wake <- struct{}{}
		return
	}
	defer p.running.Done()
	if p.late != nil {
		p.late(value, err)
	}
}

// callStore makes one call of the store now, whose answer may come late.
func (l *Locker) callStore(
	ctx context.Context, now, timeout time.Duration, start storeCall, c Claim, late func(uint64, error),
) (uint64, error) {
	if l.traits.Immediate {
		return l.immediately(ctx, start, c)
	}
	until := now + timeout
	return await(ctx, l, until, func(p *pending[uint64]) { start(ctx, c, l.epoch.Add(until), p) }, late)
}

// immediate is the answer of a store that never waits.
type immediate struct {
	fence uint64
	err   error
}

// Answered implements [Answer].
func (i *immediate) Answered(fence uint64, err error) { i.fence, i.err = fence, err }

// immediately is callStore without anything that waits.
func (l *Locker) immediately(ctx context.Context, start storeCall, c Claim) (fence uint64, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	answer, ok := l.answers.Get().(*immediate)
	if !ok {
		answer = new(immediate)
	}
	answer.err = errNoAnswer
	start(ctx, c, time.Time{}, answer)
	fence, err = answer.fence, answer.err
	l.answers.Put(answer)
	return fence, err
}

// pause waits for d; it returns false when ctx or stop ended before.
func pause(ctx context.Context, d time.Duration, stop <-chan struct{}) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
	case <-stop:
	}
	return false
}
