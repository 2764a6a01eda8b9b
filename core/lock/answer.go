package lock

import (
	"errors"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/redlatch/redlatch/core/lock/internal/machine"
)

// answer is what a call that is under way is answered to.
type answer struct {
	entry *entry
	call  machine.Call
	named []machine.Owner // by the call
	ended atomic.Bool
}

// Answered implements [Answer]. A second answer is ignored.
func (a *answer) Answered(fence uint64, err error) {
	if a.ended.Swap(true) {
		return
	}
	p := pump{Locker: a.entry.shard.Locker}
	defer p.running.Done()
	p.answered(a.entry, &a.call, a.named, fence, err)
	p.run()
}

var kinds = [...]machine.Kind{
	machine.OpAcquire: machine.EvAcquired, machine.OpRelease: machine.EvReleased, machine.OpLower: machine.EvLowered,
	machine.OpRenew: machine.EvRenewed, machine.OpForce: machine.EvForced, machine.OpWatch: machine.EvWatched,
}

// answered steps a machine by an answer.
func (p *pump) answered(e *entry, call *machine.Call, named []machine.Owner, fence uint64, err error) {
	ev := machine.Event{Kind: kinds[call.Op], Call: call, Answer: machine.AnsOK, Fence: machine.Fence(fence)}
	if err != nil {
		classify(&ev, err)
	}
	sh := e.shard
	var now machine.Time
	if p.traits.Immediate {
		now = sh.relock()
	} else {
		now = sh.lock()
	}
	defer sh.mu.Unlock()
	switch {
	case e.stage != gone:
	case call.Op != machine.OpAcquire:
		return
	case sh.over:
		p.remove(e, &ev, named, now)
		return
	default:
		e = sh.entryOf(e.key) // what the call has left is to be undone
	}
	if call.Op == machine.OpRelease {
		ev.Others = e.others(fence)
	}
	if now > call.By {
		ev.Places = named
	}
	if call.Op == machine.OpAcquire && ev.Answer >= machine.AnsUnknown {
		e.failed(call, err)
	}
	p.step(e, &ev, now, err)
}

// others is how many watches besides its own the answer to a release speaks of, negative if
// it speaks of none.
func (e *entry) others(heard uint64) int32 {
	switch {
	case heard == 0:
		return -1
	case e.watch != nil && e.watch.stop != nil:
		heard = max(heard, 2) - 1
	}
	return int32(min(heard-1, maxCrowd)) //nolint:gosec // it is bounded
}

// remove sends a release for what an acquire has left in the store that was answered after
// Close had given up. It is not repeated.
func (p *pump) remove(e *entry, ev *machine.Event, named []machine.Owner, now machine.Time) {
	k := *ev.Call
	if !ev.Answer.Leaves(k.Mode) {
		return
	}
	if len(named) == 0 {
		named = []machine.Owner{k.Owner}
	}
	k.Op, k.Undo, k.Named, k.Sent, k.By = machine.OpRelease, true, 0, now, now+machine.Time(p.defaults.callTimeout)
	for _, k.Owner = range named {
		p.send(e, &machine.Effect{Do: machine.DoSend, Call: k})
	}
}

// classify says what an error of a store means.
func classify(ev *machine.Event, err error) {
	if busy, ok := busyAnswer(err); ok && ev.Call.Op == machine.OpAcquire {
		ev.Answer, ev.TTL, ev.PerOwner = machine.AnsBusy, machine.Never, busy.WatchPerOwner
		if busy.TTL >= 0 {
			ev.TTL = machine.Time(busy.TTL + time.Millisecond) // the store counts in milliseconds
		}
		return
	}
	_, panicked := errors.AsType[*PanicError](err)
	ev.Private = panicked || wrong(err)
	switch outcome := outcomeOf(err); {
	case isDecision(err) && ev.Call.Op != machine.OpAcquire, outcome == OutcomeRefused && wrong(err) && ev.Call.Undo:
		ev.Answer = machine.AnsGone
	case outcome == OutcomeRefused:
		ev.Answer = machine.AnsRefused
	case errors.Is(err, ErrCircuitOpen):
		ev.Answer = machine.AnsDown
	case outcome == OutcomeNotExecuted:
		ev.Answer = machine.AnsNotExecuted
	default:
		ev.Answer = machine.AnsUnknown
	}
}

// failed keeps the error of a call for the caller that may give up later.
func (e *entry) failed(call *machine.Call, err error) {
	m := e.awake()
	if s := m.Asker(call); s != machine.None && e.seats[s].wait != nil {
		e.seats[s].wait.cause = err
	}
}

// immediate is the answer of a store that never waits.
type immediate struct {
	fence uint64
	err   error
}

// Answered implements [Answer].
func (i *immediate) Answered(fence uint64, err error) { i.fence, i.err = fence, err }

// immediately makes the call, of a store that never waits.
func (t *task) immediately(answer *immediate) (fence uint64, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = panicError(v)
		}
	}()
	if answer == nil {
		answer = new(immediate)
	}
	answer.err = errNoAnswer
	t.send(time.Time{}, answer)
	return answer.fence, answer.err
}

func panicError(v any) error { return &PanicError{Value: v, Stack: debug.Stack()} }
