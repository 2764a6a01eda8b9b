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

// Health says whether the service should get requests.
type Health struct {
	probes  []Probe
	drained chan struct{}
	drain   func()
}

// NewHealth returns a Health that is ready when its probes are.
func NewHealth(probes ...Probe) *Health {
	drained := make(chan struct{})
	return &Health{probes, drained, sync.OnceFunc(func() { close(drained) })}
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
	_, err := h.check(ctx)
	return err
}

// check returns the names of the probes that fail, and their errors.
func (h *Health) check(ctx context.Context) (failed []string, err error) {
	var errs []error
	for _, p := range h.probes {
		if err := p.check(ctx); err != nil {
			failed = append(failed, p.Name)
			errs = append(errs, fmt.Errorf("%s: %w", p.Name, err))
		}
	}
	return failed, errors.Join(errs...)
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
	if failed, err := h.check(c.Request.Context()); err != nil {
		_ = c.Error(err)
		refuse(c, notReady("NOT_READY", "No answer from: "+strings.Join(failed, ", ")+"."))
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
