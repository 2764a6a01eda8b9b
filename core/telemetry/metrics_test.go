package telemetry_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	api "go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/core/telemetry"
)

// story makes a locker live through everything that is measured.
func story(t *testing.T, made *telemetry.Telemetry) {
	t.Helper()
	store := newFragile()
	order, ctx := lock.WithName("order:<userId>"), t.Context()
	l := newLocker(t, store, lock.WithHooks(made.Hooks()), lock.WithWatchdog(9*time.Second), lock.WithPoll(700*time.Millisecond))

	// Released after a renewal; re-entered; contended at once and after a wait;
	// canceled while waiting.
	lease := acquire(t, l, ctx, "order:42", order)
	inner := acquire(t, l, lease.Context(), "order:42", order)
	release(t, inner)
	_, _ = l.TryAcquire(ctx, "order:42", order)
	_, _ = l.Acquire(ctx, "order:42", order, lock.WithWait(2*time.Second))
	short, cancel := context.WithCancel(ctx)
	time.AfterFunc(time.Second, cancel)
	_, _ = l.Acquire(short, "order:42", order)
	time.Sleep(1500 * time.Millisecond) // 4.5 s: it is renewed in each poll interval in which somebody waits for it
	release(t, lease)

	// A fixed lease that runs out, without a name and in another mode.
	lease = acquire(t, l, ctx, "stock", lock.WithMode(lock.Write), lock.WithLease(2*time.Second))
	<-lease.Context().Done()

	// Gone at a renewal, and taken away.
	_ = acquire(t, l, ctx, "a", order)
	_, _ = store.ForceRelease(ctx, "a")
	time.Sleep(4 * time.Second)
	_ = acquire(t, l, ctx, "a", order)
	_, _ = l.ForceRelease(ctx, "a")

	// The store fails: no renewal, no release, no lock. Failed renewals are
	// tried again at random times: one is enough here.
	lease = acquire(t, l, ctx, "b", order)
	store.release.Store(true)
	_ = lease.Release(ctx)
	store.release.Store(false)
	_ = acquire(t, l, ctx, "c", order)
	store.renew.Store(true)
	time.Sleep(3 * time.Second)
	synctest.Wait()
	store.renew.Store(false)
	store.acquire.Store(true)
	_, _ = l.Acquire(ctx, "d", order)
	store.acquire.Store(false)
	time.Sleep(58 * time.Second) // not a renewal more or less, whatever the random times

	// Leaders: one resigned, one lost its term, and one leads.
	made.Elected("billing", 7)
	made.Resigned("billing", 7, errSecret)
	made.Elected("mail", 8)
	made.TermLost("mail", 8, errSecret)
	made.Elected("reports", 1<<62)

	made.Circuit("10.0.0.1:6379", true)

	made.KeyFailed(ctx, "order:<userId>", "missing")
	made.KeyFailed(ctx, "order:<userId>", "nonsense of a client")
}

