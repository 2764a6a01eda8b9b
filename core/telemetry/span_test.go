package telemetry_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/telemetry"
)

// traced is a locker whose spans are recorded.
type traced struct {
	*lock.Locker
	store    *fragile
	spans    *tracetest.SpanRecorder
	provider *sdk.TracerProvider
}

func newTraced(t *testing.T, opts ...telemetry.Option) *traced {
	t.Helper()
	spans := tracetest.NewSpanRecorder()
	provider := sdk.NewTracerProvider(sdk.WithSpanProcessor(spans))
	made := newTelemetry(t, append(opts, telemetry.WithTracerProvider(provider), telemetry.WithMeterProvider(newMeter().provider))...)
	store := newFragile()
	l := newLocker(t, store, lock.WithHooks(made.Hooks()), lock.WithName("order:<userId>"))
	return &traced{l, store, spans, provider}
}

// request is a span of the application.
func (l *traced) request(t *testing.T) (context.Context, trace.Span) {
	t.Helper()
	return l.provider.Tracer("app").Start(t.Context(), "POST /orders")
}

func of(attributes []attribute.KeyValue) string { return labels(attribute.NewSet(attributes...)) }

// spans says what the spans of acquisitions are.
func (l *traced) ended() []string {
	var all []string
	for _, s := range l.spans.Ended() {
		if s.InstrumentationScope().Name == telemetry.ScopeName {
			all = append(all, fmt.Sprintf("%s %v %v %v %s", s.Name(), s.SpanKind(), s.EndTime().Sub(s.StartTime()), s.Status().Code, of(s.Attributes())))
		}
	}
	return all
}

// oneOfEach acquires at once, with re-entry, in vain at once, after a wait, in
// vain after a wait, and from a store that fails.
func oneOfEach(t *testing.T, l *traced, ctx context.Context) {
	t.Helper()
	lease := acquire(t, l.Locker, ctx, "order:42")
	release(t, acquire(t, l.Locker, lease.Context(), "order:42"))
	_, _ = l.TryAcquire(ctx, "order:42")
	_, _ = l.Acquire(ctx, "order:42", lock.WithWait(2*time.Second))
	time.AfterFunc(time.Second, func() { _ = lease.Release(context.Background()) })
	release(t, acquire(t, l.Locker, ctx, "order:42"))
	l.store.acquire.Store(true)
	_, _ = l.TryAcquire(ctx, "order:42")
	l.store.acquire.Store(false)
}

func TestSpansOfAcquisitions(t *testing.T) {
	const (
		template  = " redlatch.template=order:<userId>}"
		atOnce    = "lock.acquire internal 0s Unset {redlatch.mode=exclusive redlatch.outcome=acquired" + template
		reentered = "lock.acquire internal 0s Unset {redlatch.mode=exclusive redlatch.outcome=acquired redlatch.reentrant=true" + template
		refused   = "lock.acquire internal 0s Unset {redlatch.mode=exclusive redlatch.outcome=contended" + template
		gaveUp    = "lock.acquire internal 2s Unset {redlatch.mode=exclusive redlatch.outcome=contended" + template
		waited    = "lock.acquire internal 1s Unset {redlatch.mode=exclusive redlatch.outcome=acquired" + template
		failed    = "lock.acquire internal * Error {error.type=unavailable redlatch.mode=exclusive redlatch.outcome=error" + template
	)
	for name, tt := range map[string]struct {
		opts []telemetry.Option
		want []string
	}{
		"default": {nil, []string{gaveUp, waited, failed}},
		"all":     {[]telemetry.Option{telemetry.WithSpans(telemetry.SpansAll)}, []string{atOnce, reentered, refused, gaveUp, waited, failed}},
		"none":    {[]telemetry.Option{telemetry.WithSpans(telemetry.SpansNone)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newTraced(t, tt.opts...)
				ctx, request := l.request(t)
				oneOfEach(t, l, ctx)
				got := l.ended()
				if len(got) != len(tt.want) {
					t.Fatalf("got %q, want %q", got, tt.want)
				}
				for i, want := range tt.want {
					// The store is called again after a random pause.
					start, end, _ := strings.Cut(want, "*")
					if !strings.HasPrefix(got[i], start) || !strings.HasSuffix(got[i], end) {
						t.Errorf("got %q, want %q", got[i], want)
					}
				}
				for _, s := range l.spans.Ended() {
					if s.Parent().SpanID() != request.SpanContext().SpanID() {
						t.Errorf("%s is not a child of the request", s.Name())
					}
					if s.Status().Code == codes.Error && s.Status().Description != "unavailable" {
						t.Errorf("status %q", s.Status().Description)
					}
					if scope := s.InstrumentationScope(); scope.Name != telemetry.ScopeName || scope.Version != telemetry.Version {
						t.Errorf("scope %+v", scope)
					}
				}
			})
		})
	}
}

func TestALossIsAnEventOfTheRequestsSpan(t *testing.T) {
	for name, tt := range map[string]struct {
		spans telemetry.Spans
		want  string
	}{
		"default": {telemetry.SpansWaited, "lock.lost {redlatch.hold.duration=1 redlatch.mode=exclusive redlatch.reason=forced redlatch.template=order:<userId>}"},
		"none":    {telemetry.SpansNone, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newTraced(t, telemetry.WithSpans(tt.spans))
				ctx, request := l.request(t)
				_ = acquire(t, l.Locker, ctx, "order:42")
				time.Sleep(time.Second)
				_, _ = l.ForceRelease(ctx, "order:42")
				synctest.Wait()
				request.End()
				ended := l.spans.Ended()
				got := ""
				for _, e := range ended[0].Events() {
					got += e.Name + " " + of(e.Attributes)
				}
				if len(ended) != 1 || got != tt.want {
					t.Errorf("%d spans, event %q, want %q", len(ended), got, tt.want)
				}
				if code := ended[0].Status().Code; code != codes.Unset {
					t.Errorf("the span is the application's, its status became %v", code)
				}
			})
		})
	}
}

func TestALossAfterItsRequestAddsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTraced(t)
		ctx, request := l.request(t)
		_ = acquire(t, l.Locker, ctx, "order:42")
		request.End()
		_, _ = l.ForceRelease(ctx, "order:42")
		synctest.Wait()
		if events := l.spans.Ended()[0].Events(); len(events) != 0 {
			t.Errorf("events %v", events)
		}
	})
}
