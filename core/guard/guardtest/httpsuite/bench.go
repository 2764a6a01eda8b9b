package httpsuite

import (
	"net/http"
	"testing"

	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/core/rule"
)

// Benchmark measures what a middleware costs besides the handler alone, on a store
// in memory.
func Benchmark(b *testing.B, f Framework) {
	b.Helper()
	g := guardtest.Guard(b, rule.Rule{Operation: f.operation("POST", "/orders/{id}"), Key: "lock:order:<id>"})
	for _, test := range []struct {
		name     string
		register func(r Router, h http.HandlerFunc)
	}{
		{"handler alone", func(r Router, h http.HandlerFunc) { r.Handle("POST", "/orders/{id}", h) }},
		{"New", func(r Router, h http.HandlerFunc) {
			r.Handle("POST", "/orders/{id}", h, f.layer(b, g, "lock:order:<id>"))
		}},
		{"Rules", func(r Router, h http.HandlerFunc) { f.rules(b, r, "POST", "/orders/{id}", h, g) }},
	} {
		b.Run(test.name, func(b *testing.B) {
			r := f.NewRouter()
			test.register(r, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) })
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
