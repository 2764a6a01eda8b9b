package lock

import (
	"errors"
	"time"

	"github.com/redlatch/redlatch/core/lock/internal/machine"
)

// errGone is the cause when the store says that the owner has nothing.
var errGone = wrap(ErrTaken, ErrNotHeld)

var causes = [...]*error{
	0: &ErrTaken, machine.WhyTaken: &ErrTaken, machine.WhyUnconfirmed: &ErrNotRenewed, machine.WhyLeaseOver: &ErrExpired,
	machine.WhyHeldTooLong: &ErrHeldTooLong, machine.WhyClosed: &ErrClosed,
}

// endCause is the error for why a step has ended a lease.
func endCause(ev *machine.Event, why machine.Why) *error {
	switch {
	case why != machine.WhyTaken:
	case ev.Kind == machine.EvForced:
		return &ErrForced
	case ev.Kind == machine.EvRenewed, ev.Kind == machine.EvLowered, ev.Kind == machine.EvReleased:
		return &errGone
	}
	return causes[why]
}

// loss is a hold that was lost, for the hooks.
type loss struct {
	first *Lease
	cause error
}

// end ends a lease. The mutex of the shard is held.
func (p *pump) end(lease *Lease, cause *error) {
	if !lease.fate.CompareAndSwap(nil, cause) {
		return
	}
	p.ended = append(p.ended, lease)
	if !errors.Is(*cause, ErrClosed) {
		p.lost(lease.first, *cause)
	}
}

// lost keeps the loss of a hold for the hooks, once. The mutex of the shard is held.
func (p *pump) lost(first *Lease, cause error) {
	if first.ended {
		return
	}
	first.ended = true
	if p.presence != nil && errors.Is(cause, ErrNotHeld) {
		p.presence.heard.found(1)
	}
	if first.known() {
		p.losses = append(p.losses, loss{first, cause})
	}
}

// known says whether the end of the hold is to be reported now. It is reported after the
// first acquisition of it, and never if none is reported as granted. The mutex of the shard
// is held.
func (l *Lease) known() bool {
	l.endOwed = l.reported.Load() == nil
	return !l.endOwed
}

// endLeases ends the contexts of the leases that have ended, which runs code of others.
func (p *pump) endLeases() {
	for len(p.ended) > 0 {
		ended := p.ended
		p.ended = nil
		for _, lease := range ended {
			lease.end(lease.fate.Load())
		}
	}
}

func (p *pump) reportLosses() {
	for len(p.losses) > 0 {
		l := p.losses[0]
		p.losses = p.losses[1:]
		p.reportLoss(l.first, l.cause)
	}
}

func (l *Locker) reportLoss(first *Lease, cause error) {
	if hook := l.defaults.hooks.Lost; hook != nil {
		hook(LossEvent{
			Event: first.event(), Context: first.parent, Reason: lossReason(cause),
			Held: l.since(first.start), Cause: cause,
		})
	}
}

// reportRelease reports the release of a lease. last says that its hold ended with it.
func (l *Locker) reportRelease(lease *Lease, last bool, err error) {
	hook := l.defaults.hooks.Released
	if hook == nil {
		return
	}
	start := lease.start
	if last {
		start = lease.first.start
		last = lease.first.reported.Load() != nil
	}
	hook(ReleaseEvent{Event: lease.first.event(), Held: l.since(start), Last: last, Err: err})
}

func (l *Locker) since(t machine.Time) time.Duration { return l.now() - time.Duration(t) }

// event is what hooks get of a hold: it ends by the mode and the name by which it began.
func (l *Lease) event() Event {
	o := l.reported.Load()
	if o == nil {
		o = l.o
	}
	return Event{Key: l.entry.key, Name: o.name, Mode: l.o.mode}
}
