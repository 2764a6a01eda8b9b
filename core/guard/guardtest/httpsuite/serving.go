package httpsuite

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/core/guard/httpguard"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/core/rule"
)

// serving are the tests of the way of a request through its lock.
type serving struct{ Framework }

func (f *serving) TestHandlerRunsUnderTheLockAndReleasesIt(t *testing.T) {
	g := guardtest.Guard(t)
	var inside *http.Request
	r := f.on("POST", "/orders/{userId}", func(w http.ResponseWriter, r *http.Request) {
		inside = r
		lease, ok := lock.FromContext(r.Context())
		if !ok || lease.Key() != "lock:order:42" || lease.Fence() == 0 {
			t.Errorf("the lease: %v, %v", lease, ok)
		}
		if err := lock.AssertHeld(r.Context(), "lock:order:42"); err != nil {
			t.Error(err)
		}
		w.WriteHeader(http.StatusCreated)
	}, f.layer(t, g, "lock:order:<userId>"))
	expect(t, guardtest.Send(r, "POST", "/orders/42", ""), http.StatusCreated, "")
	if guardtest.IsHeld(t, g, "lock:order:42") {
		t.Error("still held")
	}
	if cause := context.Cause(inside.Context()); !errors.Is(cause, lock.ErrReleased) {
		t.Errorf("the handler's context ended with %v", cause)
	}
}

// Handlers pass the context that their framework gives them.
func (f *serving) TestLeaseIsFoundThroughTheFrameworksContext(t *testing.T) {
	if f.Own == nil {
		t.Skip("the framework has the request's context only")
	}
	g := guardtest.Guard(t)
	var own context.Context
	ran := false
	r := f.NewRouter()
	f.Own(r, "POST", "/{id}", func(ctx context.Context) {
		own = ctx //nolint:fatcontext // to look at it behind the handler
		if lease, ok := lock.FromContext(ctx); !ok || lease.Key() != "lock:b:1" {
			t.Errorf("found %v", lease)
		}
		for _, key := range []string{"lock:a:1", "lock:b:1"} {
			guardtest.AssertHeld(t, ctx, key)
			reenter := func(inside context.Context) error { ran = true; return lock.AssertHeld(inside, key) }
			if err := g.Locker().Do(ctx, key, reenter, lock.WithWait(Timeout)); err != nil {
				t.Errorf("re-entry: %v", err)
			}
		}
	}, f.after(func() {
		if lease, ok := lock.FromContext(own); ok {
			t.Errorf("behind its lock the framework's context has still %v", lease)
		}
	}), f.layer(t, g, "lock:a:<id>", httpguard.WithRule("lock:b:<id>")))
	if w := guardtest.Send(r, "POST", "/1", ""); w.Code != http.StatusOK || !ran {
		t.Errorf("got %d, the handler ran: %v", w.Code, ran)
	}
}

func (f *serving) TestContendedRequestDoesNotRunTheHandler(t *testing.T) {
	g := guardtest.Guard(t)
	r := f.on("POST", "/{id}", func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "1") {
			t.Error("the handler ran")
		}
		tellKey(w, r)
	}, f.layer(t, g, "lock:<id>"))
	lease := guardtest.Hold(t, g, "lock:1")
	w := guardtest.Send(r, "POST", "/1", "")
	expect(t, w, http.StatusConflict, "LOCK_CONTENDED")
	if w.Header().Get("Retry-After") != "1" || w.Header().Get("Content-Type") != "application/problem+json" {
		t.Errorf("headers are %v", w.Header())
	}
	expect(t, guardtest.Send(r, "POST", "/2", ""), http.StatusCreated, "lock:2")
	if err := lease.Release(t.Context()); err != nil {
		t.Errorf("the holder: %v", err)
	}
}

// waiting is a guard that reports when a call of its locker begins to wait, and
// when it stops.
func waiting(t *testing.T) (g *guard.Guard, begin, end chan struct{}) {
	t.Helper()
	begin, end = make(chan struct{}, 1), make(chan struct{}, 1)
	hooks := lock.Hooks{Waiting: func(context.Context, lock.Event) func() {
		begin <- struct{}{}
		return func() { end <- struct{}{} }
	}}
	return guard.Must(guard.New(guardtest.Locker(t, memstore.New(), lock.WithHooks(hooks)))), begin, end
}

