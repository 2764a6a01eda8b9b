package telemetry

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/redlatch/redlatch/core/lock"
)

// ScopeName is the instrumentation scope of all metrics and spans.
const ScopeName = "github.com/redlatch/redlatch/core/telemetry"

// Version is the version of the instrumentation scope.
const Version = "0.1.0"

// Telemetry records what lockers do. It starts nothing, has nothing to close,
// and is safe for concurrent use; several lockers may share one.
type Telemetry struct {
	*instruments
	names  *catalog
	tracer trace.Tracer
	spans  Spans
	log    *logger
	keyOf  func(string) string // nil: keys are kept secret

	leading sync.Mutex // guards the term of every series, so that the last one recorded is that one
}

// New creates the instruments. It returns an error if the meter provider refuses
// one of them, or an option is nil or unknown.
func New(opts ...Option) (*Telemetry, error) {
	o, err := newOptions(opts)
	if err != nil {
		return nil, err
	}
	made, err := newInstruments(o.meters.Meter(ScopeName, metric.WithInstrumentationVersion(Version)))
	if err != nil {
		return nil, err
	}
	return &Telemetry{
		instruments: made,
		names:       newCatalog(),
		tracer:      o.tracers.Tracer(ScopeName, trace.WithInstrumentationVersion(Version)),
		spans:       o.spans,
		log:         newLogger(o.log),
		keyOf:       o.keyOf,
	}, nil
}

// Hooks returns the hooks for [lock.WithHooks]. Call it once for each locker.
func (t *Telemetry) Hooks() lock.Hooks {
	var backlog atomic.Int64
	return lock.Hooks{
		Waiting:  t.waiting,
		Acquired: t.acquired,
		Released: t.released,
		Renewed:  t.renewed,
		Backlog:  func(n int) { t.backlog.Add(context.Background(), int64(n)-backlog.Swap(int64(n))) },
		Lost:     t.lost,
	}
}

// KeyFailed counts an operation that was refused because its key couldn't be
// made: name is that of its rule, reason one of "missing", "ambiguous",
// "too_long", "invalid" and "unresolvable". Any other reason is recorded as
// "_OTHER".
func (t *Telemetry) KeyFailed(ctx context.Context, name, reason string) {
	r := keyReasonOf(reason)
	t.keyFailures.Add(ctx, 1, t.names.of(name).keyFailures[r]...)
	t.log.keyFailed(ctx, name, keyReasons[r])
}

func (t *Telemetry) waiting(ctx context.Context, e lock.Event) (done func()) {
	named := t.names.of(e.Name).named
	t.waiters.Add(ctx, 1, named...)
	return func() { t.waiters.Add(ctx, -1, named...) }
}

func (t *Telemetry) acquired(ctx context.Context, e lock.AcquireEvent) {
	s, r := t.names.of(e.Name), resultOf(e.Err)
	t.acquireDuration.Record(ctx, e.Elapsed.Seconds(), s.of(e.Mode).acquired[r]...)
	if r == granted && !e.Reentrant {
		t.held.Add(ctx, 1, s.named...)
	}
	if t.spans.want(e.Waited, r) {
		t.acquireSpan(ctx, e, r)
	}
}

func (t *Telemetry) released(e lock.ReleaseEvent) {
	confirmed := e.Err == nil
	if e.Last {
		s, end := t.names.of(e.Name), endReleased
		if !confirmed {
			end = endUnconfirmed
		}
		t.ended(context.Background(), s, e.Event, end, e.Held)
	}
	if !confirmed && !errors.Is(e.Err, lock.ErrLost) {
		t.log.unconfirmed(t.logged(e.Event, e.Err))
	}
}

func (t *Telemetry) renewed(e lock.RenewEvent) {
	r := renewalOf(e.Err)
	t.renewals.Add(context.Background(), 1, renewalAttributes[r]...)
	if r == renewalFailed {
		t.log.renewalFailed(t.logged(e.Event, e.Err))
	}
}

// Circuit records that the circuit of a server has opened or closed. It is for
// redisstore.WithCircuitHook.
func (t *Telemetry) Circuit(server string, open bool) {
	ctx, change := context.Background(), int64(-1)
	if open {
		t.opens.Add(ctx, 1)
		change = 1
	}
	t.circuits.Add(ctx, change, metric.WithAttributes(serverKey.String(server)))
}

func (t *Telemetry) lost(e lock.LossEvent) {
	s, end := t.names.of(e.Name), endLost
	if e.Reason == lock.LossExpired || e.Reason == lock.LossHeldTooLong {
		end = endExpired
	}
	t.ended(e.Context, s, e.Event, end, e.Held)
	t.losses.Add(e.Context, 1, s.lost(e.Reason)...)
	t.lostSpanEvent(e)
	t.log.lost(e, t.logged(e.Event, e.Cause))
}
