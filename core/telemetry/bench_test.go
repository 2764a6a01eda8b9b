package telemetry_test

import (
	"log/slog"
	"testing"

	"go.opentelemetry.io/otel/metric/noop"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/core/telemetry"
)

// BenchmarkHooks is what an acquisition, a renewal and a release cost to
// measure: with the SDK, and with a provider that throws away.
func BenchmarkHooks(b *testing.B) {
	for name, opt := range map[string]telemetry.Option{
		"sdk":  telemetry.WithMeterProvider(newMeter().provider),
		"noop": telemetry.WithMeterProvider(noop.NewMeterProvider()),
	} {
		made, err := telemetry.New(opt, telemetry.WithLogger(slog.New(slog.DiscardHandler)))
		if err != nil {
			b.Fatal(err)
		}
		hooks := made.Hooks()
		e := lock.Event{Key: "order:42", Name: "order:<userId>"}
		for event, happen := range map[string]func(){
			"acquired":  func() { hooks.Acquired(b.Context(), lock.AcquireEvent{Event: e}) },
			"contended": func() { hooks.Acquired(b.Context(), lock.AcquireEvent{Event: e, Err: lock.ErrBusy}) },
			"waited":    func() { hooks.Waiting(b.Context(), e)() },
			"renewed":   func() { hooks.Renewed(lock.RenewEvent{Event: e}) },
			"released":  func() { hooks.Released(lock.ReleaseEvent{Event: e, Last: true}) },
		} {
			b.Run(name+"/"+event, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					happen()
				}
			})
		}
	}
}

// BenchmarkAcquireRelease is a whole acquisition on the memory store, with and
// without telemetry.
func BenchmarkAcquireRelease(b *testing.B) {
	made, err := telemetry.New(telemetry.WithMeterProvider(newMeter().provider))
	if err != nil {
		b.Fatal(err)
	}
	for name, opts := range map[string][]lock.Option{
		"without": nil,
		"with":    {lock.WithHooks(made.Hooks())},
	} {
		b.Run(name, func(b *testing.B) {
			l := lock.New(memstore.New(), opts...)
			defer l.Close(b.Context())
			b.ReportAllocs()
			for b.Loop() {
				lease, err := l.Acquire(b.Context(), "order:42", lock.WithName("order:<userId>"))
				if err == nil {
					err = lease.Release(b.Context())
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// Measuring must not make garbage on the way of a request. The SDK isn't ours:
// it is measured in the benchmark.
func TestMeasuringAllocatesNothing(t *testing.T) {
	made := newTelemetry(t, telemetry.WithMeterProvider(noop.NewMeterProvider()))
	hooks, ctx := made.Hooks(), t.Context()
	e := lock.Event{Key: "order:42", Name: "order:<userId>"}
	allocs := testing.AllocsPerRun(100, func() {
		hooks.Acquired(ctx, lock.AcquireEvent{Event: e})
		hooks.Acquired(ctx, lock.AcquireEvent{Event: e, Err: lock.ErrBusy})
		hooks.Renewed(lock.RenewEvent{Event: e})
		hooks.Released(lock.ReleaseEvent{Event: e, Last: true})
	})
	if allocs != 0 {
		t.Errorf("%v allocations, want none", allocs)
	}
}