// The names, units, attributes and values of all that is measured. Dashboards
// and alerts stand on them: a change here breaks those of users.
func TestMetricsAreExactlyThese(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMeter()
		story(t, newTelemetry(t, telemetry.WithMeterProvider(m.provider)))
		got := m.series(t)
		order := " redlatch.template=order:<userId>}"
		other := " redlatch.template=_other}"
		for series, want := range map[string]string{
			"redlatch.acquire.duration{redlatch.mode=exclusive redlatch.outcome=acquired" + order:                     "6 in 0s",
			"redlatch.acquire.duration{redlatch.mode=exclusive redlatch.outcome=contended" + order:                    "2 in 2s",
			"redlatch.acquire.duration{redlatch.mode=exclusive redlatch.outcome=canceled" + order:                     "1 in 1s",
			"redlatch.acquire.duration{error.type=unavailable redlatch.mode=exclusive redlatch.outcome=error" + order: "1 in *",
			"redlatch.acquire.duration{redlatch.mode=write redlatch.outcome=acquired" + other:                         "1 in 0s",
			"redlatch.hold.duration{redlatch.mode=exclusive redlatch.outcome=released" + order:                        "1 in 4.5s",
			"redlatch.hold.duration{error.type=unavailable redlatch.mode=exclusive redlatch.outcome=released" + order: "1 in *",
			"redlatch.hold.duration{redlatch.mode=exclusive redlatch.outcome=lost" + order:                            "2 in 3s",
			"redlatch.hold.duration{redlatch.mode=write redlatch.outcome=expired" + other:                             "1 in 1.978s",
			"redlatch.waiter.count{redlatch.template=order:<userId>}":                                                 "0",
			"redlatch.held.count{redlatch.template=order:<userId>}":                                                   "1",
			"redlatch.held.count{redlatch.template=_other}":                                                           "0",
			"redlatch.renewals{redlatch.outcome=ok}":                                                                  "24",
			"redlatch.renewals{redlatch.outcome=error}":                                                               "1",
			"redlatch.renewals{redlatch.outcome=lost}":                                                                "1",
			"redlatch.losses{redlatch.reason=taken" + order:                                                           "1",
			"redlatch.losses{redlatch.reason=forced" + order:                                                          "1",
			"redlatch.losses{redlatch.reason=expired" + other:                                                         "1",
			"redlatch.key.failures{redlatch.reason=missing" + order:                                                   "1",
			"redlatch.leader.term{redlatch.template=billing}":                                                         "0",
			"redlatch.leader.term{redlatch.template=mail}":                                                            "0",
			"redlatch.leader.term{redlatch.template=reports}":                                                         fmt.Sprint(int64(1 << 62)),
			"redlatch.circuit.opens{}":                                                                                "1",
			"redlatch.circuit.count{redlatch.server=10.0.0.1:6379}":                                                   "1",
			"redlatch.backlog.count{}":                                                                                "0",
			"redlatch.key.failures{redlatch.reason=_OTHER" + order:                                                    "1",
		} {
			value, ok := got[series]
			if start, found := strings.CutSuffix(want, "*"); !ok || found && !strings.HasPrefix(value, start) || !found && value != want {
				t.Errorf("%s: %q, want %q", series, value, want)
			}
			delete(got, series)
		}
		for series, value := range got {
			t.Errorf("unexpected: %s %s", series, value)
		}
	})
}

func TestInstrumentsAreExactlyThese(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMeter()
		story(t, newTelemetry(t, telemetry.WithMeterProvider(m.provider)))
		got := m.collect(t)
		if len(got.ScopeMetrics) != 1 {
			t.Fatalf("%d scopes, want one", len(got.ScopeMetrics))
		}
		up := metricdata.Sum[int64]{Temporality: metricdata.CumulativeTemporality}
		counter := up
		counter.IsMonotonic = true
		seconds := metricdata.Histogram[float64]{Temporality: metricdata.CumulativeTemporality}
		want := []metricdata.Metrics{
			{Name: "redlatch.acquire.duration", Unit: "s", Description: "Time to acquire a lock, or to learn that it cannot be had.", Data: seconds},
			{Name: "redlatch.hold.duration", Unit: "s", Description: "Time for which locks were held.", Data: seconds},
			{Name: "redlatch.waiter.count", Unit: "{waiter}", Description: "Acquisitions that wait for another owner.", Data: up},
			{Name: "redlatch.held.count", Unit: "{lock}", Description: "Locks that are held.", Data: up},
			{Name: "redlatch.renewals", Unit: "{renewal}", Description: "Renewals of held locks by the watchdog.", Data: counter},
			{Name: "redlatch.losses", Unit: "{lock}", Description: "Locks that were lost while they were held.", Data: counter},
			{Name: "redlatch.key.failures", Unit: "{failure}", Description: "Operations refused because the key of their lock could not be made.", Data: counter},
			{Name: "redlatch.circuit.opens", Unit: "{opening}", Description: "Times at which a server that does not answer was left alone.", Data: counter},
			{Name: "redlatch.circuit.count", Unit: "{circuit}", Description: "Circuits that are open: servers that do not answer, and get no acquisitions.", Data: up},
			{Name: "redlatch.backlog.count", Unit: "{call}", Description: "Unanswered calls whose traces in the store are to be removed.", Data: up},
			{Name: "redlatch.leader.term", Unit: "{term}", Description: "Term of the leader in this process, 0 where there is none.", Data: metricdata.Gauge[int64]{}},
		}
		bounds := []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}
		without := make([]metricdata.Metrics, len(got.ScopeMetrics[0].Metrics)) // their points, which have their own test
		for i, one := range got.ScopeMetrics[0].Metrics {
			switch data := one.Data.(type) {
			case metricdata.Sum[int64]:
				data.DataPoints = nil
				one.Data = data
			case metricdata.Gauge[int64]:
				data.DataPoints = nil
				one.Data = data
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					if fmt.Sprint(p.Bounds) != fmt.Sprint(bounds) {
						t.Errorf("%s: buckets %v, want %v", one.Name, p.Bounds, bounds)
					}
				}
				data.DataPoints = nil
				one.Data = data
			}
			without[i] = one
		}
		metricdatatest.AssertEqual(t, metricdata.ScopeMetrics{
			Scope:   instrumentation.Scope{Name: telemetry.ScopeName, Version: telemetry.Version},
			Metrics: want,
		}, metricdata.ScopeMetrics{Scope: got.ScopeMetrics[0].Scope, Metrics: without})
	})
}

