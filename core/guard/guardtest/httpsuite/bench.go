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

// Allocations fails if a middleware allocates more than most times for a request,
// besides what the lock itself does when it is taken by hand, and the handler.
func Allocations(t *testing.T, f Framework, most float64) {
	t.Helper()
	g := guardtest.Guard(t, rule.Rule{Operation: f.operation("POST", "/orders/{id}"), Key: "lock:order:<id>"})
	byHand := func(w http.ResponseWriter, r *http.Request) {
		lease, err := g.Locker().TryAcquire(r.Context(), "lock:order:42")
		if err != nil {
			t.Fatal(err)
		}
		_ = lease.Context() // as the handler behind a middleware needs it
		w.WriteHeader(http.StatusCreated)
		_ = lease.Release(r.Context())
	}
	bare := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) }
	own := f.NewRouter()
	own.Handle("POST", "/orders/{id}", http.HandlerFunc(bare), f.layer(t, g, "lock:order:<id>"))
	ruled := f.NewRouter()
	f.rules(t, ruled, "POST", "/orders/{id}", bare, g)
	base := allocations(t, f.on("POST", "/orders/{id}", byHand))
	for name, r := range map[string]Router{"New": own, "Rules": ruled} {
		if got := allocations(t, r) - base; got > most+guardtest.Forgotten {
			t.Errorf("%s allocates %v times for a request besides its lock, want at most %v", name, got, most)
		}
	}
}

func allocations(t *testing.T, r Router) float64 {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "/orders/42", nil)
	if err != nil {
		t.Fatal(err)
	}
	w := &status{header: http.Header{}}
	return testing.AllocsPerRun(500, func() {
		w.code = 0
		if r.ServeHTTP(w, request); w.code != http.StatusCreated {
			t.Fatal(w.code)
		}
	})
}

// status is a writer that keeps the status.
type status struct {
	header http.Header
	code   int
}

func (w *status) Header() http.Header         { return w.header }
func (w *status) Write(p []byte) (int, error) { return len(p), nil }
func (w *status) WriteHeader(code int)        { w.code = code }
