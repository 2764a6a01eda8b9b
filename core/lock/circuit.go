package lock

import (
	"context"
	"errors"
	"maps"
	"sync"
	"sync/atomic"
	"time"
)

// Defaults of [WithCircuit].
const (
	DefaultCircuitFailures = 5
	DefaultCircuitPause    = 250 * time.Millisecond
)

const (
	// silence is how long a call must have gone without an answer for its
	// caller's leaving to say something about the store.
	silence = 100 * time.Millisecond
	// probeWait is how long a request may wait for the outcome of a probe: many
	// round trips, and little for a request.
	probeWait = 50 * time.Millisecond
	// forgetAfter is when a part that nobody asks for any more is forgotten.
	forgetAfter = time.Minute
)

// errOpen is the answer of an open circuit.
var errOpen = &StoreError{Outcome: OutcomeNotExecuted, Err: ErrCircuitOpen}

// WithCircuit sets when a store that does not answer is left alone. After that
// many calls in a row that could not reach it, or got no answer (callers that left
// early count once nobody has been answered for 100 ms), acquisitions
// are refused at once, with [ErrUnavailable] and [ErrCircuitOpen], in place of each
// of them spending its time on the same discovery. One call at a time asks
// whether the store is back, no sooner than pause after the one before, and
// lets everybody through when it is; so does any other call that gets through.
// What is held is renewed and released as ever, and whoever was told to wait
// for a key goes on waiting.
//
// Default [DefaultCircuitFailures] and [DefaultCircuitPause]; 0 failures: never.
// Only for [New]. A [PartitionedStore] has a circuit for each part.
func WithCircuit(failures int, pause time.Duration) Option {
	return func(o *options) {
		if failures < 0 || failures > 0 && (pause < time.Millisecond || pause > MaxDuration) {
			o.reject("WithCircuit(%d, %v): needs at least 0 failures, and a pause between 1ms and %v", failures, pause, MaxDuration)
		}
		o.circuit = circuitSettings{failures, pause}
	}
}

type circuitSettings struct {
	failures int
	pause    time.Duration
}

// circuits are those of the parts of a store.
type circuits struct {
	circuitSettings
	part func(key string) string // nil: there is one
	tell func(CircuitEvent)      // nil: nobody listens

	// troubled is len(parts): as long as all is well, that is all that is
	// looked at.
	troubled atomic.Int32

	mu    sync.Mutex
	parts map[string]*circuit
	back  time.Duration // when a circuit was closed last
}

// circuit is one part that did not answer lately.
type circuit struct {
	name     string
	failures int           // in a row
	left     int           // callers that left early since the last answer
	since    time.Duration // when the first of them did
	last     time.Duration // when the last of them was noticed
	probe    *probe        // under way
	probeAt  time.Duration // when the next may begin
}

// probe is one question to a store whether it is back.
type probe struct {
	began time.Duration
	over  chan struct{}
	back  bool // set before over is closed
}

func newCircuits(store Store, o *options) *circuits {
	cs := &circuits{circuitSettings: o.circuit, tell: o.hooks.Circuit, parts: make(map[string]*circuit)}
	if parted, ok := store.(PartitionedStore); ok {
		cs.part = parted.Part
	}
	if _, prompt := store.(PromptStore); prompt {
		cs.failures = 0 // it is never away
	}
	return cs
}

func (cs *circuits) partOf(key string) string {
	if cs.part == nil {
		return ""
	}
	return cs.part(key)
}

func (cs *circuits) open(c *circuit) bool { return c != nil && c.failures >= cs.failures }

// refuses says whether the circuit of key's part of the store is open.
func (cs *circuits) refuses(key string) bool {
	if cs.troubled.Load() == 0 {
		return false
	}
	part := cs.partOf(key)
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.open(cs.parts[part])
}

// permit returns errOpen if key's part of the store is to be left alone. A
// caller that finds a probe just begun waits a moment for its outcome.
func (l *Locker) permit(ctx context.Context, key string) error {
	cs := l.circuits
	if cs.troubled.Load() == 0 {
		return nil
	}
	part := cs.partOf(key)
	cs.mu.Lock()
	now := l.now()
	maps.DeleteFunc(cs.parts, func(_ string, c *circuit) bool { return c.probe == nil && now-c.last > forgetAfter })
	cs.troubled.Store(int32(len(cs.parts)))
	c := cs.parts[part]
	if !cs.open(c) {
		cs.mu.Unlock()
		return nil
	}
	if c.probe == nil && now >= c.probeAt {
		l.startProbe(c, key)
	}
	p := c.probe
	cs.mu.Unlock()
	if p == nil || !p.await(ctx, p.began+probeWait-now) {
		return errOpen
	}
	return nil
}

