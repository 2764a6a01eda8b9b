package telemetry

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/redlatch/redlatch/core/lock"
)

// buckets are fine where a free lock is granted, and reach to where callers
// have given up.
var buckets = []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}

// instruments are all that is measured.
type instruments struct {
	acquireDuration metric.Float64Histogram
	holdDuration    metric.Float64Histogram
	waiters         metric.Int64UpDownCounter
	held            metric.Int64UpDownCounter
	renewals        metric.Int64Counter
	losses          metric.Int64Counter
	keyFailures     metric.Int64Counter
	opens           metric.Int64Counter
	circuits        metric.Int64UpDownCounter
	backlog         metric.Int64UpDownCounter
	terms           metric.Int64Gauge
}

func newInstruments(meter metric.Meter) (*instruments, error) {
	var i instruments
	var errs [11]error
	i.acquireDuration, errs[0] = meter.Float64Histogram("redlatch.acquire.duration", metric.WithUnit("s"),
		metric.WithDescription("Time to acquire a lock, or to learn that it cannot be had."),
		metric.WithExplicitBucketBoundaries(buckets...))
	i.holdDuration, errs[1] = meter.Float64Histogram("redlatch.hold.duration", metric.WithUnit("s"),
		metric.WithDescription("Time for which locks were held."),
		metric.WithExplicitBucketBoundaries(buckets...))
	i.waiters, errs[2] = meter.Int64UpDownCounter("redlatch.waiter.count", metric.WithUnit("{waiter}"),
		metric.WithDescription("Acquisitions that wait for another owner."))
	i.held, errs[3] = meter.Int64UpDownCounter("redlatch.held.count", metric.WithUnit("{lock}"),
		metric.WithDescription("Locks that are held."))
	i.renewals, errs[4] = meter.Int64Counter("redlatch.renewals", metric.WithUnit("{renewal}"),
		metric.WithDescription("Renewals of held locks by the watchdog."))
	i.losses, errs[5] = meter.Int64Counter("redlatch.losses", metric.WithUnit("{lock}"),
		metric.WithDescription("Locks that were lost while they were held."))
	i.keyFailures, errs[6] = meter.Int64Counter("redlatch.key.failures", metric.WithUnit("{failure}"),
		metric.WithDescription("Operations refused because the key of their lock could not be made."))
	i.opens, errs[7] = meter.Int64Counter("redlatch.circuit.opens", metric.WithUnit("{opening}"),
		metric.WithDescription("Times at which a server that does not answer was left alone."))
	i.circuits, errs[8] = meter.Int64UpDownCounter("redlatch.circuit.count", metric.WithUnit("{circuit}"),
		metric.WithDescription("Circuits that are open: servers that do not answer, and get no acquisitions."))
	i.backlog, errs[9] = meter.Int64UpDownCounter("redlatch.backlog.count", metric.WithUnit("{call}"),
		metric.WithDescription("Unanswered calls whose traces in the store are to be removed."))
	i.terms, errs[10] = meter.Int64Gauge("redlatch.leader.term", metric.WithUnit("{term}"),
		metric.WithDescription("Term of the leader in this process, 0 where there is none."))
	return &i, errors.Join(errs[:]...)
}

// ended records the end of a hold.
func (i *instruments) ended(ctx context.Context, s *series, e lock.Event, end end, held time.Duration) {
	i.held.Add(ctx, -1, s.named...)
	i.holdDuration.Record(ctx, held.Seconds(), s.of(e.Mode).held[end]...)
}