func (f *serving) TestWaitingRequestGetsTheLockWhenItIsFree(t *testing.T) {
	g, begin, _ := waiting(t)
	r := f.on("POST", "/{id}", tellKey, f.layer(t, g, "lock:<id> wait=20s"))
	lease := guardtest.Hold(t, g, "lock:1")
	answer := make(chan int, 1)
	go func() { answer <- guardtest.Send(r, "POST", "/1", "").Code }()
	guardtest.Receive(t, begin, "the wait")
	_ = lease.Release(t.Context())
	if code := guardtest.Receive(t, answer, "the answer"); code != http.StatusCreated {
		t.Errorf("got %d", code)
	}
}

func (f *serving) TestWaitThatEndsIsContention(t *testing.T) {
	g := guardtest.Guard(t)
	r := f.on("POST", "/{id}", refused(t), f.layer(t, g, "lock:<id> wait=20ms"))
	guardtest.Hold(t, g, "lock:1")
	expect(t, guardtest.Send(r, "POST", "/1", ""), http.StatusConflict, "LOCK_CONTENDED")
}

func (f *serving) TestSkippedRequestSucceedsWithoutTheHandler(t *testing.T) {
	g := guardtest.Guard(t)
	r := f.on("POST", "/{id}", refused(t), f.layer(t, g, "lock:<id> onBusy=skip"))
	guardtest.Hold(t, g, "lock:1")
	expect(t, guardtest.Send(r, "POST", "/1", ""), http.StatusNoContent, "")
}

func (f *serving) TestSkipperLetsRequestsPass(t *testing.T) {
	g := guardtest.Guard(t)
	dry := func(q httpguard.Request) bool { return q.HTTP().URL.Query().Has("dry") }
	r := f.on("POST", "/{id}", tellKey, f.layer(t, g, "lock:<id>", httpguard.WithSkipper(dry)))
	guardtest.Hold(t, g, "lock:1")
	expect(t, guardtest.Send(r, "POST", "/1?dry=1", ""), http.StatusOK, "no lock")
	expect(t, guardtest.Send(r, "POST", "/1", ""), http.StatusConflict, "LOCK_CONTENDED")
}

func (f *serving) TestUnavailableStoreDoesNotRunTheHandler(t *testing.T) {
	var reported error
	g := broken(t).WithHooks(guard.Hooks{Refused: func(_ context.Context, e *guard.Error) { reported = e }})
	r := f.on("POST", "/{id}", refused(t), f.layer(t, g, "lock:<id>", httpguard.WithRetryAfter(7*time.Second)))
	w := guardtest.Send(r, "POST", "/42", "")
	expect(t, w, http.StatusServiceUnavailable, "LOCK_UNAVAILABLE")
	if w.Header().Get("Retry-After") != "7" || strings.Contains(w.Body.String(), "NOAUTH") {
		t.Errorf("got %v %s", w.Header(), w.Body)
	}
	if !errors.Is(reported, guardtest.ErrDown) {
		t.Errorf("the guard's hook got %v, want the cause for the operator", reported)
	}
}

// recovery answers a panic with 418 and keeps its value.
func (f *serving) recovery(recovered *any) Layer {
	return f.Wrap(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer func() {
				if *recovered = recover(); *recovered != nil {
					w.WriteHeader(http.StatusTeapot)
				}
			}()
			next.ServeHTTP(w, r)
		})
	})
}

