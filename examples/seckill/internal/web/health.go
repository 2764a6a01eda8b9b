package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/redlatch/redlatch/examples/seckill/internal/shared"
)

// probeTimeout bounds one probe of readiness.
const probeTimeout = 2 * time.Second

// Probe is something the service can't do without.
type Probe struct {
	Name  string
	Check func(context.Context) error
}

// check gives each probe its own time: one that hangs says nothing about the next.
func (p Probe) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	return p.Check(ctx)
}

// probeEvery is how far apart two probes are, however many look at the health.
const probeEvery = time.Second

// Health says whether the service should get requests.
type Health struct {
	drained chan struct{}
	drain   func()
	looks   *shared.Looks[away]
}

// away is what doesn't answer.
type away struct {
	names []string
	err   error // what the probes say, for operators
}

// NewHealth returns a Health that is ready when its probes are. They are called at most
// once a second.
func NewHealth(probes ...Probe) *Health {
	drained := make(chan struct{})
	return &Health{
		drained: drained,
		drain:   sync.OnceFunc(func() { close(drained) }),
		looks: shared.NewLooks(probeEvery, func(ctx context.Context, _ string) (away, error) {
			return probe(ctx, probes), nil
		}),
	}
}

// probe calls all probes at once.
func probe(ctx context.Context, probes []Probe) (a away) {
	errs := make([]error, len(probes))
	var running sync.WaitGroup
	for i, p := range probes {
		running.Go(func() { errs[i] = p.check(ctx) })
	}
	running.Wait()
	for i, err := range errs {
		if err != nil {
			a.names = append(a.names, probes[i].Name)
			a.err = errors.Join(a.err, fmt.Errorf("%s: %w", probes[i].Name, err))
		}
	}
	return a
}

// Drain makes the service not ready, for good, and ends the streams of pages.
func (h *Health) Drain() { h.drain() }

// Drained is closed by the drain.
func (h *Health) Drained() <-chan struct{} { return h.drained }

var errDraining = errors.New("the service is shutting down")

// Ready returns nil if the service should get requests. Otherwise the error is for
// operators: it has what the probes say.
func (h *Health) Ready(ctx context.Context) error {
	if h.draining() {
		return errDraining
	}
	a, err := h.away(ctx)
	if err == nil {
		err = a.err
	}
	return err
}

// away is what didn't answer at most a second ago. The error is that of ctx.
func (h *Health) away(ctx context.Context) (away, error) {
	a, _, err := h.looks.Get(ctx, "", probeEvery)
	return a, err
}

func (h *Health) draining() bool {
	select {
	case <-h.drained:
		return true
	default:
		return false
	}
}

func live(c *gin.Context) { c.JSON(http.StatusOK, gin.H{"status": "live"}) }

func (h *Health) ready(c *gin.Context) {
	if h.draining() {
		refuse(c, shuttingDown)
		return
	}
	a, err := h.away(c.Request.Context())
	if err != nil {
		fail(c, err)
		return
	}
	if a.err != nil {
		_ = c.Error(a.err)
		refuse(c, notReady("NOT_READY", "No answer from: "+strings.Join(a.names, ", ")+"."))
		return
	}
	c.JSON(http.StatusOK, gin.H{"status": "ready"})
}

var shuttingDown = notReady("DRAINING", "This instance is shutting down.")

func notReady(code, detail string) problem {
	return problem{
		Status: http.StatusServiceUnavailable, Code: code, Title: "Not ready", Detail: detail, Retryable: true,
	}
}
