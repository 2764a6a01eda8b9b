package redisstore

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
)

// Defaults of [WithCircuit].
const (
	DefaultCircuitFailures = 5
	DefaultCircuitPause    = 250 * time.Millisecond
)

const (
	// silence is how long a server must have answered nobody for callers that
	// gave up to say something about it.
	silence = 100 * time.Millisecond
	// probeWait is how long an acquisition may wait for the outcome of a probe:
	// many round trips, and little for a request.
	probeWait = 50 * time.Millisecond
	// pingLimit bounds a PING.
	pingLimit = 2 * time.Second
	// maxPings bounds the PINGs without an answer, and so the connections that they take.
	maxPings = 16
	// forgetAfter is when failures to which none was added are forgotten, and the
	// circuit of a server that nobody calls is closed.
	forgetAfter = time.Minute
)

// errOpen is the answer of an open circuit.
var errOpen = &lock.StoreError{Outcome: lock.OutcomeNotExecuted, Err: lock.ErrCircuitOpen}

// WithCircuit sets the circuit breaker for servers that don't answer. After that
// many failures in a row (calls that could not reach it, or got no answer; callers
// that gave up count once nobody has been answered for 100 ms) with less than a
// minute in between, acquisitions fail at once, with [lock.ErrUnavailable] and
// [lock.ErrCircuitOpen], instead of each of them finding out the same.
//
// A probe finds out whether the server is back, no sooner than pause after the one
// before. It is a PING on each idle connection, as these may lead to a server that is
// gone, and then on a new one. No more than 16 PINGs are without an answer at a time,
// each for 2 s at most. Acquisitions wait up to 50 ms for a probe, unless an earlier PING
// has no answer yet. Any other call that is answered closes the circuit as well. Held
// locks are still renewed and released, and acquisitions that wait for another owner go
// on waiting. The idle connections are tried after the first failure already, so that
// calls don't fail on one after the other.
//
// Every server has a circuit. Default [DefaultCircuitFailures] and
// [DefaultCircuitPause]; 0 failures turn it off. Fewer failures, and a pause outside
// 1 ms to [lock.MaxDuration], panic.
func WithCircuit(failures int, pause time.Duration) Option {
	if failures < 0 || failures > 0 && (pause < time.Millisecond || pause > lock.MaxDuration) {
		panic(fmt.Sprintf("redisstore.WithCircuit(%d, %v): needs at least 0 failures, and a pause between 1ms and %v", //nolint:forbidigo // documented: a wrong set-up cannot be run
			failures, pause, lock.MaxDuration))
	}
	return func(s *Store) { s.circuit.failures, s.circuit.pause = failures, pause }
}

// WithCircuitHook sets a func that is called with the address of a server whenever
// its circuit opens or closes, such as the Circuit method of package telemetry. It
// must not block and must not call the store. A panic in it is logged. The store logs the
// same; see [WithLogger].
func WithCircuitHook(changed func(server string, open bool)) Option {
	return func(s *Store) { s.circuit.changed = changed }
}

// circuitSettings are those of all circuits of a store.
type circuitSettings struct {
	failures int
	pause    time.Duration
	changed  func(server string, open bool) // nil: nobody listens
}

// circuit is the circuit breaker of a server. The mutex of its sender guards it.
type circuit struct {
	failures int       // in a row
	failed   time.Time // when the last of them was noticed
	heard    time.Time // when the server answered last
	open     bool
	called   time.Time // when an acquisition came last while it was open
	probed   time.Time // when the last probe was sent
	pings    int       // without an answer
	awaited  bool      // when the last probe was sent, there was none
	forget   *time.Timer

	announcing sync.Mutex
	announced  bool // that it is open
}

// admits says whether an acquisition, or what undoes one, may be queued now: with an open
// circuit only while it can wait for a probe; mu is held.
func (s *sender) admits(now time.Time) bool {
	c := &s.circuit
	if !c.open {
		return true
	}
	c.called = now
	return c.waitable(now)
}

