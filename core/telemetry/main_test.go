package telemetry_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.uber.org/goleak"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/core/telemetry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// errSecret is what a store says: nothing of it may be passed on.
var errSecret = errors.New("WRONGPASS for 10.0.0.7 lock:order:42 0f1e2d3c:77")

// fragile is a store that fails on demand.
type fragile struct {
	lock.Store
	acquire, renew, release atomic.Bool // fail
}

func newFragile() *fragile { return &fragile{Store: memstore.New()} }

func (f *fragile) Acquire(ctx context.Context, c lock.Claim, by time.Time, answer lock.Answer) {
	if f.acquire.Load() {
		answer.Answered(0, errSecret)
		return
	}
	f.Store.Acquire(ctx, c, by, answer)
}

func (f *fragile) Renew(ctx context.Context, claims []lock.Claim, report func(int, error)) {
	if !f.renew.Load() {
		f.Store.Renew(ctx, claims, report)
		return
	}
	for i := range claims {
		report(i, errSecret)
	}
}

func (f *fragile) Release(ctx context.Context, c lock.Claim, by time.Time, answer lock.Answer) {
	if f.release.Load() {
		answer.Answered(0, errSecret)
		return
	}
	f.Store.Release(ctx, c, by, answer)
}

// meter reads what is measured.
type meter struct {
	reader   *metric.ManualReader
	provider *metric.MeterProvider
}

func newMeter() *meter {
	reader := metric.NewManualReader()
	return &meter{reader, metric.NewMeterProvider(metric.WithReader(reader))}
}

func newTelemetry(t *testing.T, opts ...telemetry.Option) *telemetry.Telemetry {
	t.Helper()
	made, err := telemetry.New(opts...)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func newLocker(t *testing.T, store lock.Store, opts ...lock.Option) *lock.Locker {
	t.Helper()
	l := lock.New(store, opts...)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := l.Close(ctx); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return l
}

func acquire(t *testing.T, l *lock.Locker, ctx context.Context, key string, opts ...lock.Option) *lock.Lease {
	t.Helper()
	lease, err := l.Acquire(ctx, key, opts...)
	if err != nil {
		t.Fatalf("Acquire(%q): %v", key, err)
	}
	return lease
}

func release(t *testing.T, lease *lock.Lease) {
	t.Helper()
	if err := lease.Release(context.Background()); err != nil {
		t.Fatalf("Release: %v", err)
	}
}

func (m *meter) collect(t *testing.T) metricdata.ResourceMetrics {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := m.reader.Collect(context.Background(), &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// series is every series with its value: of a histogram, how many measurements
// it has and their sum.
func (m *meter) series(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, scope := range m.collect(t).ScopeMetrics {
		for _, one := range scope.Metrics {
			switch data := one.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					all[one.Name+labels(p.Attributes)] = fmt.Sprint(p.Value)
				}
			case metricdata.Gauge[int64]:
				for _, p := range data.DataPoints {
					all[one.Name+labels(p.Attributes)] = fmt.Sprint(p.Value)
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					all[one.Name+labels(p.Attributes)] = fmt.Sprintf("%d in %gs", p.Count, p.Sum)
				}
			default:
				t.Errorf("%s has data of type %T", one.Name, data)
			}
		}
	}
	return all
}

func labels(set attribute.Set) string {
	var all []string
	for _, kv := range set.ToSlice() {
		all = append(all, fmt.Sprintf("%s=%s", kv.Key, kv.Value.String()))
	}
	slices.Sort(all)
	return "{" + strings.Join(all, " ") + "}"
}
