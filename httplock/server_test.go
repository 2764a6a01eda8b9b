package httplock_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/core/guard/httpguard"
	"github.com/redlatch/redlatch/httplock"
)

// exchange sends a request over a real connection and reads its answer.
func exchange(t *testing.T, server *httptest.Server, path string) (status int, header http.Header, body string) {
	t.Helper()
	response, err := server.Client().Post(server.URL+path, "text/plain", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Errorf("the answer breaks off: %v", err)
	}
	return response.StatusCode, response.Header, string(text)
}

// ending is a middleware that signals the end of a request.
func ending(done chan<- struct{}) middleware {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer close(done)
			next.ServeHTTP(w, r)
		})
	}
}

func TestAbortedHandlerBreaksTheConnectionAndReleasesTheLock(t *testing.T) {
	g := guardtest.Guard(t)
	done := make(chan struct{})
	server := httptest.NewServer(on("POST /{id}", func(w http.ResponseWriter, _ *http.Request) {
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}, ending(done), httplock.New(g, "lock:<id>")))
	defer server.Close()
	response, err := server.Client().Post(server.URL+"/1", "text/plain", nil)
	if err == nil {
		_, err = io.ReadAll(response.Body)
		_ = response.Body.Close()
	}
	if err == nil {
		t.Error("the answer is complete")
	}
	guardtest.Receive(t, done, "the end of the handler")
	if guardtest.IsHeld(t, g, "lock:1") {
		t.Error("still held")
	}
}

func TestWriterCanWhatTheOneBeforeItCan(t *testing.T) {
	type can struct{ flush, hijack, deadlines bool }
	for name, test := range map[string]struct {
		http2  bool
		around middleware
		want   can
	}{
		"HTTP/1":                    {false, nil, can{true, true, true}},
		"HTTP/2":                    {true, nil, can{true, false, true}},
		"behind one that unwraps":   {false, wrapped(func(w http.ResponseWriter) http.ResponseWriter { return unwrapping{w} }), can{true, true, true}},
		"behind one that hides all": {false, wrapped(func(w http.ResponseWriter) http.ResponseWriter { return hiding{w} }), can{}},
		"behind one that hijacks": {false, wrapped(func(w http.ResponseWriter) http.ResponseWriter {
			return hijacking{hiding{w}, w.(http.Hijacker)}
		}), can{hijack: true}},
	} {
		t.Run(name, func(t *testing.T) {
			chain := []middleware{httplock.New(guardtest.Guard(t), "lock:<id>")}
			if test.around != nil {
				chain = slices.Insert(chain, 0, test.around)
			}
			server := httptest.NewUnstartedServer(on("POST /{id}", func(w http.ResponseWriter, _ *http.Request) {
				_, flushes := w.(http.Flusher)
				_, hijacks := w.(http.Hijacker)
				control := http.NewResponseController(w)
				got := can{flushes, hijacks, control.SetWriteDeadline(time.Now().Add(time.Hour)) == nil}
				if got != test.want {
					t.Errorf("it can %+v, want %+v", got, test.want)
				}
				if err := control.Flush(); (err == nil) != test.want.flush {
					t.Errorf("flush: %v", err)
				}
				if _, err := io.Copy(w, struct{ io.Reader }{strings.NewReader("done")}); err != nil {
					t.Errorf("copy: %v", err)
				}
			}, chain...))
			server.EnableHTTP2 = test.http2
			if test.http2 {
				server.StartTLS()
			} else {
				server.Start()
			}
			defer server.Close()
			if status, _, body := exchange(t, server, "/1"); status != http.StatusOK || body != "done" {
				t.Errorf("got %d %q", status, body)
			}
		})
	}
}

