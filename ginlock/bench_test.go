package ginlock_test

import (
	"net/http"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/ginlock"
)

// BenchmarkRequest is what the middleware costs beside the handler alone, on
// a store in memory.
func BenchmarkRequest(b *testing.B) {
	g := guardtest.Guard(b, rule.Rule{Operation: "POST /orders/:id", Key: "lock:order:<id>"})
	for _, test := range []struct {
		name  string
		chain []gin.HandlerFunc
	}{
		{"handler alone", nil},
		{"New", []gin.HandlerFunc{ginlock.New(g, "lock:order:<id>")}},
		{"Rules", []gin.HandlerFunc{ginlock.Rules(g)}},
	} {
		b.Run(test.name, func(b *testing.B) {
			r := gin.New()
			r.POST("/orders/:id", append(test.chain, func(c *gin.Context) { c.Status(http.StatusCreated) })...)
			request, err := http.NewRequestWithContext(b.Context(), http.MethodPost, "/orders/42", nil)
			if err != nil {
				b.Fatal(err)
			}
			w := &status{header: http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				w.code = 0
				r.ServeHTTP(w, request)
				if w.code != http.StatusCreated {
					b.Fatal(w.code)
				}
			}
		})
	}
}

// status is a writer that keeps the status.
type status struct {
	header http.Header
	code   int
}

func (w *status) Header() http.Header         { return w.header }
func (w *status) Write(p []byte) (int, error) { return len(p), nil }
func (w *status) WriteHeader(code int)        { w.code = code }
