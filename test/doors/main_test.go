// Package doors_test holds httplock to what it says of the routers it serves.
package doors_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/httplock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 20 * time.Second

func newGuard(t *testing.T, rules ...rule.Rule) *guard.Guard {
	t.Helper()
	locker := lock.New(memstore.New())
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := locker.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	g, err := guard.New(locker, rules...)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range g.Rules() {
		g.Serve("a test", r.Operation)
	}
	return g
}

// hold takes a key in the name of another owner.
func hold(t *testing.T, g *guard.Guard, key string) {
	t.Helper()
	if _, err := g.Locker().TryAcquire(context.Background(), key); err != nil {
		t.Fatal(err)
	}
}

// keyOf is the key that a request runs under.
func keyOf(r *http.Request) string {
	if lease, ok := httplock.From(r); ok {
		return lease.Key()
	}
	return "no lock"
}

// expect sends a request and compares the answer.
func expect(t *testing.T, h http.Handler, method, target string, status int, body string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, target, nil))
	if w.Code != status || body != "" && w.Body.String() != body {
		t.Errorf("%s %s: got %d %s, want %d %s", method, target, w.Code, w.Body, status, body)
	}
}
