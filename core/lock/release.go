package lock

import (
	"context"
	"errors"

	"github.com/redlatch/redlatch/core/lock/internal/machine"
)

// released ends the lease, and returns why it had ended before. ctx is used for its values
// only.
func (l *Lease) released(ctx context.Context) error {
	sh := l.entry.shard
	if sh.begin() != nil {
		l.verdict()
	} else {
		defer sh.running.Done()
	}
	w := sh.newWait()
	p := pump{Locker: sh.Locker, ctx: ctx, answer: &w.answer}
	last, err := l.depart(&p, w, false)
	if err != nil {
		sh.freeWait(w)
		p.run()
		return err
	}
	l.end(l.fate.Load())
	p.run()
	for !w.done() {
		w.park(context.Background())
	}
	result, cause := w.result, w.cause
	sh.freeWait(w)
	lost := *l.fate.Load()
	switch {
	case result == machine.ResReleased, result == machine.ResCanceled:
	case result == machine.ResClosed:
		err = ErrClosed
	case result == machine.ResLost && !errors.Is(lost, ErrReleased):
		return lost // before
	case result == machine.ResLost:
		err = cause
		sh.lostAtRelease(l.first, err)
	default:
		if cause == nil {
			cause = errNoAnswer
		}
		err = wrap(ErrUnavailable, cause)
	}
	sh.reportRelease(l, last && !errors.Is(err, ErrLost), err)
	return err
}

// depart steps the machine. last says that the hold ends with the lease, for hooks. An error
// is why the lease had ended before.
func (l *Lease) depart(p *pump, w *wait, decline bool) (last bool, err error) {
	sh := l.entry.shard
	now := sh.lock()
	defer sh.mu.Unlock()
	if end := l.fate.Load(); !l.seated || end == &ErrClosed {
		return false, *end
	}
	if now >= machine.Time(l.trust.Load()) { // the cause must say lost, though the timer be late
		p.step(l.entry, &machine.Event{Kind: machine.EvTimer}, now, nil)
	}
	if !l.fate.CompareAndSwap(nil, &ErrReleased) && !l.seated { // before anybody gets the key
		return false, *l.fate.Load()
	}
	if last = !l.entry.awake().Shared(l.slot); last {
		l.first.left.Store(true)
	}
	l.wait = w
	p.step(l.entry, &machine.Event{Kind: machine.EvRelease, Caller: l.slot, Decline: decline}, now, nil)
	return last, nil
}

// unwanted releases a lease that its caller doesn't get. Nobody waits for the answer.
func (l *Lease) unwanted(ctx context.Context) {
	p := pump{Locker: l.entry.shard.Locker, ctx: ctx}
	last, err := l.depart(&p, nil, true)
	if err == nil {
		l.end(l.fate.Load())
	}
	p.run()
	if err == nil && last && l.first.reported.Load() != nil {
		p.reportRelease(l, true, nil)
	}
}

// lostAtRelease reports a hold whose release has found that it was lost.
func (sh *shard) lostAtRelease(first *Lease, cause error) {
	p := pump{Locker: sh.Locker}
	sh.mu.Lock()
	p.lost(first, cause)
	sh.mu.Unlock()
	p.reportLosses()
}
