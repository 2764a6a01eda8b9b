package app

import (
	"fmt"

	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.uber.org/fx"

	"github.com/redlatch/redlatch/examples/seckill/internal/web"
)

// newMeters makes the meters that fxmodule measures the locks with, and has
// Prometheus scrape them along with the metrics of the service.
func newMeters(lc fx.Lifecycle, m *web.Metrics) (metric.MeterProvider, error) {
	reader, err := exporter.New(
		exporter.WithRegisterer(m.Registerer()), exporter.WithoutScopeInfo(), exporter.WithoutTargetInfo())
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	meters := sdk.NewMeterProvider(sdk.WithReader(reader))
	lc.Append(fx.StopHook(meters.Shutdown))
	return meters, nil
}
