package integration_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
	"github.com/redlatch/redlatch/core/telemetry"
	"github.com/redlatch/redlatch/test/internal/redistest"
)

// gauge reads metrics: the value of sums, the number of measurements of
// histograms.
type gauge struct{ *metric.ManualReader }

func (g gauge) read(t *testing.T, name string, attributes ...attribute.KeyValue) int64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := g.Collect(context.Background(), &all); err != nil {
		t.Fatal(err)
	}
	matches := func(set attribute.Set) bool {
		for _, want := range attributes {
			if got, ok := set.Value(want.Key); !ok || got != want.Value {
				return false
			}
		}
		return true
	}
	var total int64
	for _, scope := range all.ScopeMetrics {
		for _, one := range scope.Metrics {
			if one.Name != name {
				continue
			}
			switch data := one.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					if matches(p.Attributes) {
						total += p.Value
					}
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					if matches(p.Attributes) {
						total += int64(p.Count)
					}
				}
			}
		}
	}
	return total
}

func (g gauge) want(t *testing.T, want int64, name string, attributes ...attribute.KeyValue) {
	t.Helper()
	if got := g.read(t, name, attributes...); got != want {
		t.Errorf("%s%v: %d, want %d", name, attributes, got, want)
	}
}

// TestTelemetryTellsOfARealServer lives through contention and through the
// death of Redis, and reads in the metrics what happened.
func TestTelemetryTellsOfARealServer(t *testing.T) {
	server := redistest.Standalone(t)
	reader := gauge{metric.NewManualReader()}
	made, err := telemetry.New(
		telemetry.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(reader))),
		telemetry.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	name := attribute.String("redlatch.template", "order:<userId>")
	outcome := func(text string) attribute.KeyValue { return attribute.String("redlatch.outcome", text) }
	rdb := server.Admin(t)
	locker := func(watchdog time.Duration) *lock.Locker {
		l := lock.New(redisstore.New(server.Client(t), redisstore.WithLogger(slog.New(slog.DiscardHandler))), lock.WithHooks(made.Hooks()),
			lock.WithName("order:<userId>"), lock.WithWatchdog(watchdog), lock.WithCallTimeout(500*time.Millisecond))
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			_ = l.Close(ctx) // of a locker whose Redis is dead: what it cannot release expires
		})
		return l
	}
	// One lease for the contention, which must not be lost on a busy machine.
	l, other := locker(patience), locker(patience)

	t.Run("contention", func(t *testing.T) {
		lease := acquire(t, l, "order:1")
		const waiters = 8
		var wg sync.WaitGroup
		errs := make(chan error, waiters)
		for range waiters {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				defer cancel()
				next, err := other.Acquire(ctx, "order:1")
				if err == nil {
					err = next.Release(ctx)
				}
				errs <- err
			})
		}
		eventually(t, func() error {
			if n := reader.read(t, "redlatch.waiter.count", name); n != waiters {
				return fmt.Errorf("%d waiters, want %d", n, waiters)
			}
			return nil
		})
		if _, err := other.TryAcquire(t.Context(), "order:1"); !errors.Is(err, lock.ErrBusy) {
			t.Errorf("got %v, want ErrBusy", err)
		}
		reader.want(t, 1, "redlatch.held.count", name)
		release(t, lease)
		wg.Wait()
		for range waiters {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		reader.want(t, 0, "redlatch.waiter.count")
		reader.want(t, 0, "redlatch.held.count")
		reader.want(t, waiters+1, "redlatch.acquire.duration", name, outcome("acquired"))
		reader.want(t, 1, "redlatch.acquire.duration", name, outcome("contended"))
		reader.want(t, waiters+1, "redlatch.hold.duration", name, outcome("released"))
		reader.want(t, 0, "redlatch.losses")
	})

	t.Run("flushed away", func(t *testing.T) {
		lease := acquire(t, l, "order:2")
		if err := rdb.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		if err := lease.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
			t.Errorf("got %v, want ErrLost", err)
		}
		reader.want(t, 1, "redlatch.losses", name, attribute.String("redlatch.reason", "taken"))
		reader.want(t, 0, "redlatch.held.count")
	})

	t.Run("Redis dies", func(t *testing.T) {
		short := locker(1500 * time.Millisecond)
		lease := acquire(t, short, "order:3")
		eventually(t, func() error {
			if reader.read(t, "redlatch.renewals", outcome("ok")) == 0 {
				return errors.New("not renewed")
			}
			return nil
		})
		reader.want(t, 1, "redlatch.held.count", name)
		server.Kill()
		select {
		case <-lease.Context().Done():
		case <-time.After(patience):
			t.Fatal("the loss was not reported")
		}
		if cause := context.Cause(lease.Context()); !errors.Is(cause, lock.ErrLost) {
			t.Fatalf("cause %v, want ErrLost", cause)
		}
		eventually(t, func() error { // hooks run when the contexts have ended
			if n := reader.read(t, "redlatch.losses", name, attribute.String("redlatch.reason", "not_renewed")); n != 1 {
				return fmt.Errorf("%d losses", n)
			}
			return nil
		})
		reader.want(t, 0, "redlatch.held.count")
		reader.want(t, 2, "redlatch.hold.duration", name, outcome("lost"))
		if reader.read(t, "redlatch.renewals", outcome("error")) == 0 {
			t.Error("no failed renewal was counted")
		}
		_, err := other.TryAcquire(t.Context(), "order:4")
		if !errors.Is(err, lock.ErrUnavailable) {
			t.Errorf("got %v, want ErrUnavailable", err)
		}
		reader.want(t, 1, "redlatch.acquire.duration", name, outcome("error"), attribute.String("error.type", "unavailable"))
	})

	var all metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &all); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(all.ScopeMetrics)
	if err != nil || !strings.Contains(string(text), "redlatch.template") {
		t.Fatalf("no metrics in %s: %v", text, err)
	}
	for _, secret := range []string{"order:1", "order:2", server.Addr()} {
		if strings.Contains(string(text), secret) {
			t.Errorf("the metrics tell %q: %s", secret, text)
		}
	}
}
