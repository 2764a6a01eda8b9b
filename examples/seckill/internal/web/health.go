package web

import (
	"context"
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
	var failed []string
	for _, p := range h.probes {
		if err := p.check(c.Request.Context()); err != nil {
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

var shuttingDown = notReady("DRAINING", "This instance is shutting down.")

func notReady(code, detail string) problem {
	return problem{
		Status: http.StatusServiceUnavailable, Code: code, Title: "Not ready", Detail: detail, Retryable: true,
	}
}