// A hold that reached its end has expired, whatever set that end; any other loss is one.
func TestOutcomesOfLosses(t *testing.T) {
	for reason, want := range map[lock.LossReason]struct{ outcome, reason string }{
		lock.LossExpired:     {"expired", "expired"},
		lock.LossHeldTooLong: {"expired", "held_too_long"},
		lock.LossNotRenewed:  {"lost", "not_renewed"},
		lock.LossTaken:       {"lost", "taken"},
		lock.LossForced:      {"lost", "forced"},
		lock.LossReason(100): {"lost", "_OTHER"},
	} {
		m := newMeter()
		e := lock.Event{Name: "order:<userId>", Key: "order:42"}
		newTelemetry(t, telemetry.WithMeterProvider(m.provider)).Hooks().Lost(lock.LossEvent{Event: e, Context: t.Context(), Reason: reason, Held: time.Second})
		got := m.series(t)
		for series, value := range map[string]string{
			"redlatch.hold.duration{redlatch.mode=exclusive redlatch.outcome=" + want.outcome + " redlatch.template=order:<userId>}": "1 in 1s",
			"redlatch.losses{redlatch.reason=" + want.reason + " redlatch.template=order:<userId>}":                                  "1",
		} {
			if got[series] != value {
				t.Errorf("%v: %s: %q, want %q; all: %v", reason, series, got[series], value, got)
			}
		}
	}
}

func TestOutcomesOfAcquisitions(t *testing.T) {
	for name, tt := range map[string]struct {
		err  error
		want string
	}{
		"granted":                    {nil, "redlatch.outcome=acquired"},
		"busy":                       {lock.ErrBusy, "redlatch.outcome=contended"},
		"too many wait":              {fmt.Errorf("%w: %w", lock.ErrBusy, lock.ErrTooManyWaiters), "error.type=too_many_waiters redlatch.outcome=contended"},
		"busy until the deadline":    {fmt.Errorf("%w: %w", lock.ErrBusy, context.DeadlineExceeded), "redlatch.outcome=contended"},
		"caller gave up":             {context.Canceled, "redlatch.outcome=canceled"},
		"caller's time has passed":   {context.DeadlineExceeded, "redlatch.outcome=canceled"},
		"caller lost another lock":   {fmt.Errorf("%w: %w", context.Canceled, lock.ErrLost), "redlatch.outcome=canceled"},
		"silent until the deadline":  {fmt.Errorf("%w: %w", lock.ErrUnavailable, context.DeadlineExceeded), "error.type=unavailable redlatch.outcome=error"},
		"hold to re-enter was gone":  {lock.ErrLost, "error.type=lost redlatch.outcome=error"},
		"closed":                     {lock.ErrClosed, "error.type=closed redlatch.outcome=error"},
		"mode the store has not":     {lock.ErrUnsupported, "error.type=unsupported redlatch.outcome=error"},
		"mode that cannot be joined": {lock.ErrInvalid, "error.type=invalid redlatch.outcome=error"},
		"outside of the contract":    {errors.New("?"), "error.type=_OTHER redlatch.outcome=error"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMeter()
			hooks := newTelemetry(t, telemetry.WithMeterProvider(m.provider)).Hooks()
			err := tt.err
			if err != nil {
				err = &lock.Error{Op: "acquire", Key: "k", Err: err}
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel() // that of a caller who gave up has ended
			hooks.Acquired(ctx, lock.AcquireEvent{Event: lock.Event{Key: "k", Name: "n"}, Elapsed: time.Second, Err: err})
			got := m.series(t)
			want := strings.Replace("redlatch.acquire.duration{"+tt.want+" redlatch.template=n}", "redlatch.outcome", "redlatch.mode=exclusive redlatch.outcome", 1)
			if got[want] != "1 in 1s" {
				t.Errorf("got %v, want one in %s", got, want)
			}
			if _, held := got["redlatch.held.count{redlatch.template=n}"]; held != (tt.err == nil) {
				t.Errorf("held is counted: %v", held)
			}
		})
	}
}

