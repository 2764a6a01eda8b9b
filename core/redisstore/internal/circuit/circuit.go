// Package circuit is the circuit breaker of one server, as a value: no clock, mutex, timer or
// call is inside. Its owner says what happened, and when, and does what the answer says.
//
//	state    failure            as many as it takes       probe sent    probe given up   answer
//	Closed   counted            Open; Probing if a        Closed        Closed           Closed
//	                            probe is waited for
//	Open     counted            Open                      Probing¹      Open             Closed
//	Probing  counted            Probing                   -             Open             Closed
//
// ¹ unless a PING before it has no answer yet: then the server is likely to be away still,
// and nobody waits.
package circuit

import (
	"iter"
	"time"
)

// State is that of a [Breaker].
type State uint8

const (
	// Closed lets all calls through.
	Closed State = iota
	// Open refuses acquisitions.
	Open
	// Probing has acquisitions wait for the outcome of a probe.
	Probing
)

const (
	// leastSilence is how long a server must have answered nobody, at least, for callers that
	// gave up to say something about it. More where its answers take long.
	leastSilence = 100 * time.Millisecond
	// leastWait is how long acquisitions wait for a probe, at least: many round trips, and
	// little for a request.
	leastWait = 50 * time.Millisecond
	// MaxPatience bounds both. A server that was never heard may be silent for so long, as
	// RFC 6298 has it.
	MaxPatience = time.Second
	// MaxPings bounds the PINGs without an answer, and so the connections that they take.
	MaxPings = 16
	// ForgetAfter is when failures to which none was added are forgotten, and the
	// circuit of a server that nobody calls is closed.
	ForgetAfter = time.Minute
)

// Settings are those of all breakers of a store.
type Settings struct {
	Failures int           // in a row, that open it; 0: it never opens
	Pause    time.Duration // between probes
}

// Breaker counts failures. The zero value is closed.
type Breaker struct {
	state    State
	failures int       // in a row
	failed   time.Time // when the last of them was noticed
	heard    time.Time // when the server answered last
	called   time.Time // when an acquisition came last while it was not closed
	probed   time.Time // when the last probe was sent
	awaited  bool      // when the last probe was sent, no PING was without an answer
	pings    int       // without an answer
	trip     Trip
}

// State returns the state.
func (b *Breaker) State() State { return b.state }

// Clean reports whether there is nothing to remember of the server.
func (b *Breaker) Clean() bool { return b.state == Closed && b.failures == 0 }

// Admits reports whether an acquisition, or what undoes one, may be queued now.
func (b *Breaker) Admits(now time.Time) bool {
	if b.state != Closed {
		b.called = now
	}
	return b.state != Open
}

// Outdates reports that the server has answered since then: what was sent says nothing about
// it now.
func (b *Breaker) Outdates(began time.Time) bool { return began.Before(b.heard) }

// Silent reports whether the server has answered nobody for a while, although calls that
// began then are under way.
func (b *Breaker) Silent(now time.Time, begun iter.Seq[time.Time]) bool {
	silence := b.silence()
	if now.Sub(b.heard) < silence {
		return false
	}
	for began := range begun {
		if !b.Outdates(began) && now.Sub(began) >= silence {
			return true
		}
	}
	return false
}

func (b *Breaker) silence() time.Duration { return b.trip.Patience(leastSilence, MaxPatience) }

// Answered notes an answer to a call that was sent at began, and closes the circuit.
func (b *Breaker) Answered(s Settings, began, now time.Time) {
	if s.Failures == 0 {
		return
	}
	b.trip.Measure(now.Sub(began))
	b.heard, b.failures, b.state = now, 0, Closed
}

// Failed notes that a call which was sent at began could not reach the server, or got no
// answer. It returns whether that counts: what failed together counts once.
func (b *Breaker) Failed(s Settings, began, now time.Time) (counts bool) {
	if s.Failures == 0 || b.Outdates(began) || !began.After(b.failed) && now.Sub(began) < b.silence() {
		return false
	}
	b.failed = now
	b.failures++
	if b.failures >= s.Failures {
		b.open(now)
	}
	return true
}

// Deserted opens the circuit if as many callers as it takes have given up their calls to a
// server that is silent. It returns whether it did.
func (b *Breaker) Deserted(s Settings, now time.Time, begun iter.Seq[time.Time], gaveUp func(enough int) int) bool {
	if s.Failures == 0 || b.state != Closed || !b.Silent(now, begun) || gaveUp(s.Failures) < s.Failures {
		return false
	}
	b.open(now)
	return true
}

// open has acquisitions wait for a probe that was sent a moment ago.
func (b *Breaker) open(now time.Time) {
	switch {
	case b.state != Closed:
	case b.waitable(now):
		b.state = Probing
	default:
		b.state = Open
	}
}

func (b *Breaker) waitable(now time.Time) bool {
	return b.awaited && b.pings > 0 && now.Sub(b.probed) < b.Wait()
}

// Wait is how long acquisitions wait for a probe.
func (b *Breaker) Wait() time.Duration { return b.trip.Patience(leastWait, leastWait) }

// Probe reports whether to send a probe now, which counts as one PING until [Breaker.Pings].
func (b *Breaker) Probe(s Settings, now time.Time, begun iter.Seq[time.Time]) bool {
	if s.Failures == 0 || now.Sub(b.probed) < s.Pause || b.pings >= MaxPings || b.waitable(now) ||
		b.Clean() && !b.Silent(now, begun) {
		return false
	}
	b.awaited = b.pings == 0
	b.probed, b.pings = now, b.pings+1
	if b.state != Closed && b.awaited {
		b.state = Probing
	}
	return true
}

// Pings returns how many PINGs a probe sends where so many connections are idle: one on each,
// as what an outage has cut or left mute among them would fail one call after the other, and,
// unless the circuit is closed, one on a new connection.
func (b *Breaker) Pings(idle int) int {
	if b.state != Closed {
		idle++
	}
	b.pings-- // the probe's own
	idle = min(idle, MaxPings-b.pings)
	b.pings += idle
	return idle
}

// Pinged notes the end of a PING, also without an answer.
func (b *Breaker) Pinged() { b.pings-- }

// GiveUp reports whether acquisitions that wait for the probe of then, or for one whose PINGs
// have all failed, are to be refused.
func (b *Breaker) GiveUp(then time.Time) bool {
	if b.state == Closed || b.pings > 0 && !b.probed.Equal(then) {
		return false
	}
	b.state = Open
	return true
}

// Forget closes the circuit of a server that nobody calls. It returns how long that is still
// to wait for; 0 if it is done.
func (b *Breaker) Forget(now time.Time) (left time.Duration) {
	if left := ForgetAfter - now.Sub(b.called); left > 0 {
		return left
	}
	b.failures, b.state = 0, Closed
	return 0
}
