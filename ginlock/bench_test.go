package ginlock_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/ginlock"
)

// BenchmarkRequest is what the middleware costs beside the handler alone, on
// a store that costs nothing.
func BenchmarkRequest(b *testing.B) {
	g := newGuard(b, rule.Rule{Operation: "POST /orders/:id", Key: "lock:order:<id>"})
	for name, middleware := range map[string][]gin.HandlerFunc{
		"handler alone": nil,
		"New":           {ginlock.New(g, "lock:order:<id>")},
		"Rules":         {ginlock.Rules(g)},
	} {
		b.Run(name, func(b *testing.B) {
			r := gin.New()
			r.POST("/orders/:id", append(middleware, func(c *gin.Context) { c.Status(http.StatusCreated) })...)
			request := httptest.NewRequest(http.MethodPost, "/orders/42", nil)
			b.ReportAllocs()
			for b.Loop() {
				w := httptest.NewRecorder()
				r.ServeHTTP(w, request)
				if w.Code != http.StatusCreated {
					b.Fatal(w.Code)
				}
			}
		})
	}
}