// await says whether the store turns out to be back within d.
func (p *probe) await(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return false
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-p.over:
		return p.back
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// startProbe asks the store in the background, so that no request has to wait
// for one that is gone; circuits.mu is held. The caller is counted in running.
func (l *Locker) startProbe(c *circuit, key string) {
	p := &probe{began: l.now(), over: make(chan struct{})}
	c.probe = p
	l.running.Go(func() {
		_, err := bounded(l.base, l, l.defaults.callTimeout, func(ctx context.Context) (State, error) {
			return l.store.Inspect(ctx, key)
		}, nil)
		now := l.now()
		p.back = verdictOf(err, now-p.began) == reached
		l.circuits.mu.Lock()
		c.probe, c.last, c.probeAt = nil, now, now+l.circuits.pause
		l.circuits.mu.Unlock()
		if p.back {
			l.circuits.succeeded(c.name, now)
		}
		close(p.over)
	})
}

// judge takes in what a call, sent at that time, says about the store.
func (l *Locker) judge(key string, sent time.Duration, err error) {
	cs := l.circuits
	if cs.failures == 0 || err == nil && cs.troubled.Load() == 0 {
		return
	}
	now := l.now()
	switch verdictOf(err, now-sent) {
	case reached:
		if cs.troubled.Load() > 0 {
			cs.succeeded(cs.partOf(key), now)
		}
	case unreached, gone:
		cs.failed(cs.partOf(key), sent, now, err)
	}
}

// succeeded closes the circuit of a part.
func (cs *circuits) succeeded(part string, now time.Duration) {
	cs.mu.Lock()
	c := cs.parts[part]
	wasOpen := cs.open(c)
	if wasOpen {
		cs.back = now
	}
	delete(cs.parts, part)
	cs.troubled.Store(int32(len(cs.parts)))
	cs.mu.Unlock()
	if wasOpen && cs.tell != nil {
		cs.tell(CircuitEvent{Part: part})
	}
}

// failed counts a call that got no answer, unless it is one of those that were
// stuck when the store came back.
func (cs *circuits) failed(part string, sent, now time.Duration, err error) {
	cs.mu.Lock()
	if sent < cs.back {
		cs.mu.Unlock()
		return
	}
	c := cs.parts[part]
	if c == nil {
		c = &circuit{name: part}
		cs.parts[part] = c
		cs.troubled.Store(int32(len(cs.parts)))
	}
	if c.failures > 0 && sent <= c.last && now-sent < silence {
		cs.mu.Unlock()
		return // a connection that dies fails many calls at once
	}
	wasOpen := cs.open(c)
	c.count(now, verdictOf(err, now-sent) == gone, cs.circuitSettings)
	c.last = now
	opens := !wasOpen && cs.open(c)
	cs.mu.Unlock()
	if opens && cs.tell != nil {
		cs.tell(CircuitEvent{Part: part, Open: true, Err: err})
	}
}

// count adds a call that got no answer. A caller that left early says little: the
// answer may be on its way. Many of them, and no answer to anybody for as long as
// silence, say as much as failures.
func (c *circuit) count(now time.Duration, early bool, settings circuitSettings) {
	if !early {
		c.failures++
		return
	}
	if c.left++; c.left == 1 {
		c.since = now
	}
	if c.left >= settings.failures && now-c.since >= silence {
		c.failures = max(c.failures, settings.failures)
	}
}

// verdict is what a call says about the store.
type verdict uint8

const (
	nothing verdict = iota
	reached
	unreached
	gone // before it can have been said that there is no answer
)

// verdictOf judges the result of a call that took so long. A failure that does
// not say that the store was away is no news: it may be the client's.
func verdictOf(err error, took time.Duration) verdict {
	var failed *StoreError
	switch {
	case err == nil, isAnswer(err), outcomeOf(err) == OutcomeRefused:
		return reached
	case errors.Is(err, errNoAnswer):
		return unreached
	case took < silence && gaveUpEarly(err):
		return gone
	case errors.As(err, &failed) && !failed.Unreachable:
		return nothing
	}
	return unreached
}

// gaveUpEarly says whether the caller's time may have ended the call.
func gaveUpEarly(err error) bool {
	var timeout interface{ Timeout() bool }
	var abandoned *abandonedError
	return errors.As(err, &abandoned) || errors.Is(err, context.Canceled) || errors.As(err, &timeout) && timeout.Timeout()
}
