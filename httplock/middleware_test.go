package httplock_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/core/guard/httpguard"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/httplock"
)

// short is a guard whose leases notice soon that the store has dropped them.
func short(t *testing.T) (*guard.Guard, lock.Store) {
	t.Helper()
	store := memstore.New()
	return guard.Must(guard.New(guardtest.Locker(t, store, lock.WithWatchdog(900*time.Millisecond)))), store
}

// lose takes a key away, as another process would, and waits until the handler can
// know.
func lose(t *testing.T, store lock.Store, key string, ctx context.Context) {
	t.Helper()
	freed, err := guardtest.Locker(t, store).ForceRelease(context.Background(), key)
	if err != nil || !freed {
		t.Errorf("force release: %v, %v", freed, err)
	}
	<-ctx.Done()
}

// runs is a handler for requests that must not get to it.
func runs(t *testing.T) http.HandlerFunc {
	t.Helper()
	return func(http.ResponseWriter, *http.Request) { t.Error("the handler ran") }
}

// ServeMux takes ":batch" as it is written, and a middleware may set a value of that name.
func TestColonInAPatternOfServeMuxIsNoParameter(t *testing.T) {
	mux := on("POST /orders:batch", func(w http.ResponseWriter, r *http.Request) {
		lease, _ := httplock.From(r)
		_, _ = io.WriteString(w, lease.Key())
	}, before(func(r *http.Request) *http.Request {
		return r.WithContext(context.WithValue(r.Context(), "batch", "7")) //nolint:revive,staticcheck // templates name strings
	}), httplock.New(guardtest.Guard(t), "lock:<batch>"))
	if w := guardtest.Send(mux, "POST", "/orders:batch", ""); w.Body.String() != "lock:7" {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

func TestRequestFromOutsideIsNotChanged(t *testing.T) {
	var outside, inside *http.Request
	mux := on("POST /orders/{userId}", func(_ http.ResponseWriter, r *http.Request) {
		inside = r
		if lease, ok := httplock.From(r); !ok || lease.Key() != "lock:order:42" {
			t.Errorf("From: %v, %v", lease, ok)
		}
		if r.PathValue("userId") != "42" || r.Pattern != "POST /orders/{userId}" {
			t.Errorf("the handler's request is of %q", r.Pattern)
		}
	}, before(func(r *http.Request) *http.Request { outside = r; return r }), httplock.New(guardtest.Guard(t), "lock:order:<userId>"))
	body := outside
	guardtest.Send(mux, "POST", "/orders/42", "a body")
	if inside == outside || outside == body || outside.Context().Err() != nil {
		t.Error("the request from outside was changed")
	}
}

// What counts as the beginning of an answer: then a lost lease isn't answered.
func TestLostLeaseIsAnsweredUnlessTheHandlerHasBegunTo(t *testing.T) {
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		code    int
		body    string // in it
	}{
		"early hints": {
			func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusEarlyHints) },
			http.StatusInternalServerError, "LOCK_LOST",
		},
		"a status": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) }, http.StatusCreated, ""},
		"bytes":    {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("done")) }, http.StatusOK, "done"},
		"a string": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.(interface{ WriteString(string) (int, error) }).WriteString("done")
		}, http.StatusOK, "done"},
		"a flush": {func(w http.ResponseWriter, _ *http.Request) { w.(http.Flusher).Flush() }, http.StatusOK, ""},
		"a copy": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.Copy(w, struct{ io.Reader }{strings.NewReader(strings.Repeat("done", 1000))})
		}, http.StatusOK, strings.Repeat("done", 1000)},
		"a copy that fails at once": {func(w http.ResponseWriter, r *http.Request) {
			if n, err := io.Copy(w, iotest.ErrReader(context.Cause(r.Context()))); n != 0 || !errors.Is(err, lock.ErrLost) {
				t.Errorf("copied %d, %v", n, err)
			}
		}, http.StatusInternalServerError, "LOCK_LOST"},
		"a copy that fails later": {func(w http.ResponseWriter, r *http.Request) {
			src := io.MultiReader(strings.NewReader("done"), iotest.ErrReader(context.Cause(r.Context())))
			if n, err := io.Copy(w, struct{ io.Reader }{src}); n != 4 || !errors.Is(err, lock.ErrLost) {
				t.Errorf("copied %d, %v", n, err)
			}
		}, http.StatusOK, "done"},
		"a controlled flush": {func(w http.ResponseWriter, _ *http.Request) { _ = http.NewResponseController(w).Flush() }, http.StatusOK, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g, store := short(t)
			server := httptest.NewServer(on("POST /{id}", func(w http.ResponseWriter, r *http.Request) {
				lose(t, store, "lock:1", r.Context())
				test.handler(w, r)
			}, httplock.New(g, "lock:<id>")))
			defer server.Close()
			status, _, body := exchange(t, server, "/1")
			if status != test.code || !strings.Contains(body, test.body) || status < 300 && body != test.body {
				t.Errorf("got %d %q", status, body)
			}
		})
	}
}