func (f *serving) TestPanicReleasesTheLockAndPassesThrough(t *testing.T) {
	for name, value := range map[string]any{"of the handler": "boom", "that aborts": http.ErrAbortHandler} {
		t.Run(name, func(t *testing.T) {
			g := guardtest.Guard(t)
			var recovered any
			r := f.on("POST", "/{id}", func(http.ResponseWriter, *http.Request) {
				panic(value) //nolint:forbidigo // handlers panic
			}, f.recovery(&recovered), f.layer(t, g, "lock:<id>"))
			guardtest.Send(r, "POST", "/1", "")
			if recovered != value {
				t.Errorf("recovered %v, want %v", recovered, value)
			}
			if guardtest.IsHeld(t, g, "lock:1") {
				t.Error("still held")
			}
		})
	}
}

func (f *serving) TestPanicUnderALostLeaseIsNotAnsweredTwice(t *testing.T) {
	g, store := losable(t)
	var recovered any
	r := f.on("POST", "/{id}", func(_ http.ResponseWriter, r *http.Request) {
		lose(t, store, "lock:1", r)
		panic("boom") //nolint:forbidigo // handlers panic
	}, f.recovery(&recovered), f.layer(t, g, "lock:<id>"))
	expect(t, guardtest.Send(r, "POST", "/1", ""), http.StatusTeapot, "")
}

func (f *serving) TestLostLeaseIsAnsweredUnlessTheHandlerHas(t *testing.T) {
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		status  int
		want    string
	}{
		"headers only": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "3")
			w.Header().Set("Content-Type", "text/x")
			w.Header().Set("Cache-Control", "public, max-age=3600")
			w.Header().Set("Content-Encoding", "gzip")
		}, http.StatusInternalServerError, "LOCK_LOST"},
		"an answer": {tellKeyOf("done"), http.StatusCreated, "done"},
	} {
		t.Run(name, func(t *testing.T) {
			g, store := losable(t)
			r := f.on("POST", "/{id}", func(w http.ResponseWriter, r *http.Request) {
				lose(t, store, "lock:1", r)
				test.handler(w, r)
			}, f.layer(t, g, "lock:<id>"))
			w := guardtest.Send(r, "POST", "/1", "")
			expect(t, w, test.status, test.want)
			if length := w.Header().Get("Content-Length"); length != "" && length != strconv.Itoa(w.Body.Len()) {
				t.Errorf("Content-Length is %s for %d bytes", length, w.Body.Len())
			}
			if w.Header().Get("Retry-After") != "" || strings.Contains(w.Header().Get("Cache-Control"), "public") || w.Header().Get("Content-Encoding") != "" {
				t.Errorf("headers are %v", w.Header())
			}
		})
	}
}

// A middleware in front that compresses says so before the handler runs.
func (f *serving) TestLostLeaseIsAnsweredInTheEncodingOfThoseInFront(t *testing.T) {
	f.needs(t, Writers)
	g, store := losable(t)
	encoded := f.Wrap(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "x-front")
			next.ServeHTTP(w, r)
		})
	})
	r := f.on("POST", "/{id}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		lose(t, store, "lock:1", r)
	}, encoded, f.layer(t, g, "lock:<id>"))
	if w := guardtest.Send(r, "POST", "/1", ""); w.Code != http.StatusInternalServerError || w.Header().Get("Content-Encoding") != "x-front" {
		t.Errorf("got %d %v", w.Code, w.Header())
	}
}

func tellKeyOf(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write([]byte(body))
	}
}

// post sends a request over a real connection and returns a func that breaks it.
func post(t *testing.T, h http.Handler, path, body string) (leave func()) {
	t.Helper()
	server := httptest.NewServer(h)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(ended)
		if response, err := server.Client().Do(request); err == nil {
			_ = response.Body.Close()
			t.Errorf("answered with %s", response.Status)
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		server.Close()
	})
	return cancel
}

// A client that leaves is noticed while its request waits: its body, which is read
// first, isn't in the way.
func (f *serving) TestClientThatLeavesWhileWaitingLeavesTheQueue(t *testing.T) {
	f.needs(t, Departures)
	for name, body := range map[string]string{"without a body": "", "with a body": "a body"} {
		t.Run(name, func(t *testing.T) {
			g, begin, end := waiting(t)
			done := make(chan struct{})
			r := f.on("POST", "/{id}", refused(t), f.after(func() { close(done) }), f.layer(t, g, "lock:<id> wait=1h"))
			lease := guardtest.Hold(t, g, "lock:1")
			leave := post(t, r, "/1", body)
			guardtest.Receive(t, begin, "the wait")
			leave()
			guardtest.Receive(t, end, "the end of the wait")
			guardtest.Receive(t, done, "the end of the request")
			_ = lease.Release(t.Context())
			if guardtest.IsHeld(t, g, "lock:1") {
				t.Error("a client that left got the lock")
			}
		})
	}
}

