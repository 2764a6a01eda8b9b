package guardtest_test

import (
	"net/http"
	"testing"

	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/httplock"
)

// A test of a handler makes its lock busy.
func Example() {
	_ = func(t *testing.T) { //nolint:thelper // this is TestABusyOrder
		g := guardtest.Guard(t)
		mux := http.NewServeMux()
		mux.Handle("POST /orders/{id}", httplock.New(g, "lock:order:<path.id>")(http.NotFoundHandler()))

		guardtest.Hold(t, g, "lock:order:7")
		w := guardtest.Send(mux, http.MethodPost, "/orders/7", "")
		if w.Code != http.StatusConflict || guardtest.Code(t, w) != "LOCK_CONTENDED" {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	}
}
