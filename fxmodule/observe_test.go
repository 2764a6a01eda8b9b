package fxmodule_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/fx"
	"go.uber.org/fx/fxtest"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/telemetry"
	"github.com/redlatch/redlatch/fxmodule"
)

// metrics are the names of what was measured.
func metrics(t *testing.T, reader sdk.Reader) []string {
	t.Helper()
	var measured metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &measured); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, scope := range measured.ScopeMetrics {
		for _, m := range scope.Metrics {
			names = append(names, m.Name)
		}
	}
	return names
}

// observed runs an application that takes one lock, waits once in vain, and gets
// one operation without a key.
func observed(t *testing.T, opts ...fx.Option) {
	t.Helper()
	var g *guard.Guard
	app := fxtest.New(t, append(opts, inMemory(), fxmodule.AsRule(orders), fx.Populate(&g))...)
	app.RequireStart()
	defer app.RequireStop()
	g.Declare(orders.Operation)
	if err := g.Locker().Do(t.Context(), "k", func(context.Context) error { return nil }); err != nil {
		t.Error(err)
	}
	if _, _, err := g.Enter(t.Context(), guard.Call{Operation: orders.Operation}); guard.KindOf(err) != guard.Invalid {
		t.Errorf("an operation without variables: %v", err)
	}
}

func TestMetricsAndSpansGoToTheApplicationsProviders(t *testing.T) {
	reader, spans := sdk.NewManualReader(), tracetest.NewSpanRecorder()
	observed(t,
		fx.Supply(fx.Annotate(sdk.NewMeterProvider(sdk.WithReader(reader)), fx.As(new(metric.MeterProvider)))),
		fx.Supply(fx.Annotate(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)), fx.As(new(trace.TracerProvider)))),
		fx.Decorate(func(m metric.MeterProvider, p trace.TracerProvider) (*telemetry.Telemetry, error) {
			return telemetry.New(telemetry.WithMeterProvider(m), telemetry.WithTracerProvider(p), telemetry.WithSpans(telemetry.SpansAll))
		}))
	if len(spans.Ended()) == 0 {
		t.Error("no spans: the decorated telemetry is not used")
	}
	names := metrics(t, reader)
	for _, want := range []string{"redlatch.acquire.duration", "redlatch.hold.duration", "redlatch.key.failures"} {
		if !slices.Contains(names, want) {
			t.Errorf("%s is not among %q", want, names)
		}
	}
}

func TestHooksOfTheApplicationDoNotPushOutTelemetry(t *testing.T) {
	reader := sdk.NewManualReader()
	var acquired atomic.Int32
	hooks := lock.Hooks{Acquired: func(context.Context, lock.AcquireEvent) { acquired.Add(1) }}
	observed(t,
		fx.Supply(fx.Annotate(sdk.NewMeterProvider(sdk.WithReader(reader)), fx.As(new(metric.MeterProvider)))),
		fxmodule.AsOption(lock.WithHooks(hooks)), fxmodule.AsOption(lock.WithHooks(hooks)))
	if n := acquired.Load(); n != 2 {
		t.Errorf("the application's two hooks were called %d times", n)
	}
	if names := metrics(t, reader); !slices.Contains(names, "redlatch.acquire.duration") {
		t.Errorf("telemetry has only %q", names)
	}
}

func TestTelemetryCanBeSwitchedOff(t *testing.T) {
	reader := sdk.NewManualReader()
	observed(t,
		fx.Supply(fx.Annotate(sdk.NewMeterProvider(sdk.WithReader(reader)), fx.As(new(metric.MeterProvider)))),
		fx.Decorate(func(*telemetry.Telemetry) *telemetry.Telemetry { return nil }))
	if names := metrics(t, reader); len(names) != 0 {
		t.Errorf("measured %q", names)
	}
}

// full is a provider whose meters make no more instruments.
type full struct{ noop.MeterProvider }

type fullMeter struct{ noop.Meter }

var errFull = errors.New("there are too many instruments")

func (full) Meter(string, ...metric.MeterOption) metric.Meter { return fullMeter{} }

func (fullMeter) Int64Counter(string, ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return nil, errFull
}

func TestTelemetryThatCannotBeMadeIsAnError(t *testing.T) {
	if _, err := fxmodule.NewTelemetry(fxmodule.TelemetryParams{Meters: full{}}); !errors.Is(err, errFull) {
		t.Errorf("got %v, want %v", err, errFull)
	}
}

// dials counts the attempts to reach a server that is not there.
func dials(t *testing.T) (client *redis.Client, n *atomic.Int32) {
	t.Helper()
	n = new(atomic.Int32)
	client = redis.NewClient(&redis.Options{
		Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1, // a name would be looked up
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			n.Add(1)
			return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
		},
	})
	closeLater(t, client)
	return client, n
}

func TestTheCircuitOfAServerIsThatOfTheConfigAndIsReported(t *testing.T) {
	for name, test := range map[string]struct {
		redis fxmodule.Redis
		tried bool // again, within a minute
	}{
		"by default": {tried: true},
		"a pause":    {redis: fxmodule.Redis{CircuitPause: time.Hour}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				reader := sdk.NewManualReader()
				client, n := dials(t)
				observing, err := telemetry.New(telemetry.WithMeterProvider(sdk.NewMeterProvider(sdk.WithReader(reader))))
				if err != nil {
					t.Fatal(err)
				}
				var log syncBuffer
				made, err := fxmodule.New(fxmodule.Params{
					Lifecycle: fxtest.NewLifecycle(t), Single: client, Telemetry: observing, Logger: log.logger(),
					Config: fxmodule.Config{Redis: test.redis},
				})
				if err != nil {
					t.Fatal(err)
				}
				for range 6 {
					_, err = made.Locker.TryAcquire(t.Context(), "k")
				}
				if !errors.Is(err, lock.ErrCircuitOpen) {
					t.Fatalf("got %v, want an open circuit", err)
				}
				if names := metrics(t, reader); !slices.Contains(names, "redlatch.circuit.opens") {
					t.Errorf("measured %q", names)
				}
				if !strings.Contains(log.String(), "lock store does not answer") {
					t.Errorf("logged %q", log.String())
				}
				synctest.Wait() // the probe that the first failure began
				time.Sleep(time.Minute - time.Second)
				synctest.Wait() // the locker registers meanwhile, which is no lock's call
				before := n.Load()
				_, _ = made.Locker.TryAcquire(t.Context(), "k")
				synctest.Wait()
				if tried := n.Load() > before; tried != test.tried {
					t.Errorf("the server was tried again: %v, want %v", tried, test.tried)
				}
				if err := made.Locker.Close(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