// The other end speaks another protocol from then on.
func TestLostLeaseIsNotAnsweredBehindASwitchOfProtocols(t *testing.T) {
	g := guardtest.Guard(t)
	mux := on("GET /{id}", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusSwitchingProtocols)
		guardtest.Lose(t, g, "lock:1")
	}, httplock.New(g, "lock:<id>"))
	if w := guardtest.Send(mux, "GET", "/1", ""); w.Code != http.StatusSwitchingProtocols || w.Body.Len() > 0 {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

// A handler that can't flush has not answered by trying to.
func TestLostLeaseIsAnsweredWhereNobodyCanFlush(t *testing.T) {
	g := guardtest.Guard(t)
	mux := on("POST /{id}", func(w http.ResponseWriter, _ *http.Request) {
		guardtest.Lose(t, g, "lock:1")
		if err := http.NewResponseController(w).Flush(); !errors.Is(err, http.ErrNotSupported) {
			t.Errorf("flush: %v", err)
		}
	}, wrapped(func(w http.ResponseWriter) http.ResponseWriter { return hiding{w} }), httplock.New(g, "lock:<id>"))
	if w := guardtest.Send(mux, "POST", "/1", ""); w.Code != http.StatusInternalServerError || guardtest.Code(t, w) != "LOCK_LOST" {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

// A router may answer a handler's error when its middlewares have returned, as Echo does.
func TestWhatIsWrittenBehindTheAnswerToALossIsDiscarded(t *testing.T) {
	for name, test := range map[string]struct {
		begins bool
		code   int
	}{"no answer had begun": {false, http.StatusInternalServerError}, "an answer had begun": {true, http.StatusCreated}} {
		t.Run(name, func(t *testing.T) {
			g := guardtest.Guard(t)
			var kept http.ResponseWriter
			late := func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					next.ServeHTTP(w, r)
					kept.Header().Set("X-Late", "1")
					kept.WriteHeader(http.StatusTeapot)
					_, _ = io.WriteString(kept, "late")
				})
			}
			mux := on("POST /{id}", func(w http.ResponseWriter, _ *http.Request) {
				if kept = w; test.begins {
					w.WriteHeader(http.StatusCreated)
				}
				guardtest.Lose(t, g, "lock:1")
			}, late, httplock.New(g, "lock:<id>"))
			w := guardtest.Send(mux, "POST", "/1", "")
			if w.Code != test.code || strings.Contains(w.Body.String(), "late") != test.begins || (w.Header().Get("X-Late") != "") != test.begins {
				t.Errorf("got %d %v %s", w.Code, w.Header(), w.Body)
			}
		})
	}
}

