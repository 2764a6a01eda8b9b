package grafana_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/telemetry"
)

// series is one exported series: its name as queries spell it, and its labels.
type series struct {
	name   string
	labels map[string]string
}

// everything makes telemetry record every outcome of every event there is.
func everything(made *telemetry.Telemetry) {
	ctx, hooks := context.Background(), made.Hooks()
	e := lock.Event{Key: "order:42", Name: "order:<userId>"}
	hooks.Waiting(ctx, e)()
	for _, err := range []error{
		nil, lock.ErrBusy, lock.ErrTooManyWaiters, context.Canceled, lock.ErrUnavailable, lock.ErrLost,
		lock.ErrClosed, lock.ErrUnsupported, lock.ErrInvalid,
	} {
		hooks.Acquired(ctx, lock.AcquireEvent{Event: e, Err: err, Elapsed: time.Millisecond})
	}
	for _, err := range []error{nil, lock.ErrUnavailable} {
		hooks.Released(lock.ReleaseEvent{Event: e, Last: true, Err: err})
	}
	for _, err := range []error{nil, lock.ErrUnavailable, lock.ErrNotHeld} {
		hooks.Renewed(lock.RenewEvent{Event: e, Err: err})
	}
	for _, reason := range []lock.LossReason{lock.LossExpired, lock.LossNotRenewed, lock.LossTaken, lock.LossForced, lock.LossHeldTooLong} {
		hooks.Lost(lock.LossEvent{Event: e, Context: ctx, Reason: reason})
	}
	for _, reason := range []string{"missing", "ambiguous", "too_long", "invalid", "unresolvable"} {
		made.KeyFailed(ctx, e.Name, reason)
	}
	made.Elected("billing", 7)
	made.Circuit("127.0.0.1:6379", true)
	hooks.Backlog(3)
}

// exported is what Prometheus scrapes.
func exported(t *testing.T) []series {
	t.Helper()
	registry := prometheus.NewRegistry()
	reader, err := exporter.New(exporter.WithRegisterer(registry), exporter.WithoutScopeInfo(), exporter.WithoutTargetInfo())
	if err != nil {
		t.Fatal(err)
	}
	made, err := telemetry.New(
		telemetry.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(reader))),
		telemetry.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	everything(made)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var all []series
	for _, family := range families {
		for _, one := range family.GetMetric() {
			labels := map[string]string{}
			for _, pair := range one.GetLabel() {
				labels[pair.GetName()] = pair.GetValue()
			}
			for _, suffix := range suffixes(family.GetType()) {
				with := maps.Clone(labels)
				if suffix == "_bucket" {
					with["le"] = "1"
				}
				all = append(all, series{family.GetName() + suffix, with})
			}
		}
	}
	return all
}

func suffixes(kind dto.MetricType) []string {
	if kind == dto.MetricType_HISTOGRAM {
		return []string{"_bucket", "_sum", "_count"}
	}
	return []string{""}
}

// Users write these names into their own dashboards.
func TestExportedNamesAreExactlyThese(t *testing.T) {
	labels := map[string]map[string]bool{}
	for _, s := range exported(t) {
		if labels[s.name] == nil {
			labels[s.name] = map[string]bool{}
		}
		for name := range s.labels {
			labels[s.name][name] = true
		}
	}
	var got []string
	for name, with := range labels {
		got = append(got, fmt.Sprintf("%s %s", name, strings.Join(slices.Sorted(maps.Keys(with)), " ")))
	}
	slices.Sort(got)
	want := []string{
		"redlatch_acquire_duration_seconds_bucket error_type le redlatch_mode redlatch_outcome redlatch_template",
		"redlatch_acquire_duration_seconds_count error_type redlatch_mode redlatch_outcome redlatch_template",
		"redlatch_acquire_duration_seconds_sum error_type redlatch_mode redlatch_outcome redlatch_template",
		"redlatch_backlog_count ",
		"redlatch_circuit_count redlatch_server",
		"redlatch_circuit_opens_total ",
		"redlatch_held_count redlatch_template",
		"redlatch_hold_duration_seconds_bucket error_type le redlatch_mode redlatch_outcome redlatch_template",
		"redlatch_hold_duration_seconds_count error_type redlatch_mode redlatch_outcome redlatch_template",
		"redlatch_hold_duration_seconds_sum error_type redlatch_mode redlatch_outcome redlatch_template",
		"redlatch_key_failures_total redlatch_reason redlatch_template",
		"redlatch_leader_term redlatch_template",
		"redlatch_losses_total redlatch_reason redlatch_template",
		"redlatch_renewals_total redlatch_outcome",
		"redlatch_waiter_count redlatch_template",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