func (f *serving) TestClientThatLeavesWhileTheHandlerRunsDoesNotFreeTheLock(t *testing.T) {
	f.needs(t, Departures)
	g := guardtest.Guard(t)
	running, gone, finish, done := make(chan struct{}), make(chan struct{}), make(chan struct{}), make(chan struct{})
	r := f.on("POST", "/{id}", func(_ http.ResponseWriter, r *http.Request) {
		close(running)
		<-r.Context().Done()
		close(gone)
		<-finish
	}, f.after(func() { close(done) }), f.layer(t, g, "lock:<id>"))
	leave := post(t, r, "/1", "")
	guardtest.Receive(t, running, "the handler")
	leave()
	guardtest.Receive(t, gone, "the end of the handler's context")
	if _, err := g.Locker().TryAcquire(t.Context(), "lock:1"); !errors.Is(err, lock.ErrBusy) {
		t.Errorf("another one got %v while the handler runs, want ErrBusy", err)
	}
	close(finish)
	guardtest.Receive(t, done, "the end of the handler")
	if guardtest.IsHeld(t, g, "lock:1") {
		t.Error("still held")
	}
}

// A context that has ended doesn't show whether the client has gone: it may be the
// server that ends its requests.
func (f *serving) TestRequestThatIsCanceledIsAnswered(t *testing.T) {
	for name, end := range map[string]func(context.Context) (context.Context, context.CancelFunc){
		"out of time": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 20*time.Millisecond)
		},
		"canceled in front": func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			return ctx, cancel
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := guardtest.Guard(t)
			ends := f.Wrap(func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					ctx, cancel := end(r.Context())
					defer cancel()
					next.ServeHTTP(w, r.WithContext(ctx))
				})
			})
			r := f.on("POST", "/{id}", refused(t), ends, f.layer(t, g, "lock:<id> wait=1h"))
			guardtest.Hold(t, g, "lock:1")
			w := guardtest.Send(r, "POST", "/1", "")
			expect(t, w, http.StatusServiceUnavailable, "LOCK_CANCELED")
			if w.Header().Get("Retry-After") != "1" {
				t.Errorf("headers are %v", w.Header())
			}
		})
	}
}

func (f *serving) TestErrorHandlerCannotLetTheRequestThrough(t *testing.T) {
	g := guardtest.Guard(t)
	var got *guard.Error
	r := f.on("POST", "/{id}", refused(t), f.layer(t, g, "lock:<id> name=thing", httpguard.WithContentionStatus(http.StatusLocked),
		httpguard.WithErrorHandler(func(w http.ResponseWriter, q httpguard.Request, e *guard.Error) {
			got = e
			if value, ok := q.PathValue("id"); value != "1" || !ok {
				t.Errorf("the path value is %q, %v", value, ok)
			}
			w.Header().Set("X-Wrapped", "1")
			httpguard.Problem(w, q, e)
		})))
	guardtest.Hold(t, g, "lock:1")
	w := guardtest.Send(r, "POST", "/1", "")
	expect(t, w, http.StatusLocked, "LOCK_CONTENDED")
	if w.Header().Get("X-Wrapped") != "1" || !strings.Contains(w.Body.String(), `"status":423`) {
		t.Errorf("got %v %s", w.Header(), w.Body)
	}
	if got == nil || got.Kind != guard.Contended || got.Operation != f.operation("POST", "/{id}") || got.Name != "thing" {
		t.Errorf("the handler got %#v", got)
	}
}

