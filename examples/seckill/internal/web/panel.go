package web

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/redlatch/redlatch/examples/seckill/internal/shared"
	"github.com/redlatch/redlatch/examples/seckill/internal/voucher"
)

// panel reads what the page shows: the sale from the database, which all
// instances share, and everything else from the metrics of this instance.
type panel struct {
	sale    voucher.Sale
	metrics prometheus.Gatherer
	health  *Health
	events  *shared.Looks[[]byte] // by the voucher that a page asks for
}

func newPanel(sale voucher.Sale, m *Metrics, health *Health) *panel {
	p := &panel{sale: sale, metrics: m.registry, health: health}
	p.events = shared.NewLooks(voucher.LookEvery, p.event)
	return p
}

// missing is what doesn't answer, as the probes see it.
func (p *panel) missing(ctx context.Context) []string {
	a, err := p.health.away(ctx)
	if err != nil || a.names == nil {
		return []string{}
	}
	return a.names
}

// state is what the page shows at one moment.
type state struct {
	// Away are the names of what doesn't answer: the database, the lock store.
	Away     []string      `json:"away"`
	Vouchers []voucherBody `json:"vouchers"`
	// Voucher is the one that the page follows; nil if there is none.
	Voucher *voucherBody `json:"voucher"`
	Report  *reportBody  `json:"report"`
	Locks   []lockState  `json:"locks"`
	// Answers counts requests to order, by outcome.
	Answers map[string]uint64 `json:"answers"`
	Latency latency           `json:"latency"`
}

// lockState is what happens to the locks of one template.
type lockState struct {
	Template string `json:"template"`
	Waiting  int64  `json:"waiting"`
	Held     int64  `json:"held"`
	Granted  uint64 `json:"granted"`
	Refused  uint64 `json:"refused"`
}

// latency is how long requests to order took lately, in milliseconds; nil
// when there were none.
type latency struct {
	P50 *float64 `json:"p50"`
	P99 *float64 `json:"p99"`
}

// seenFor is how old an event may be, and the look at the database in it.
const seenFor = 250 * time.Millisecond

// look reads the state. The page follows the voucher with the id, however many are
// newer. Without an id, or with one that nothing has, it follows the newest.
func (p *panel) look(ctx context.Context, id string) (*state, error) {
	families, err := p.metrics.Gather()
	if err != nil {
		return nil, err
	}
	s := &state{Away: p.missing(ctx), Locks: locksOf(families), Answers: answersOf(families), Latency: latencyOf(families)}
	vouchers, _, err := p.sale.Newest(ctx, seenFor)
	if err != nil {
		return nil, err
	}
	followed := slices.IndexFunc(vouchers, func(v voucher.Voucher) bool { return v.ID == id })
	if followed < 0 && id != "" {
		switch v, _, err := p.sale.Look(ctx, id, seenFor); {
		case err == nil:
			followed = len(vouchers)
			vouchers = append(slices.Clone(vouchers), v)
		case !errors.Is(err, voucher.ErrVoucherNotFound):
			return nil, err
		}
	}
	followed = max(0, followed)
	s.Vouchers = make([]voucherBody, len(vouchers))
	for i, v := range vouchers {
		s.Vouchers[i] = voucherOf(v)
	}
	if len(vouchers) == 0 {
		return s, nil
	}
	body := reportOf(vouchers[followed].Report())
	s.Voucher, s.Report = &s.Vouchers[followed], &body
	return s, nil
}

// seriesOf returns the series of a metric.
func seriesOf(families []*dto.MetricFamily, name string) []*dto.Metric {
	for _, family := range families {
		if family.GetName() == name {
			return family.GetMetric()
		}
	}
	return nil
}

func label(m *dto.Metric, name string) string {
	for _, pair := range m.GetLabel() {
		if pair.GetName() == name {
			return pair.GetValue()
		}
	}
	return ""
}

// locksOf returns the locks by template, as docs/telemetry.md names their
// metrics in Prometheus.
func locksOf(families []*dto.MetricFamily) []lockState {
	locks := []lockState{}
	of := func(m *dto.Metric) *lockState {
		template := label(m, "redlatch_template")
		i, found := slices.BinarySearchFunc(locks, template, func(l lockState, template string) int {
			return strings.Compare(l.Template, template)
		})
		if !found {
			locks = slices.Insert(locks, i, lockState{Template: template})
		}
		return &locks[i]
	}
	for _, m := range seriesOf(families, "redlatch_waiter_count") {
		of(m).Waiting = int64(m.GetGauge().GetValue())
	}
	for _, m := range seriesOf(families, "redlatch_held_count") {
		of(m).Held = int64(m.GetGauge().GetValue())
	}
	for _, m := range seriesOf(families, "redlatch_acquire_duration_seconds") {
		count := m.GetHistogram().GetSampleCount()
		if label(m, "redlatch_outcome") == "acquired" {
			of(m).Granted += count
		} else {
			of(m).Refused += count
		}
	}
	return locks
}

func answersOf(families []*dto.MetricFamily) map[string]uint64 {
	answers := make(map[string]uint64)
	for _, m := range seriesOf(families, orderRequests) {
		answers[label(m, "outcome")] = uint64(m.GetCounter().GetValue())
	}
	return answers
}

func latencyOf(families []*dto.MetricFamily) (l latency) {
	for _, m := range seriesOf(families, orderDuration) {
		for _, q := range m.GetSummary().GetQuantile() {
			if math.IsNaN(q.GetValue()) {
				continue
			}
			ms := q.GetValue() * 1000
			if q.GetQuantile() == .5 {
				l.P50 = &ms
			} else {
				l.P99 = &ms
			}
		}
	}
	return l
}