// A router that sets path values need not set the pattern.
func TestPathValueThatAMiddlewareHasSet(t *testing.T) {
	h := before(func(r *http.Request) *http.Request {
		r.SetPathValue("id", "7")
		return r
	})(httplock.New(guardtest.Guard(t), "lock:<path.id>:<id>")(http.HandlerFunc(tellKey)))
	if w := guardtest.Send(h, "POST", "/", ""); w.Body.String() != "lock:7:7" {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

// The other one may be able to do more, such as to push.
func TestARequestThatPassesKeepsItsWriter(t *testing.T) {
	var outside, inside http.ResponseWriter
	skip := httpguard.WithSkipper(func(httpguard.Request) bool { return true })
	mux := on("POST /{id}", func(w http.ResponseWriter, _ *http.Request) { inside = w },
		wrapped(func(w http.ResponseWriter) http.ResponseWriter { outside = w; return w }), httplock.New(guardtest.Guard(t), "lock:<id>", skip))
	if guardtest.Send(mux, "POST", "/1", ""); inside == nil || inside != outside {
		t.Errorf("the handler got %T, want %T", inside, outside)
	}
}

// gone is the writer of a middleware in front whose server has taken the request back.
type gone struct{ http.ResponseWriter }

func (gone) Header() http.Header { panic("the request has been answered") }

func TestAWriterThatPanicsLeavesNoLock(t *testing.T) {
	g := guardtest.Guard(t)
	h := wrapped(func(w http.ResponseWriter) http.ResponseWriter { return gone{w} })(httplock.New(g, "lock:a")(runs(t)))
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		guardtest.Send(h, "POST", "/", "")
	}()
	guardtest.AssertFree(t, g, "lock:a")
}

func TestRestOfAPathIsAsServeMuxHasIt(t *testing.T) {
	mux := on("POST /f/{rest...}", tellKey, httplock.New(guardtest.Guard(t), "lock:<path.rest>:<route>"))
	if w := guardtest.Send(mux, "POST", "/f/a/b", ""); w.Body.String() != "lock:a%2Fb:POST%20%2Ff%2F%7Brest...%7D" {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
	if w := guardtest.Send(mux, "POST", "/f/", ""); w.Code != http.StatusBadRequest {
		t.Errorf("an empty rest: got %d %s", w.Code, w.Body)
	}
}

// A lock for one route refuses what came to it by another way, with the cure in the
// operator's log.
func TestLockOfARouteLetsNothingElsePass(t *testing.T) {
	for name, test := range map[string]struct {
		pattern string // of the lock
		serve   func(lock middleware) http.Handler
		method  string
		cure    string
	}{
		"in front of the router": {"POST /a/{id}", func(lock middleware) http.Handler {
			return lock(on("POST /a/{id}", runs(t)))
		}, "POST", "put it around the handler of the route"},
		"around another route": {"POST /a/{no}", func(lock middleware) http.Handler {
			return on("POST /a/{id}", runs(t), lock)
		}, "POST", `"POST /a/{id}" came to it: write httplock.Route(g, "POST /a/{id}")`},
		"of one method, around all": {"POST /a/{id}", func(lock middleware) http.Handler {
			return on("/a/{id}", runs(t), lock)
		}, "GET", `"GET /a/{id}" came to it: write httplock.Route(g, "GET /a/{id}")`},
		"of all methods, around another path": {"/a/{no}", func(lock middleware) http.Handler {
			return on("/a/{id}", runs(t), lock)
		}, "POST", `"POST /a/{id}" came to it: write httplock.Route(g, "POST /a/{id}")`},
		"of all methods, with one that nobody knows": {"/a/{id}", func(lock middleware) http.Handler {
			return on("/a/{id}", runs(t), lock)
		}, "PURGE", `"PURGE" has no rule: register the route for one method`},
	} {
		t.Run(name, func(t *testing.T) {
			var rules []rule.Rule
			for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "CONNECT", "OPTIONS", "TRACE"} {
				rules = append(rules, rule.Rule{Operation: method + " /a/{id}", Key: "lock:a"})
			}
			var log strings.Builder
			g := guardtest.Guard(t, rules...).WithLogger(slog.New(slog.NewTextHandler(&log, nil)))
			w := guardtest.Send(test.serve(httplock.Route(g, test.pattern)), test.method, "/a/7", "")
			if w.Code != http.StatusInternalServerError || guardtest.Code(t, w) != "LOCK_RULE_INVALID" {
				t.Errorf("got %d %s", w.Code, w.Body)
			}
			if !strings.Contains(strings.ReplaceAll(log.String(), `\"`, `"`), test.cure) {
				t.Errorf("the log is %s, want %s in it", &log, test.cure)
			}
		})
	}
}

func TestRouteForAllMethodsWithoutRulesPasses(t *testing.T) {
	g := guardtest.Guard(t, rule.Rule{Operation: "POST /a/{id}", Key: "lock:<id>"})
	mux := on("/free/{id}", tellKey, httplock.Route(g, "/free/{id}"))
	for _, method := range []string{"GET", "PURGE"} {
		if w := guardtest.Send(mux, method, "/free/7", ""); w.Code != http.StatusOK {
			t.Errorf("%s: got %d %s", method, w.Code, w.Body)
		}
	}
}

// A request with another method than its pattern's has the pattern's rule.
func TestHeadRequestTakesTheLockOfItsPattern(t *testing.T) {
	g := guard.Must(guard.New(guardtest.Guard(t).Locker(), rule.Rule{Operation: "GET /a/{id}", Key: "lock:<id>"}))
	const pattern = "GET  /a/{id}" // two blanks, as ServeMux allows
	mux := on(pattern, tellKey, httplock.Route(g, pattern))
	for _, method := range []string{"GET", "HEAD"} {
		if w := guardtest.Send(mux, method, "/a/7", ""); w.Code != http.StatusCreated {
			t.Errorf("%s: got %d %s", method, w.Code, w.Body)
		}
	}
}

// chi's patterns have no method, and its GetHead sends a HEAD to the route for GET.
func TestHeadRequestThatARouterSendsToTheRouteForGet(t *testing.T) {
	for pattern, want := range map[string]map[string]string{
		"GET /a/{id}":  {"GET": "lock:7", "HEAD": "lock:7", "POST": "LOCK_RULE_INVALID"},
		"POST /a/{id}": {"POST": "lock:7", "HEAD": "LOCK_RULE_INVALID"},
	} {
		g := guardtest.Guard(t, rule.Rule{Operation: pattern, Key: "lock:<id>"}).WithLogger(slog.New(slog.DiscardHandler))
		h := before(func(r *http.Request) *http.Request {
			r.Pattern = "/a/{id}"
			r.SetPathValue("id", "7")
			return r
		})(httplock.Route(g, pattern)(http.HandlerFunc(tellKey)))
		for method, want := range want {
			w := guardtest.Send(h, method, "/a/7", "")
			got := w.Body.String()
			if w.Code != http.StatusCreated {
				got = guardtest.Code(t, w)
			}
			if got != want {
				t.Errorf("%s to the lock for %s: got %d %s, want %s", method, pattern, w.Code, w.Body, want)
			}
		}
	}
}

// A pattern that can't be a route is a fault of the program, found when it starts.
func TestPatternsThatAreNoRoute(t *testing.T) {
	for pattern, want := range map[string]string{
		"":           "the route is missing",
		"orders":     "no path",
		"post /a":    `write "POST /a"`,
		"POST /a?x":  "query",
		"POST":       "no path",
		"* /a":       "one rule for each method",
		"POST  /a b": "space in its path",
	} {
		if _, err := httplock.BuildRoute(guardtest.Guard(t), pattern); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q in it", pattern, err, want)
		}
	}
}

func TestHandlerAnswersAGuardThatItEntersItself(t *testing.T) {
	h := func(w http.ResponseWriter, r *http.Request) {
		httplock.Problem(w, r, &guard.Error{Kind: guard.Contended})
	}
	if w := guardtest.Send(http.HandlerFunc(h), "POST", "/", ""); w.Code != http.StatusConflict || guardtest.Code(t, w) != "LOCK_CONTENDED" {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

func TestConstructorsPanicOnProgrammerErrors(t *testing.T) {
	for name, construct := range map[string]func(){
		"New":   func() { httplock.New(guardtest.Guard(t), "lock:<") },
		"Route": func() { httplock.Route(nil, "POST /a") },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			construct()
		})
	}
}