// Servers write 200 for a handler that writes nothing.
func (f *serving) TestErrorHandlerThatWritesNothingMakesNoSuccess(t *testing.T) {
	for name, answer := range map[string]struct {
		by     func(http.ResponseWriter)
		status int
		body   string
	}{
		"nothing":       {func(http.ResponseWriter) {}, http.StatusConflict, `"code":"LOCK_CONTENDED"`},
		"a header":      {func(w http.ResponseWriter) { w.Header().Set("X-Busy", "1") }, http.StatusConflict, `"code":"LOCK_CONTENDED"`},
		"a status":      {func(w http.ResponseWriter) { w.WriteHeader(http.StatusLocked) }, http.StatusLocked, ""},
		"an open 200":   {func(w http.ResponseWriter) { w.WriteHeader(http.StatusOK) }, http.StatusOK, ""},
		"a body":        {func(w http.ResponseWriter) { _, _ = io.WriteString(w, "again") }, http.StatusOK, "again"},
		"early headers": {func(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }, http.StatusOK, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := guardtest.Guard(t)
			r := f.on("POST", "/{id}", refused(t), f.layer(t, g, "lock:<id>",
				httpguard.WithErrorHandler(func(w http.ResponseWriter, _ httpguard.Request, _ *guard.Error) { answer.by(w) })))
			guardtest.Hold(t, g, "lock:1")
			w := guardtest.Send(r, "POST", "/1", "")
			if w.Code != answer.status || !strings.Contains(w.Body.String(), answer.body) || (w.Body.Len() == 0) != (answer.body == "") {
				t.Errorf("got %d %q, want %d %q", w.Code, w.Body, answer.status, answer.body)
			}
		})
	}
}

func (f *serving) TestErrorHandlerSeesALostLease(t *testing.T) {
	g, store := losable(t)
	r := f.on("POST", "/{id}", func(_ http.ResponseWriter, r *http.Request) { lose(t, store, "lock:1", r) },
		f.layer(t, g, "lock:<id>", httpguard.WithErrorHandler(func(w http.ResponseWriter, _ httpguard.Request, e *guard.Error) {
			w.WriteHeader(http.StatusTeapot)
			_, _ = w.Write([]byte(e.Kind.Code()[5:]))
		})))
	expect(t, guardtest.Send(r, "POST", "/1", ""), http.StatusTeapot, "LOST")
}

func (f *serving) TestAnswersHoldNothingOfTheLock(t *testing.T) {
	working := guardtest.Guard(t)
	lease := guardtest.Hold(t, working, "lock:alice")
	for title, g := range map[string]*guard.Guard{"contended": working, "unavailable": broken(t)} {
		r := f.on("POST", "/x", refused(t), f.layer(t, g, "lock:<query.u>"))
		w := guardtest.Send(r, "POST", "/x?u=alice", "")
		for _, secret := range []string{"alice", "lock:", lease.Owner(), "NOAUTH", "10.1.2.3"} {
			if strings.Contains(w.Body.String(), secret) {
				t.Errorf("%s: %q is in %s", title, secret, w.Body)
			}
		}
	}
}

func (f *serving) TestSeveralLocksAreTakenTogether(t *testing.T) {
	g := guardtest.Guard(t)
	keys := []string{"lock:a:1", "lock:b:1"}
	r := f.on("POST", "/{id}", func(w http.ResponseWriter, r *http.Request) {
		for _, key := range keys {
			if err := lock.AssertHeld(r.Context(), key); err != nil {
				t.Error(err)
			}
			if lease, ok := lock.LeaseOf(r.Context(), key); !ok || lease.Key() != key {
				t.Errorf("the lease of %s is %v", key, lease)
			}
		}
		w.WriteHeader(http.StatusCreated)
	}, f.layer(t, g, "lock:b:<id>", httpguard.WithRule("lock:a:<id>")))
	expect(t, guardtest.Send(r, "POST", "/1", ""), http.StatusCreated, "")
	for _, key := range keys {
		guardtest.AssertFree(t, g, key)
		lease := guardtest.Hold(t, g, key)
		expect(t, guardtest.Send(r, "POST", "/1", ""), http.StatusConflict, "LOCK_CONTENDED")
		if err := lease.Release(t.Context()); err != nil {
			t.Error(err)
		}
		guardtest.AssertFree(t, g, keys[0])
		guardtest.AssertFree(t, g, keys[1])
	}
}

