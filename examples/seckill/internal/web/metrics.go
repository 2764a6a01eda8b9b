package web

import (
	"net/http"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// codeKey is where a refusal leaves its code for the metrics.
const codeKey = "seckill.code"

// Metrics of the service that the page shows.
const (
	orderRequests = "seckill_order_requests_total"
	orderDuration = "seckill_order_duration_seconds"
)

// Metrics are those of the service, for HTTP and gRPC.
type Metrics struct {
	registry *prometheus.Registry // the service and its locks
	process  *prometheus.Registry // the process and the Go runtime
	requests *prometheus.HistogramVec
	orders   *prometheus.CounterVec
	took     prometheus.Summary
}

// NewMetrics returns metrics in a new registry.
func NewMetrics() *Metrics {
	registry, process := prometheus.NewRegistry(), prometheus.NewRegistry()
	process.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	factory := promauto.With(registry)
	return &Metrics{
		registry: registry,
		process:  process,
		requests: factory.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "seckill_http_request_duration_seconds",
			Help:    "Time to answer, by route and status.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 14),
		}, []string{"method", "route", "status"}),
		orders: factory.NewCounterVec(prometheus.CounterOpts{
			Name: orderRequests,
			Help: "Requests to order, by outcome: placed, or the code of the refusal.",
		}, []string{"outcome"}),
		took: factory.NewSummary(prometheus.SummaryOpts{
			Name:       orderDuration,
			Help:       "Time to answer requests to order, over HTTP and gRPC, in the last 30 s.",
			Objectives: map[float64]float64{.5: .01, .99: .001},
			MaxAge:     30 * time.Second,
			AgeBuckets: 3,
		}),
	}
}

// Registerer takes metrics of others, to be shown with those of the service.
func (m *Metrics) Registerer() prometheus.Registerer { return m.registry }

func (m *Metrics) handler() gin.HandlerFunc {
	all := prometheus.Gatherers{m.registry, m.process}
	return gin.WrapH(promhttp.HandlerFor(all, promhttp.HandlerOpts{Registry: m.registry}))
}

// observe measures the requests behind it. The route, not the path, is the
// label: clients make up paths.
func (m *Metrics) observe(c *gin.Context) {
	start := time.Now()
	defer func() {
		route := c.FullPath()
		if route == "" {
			route = "none"
		}
		m.requests.WithLabelValues(methodOf(c), route, strconv.Itoa(c.Writer.Status())).
			Observe(time.Since(start).Seconds())
	}()
	c.Next()
}

// countOrder counts what becomes of requests to order, and times them.
func (m *Metrics) countOrder(c *gin.Context) {
	start := time.Now()
	outcome := internal.Code // of a panic, which is answered further out
	defer func() { m.Ordered(outcome, time.Since(start)) }()
	c.Next()
	outcome = c.GetString(codeKey)
	switch {
	case c.Writer.Status() == http.StatusCreated:
		outcome = "placed"
	case outcome == "":
		outcome = "CANCELED" // the client has gone
	}
}

// Ordered counts a request to order that took so long: "placed", or the code of its refusal.
func (m *Metrics) Ordered(outcome string, took time.Duration) {
	m.orders.WithLabelValues(outcome).Inc()
	m.took.Observe(took.Seconds())
}

// methodOf keeps methods that clients make up out of the labels.
func methodOf(c *gin.Context) string {
	if c.FullPath() == "" {
		return "any"
	}
	return c.Request.Method
}