// waitable says whether calls wait for the probe that was sent last.
func (c *circuit) waitable(now time.Time) bool {
	return c.awaited && c.pings > 0 && now.Sub(c.probed) < probeWait
}

// outdates says that the server has answered since then: what was sent says nothing about
// it now.
func (c *circuit) outdates(began time.Time) bool { return began.Before(c.heard) }

// probe finds out whether the server answers, if that is in doubt; mu is held.
func (s *sender) probe(now time.Time) {
	c, settings := &s.circuit, s.store.circuit
	doubt := c.open || c.failures > 0 || s.silent(now)
	if settings.failures == 0 || !doubt || now.Sub(c.probed) < settings.pause || c.pings >= maxPings || c.waitable(now) {
		return
	}
	c.awaited = c.pings == 0
	c.probed, c.pings = now, c.pings+1
	go s.askAll(now)
	time.AfterFunc(probeWait, func() { s.giveUp(now) })
}

// askAll asks on the connections that are idle, as what an outage has cut or left mute among
// them would fail one call after the other, and with an open circuit on a new one, too.
func (s *sender) askAll(now time.Time) {
	pings := s.idleConnections() // may wait for the pool
	s.mu.Lock()
	c := &s.circuit
	if c.open {
		pings++
	}
	c.pings-- // its own
	pings = min(pings, maxPings-c.pings)
	c.pings += pings
	s.mu.Unlock()
	for range pings {
		go s.ask(now)
	}
}

// idleConnections counts the idle connections that batches take. To count those of a
// cluster the client may call a node.
func (s *sender) idleConnections() int {
	node, ok := s.node.(*redis.Client)
	if !ok {
		return 0
	}
	stats := node.PoolStats()
	if pipelines := stats.PipelineStats; pipelines != nil {
		return int(pipelines.IdleConns)
	}
	return int(stats.IdleConns)
}

// ask sends one PING of the probe of then.
func (s *sender) ask(then time.Time) {
	ctx, cancel := context.WithTimeout(context.Background(), pingLimit)
	defer cancel()
	err := s.ping(ctx)
	if _, answered := errorReply(err); err == nil || answered { // else it may be the connection
		s.record(then, nil)
	}
	s.mu.Lock()
	s.circuit.pings--
	s.mu.Unlock()
	s.giveUp(time.Time{}) // if it was the last
}

// ping travels as batches do: not in the pool that commands of the application may have
// exhausted. Nobody else may be calling a dead node of a cluster, so it looks for the one
// that was put in its place, too.
func (s *sender) ping(ctx context.Context) error {
	defer s.store.monitorSlowCall().end()
	err := guarded(func() error {
		pipe := s.node.Pipeline()
		if node, ok := s.node.(*redis.Client); ok { // whose own limit may be longer, or none
			pipe = node.WithTimeout(pingLimit).Pipeline()
		}
		_ = pipe.Process(ctx, once{redis.NewCmd(ctx, "ping")}) // queues it, and cannot fail
		_, err := pipe.Exec(ctx)
		return err
	})
	_ = s.store.failure(err)
	return err
}

// refuse ends calls that an open circuit keeps from the server.
func refuse(calls []*sending) {
	for _, x := range calls {
		x.to.receive(nil, errOpen)
	}
}

// giveUp refuses the calls that wait for the probe of then, or for one whose PINGs have
// all failed.
func (s *sender) giveUp(then time.Time) {
	s.mu.Lock()
	var refused []*sending
	if c := &s.circuit; c.open && (c.pings == 0 || c.probed.Equal(then)) {
		refused = s.refused()
	}
	s.mu.Unlock()
	refuse(refused)
}

// refused empties the queues of what an open circuit keeps from the server; mu is held.
func (s *sender) refused() []*sending {
	refused := slices.Concat(s.queue, s.undos)
	s.queue, s.undos = nil, nil
	return refused
}

