package httpguard_test

import (
	"net/http"
	"testing"

	"github.com/redlatch/redlatch/core/guard/httpguard"
)

func TestADraftIsAnAnswerOnceItHasBegun(t *testing.T) {
	for name, test := range map[string]struct {
		write  func(w http.ResponseWriter)
		status int
		body   string
	}{
		"nothing":           {func(http.ResponseWriter) {}, 0, ""},
		"a header":          {func(w http.ResponseWriter) { w.Header().Set("X", "1") }, 0, ""},
		"an early status":   {func(w http.ResponseWriter) { w.WriteHeader(http.StatusEarlyHints) }, 0, ""},
		"a status":          {func(w http.ResponseWriter) { w.WriteHeader(http.StatusLocked) }, http.StatusLocked, ""},
		"two statuses":      {func(w http.ResponseWriter) { w.WriteHeader(409); w.WriteHeader(200) }, 409, ""},
		"a body":            {func(w http.ResponseWriter) { _, _ = w.Write([]byte("a")); _, _ = w.Write([]byte("b")) }, 200, "ab"},
		"a status and body": {func(w http.ResponseWriter) { w.WriteHeader(409); _, _ = w.Write([]byte("a")) }, 409, "a"},
		"flushed":           {func(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }, 200, ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := httpguard.NewDraft(http.Header{})
			test.write(d)
			if status, body := d.Answer(); status != test.status || string(body) != test.body {
				t.Errorf("got %d %q", status, body)
			}
		})
	}
}