func (f *serving) TestRulesOfOneOperationAreTakenTogether(t *testing.T) {
	operation := f.operation("POST", "/transfers/{from}/{to}")
	g := guardOf(t,
		rule.Rule{Operation: operation, Key: "lock:account:<from>", Name: "from"},
		rule.Rule{Operation: operation, Key: "lock:account:<to>", Name: "to", Wait: time.Millisecond, Also: true})
	var refused []string
	g = g.WithHooks(guard.Hooks{Refused: func(_ context.Context, e *guard.Error) { refused = append(refused, e.Name) }})
	r := f.NewRouter()
	f.rules(t, r, "POST", "/transfers/{from}/{to}", func(w http.ResponseWriter, r *http.Request) {
		guardtest.AssertHeld(t, r.Context(), "lock:account:1")
		guardtest.AssertHeld(t, r.Context(), "lock:account:2")
		w.WriteHeader(http.StatusCreated)
	}, g)
	if err := g.Validate(); err != nil {
		t.Fatal(err)
	}
	expect(t, guardtest.Send(r, "POST", "/transfers/1/2", ""), http.StatusCreated, "")
	guardtest.Hold(t, g, "lock:account:2")
	expect(t, guardtest.Send(r, "POST", "/transfers/1/2", ""), http.StatusConflict, "LOCK_CONTENDED")
	expect(t, guardtest.Send(r, "POST", "/transfers/2/1", ""), http.StatusConflict, "LOCK_CONTENDED")
	guardtest.AssertFree(t, g, "lock:account:1")
	if want := []string{"to", "from"}; !slices.Equal(refused, want) {
		t.Errorf("refused by %q, want %q", refused, want)
	}
}

func (f *serving) TestCrossingTransfersNeverWaitForEachOther(t *testing.T) {
	var accounts guardtest.Accounts
	g := guardtest.Guard(t)
	r := f.on("POST", "/{from}/{to}", func(w http.ResponseWriter, r *http.Request) {
		from, to, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		accounts.Transfer(from, to)
		w.WriteHeader(http.StatusCreated)
	}, f.layer(t, g, "lock:account:<from> wait=20s", httpguard.WithRule("lock:account:<to>")))
	accounts.Crossing(t, 10_000, func(from, to string) error {
		if w := guardtest.Send(r, "POST", "/"+from+"/"+to, ""); w.Code != http.StatusCreated {
			return errors.New(w.Body.String())
		}
		return nil
	})
}

// Locks that stand one behind the other would be taken in two orders.
func (f *serving) TestALockBehindAnotherIsRefused(t *testing.T) {
	var logged strings.Builder
	g := guardtest.Guard(t).WithLogger(slog.New(slog.NewTextHandler(&logged, nil)))
	r := f.on("POST", "/{from}/{to}", refused(t), f.layer(t, g, "lock:account:<from>"), f.layer(t, g, "lock:account:<to>"))
	expect(t, guardtest.Send(r, "POST", "/1/2", ""), http.StatusInternalServerError, "LOCK_RULE_INVALID")
	if !strings.Contains(logged.String(), "give both rules to one middleware, as in "+f.By+".New") {
		t.Errorf("the log does not name the cure: %s", logged.String())
	}
	guardtest.AssertFree(t, g, "lock:account:1")
}

