package httplock_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/httplock"
)

func TestProblemStatuses(t *testing.T) {
	secret := errors.New("secret")
	for kind, want := range map[guard.Kind]struct {
		status     int
		retryAfter string
	}{
		guard.Contended:   {409, "1"},
		guard.Overloaded:  {429, "1"},
		guard.BadKey:      {400, ""},
		guard.Unavailable: {503, "1"},
		guard.Canceled:    {499, ""},
		guard.Lost:        {500, ""},
		guard.Skipped:     {204, ""},
		guard.Invalid:     {500, ""},
	} {
		t.Run(kind.String(), func(t *testing.T) {
			w := httptest.NewRecorder()
			httplock.Problem(w, httptest.NewRequest("POST", "/a%20b?secret=1", nil), &guard.Error{Kind: kind, Err: secret})
			if w.Code != want.status || w.Header().Get("Retry-After") != want.retryAfter || strings.Contains(w.Body.String(), "secret") {
				t.Errorf("got %d %v %s", w.Code, w.Header(), w.Body)
			}
			if w.Body.Len() == 0 {
				return
			}
			if w.Header().Get("Content-Type") != "application/problem+json" || guardtest.Code(t, w) != kind.Code() ||
				!strings.Contains(w.Body.String(), `"instance":"/a%20b"`) {
				t.Errorf("got %v %s", w.Header(), w.Body)
			}
		})
	}
}

func TestAnswersAreOptions(t *testing.T) {
	g := guardtest.Guard(t)
	lease := guardtest.Hold(t, g, "lock:alice")
	mux := on("POST /{user}", runs(t), httplock.New(g, "lock:<user>", httplock.WithContentionStatus(429), httplock.WithRetryAfter(1001*time.Millisecond)))
	w := guardtest.Send(mux, "POST", "/alice", "")
	if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "2" || !strings.Contains(w.Body.String(), `"status":429`) {
		t.Errorf("got %d %v %s", w.Code, w.Header(), w.Body)
	}
	for _, secret := range []string{"lock:", lease.Owner()} {
		if strings.Contains(w.Body.String(), secret) {
			t.Errorf("%q is in %s", secret, w.Body)
		}
	}
	broken := guard.Must(guard.New(guardtest.Locker(t, guardtest.Broken{Store: memstore.New()})))
	w = guardtest.Send(on("POST /{user}", runs(t), httplock.New(broken, "lock:<user>", httplock.WithRetryAfter(7*time.Second))), "POST", "/alice", "")
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "7" || strings.Contains(w.Body.String(), "NOAUTH") {
		t.Errorf("got %d %v %s", w.Code, w.Header(), w.Body)
	}
}
