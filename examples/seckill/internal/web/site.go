// Package web is the service over HTTP: routes, problem documents, health,
// metrics and the live page.
package web

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"runtime/debug"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/redlatch/redlatch/examples/seckill/internal/voucher"
)

type site struct {
	sale    voucher.Sale
	lock    OrderLock
	health  *Health
	log     *slog.Logger
	panel   *panel
	viewers chan struct{} // one for each stream
	stage   *Stage        // nil if there is none
}

// NewHandler returns the service's routes. Without a stage, which is nil, the page shows the
// sale alone.
func NewHandler(sale voucher.Sale, lock OrderLock, health *Health, m *Metrics, log *slog.Logger, stage *Stage) http.Handler {
	gin.SetMode(gin.ReleaseMode)
	s := &site{sale, lock, health, log, newPanel(sale, m, health), make(chan struct{}, maxViewers), stage}
	engine := gin.New()
	engine.HandleMethodNotAllowed = true
	engine.RedirectTrailingSlash = false
	engine.Use(unsniffed, m.observe, s.logErrors, gin.CustomRecoveryWithWriter(nil, s.recovered), sameOrigin())
	engine.NoRoute(func(c *gin.Context) {
		refuse(c, problem{
			Status: http.StatusNotFound, Code: "NOT_FOUND", Title: "Not found",
			Detail: "There is nothing at this address.",
		})
	})
	engine.NoMethod(func(c *gin.Context) {
		refuse(c, problem{
			Status: http.StatusMethodNotAllowed, Code: "METHOD_NOT_ALLOWED", Title: "Method not allowed",
			Detail: "This address does not take " + c.Request.Method + " requests.",
		})
	})

	page := engine.Group("/", revalidated)
	page.GET("/", s.showPage)
	for _, file := range []string{"page.css", "page.js", "stage.js", "uplot/uplot.js", "uplot/uplot.css", "uplot/LICENSE"} {
		page.StaticFileFS("/"+file, "page/"+file, http.FS(pageFiles))
	}
	if stage != nil {
		engine.Any(StagePath+"*path", fresh, gin.WrapH(stage.Handler))
	}
	engine.GET(eventsPath, fresh, s.events)
	engine.GET("/healthz", live)
	engine.GET("/readyz", health.ready)
	engine.GET("/metrics", m.handler())

	api := engine.Group("/api", fresh)
	api.POST("/vouchers/:id/orders", patient, m.countOrder, whole, authenticate, lock.enter(engine), s.placeOrder)
	api.Use(whole)
	api.POST("/vouchers", s.createVoucher)
	api.GET("/vouchers", s.vouchers)
	api.GET("/vouchers/:id", s.voucher)
	api.GET("/vouchers/:id/report", s.report)
	api.GET("/vouchers/:id/count", s.count)
	api.GET("/vouchers/:id/orders", s.orders)
	api.GET("/orders/:id", s.order)
	api.DELETE("/orders/:id", patient, authenticate, s.cancelOrder)
	return engine
}

// whole reads the body before anything is done for the request: what is too large, or
// doesn't come, takes no lock and no connection of the database. The server's ReadTimeout
// bounds it.
func whole(c *gin.Context) {
	var large *http.MaxBytesError
	text, err := io.ReadAll(http.MaxBytesReader(c.Writer, c.Request.Body, maxBody))
	switch {
	case err == nil:
		c.Request.Body = io.NopCloser(bytes.NewReader(text))
	case errors.As(err, &large):
		refuse(c, bodyTooLarge)
	case errors.Is(err, os.ErrDeadlineExceeded):
		refuse(c, bodyTooSlow)
	case errors.Is(err, io.ErrUnexpectedEOF):
		refuseFaults(c, fault{"body", "ends too early"})
	default: // the connection broke
		_ = c.Error(err)
		c.Abort()
		c.Status(statusClientClosed)
	}
}

// patient lets a request wait for its lock for as long as its rule allows: the time to
// write the answer begins when there is one.
func patient(c *gin.Context) {
	stream := http.NewResponseController(c.Writer)
	_ = stream.SetWriteDeadline(time.Time{}) // an error means that the writer has no deadlines
	defer func() { _ = stream.SetWriteDeadline(time.Now().Add(writeTimeout)) }()
	c.Next()
}

// unsniffed keeps browsers from taking an answer for what it isn't.
func unsniffed(c *gin.Context) { c.Header("X-Content-Type-Options", "nosniff") }

// fresh keeps caches from answering: everything here changes by the
// millisecond.
func fresh(c *gin.Context) { c.Header("Cache-Control", "no-store") }

// revalidated has caches look for a newer page each time.
func revalidated(c *gin.Context) { c.Header("Cache-Control", "no-cache") }

// sameOrigin refuses what browsers send for the pages of other sites, unless it
// only reads. Clients that aren't browsers pass.
func sameOrigin() gin.HandlerFunc {
	protection := http.NewCrossOriginProtection()
	return func(c *gin.Context) {
		if protection.Check(c.Request) != nil {
			refuse(c, crossOrigin)
		}
	}
}

// logErrors logs what clients don't see.
func (s *site) logErrors(c *gin.Context) {
	c.Next()
	for _, e := range c.Errors {
		s.log.WarnContext(c.Request.Context(), "request failed",
			"method", c.Request.Method, "route", c.FullPath(), "status", c.Writer.Status(), "err", e.Err)
	}
}

// recovered answers a panic, unless an answer was begun.
func (s *site) recovered(c *gin.Context, cause any) {
	s.log.ErrorContext(c.Request.Context(), "handler panicked", "route", c.FullPath(), "cause", cause, "stack", string(debug.Stack()))
	if c.Writer.Written() {
		c.Abort()
		return
	}
	refuse(c, internal)
}
