package readme_test

import (
	"context"
	"testing"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/leader"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/core/telemetry"
)

// For docs/telemetry.md.
var _ = func(store lock.Store) error {
	t, err := telemetry.New() // on the global providers and slog.Default
	if err != nil {
		return err
	}
	locker := lock.New(store, lock.WithHooks(t.Hooks()))
	return locker.Close(context.Background())
}

var _ = func(g *guard.Guard, t *telemetry.Telemetry) *guard.Guard {
	g = g.WithHooks(guard.Hooks{Refused: func(ctx context.Context, e *guard.Error) {
		if reason := guard.KeyReason(e); reason != "" {
			t.KeyFailed(ctx, e.Name, reason)
		}
	}})
	return g
}

var _ = func(ctx context.Context, locker *lock.Locker, t *telemetry.Telemetry, bill func(context.Context, uint64) error) error {
	err := leader.Run(ctx, locker, "leader:billing", bill, leader.WithName("billing"),
		leader.WithHooks(leader.Hooks{Elected: t.Elected, Resigned: t.Resigned, Lost: t.TermLost}))
	return err
}

func newLocker(store lock.Store) (*lock.Locker, error) {
	observed, err := telemetry.New() // OpenTelemetry's global providers, and slog
	if err != nil {
		return nil, err
	}
	return lock.New(store, lock.WithHooks(observed.Hooks())), nil
}

func TestTheLockerOfTheReadmeIsMeasured(t *testing.T) {
	reader := metric.NewManualReader()
	before := otel.GetMeterProvider()
	otel.SetMeterProvider(metric.NewMeterProvider(metric.WithReader(reader)))
	t.Cleanup(func() { otel.SetMeterProvider(before) })

	locker, err := newLocker(memstore.New())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = locker.Close(context.Background()) })
	if err := locker.Do(t.Context(), "k", func(context.Context) error { return nil }); err != nil {
		t.Fatal(err)
	}
	var measured metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &measured); err != nil {
		t.Fatal(err)
	}
	if len(measured.ScopeMetrics) == 0 || len(measured.ScopeMetrics[0].Metrics) == 0 {
		t.Error("a lock was taken and released, and nothing measured it")
	}
}