// Events that are sent one by one reach the client while the handler runs.
func TestWhatIsFlushedReachesTheClientWhileTheHandlerRuns(t *testing.T) {
	for name, http2 := range map[string]bool{"HTTP/1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			came := make(chan struct{})
			server := httptest.NewUnstartedServer(on("POST /{id}", func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, "event")
				w.(http.Flusher).Flush()
				select {
				case <-came:
				case <-time.After(guardtest.Timeout):
					t.Error("the client got nothing")
				}
				_, _ = io.WriteString(w, ", end")
			}, httplock.New(guardtest.Guard(t), "lock:<id>")))
			if server.EnableHTTP2 = http2; http2 {
				server.StartTLS()
			} else {
				server.Start()
			}
			defer server.Close()
			response, err := server.Client().Post(server.URL+"/1", "text/plain", nil)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			event := make([]byte, len("event"))
			_, err = io.ReadFull(response.Body, event)
			close(came)
			rest, _ := io.ReadAll(response.Body)
			if string(event) != "event" || string(rest) != ", end" || err != nil {
				t.Errorf("got %q, %v, and then %q", event, err, rest)
			}
		})
	}
}

type (
	unwrapping struct{ http.ResponseWriter }
	hiding     struct{ w http.ResponseWriter }
	hijacking  struct {
		hiding
		http.Hijacker
	}
)

func (w unwrapping) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w hiding) Header() http.Header         { return w.w.Header() }
func (w hiding) Write(p []byte) (int, error) { return w.w.Write(p) }
func (w hiding) WriteHeader(status int)      { w.w.WriteHeader(status) }

func wrapped(wrap func(http.ResponseWriter) http.ResponseWriter) middleware {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { next.ServeHTTP(wrap(w), r) })
	}
}

func TestHijackedConnectionIsNotAnswered(t *testing.T) {
	g, store := short(t)
	done := make(chan struct{})
	server := httptest.NewUnstartedServer(on("POST /{id}", func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		lose(t, store, "lock:1", r.Context())
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nmine")
	}, ending(done), httplock.New(g, "lock:<id>")))
	var complaints strings.Builder
	server.Config.ErrorLog = newLog(&complaints)
	server.Start()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(conn, "POST /1 HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if string(text) != "mine" {
		t.Errorf("got %q", text)
	}
	guardtest.Receive(t, done, "the end of the handler")
	_ = conn.Close()
	server.Close()
	if complaints.Len() > 0 {
		t.Errorf("the server says: %s", complaints.String())
	}
}

// The server writes the trailers that nobody announced into the request that it made, and
// the handler gets a copy.
func TestTrailersOfARequestReachTheHandler(t *testing.T) {
	for name, test := range map[string]struct {
		header string
		opts   []httplock.Option
	}{
		"announced":               {"Trailer: X-Sum\r\n", nil},
		"not announced":           {"", nil},
		"announced, streamed":     {"Trailer: X-Sum\r\n", []httplock.Option{httpguard.WithStreamedBody()}},
		"not announced, streamed": {"", []httplock.Option{httpguard.WithStreamedBody()}},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(on("POST /{id}", func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				_, _ = io.WriteString(w, r.Trailer.Get("X-Sum"))
			}, httplock.New(guardtest.Guard(t), "lock:<id>", test.opts...)))
			defer server.Close()
			conn, err := net.Dial("tcp", server.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_, _ = io.WriteString(conn, "POST /1 HTTP/1.1\r\nHost: x\r\n"+test.header+
				"Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\nX-Sum: 42\r\n\r\n")
			response, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			if text, err := io.ReadAll(response.Body); string(text) != "42" || err != nil {
				t.Errorf("got %d %q, %v", response.StatusCode, text, err)
			}
		})
	}
}

// Gin's writer calls CloseNotify of the one that it gets, and doesn't ask before.
func TestAWriterTellsThatTheClientHasGone(t *testing.T) {
	g, begun, gone := guardtest.Guard(t), make(chan struct{}), make(chan struct{})
	server := httptest.NewUnstartedServer(on("POST /{id}", func(w http.ResponseWriter, _ *http.Request) {
		left := w.(interface{ CloseNotify() <-chan bool }).CloseNotify()
		close(begun)
		guardtest.Receive(t, left, "that the client has gone")
		close(gone)
	}, httplock.New(g, "lock:<id>")))
	server.Start()
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		r, _ := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/1", nil)
		if response, err := server.Client().Do(r); err == nil {
			_ = response.Body.Close()
		}
	}()
	guardtest.Receive(t, begun, "the handler")
	cancel()
	guardtest.Receive(t, sent, "the end of the request")
	guardtest.Receive(t, gone, "the end of the handler")
}
