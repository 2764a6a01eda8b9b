package web

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
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

// Health says whether the service should get requests. The zero value is
// ready when its probes are.
type Health struct {
	probes   []Probe
	draining atomic.Bool
}

// NewHealth returns a Health with the given probes.
func NewHealth(probes ...Probe) *Health { return &Health{probes: probes} }

// Drain makes the service not ready, for good.
func (h *Health) Drain() { h.draining.Store(true) }

func live(c *gin.Context) { c.JSON(http.StatusOK, gin.H{"status": "live"}) }

func (h *Health) ready(c *gin.Context) {
	if h.draining.Load() {
		refuse(c, notReady("DRAINING", "This instance is shutting down."))
		return
	}
	ctx, cancel := context.WithTimeout(c.Request.Context(), probeTimeout)
	defer cancel()
	var failed []string
	for _, p := range h.probes {
		if err := p.Check(ctx); err != nil {
			_ = c.Error(fmt.Errorf("%s: %w", p.Name, err))
			failed = append(failed, p.Name)
		}
	}
	if failed != nil {
		refuse(c, notReady("NOT_READY", "No answer from: "+strings.Join(failed, ", ")+"."))
		return
	}
	c.JSON(http.StatusOK, gin.H{"status": "ready"})
}

func notReady(code, detail string) problem {
	return problem{
		Status: http.StatusServiceUnavailable, Code: code, Title: "Not ready", Detail: detail, Retryable: true,
	}
}
