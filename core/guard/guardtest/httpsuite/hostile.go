package httpsuite

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/core/lock"
)

// Fuzz sends hostile requests: paths, queries, headers, cookies, forms and JSON. No
// handler runs without its lock, no key is forged, and nothing panics.
func Fuzz(f *testing.F, framework Framework) {
	f.Helper()
	for _, seed := range [][4]string{
		{"7", "u=1", "sid=1", `{"userId":1}`},
		{"a%2fb", "u=1;u=2", `sid="a b"; sid=2`, `{"userId":1,"USERID":2}`},
		{"%7Bx%7D:%3Cy%3E", "u=%zz&u=", "sid=%00", `{"userId":"\ud800"}`},
		{"..%2f..", "%75=1&u=2", "sid=a,b", `{"userId":9007199254740993}`},
		{"7%0d%0aX: y", "u=a%3Ab%3C", "=", strings.Repeat(`{"userId":`, 99)},
	} {
		f.Add(seed[0], seed[1], seed[2], seed[3])
	}
	g := guardtest.Guard(f)
	r := framework.NewRouter()
	ran, forged := false, error(nil)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ran, forged = true, errNoLock
		if lease, ok := lock.FromContext(r.Context()); ok {
			forged = wellFormed(lease.Key())
		}
		w.WriteHeader(http.StatusCreated)
	})
	const template = "lock:<path.id>:<query.u>:<cookie.sid>:<body.userId>"
	r.Handle("POST", "/o/{id}", handler, framework.layer(f, g, template))
	f.Fuzz(func(t *testing.T, path, query, cookie, body string) {
		request, err := http.NewRequest(http.MethodPost, "/o/"+path+"?"+query, strings.NewReader(body))
		if err != nil || strings.ContainsAny(cookie, "\r\n") {
			return // no client can send it
		}
		request.Header.Set("Content-Type", jsonType)
		request.Header.Set("Cookie", cookie)
		ran, forged = false, nil
		w := httptest.NewRecorder()
		r.ServeHTTP(w, request)
		if forged != nil {
			t.Error(forged)
		}
		if !ran && w.Code < 300 {
			t.Errorf("answered %d without the handler", w.Code)
		}
		if w.Code >= 500 {
			t.Errorf("a request was answered with %d %s", w.Code, w.Body)
		}
	})
}

var errNoLock = errors.New("the handler ran without its lock")

// wellFormed holds a key to the shape of its template: four values, and nothing in
// them that could stand for a separator.
func wellFormed(key string) error {
	parts := strings.Split(key, ":")
	if len(parts) != 5 {
		return fmt.Errorf("%q has %d parts", key, len(parts))
	}
	for _, part := range parts {
		if part == "" || strings.ContainsAny(part, "{}<>/ ") || strings.ContainsFunc(part, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return fmt.Errorf("%q holds what a value must not", key)
		}
	}
	return nil
}
