package redisstore

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore/internal/circuit"
)

// Defaults of [WithCircuit].
const (
	DefaultCircuitFailures = 5
	DefaultCircuitPause    = 250 * time.Millisecond
)

// pingLimit bounds a PING.
const pingLimit = 2 * time.Second

// errOpen is the answer of an open circuit.
var errOpen = &lock.StoreError{Outcome: lock.OutcomeNotExecuted, Err: lock.ErrCircuitOpen}

// WithCircuit sets the circuit breaker for servers that don't answer. After that
// many failures in a row (calls that could not reach it, or got no answer; callers
// that gave up count once nobody has been answered for 100 ms, or for longer where answers
// usually take long: see below) with less than a minute in between, acquisitions fail at once, with [lock.ErrUnavailable] and
// [lock.ErrCircuitOpen], instead of each of them finding out the same.
//
// A probe finds out whether the server is back, no sooner than pause after the one
// before. It is a PING on each idle connection, as these may lead to a server that is
// gone, and then on a new one. No more than 16 PINGs are without an answer at a time,
// each for 2 s at most. Acquisitions wait up to 50 ms for a probe, unless an earlier PING
// has no answer yet. Both times are at least twice the time after which TCP would send again
// (RFC 6298, from how long the server's answers have taken lately), and at most 1 s, for which
// one that has never answered may be silent. Any other call that is answered closes the circuit as well. Held
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
	return func(s *Store) { s.circuit = circuit.Settings{Failures: failures, Pause: pause} }
}

// WithCircuitHook sets a func that is called with the address of a server whenever
// its circuit opens or closes, such as the Circuit method of package telemetry. It
// must not block and must not call the store. A panic in it is logged. The store logs the
// same; see [WithLogger].
func WithCircuitHook(changed func(server string, open bool)) Option {
	return func(s *Store) { s.circuitHook = changed }
}

// announcer reports the changes of a circuit, each once.
type announcer struct {
	mu   sync.Mutex
	open bool // was reported
}

// probe finds out whether the server answers, if that is in doubt; mu is held.
func (s *sender) probe(now time.Time) {
	if !s.circuit.Probe(s.store.circuit, now, s.begun()) {
		return
	}
	go s.askAll(now)
	time.AfterFunc(s.circuit.Wait(), func() { s.giveUp(now) })
}

// begun yields when the batches under way began; mu is held.
func (s *sender) begun() iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) {
		for _, w := range s.flying {
			if !yield(w.began) {
				return
			}
		}
	}
}

// askAll sends the PINGs of a probe.
func (s *sender) askAll(now time.Time) {
	idle := s.idleConnections() // may wait for the pool
	s.mu.Lock()
	pings := s.circuit.Pings(idle)
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
	s.circuit.Pinged()
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
	if s.circuit.GiveUp(then) {
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
	now, was := time.Now(), s.circuit.State()
	if _, answered := errorReply(err); err == nil || answered {
		s.circuit.Answered(s.store.circuit, began, now)
	} else if isUnreachable(err) && s.circuit.Failed(s.store.circuit, began, now) {
		s.remember()
	}
	changed := (was == circuit.Closed) != (s.circuit.State() == circuit.Closed)
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
	if s.circuit.State() == circuit.Closed {
		s.dispatch(now)
		return nil
	}
	return s.refused()
}

// remember has what failed now forgotten in time; mu is held.
func (s *sender) remember() {
	if s.forgetting == nil {
		s.forgetting = time.AfterFunc(circuit.ForgetAfter, s.forget)
	} else {
		s.forgetting.Reset(circuit.ForgetAfter)
	}
}

// forget closes the circuit of a server that nobody has called for a while.
func (s *sender) forget() {
	s.mu.Lock()
	if left := s.circuit.Forget(time.Now()); left > 0 {
		s.forgetting.Reset(left)
	} else {
		s.leave()
	}
	s.mu.Unlock()
	s.announce(nil)
}

// deserted opens the circuit, and returns true, if as many callers as it takes have
// given up calls that are under way, while the server answered nobody; mu is held.
func (s *sender) deserted(now time.Time) bool {
	deserted := s.circuit.Deserted(s.store.circuit, now, s.begun(), func(enough int) (n int) {
		for _, w := range s.flying {
			if s.circuit.Outdates(w.began) {
				continue
			}
			for _, x := range w.batch {
				if x.overdue(now) != nil {
					n++
				}
				if n == enough {
					return n
				}
			}
		}
		return n
	})
	if deserted {
		s.remember()
	}
	return deserted
}

// announce reports the state of the circuit if it has changed, with the reason why
// it opened.
func (s *sender) announce(reason error) {
	a := &s.announced
	a.mu.Lock()
	defer a.mu.Unlock()
	s.mu.Lock()
	open := s.circuit.State() != circuit.Closed
	s.mu.Unlock()
	if open == a.open {
		return
	}
	a.open = open
	server := slog.String("server", s.address())
	if open {
		s.store.log.Warn("lock store does not answer, acquisitions are refused until it does",
			server, slog.String("cause", lock.ClassOf(s.store.failure(reason))))
	} else {
		s.store.log.Info("lock store is called again", server)
	}
	changed := s.store.circuitHook
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