// record updates the circuit with the result of a call or a batch that was sent at
// began.
func (s *sender) record(began time.Time, err error) {
	s.mu.Lock()
	s.recordLocked(began, err)
}

// recordLocked is record with mu held, which it unlocks.
func (s *sender) recordLocked(began time.Time, err error) {
	if s.store.circuit.failures == 0 {
		s.mu.Unlock()
		return
	}
	_, answered := errorReply(err)
	c, now := &s.circuit, time.Now()
	was := c.open
	switch {
	case err == nil || answered:
		c.heard, c.failures, c.open = now, 0, false
	case !isUnreachable(err), c.outdates(began):
	case began.After(c.failed) || now.Sub(began) >= silence: // else it failed together with the last
		c.failed = now
		c.failures++
		c.open = c.open || c.failures >= s.store.circuit.failures // only an answer closes it
		s.remember()
	}
	changed := was != c.open
	var refused []*sending
	if changed {
		refused = s.changed(now)
	}
	s.mu.Unlock()
	refuse(refused)
	if changed {
		s.announce(err)
	}
}

// changed does what follows when the circuit has opened or closed, and returns the
// calls to refuse; mu is held.
func (s *sender) changed(now time.Time) (refused []*sending) {
	c := &s.circuit
	if !c.open {
		s.dispatch(now)
		return nil
	}
	return s.refused()
}

// remember has what failed now forgotten in time; mu is held.
func (s *sender) remember() {
	c := &s.circuit
	if c.forget == nil {
		c.forget = time.AfterFunc(forgetAfter, s.forget)
	} else {
		c.forget.Reset(forgetAfter)
	}
}

// forget closes the circuit of a server that nobody has called for a while.
func (s *sender) forget() {
	s.mu.Lock()
	c := &s.circuit
	if left := forgetAfter - time.Since(c.called); left > 0 {
		c.forget.Reset(left)
	} else {
		c.failures, c.open = 0, false
		s.leave()
	}
	s.mu.Unlock()
	s.announce(nil)
}

// deserted opens the circuit, and returns true, if as many callers as it takes have
// given up calls that are under way, while the server answered nobody; mu is held.
func (s *sender) deserted(now time.Time) bool {
	need := s.store.circuit.failures
	if need == 0 || s.circuit.open || !s.silent(now) {
		return false
	}
	for _, w := range s.flying {
		if s.circuit.outdates(w.began) {
			continue
		}
		for _, x := range w.batch {
			if x.overdue(now) != nil {
				need--
			}
		}
	}
	if need > 0 {
		return false
	}
	s.circuit.open = true
	s.remember()
	return true
}

// silent says whether the server has answered nobody for a while although it was
// called since it last did; mu is held.
func (s *sender) silent(now time.Time) bool {
	return now.Sub(s.circuit.heard) >= silence && slices.ContainsFunc(s.flying, func(w *worker) bool {
		return !s.circuit.outdates(w.began) && now.Sub(w.began) >= silence
	})
}

// announce reports the state of the circuit if it has changed, with the reason why
// it opened.
func (s *sender) announce(reason error) {
	c := &s.circuit
	c.announcing.Lock()
	defer c.announcing.Unlock()
	s.mu.Lock()
	open := c.open
	s.mu.Unlock()
	if open == c.announced {
		return
	}
	c.announced = open
	server := slog.String("server", s.address())
	if open {
		s.store.log.Warn("lock store does not answer, acquisitions are refused until it does",
			server, slog.String("cause", lock.ClassOf(s.store.failure(reason))))
	} else {
		s.store.log.Info("lock store is called again", server)
	}
	changed := s.store.circuit.changed
	if changed == nil {
		return
	}
	if failed := guarded(func() error { changed(s.address(), open); return nil }); failed != nil {
		s.store.log.Error("the hook of WithCircuitHook panicked", slog.Any("error", failed))
	}
}

// address is that of the server, as far as the client has one.
func (s *sender) address() string {
	if node, ok := s.node.(*redis.Client); ok {
		return node.Options().Addr
	}
	return ""
}
