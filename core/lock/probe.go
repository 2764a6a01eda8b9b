//go:build !machine

package lock

import (
	"context"
	"time"
)

// probe is a try whose answer others share that came before it was sent. Tries that
// come while it is under way share the next: an answer may be older than they are.
type probe struct {
	before *probe // that ends before it is sent
	sent   bool
	ended  bool
	done   chan struct{} // closed when it has ended
	err    error         // why the others are refused; nil: they call again
}

// probeKey names what an answer is about.
type probeKey struct {
	key  string
	mode Mode
}

// tryTogether calls the store, or shares another's answer.
func (a *acquisition) tryTogether(ctx context.Context) (*Lease, error) {
	id := probeKey{a.claim.Key, a.claim.Mode}
	for {
		p, mine := a.probe(id)
		if mine {
			return a.sendProbe(ctx, id, p)
		}
		err := a.awaitProbe(ctx, p)
		switch {
		case err != nil:
			return nil, err
		case isDecision(p.err):
			return nil, a.busy(nil)
		case p.err != nil:
			return nil, p.err
		}
	}
}

// probe returns the probe that has not been sent. If it is new, the caller sends it.
func (a *acquisition) probe(id probeKey) (p *probe, mine bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	last := a.probes[id]
	if last != nil && !last.sent {
		return last, false
	}
	p = &probe{before: last, done: make(chan struct{})}
	a.probes[id] = p
	return p, true
}

// awaitProbe waits for the end of p. It takes at most the call timeout, of which the
// calls that follow have the rest.
func (a *acquisition) awaitProbe(ctx context.Context, p *probe) error {
	defer func(began time.Duration) { a.timeout -= a.now() - began }(a.now())
	timer, ok := a.timers.Get().(*time.Timer)
	if !ok {
		timer = time.NewTimer(a.timeout)
	}
	timer.Reset(a.timeout)
	defer a.timers.Put(timer)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
		return wrap(ErrUnavailable, errNoAnswer)
	case <-ctx.Done():
		return a.gaveUp(ctx)
	case <-a.refused:
		return ErrClosed
	}
}

// endProbe ends p. If it was not sent, the next probe waits for what p has waited for.
func (a *acquisition) endProbe(id probeKey, p *probe) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.probes[id] == p {
		delete(a.probes, id)
		if before := p.before; before != nil && !before.ended {
			a.probes[id] = before
		}
	}
	p.ended = true
	close(p.done)
}

// sendProbe calls the store for all who wait for p. Where the call grants the key,
// that is what refuses them.
func (a *acquisition) sendProbe(ctx context.Context, id probeKey, p *probe) (lease *Lease, err error) {
	defer a.endProbe(id, p)
	if p.before != nil {
		if err := a.awaitProbe(ctx, p.before); err != nil {
			return nil, err
		}
		if err := p.before.err; err != nil && !isDecision(err) {
			p.err = err
			return nil, err
		}
	}
	a.mu.Lock()
	p.sent, p.before = true, nil
	taken := a.takenHere()
	a.mu.Unlock()
	if taken {
		err = a.busy(nil)
	} else {
		lease, err = a.askOnce(ctx, a.now())
	}
	if err == nil || isDecision(err) && ctx.Err() == nil {
		p.err = ErrBusy
	} else {
		p.err = a.aboutTheStore(ctx, err)
	}
	return lease, err
}