func TestHeldGoesDownHoweverAHoldEnds(t *testing.T) {
	for name, end := range map[string]func(*lock.Locker, *fragile, *lock.Lease){
		"released": func(_ *lock.Locker, _ *fragile, lease *lock.Lease) {
			_ = lease.Release(context.Background())
			_ = lease.Release(context.Background())
		},
		"released, re-entered": func(l *lock.Locker, _ *fragile, lease *lock.Lease) {
			inner, _ := l.Acquire(lease.Context(), "k", lock.WithName("inner"))
			_ = lease.Release(context.Background())
			_ = inner.Release(context.Background())
		},
		"released, unconfirmed": func(_ *lock.Locker, store *fragile, lease *lock.Lease) {
			store.release.Store(true)
			_ = lease.Release(context.Background())
			store.release.Store(false)
		},
		"closed": func(l *lock.Locker, _ *fragile, lease *lock.Lease) {
			_ = l.Close(context.Background())
			_ = lease.Release(context.Background())
		},
		"gone at its release": func(_ *lock.Locker, store *fragile, lease *lock.Lease) {
			_, _ = store.ForceRelease(context.Background(), "k")
			_ = lease.Release(context.Background())
		},
		"gone at its renewal": func(_ *lock.Locker, store *fragile, lease *lock.Lease) {
			_, _ = store.ForceRelease(context.Background(), "k")
			<-lease.Context().Done()
			_ = lease.Release(context.Background())
		},
		"never renewed": func(_ *lock.Locker, store *fragile, lease *lock.Lease) {
			store.renew.Store(true)
			<-lease.Context().Done()
			_ = lease.Release(context.Background())
		},
		"forced": func(l *lock.Locker, _ *fragile, lease *lock.Lease) {
			_, _ = l.ForceRelease(context.Background(), "k")
			_ = lease.Release(context.Background())
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, store := newMeter(), newFragile()
				made := newTelemetry(t, telemetry.WithMeterProvider(m.provider))
				l := newLocker(t, store, lock.WithHooks(made.Hooks()), lock.WithName("n"))
				lease := acquire(t, l, t.Context(), "k")
				const held = "redlatch.held.count{redlatch.template=n}"
				if got := m.series(t)[held]; got != "1" {
					t.Errorf("held: %q, want 1", got)
				}
				end(l, store, lease)
				synctest.Wait()
				holds := 0
				for series, value := range m.series(t) {
					if strings.HasPrefix(series, "redlatch.hold.duration") && strings.HasPrefix(value, "1 in") {
						holds++
					}
					if strings.HasPrefix(series, "redlatch.held.count") && value != "0" {
						t.Errorf("%s: %s, want 0", series, value)
					}
				}
				if holds != 1 {
					t.Errorf("%d holds measured, want 1: %v", holds, m.series(t))
				}
			})
		})
	}
}

func TestWaitersAreCountedWhileTheyWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMeter()
		made := newTelemetry(t, telemetry.WithMeterProvider(m.provider))
		l := newLocker(t, memstore.New(), lock.WithHooks(made.Hooks()), lock.WithName("n"))
		lease := acquire(t, l, t.Context(), "k")
		var waiters sync.WaitGroup
		for range 5 {
			waiters.Go(func() {
				next, err := l.Acquire(t.Context(), "k")
				if err == nil {
					err = next.Release(t.Context())
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		const series = "redlatch.waiter.count{redlatch.template=n}"
		if got := m.series(t)[series]; got != "5" {
			t.Errorf("waiting: %q, want 5", got)
		}
		release(t, lease)
		waiters.Wait()
		if got := m.series(t)[series]; got != "0" {
			t.Errorf("afterwards: %q, want 0", got)
		}
	})
}

func TestKeysAddNoSeries(t *testing.T) {
	m := newMeter()
	made := newTelemetry(t, telemetry.WithMeterProvider(m.provider))
	l := newLocker(t, memstore.New(), lock.WithHooks(made.Hooks()))
	order := func(user int, opts ...lock.Option) {
		lease := acquire(t, l, t.Context(), fmt.Sprint("lock:order:", user), opts...)
		release(t, lease)
	}
	order(0, lock.WithName("lock:order:<userId>"))
	order(0) // without a name
	before := m.series(t)
	for user := range 10_000 {
		order(user, lock.WithName("lock:order:<userId>"))
		order(user)
	}
	after := m.series(t)
	if len(before) != 6 || len(after) != len(before) {
		t.Errorf("%d series after one user, %d after ten thousand; want 6", len(before), len(after))
	}
	for series := range after {
		if _, known := before[series]; !known {
			t.Errorf("new: %s", series)
		}
	}
}

func TestNamesAreCapped(t *testing.T) {
	m := newMeter()
	made := newTelemetry(t, telemetry.WithMeterProvider(m.provider))
	hooks := made.Hooks()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 1000 {
				e := lock.Event{Key: "k", Name: fmt.Sprint("name ", i)}
				done := hooks.Waiting(t.Context(), e)
				done()
				hooks.Acquired(t.Context(), lock.AcquireEvent{Event: e})
				hooks.Released(lock.ReleaseEvent{Event: e, Last: true})
				hooks.Lost(lock.LossEvent{Event: e, Context: t.Context()})
				made.KeyFailed(t.Context(), e.Name, "missing")
			}
		})
	}
	wg.Wait()
	templates := map[string]map[string]bool{} // of each metric
	total := map[string]int64{}
	for _, one := range m.collect(t).ScopeMetrics[0].Metrics {
		templates[one.Name] = map[string]bool{}
		add := func(set attribute.Set, n int64) {
			template, _ := set.Value("redlatch.template")
			templates[one.Name][template.AsString()] = true
			total[one.Name] += n
		}
		switch data := one.Data.(type) {
		case metricdata.Sum[int64]:
			for _, p := range data.DataPoints {
				add(p.Attributes, p.Value)
			}
		case metricdata.Histogram[float64]:
			for _, p := range data.DataPoints {
				add(p.Attributes, int64(p.Count))
			}
		}
	}
	for name, seen := range templates {
		if len(seen) != telemetry.MaxNames+1 || !seen["_other"] {
			t.Errorf("%s: %d templates, _other among them: %v; want %d", name, len(seen), seen["_other"], telemetry.MaxNames+1)
		}
	}
	want := map[string]int64{
		"redlatch.acquire.duration": 4000, "redlatch.hold.duration": 8000, "redlatch.waiter.count": 0,
		"redlatch.held.count": -4000, "redlatch.losses": 4000, "redlatch.key.failures": 4000,
	}
	if !maps.Equal(total, want) {
		t.Errorf("nothing may be dropped: got %v, want %v", total, want)
	}
}

func TestGlobalProviderIsTheDefaultAndNilIsIgnored(t *testing.T) {
	m, before := newMeter(), otel.GetMeterProvider()
	otel.SetMeterProvider(m.provider)
	t.Cleanup(func() { otel.SetMeterProvider(before) })
	made := newTelemetry(t, telemetry.WithMeterProvider(nil), telemetry.WithTracerProvider(nil),
		telemetry.WithLogger(nil), telemetry.WithKeyAttribute(nil))
	hooks := made.Hooks()
	hooks.Acquired(t.Context(), lock.AcquireEvent{Err: lock.ErrUnavailable})
	hooks.Lost(lock.LossEvent{Context: t.Context()})
	if got := m.series(t); len(got) != 4 {
		t.Errorf("got %v, want four series", got)
	}
}

