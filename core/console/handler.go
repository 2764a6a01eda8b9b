package console

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

//go:embed assets
var assets embed.FS

const (
	policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
	// maxRelease is how long the body of a release may be.
	maxRelease = 16 << 10
	// writeTimeout is how long a viewer may take for a message.
	writeTimeout = 10 * time.Second
)

func (c *Console) routes() *http.ServeMux {
	mux := http.NewServeMux()
	for path, file := range map[string]struct{ name, kind string }{
		"GET /{$}":         {"console.html", "text/html; charset=utf-8"},
		"GET /console.js":  {"console.js", "text/javascript; charset=utf-8"},
		"GET /console.css": {"console.css", "text/css; charset=utf-8"},
	} {
		text, err := assets.ReadFile("assets/" + file.name)
		if err != nil {
			panic(err) //nolint:forbidigo // the file is compiled in
		}
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", file.kind)
			_, _ = w.Write(text)
		})
	}
	mux.HandleFunc("GET /events", c.stream)
	mux.HandleFunc("GET /key", c.show)
	mux.HandleFunc("POST /release", c.release)
	return mux
}

// ServeHTTP implements [http.Handler].
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	if _, ok := c.authorize(r); !ok {
		http.Error(w, "the console is not open to you", http.StatusForbidden)
		return
	}
	if err := c.origin.Check(r); err != nil {
		http.Error(w, "a request of another site", http.StatusForbidden)
		return
	}
	c.mux.ServeHTTP(w, r)
}

// stream sends each look, until the viewer goes, is no longer authorized, or the console
// closes.
func (c *Console) stream(w http.ResponseWriter, r *http.Request) {
	v, ok := c.join()
	if !ok {
		http.Error(w, "the console is closed", http.StatusServiceUnavailable)
		return
	}
	defer c.leave(v)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	control := http.NewResponseController(w)
	send := func(format string, args ...any) bool {
		_ = control.SetWriteDeadline(time.Now().Add(writeTimeout)) // not every writer has one
		_, err := fmt.Fprintf(w, format, args...)
		return err == nil && control.Flush() == nil
	}
	if !send("retry: %d\n\n", c.every.Milliseconds()) {
		return
	}
	for {
		select {
		case look := <-v.next:
			if _, ok := c.authorize(r); !ok || !send("data: %s\n\n", look) {
				return
			}
		case <-r.Context().Done():
			return
		case <-c.ctx.Done():
			return
		}
	}
}

func (c *Console) show(w http.ResponseWriter, r *http.Request) {
	d, err := c.detail(r.Context(), r.URL.Query().Get("key"))
	if err != nil {
		fail(w, err)
		return
	}
	answer(w, http.StatusOK, d)
}

// release takes a lock away. The key must have been typed.
func (c *Console) release(w http.ResponseWriter, r *http.Request) {
	if c.permit == nil {
		http.Error(w, "the console is read-only", http.StatusForbidden)
		return
	}
	operator, _ := c.authorize(r)
	var body struct{ Key, Typed, Reason string }
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRelease))
	switch {
	case r.Header.Get("Content-Type") != "application/json", decoder.Decode(&body) != nil, body.Key == "", body.Reason == "":
		http.Error(w, "want a key and a reason, as JSON", http.StatusBadRequest)
		return
	case body.Typed != body.Key:
		http.Error(w, "the key was not typed", http.StatusBadRequest)
		return
	}
	d, err := c.detail(r.Context(), body.Key)
	if err != nil {
		fail(w, err)
		return
	}
	taken := Release{Key: body.Key, Operator: operator, Reason: body.Reason}
	for _, row := range d.Rows {
		taken.From = append(taken.From, row.Owner+" "+row.Holder)
	}
	if err := c.permit(r.Context(), taken); err != nil {
		http.Error(w, "you may not release it", http.StatusForbidden)
		return
	}
	freed, err := c.locker.ForceRelease(r.Context(), body.Key)
	if err != nil {
		fail(w, err)
		return
	}
	if freed {
		c.recorder.note(body.Key, event{Kind: "forced", Reason: body.Reason, Who: operator})
	}
	answer(w, http.StatusOK, map[string]bool{"freed": freed})
}

func answer(w http.ResponseWriter, status int, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		http.Error(w, "no JSON", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(text)
}

// fail says of which class an error is, and nothing that the store said.
func fail(w http.ResponseWriter, err error) {
	switch {
	case errors.Is(err, lock.ErrInvalid):
		http.Error(w, "no such lock", http.StatusBadRequest)
	case errors.Is(err, lock.ErrUnavailable), errors.Is(err, lock.ErrClosed):
		http.Error(w, "the store is away: "+lock.ClassOf(err), http.StatusServiceUnavailable)
	default:
		http.Error(w, "it failed", http.StatusInternalServerError)
	}
}
