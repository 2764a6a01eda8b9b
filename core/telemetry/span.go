package telemetry

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/redlatch/redlatch/core/lock"
)

// Spans says which acquisitions become spans.
type Spans uint8

const (
	// SpansWaited makes spans of the acquisitions that had to wait or failed.
	// Another owner's hold is no failure.
	SpansWaited Spans = iota
	// SpansAll: all of them.
	SpansAll
	// SpansNone: none.
	SpansNone
)

func (s Spans) want(waited bool, r result) bool {
	return s == SpansAll || s == SpansWaited && (waited || r >= failed)
}

// acquireSpan makes the span of an acquisition that has ended: only now it is known
// whether it is worth one.
func (t *Telemetry) acquireSpan(ctx context.Context, e lock.AcquireEvent, r result) {
	now := time.Now()
	attributes := append(t.attributes(e.Event), outcomeKey.String(results[r].outcome))
	if e.Reentrant {
		attributes = append(attributes, attribute.Bool("redlatch.reentrant", true))
	}
	if results[r].errorType != "" {
		attributes = append(attributes, errorTypeKey.String(results[r].errorType))
	}
	_, span := t.tracer.Start(ctx, "lock.acquire",
		trace.WithSpanKind(trace.SpanKindInternal),
		trace.WithTimestamp(now.Add(-e.Elapsed)),
		trace.WithAttributes(attributes...))
	if r >= failed {
		span.SetStatus(codes.Error, results[r].errorType)
	}
	span.End(trace.WithTimestamp(now))
}

// lostSpanEvent adds the loss to the span in which the lock was acquired: the
// work that it concerns goes on there.
func (t *Telemetry) lostSpanEvent(e lock.LossEvent) {
	span := trace.SpanFromContext(e.Context)
	if t.spans == SpansNone || !span.IsRecording() {
		return
	}
	span.AddEvent("lock.lost", trace.WithAttributes(append(t.attributes(e.Event),
		reasonKey.String(e.Reason.String()),
		attribute.Float64("redlatch.hold.duration", e.Held.Seconds()))...))
}

// attributes returns those of an event, in a new slice. Spans may have any number
// of different names.
func (t *Telemetry) attributes(e lock.Event) []attribute.KeyValue {
	attributes := make([]attribute.KeyValue, 0, 6)
	attributes = append(attributes, templateKey.String(shown(e.Name)), modeKey.String(e.Mode.String()))
	if t.keyOf != nil {
		attributes = append(attributes, lockKeyKey.String(t.keyOf(e.Key)))
	}
	return attributes
}

// shown returns the name of a lock, or a placeholder.
func shown(name string) string {
	if name == "" {
		return otherName
	}
	return name
}