func (f *serving) TestKeyFuncMakesTheKey(t *testing.T) {
	g := guardtest.Guard(t)
	r := f.on("POST", "/x", tellKey, f.layer(t, g, "lock:mine", httpguard.WithKeyFunc(func(q httpguard.Request) (string, error) {
		switch user := q.HTTP().Header.Get("X-User"); user {
		case "bad":
			return "", errors.New("secret reason")
		case "unset":
			return "", guard.ErrUnresolvable
		case "":
			return "", nil
		default:
			return "my:" + user, nil
		}
	})))
	expect(t, guardtest.Send(r, "POST", "/x", "", "X-User", "42"), http.StatusCreated, "my:42")
	expect(t, guardtest.Send(r, "POST", "/x", ""), http.StatusBadRequest, "LOCK_KEY_INVALID")
	expect(t, guardtest.Send(r, "POST", "/x", "", "X-User", "unset"), http.StatusInternalServerError, "LOCK_RULE_INVALID")
	w := guardtest.Send(r, "POST", "/x", "", "X-User", "bad")
	expect(t, w, http.StatusBadRequest, "LOCK_KEY_INVALID")
	if strings.Contains(w.Body.String(), "secret") {
		t.Errorf("the answer quotes the reason: %s", w.Body)
	}
}

func (f *serving) TestFieldsOfTheRuleReachTheLock(t *testing.T) {
	g := guard.Must(guard.New(guardtest.Locker(t, guardtest.ExclusiveOnly{Store: memstore.New()})))
	for text, want := range map[string]string{
		"lock:x mode=fair":                       "LOCK_RULE_INVALID",
		"lock:x mode=semaphore permits=1/2":      "LOCK_RULE_INVALID",
		"lock:x maxWaiters=5 wait=1s name=\"x\"": "lock:x",
	} {
		r := f.on("POST", "/x", tellKey, f.layer(t, g, text))
		status := http.StatusCreated
		if want != "lock:x" {
			status = http.StatusInternalServerError // the store has exclusive locks only
		}
		expect(t, guardtest.Send(r, "POST", "/x", ""), status, want)
	}
}

func (f *serving) TestFixedLeaseEndsWithTheHandlerStillRunning(t *testing.T) {
	r := f.on("POST", "/x", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		f.layer(t, guardtest.Guard(t), "lock:x lease=300ms"))
	expect(t, guardtest.Send(r, "POST", "/x", ""), http.StatusInternalServerError, "LOCK_LOST")
}

func (f *serving) TestRulesTakeTheLockOfTheRoute(t *testing.T) {
	g := guardOf(t, rule.Rule{Operation: f.operation("POST", "/vouchers/{id}/orders"), Key: "lock:order:<userId>"})
	r := f.NewRouter()
	user := httpguard.WithVar("userId", httpguard.Header("X-User-Id"))
	f.rules(t, r, "POST", "/vouchers/{id}/orders", tellKey, g, user)
	f.rules(t, r, "GET", "/vouchers/{id}/orders", tellKey, g, user)
	f.rules(t, r, "POST", "/free", tellKey, g)
	if err := g.Validate(); err != nil {
		t.Fatal(err)
	}
	expect(t, guardtest.Send(r, "POST", "/vouchers/7/orders", "", "X-User-Id", "42"), http.StatusCreated, "lock:order:42")
	expect(t, guardtest.Send(r, "GET", "/vouchers/7/orders", ""), http.StatusOK, "no lock")
	expect(t, guardtest.Send(r, "POST", "/free", "a body"), http.StatusOK, "no lock")
	if w := guardtest.Send(r, "POST", "/nowhere", ""); w.Code != http.StatusNotFound {
		t.Errorf("a request for no route: got %d %s", w.Code, w.Body)
	}
}

func (f *serving) TestManyRequestsAtOnceRunOneAtATime(t *testing.T) {
	counter := 0 // the race detector and the count show whether two run at once
	r := f.on("POST", "/{id}", func(w http.ResponseWriter, _ *http.Request) {
		counter++
		w.WriteHeader(http.StatusCreated)
	}, f.layer(t, guardtest.Guard(t), "lock:<id> wait=20s"))
	const requests = 200
	codes := make(chan int, requests)
	for range requests {
		go func() { codes <- guardtest.Send(r, "POST", "/1", "").Code }()
	}
	for range requests {
		if code := guardtest.Receive(t, codes, "an answer"); code != http.StatusCreated {
			t.Errorf("got %d", code)
		}
	}
	if counter != requests {
		t.Errorf("counted %d of %d", counter, requests)
	}
}
