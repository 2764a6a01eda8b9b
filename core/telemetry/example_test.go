package telemetry_test

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/core/telemetry"
)

// A program has a meter provider already, for all that it measures; with
// [otel.SetMeterProvider] it need not even be named here.
func Example() {
	ctx := context.Background()
	reader := metric.NewManualReader()
	meters := metric.NewMeterProvider(metric.WithReader(reader))
	t, err := telemetry.New(telemetry.WithMeterProvider(meters))
	if err != nil {
		fmt.Println(err)
		return
	}
	locker := lock.New(memstore.New(), lock.WithHooks(t.Hooks()))
	defer locker.Close(ctx)

	err = locker.Do(ctx, "order:42", func(context.Context) error { return nil }, lock.WithName("order:<userId>"))
	if err != nil {
		fmt.Println(err)
	}

	var measured metricdata.ResourceMetrics
	if err := reader.Collect(ctx, &measured); err != nil {
		fmt.Println(err)
	}
	for _, m := range measured.ScopeMetrics[0].Metrics {
		fmt.Println(m.Name, m.Unit)
	}
	// Output:
	// redlatch.acquire.duration s
	// redlatch.hold.duration s
	// redlatch.held.count {lock}
}
