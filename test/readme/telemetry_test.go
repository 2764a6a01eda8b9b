package readme_test

import (
	"context"
	"testing"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/core/telemetry"
)

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
