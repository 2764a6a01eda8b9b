package lock

import (
	"context"
	"sync/atomic"

	"github.com/redlatch/redlatch/core/lock/internal/machine"
)

// wait is for the one reply to the event of a caller.
type wait struct {
	state  atomic.Uint32
	waits  atomic.Bool // the caller has to wait for others
	nudge  bool        // it wants to know at once
	result machine.Result
	why    machine.Why
	cause  error
	answer immediate     // to the calls of the event
	wake   chan struct{} // gets one element for a caller that has parked
}

const (
	running uint32 = iota // the caller has not parked
	parked
	replied
)

func (l *Locker) newWait() *wait {
	if w, ok := l.waits.Get().(*wait); ok {
		return w
	}
	return &wait{wake: make(chan struct{}, 1)}
}

// freeWait is for a wait that has ended with its reply.
func (l *Locker) freeWait(w *wait) {
	w.state.Store(running)
	w.waits.Store(false)
	w.nudge, w.result, w.why, w.cause = false, 0, 0, nil
	l.waits.Put(w)
}

// reply ends the wait.
func (w *wait) reply(r machine.Result, why machine.Why, cause error) {
	w.result, w.why = r, why
	if cause != nil {
		w.cause = cause
	}
	if w.state.Swap(replied) == parked {
		w.wake <- struct{}{}
	}
}

// mustWait says that the caller has to wait for others.
func (w *wait) mustWait() {
	w.waits.Store(true)
	if w.nudge && w.state.CompareAndSwap(parked, running) {
		w.wake <- struct{}{}
	}
}

// park is the one place where callers block: until there is a reply, or something to look
// at, or ctx ends. It returns whether ctx has ended without a reply.
func (w *wait) park(ctx context.Context) (ended bool) {
	if !w.state.CompareAndSwap(running, parked) {
		return false
	}
	select {
	case <-w.wake:
		return false
	case <-ctx.Done():
	}
	if w.state.CompareAndSwap(parked, running) {
		return true
	}
	<-w.wake
	return w.state.Load() != replied
}

func (w *wait) done() bool { return w.state.Load() == replied }