// refusing is a provider whose meters make no counters.
type refusing struct{ noop.MeterProvider }

type refusingMeter struct{ noop.Meter }

func (refusing) Meter(string, ...api.MeterOption) api.Meter { return refusingMeter{} }

func (refusingMeter) Int64Counter(string, ...api.Int64CounterOption) (api.Int64Counter, error) {
	return nil, errSecret
}

func TestNewTellsOfInstrumentsThatCannotBeMade(t *testing.T) {
	if _, err := telemetry.New(telemetry.WithMeterProvider(refusing{})); !errors.Is(err, errSecret) {
		t.Errorf("got %v, want the provider's error", err)
	}
	if _, err := telemetry.New(telemetry.WithSpans(9)); err == nil || !strings.Contains(err.Error(), "WithSpans(9)") {
		t.Errorf("an unknown choice of spans: got %v", err)
	}
	if _, err := telemetry.New(nil); err == nil || !strings.Contains(err.Error(), "an option is nil") {
		t.Errorf("got %v, want an error that says what is nil", err)
	}
}

// Two offices of one name share a series. The end of one leaves it to the other.
func TestTheEndOfAnEarlierTermIsNotTheEndOfALaterOne(t *testing.T) {
	m := newMeter()
	made := newTelemetry(t, telemetry.WithMeterProvider(m.provider))
	want := func(when, term string) {
		t.Helper()
		if got := m.series(t)["redlatch.leader.term{redlatch.template=shard}"]; got != term {
			t.Errorf("%s: term %s, want %s", when, got, term)
		}
	}
	made.Elected("shard", 7)
	made.Elected("shard", 9)
	made.Resigned("shard", 7, nil)
	want("the earlier one resigned", "9")
	made.TermLost("shard", 9, errSecret)
	want("the later one is lost", "0")
}

func TestOpenCircuitsAreCounted(t *testing.T) {
	m := newMeter()
	made := newTelemetry(t, telemetry.WithMeterProvider(m.provider))
	made.Circuit("10.0.0.2:6379", true)
	for range 2 {
		made.Circuit("10.0.0.1:6379", true)
		made.Circuit("10.0.0.1:6379", false)
	}
	got := m.series(t)
	for series, want := range map[string]string{
		"redlatch.circuit.opens{}":                              "3",
		"redlatch.circuit.count{redlatch.server=10.0.0.1:6379}": "0",
		"redlatch.circuit.count{redlatch.server=10.0.0.2:6379}": "1",
	} {
		if got[series] != want {
			t.Errorf("%s: %s, want %s", series, got[series], want)
		}
	}
}

func TestTheBacklogsOfLockersAddUp(t *testing.T) {
	m := newMeter()
	made := newTelemetry(t, telemetry.WithMeterProvider(m.provider))
	first, second := made.Hooks(), made.Hooks()
	first.Backlog(5)
	second.Backlog(3)
	first.Backlog(2)
	if got := m.series(t)["redlatch.backlog.count{}"]; got != "5" {
		t.Errorf("%s, want 5", got)
	}
}

// The engine may learn modes and reasons before this package does.
func TestModesAndReasonsOfTheFutureAreMeasured(t *testing.T) {
	m := newMeter()
	hooks := newTelemetry(t, telemetry.WithMeterProvider(m.provider)).Hooks()
	e := lock.Event{Key: "k", Name: "n", Mode: 200}
	hooks.Acquired(t.Context(), lock.AcquireEvent{Event: e})
	hooks.Lost(lock.LossEvent{Event: e, Context: t.Context(), Reason: 200})
	got := m.series(t)
	if got["redlatch.losses{redlatch.reason=_OTHER redlatch.template=n}"] != "1" || len(got) != 4 {
		t.Errorf("got %v", got)
	}
}

// What is measured is what the documents say.
func TestDocumentsNameAllValues(t *testing.T) {
	for _, name := range []string{"doc.go", "../../docs/telemetry.md"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, value := range telemetry.Values() {
			if !strings.Contains(string(text), value) {
				t.Errorf("%s does not name %s", name, value)
			}
		}
	}
}
