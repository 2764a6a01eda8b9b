package web

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// errTooSlow is why a request ended that took as long as it may.
var errTooSlow = errors.New("the request took too long")

// Bound ends each request after d: whatever hangs behind it, it has an answer.
// The stream of a page lasts as long as the page.
func Bound(h http.Handler, d time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == eventsPath {
			h.ServeHTTP(w, r)
			return
		}
		ctx, cancel := context.WithTimeoutCause(r.Context(), d, errTooSlow)
		defer cancel()
		h.ServeHTTP(w, r.WithContext(ctx))
	})
}
