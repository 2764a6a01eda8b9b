package fxmodule

import (
	"context"
	"fmt"
	"log/slog"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/fx"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/telemetry"
)

// TelemetryParams are the parameters of [NewTelemetry].
type TelemetryParams struct {
	fx.In

	Meters  metric.MeterProvider `optional:"true"` // default: OpenTelemetry's global one
	Tracers trace.TracerProvider `optional:"true"` // default: OpenTelemetry's global one
	Logger  *slog.Logger         `optional:"true"` // default slog.Default
}

// NewTelemetry makes the telemetry of the locker and the guard. To change it,
// decorate it with what [telemetry.New] returns for other options, or with nil for
// none.
func NewTelemetry(p TelemetryParams) (*telemetry.Telemetry, error) {
	t, err := telemetry.New(telemetry.WithMeterProvider(p.Meters), telemetry.WithTracerProvider(p.Tracers), telemetry.WithLogger(p.Logger))
	if err != nil {
		return nil, fmt.Errorf("fxmodule: telemetry: %w", err)
	}
	return t, nil
}

// refusals counts the operations whose key couldn't be made, which the locker
// never sees.
func refusals(t *telemetry.Telemetry) guard.Hooks {
	return guard.Hooks{Refused: func(ctx context.Context, e *guard.Error) {
		if reason := guard.KeyReason(e); reason != "" {
			t.KeyFailed(ctx, e.Name, reason)
		}
	}}
}
