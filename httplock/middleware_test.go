package httplock_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/httplock"
)

func TestHandlerRunsUnderTheLockAndReleasesIt(t *testing.T) {
	g := guardtest.Guard(t)
	var outside, inside *http.Request
	mux := on("POST /orders/{userId}", func(w http.ResponseWriter, r *http.Request) {
		inside = r
		lease, ok := httplock.From(r)
		if !ok || lease.Key() != "lock:order:42" || lease.Fence() == 0 {
			t.Errorf("From: %v, %v", lease, ok)
		}
		if err := lock.AssertHeld(r.Context(), "lock:order:42"); err != nil {
			t.Error(err)
		}
		if r.PathValue("userId") != "42" || r.Pattern != "POST /orders/{userId}" {
			t.Errorf("the handler's request is of %q", r.Pattern)
		}
		w.WriteHeader(http.StatusCreated)
	}, before(func(r *http.Request) *http.Request { outside = r; return r }), httplock.New(g, "lock:order:<userId>"))
	if w := guardtest.Send(mux, "POST", "/orders/42", ""); w.Code != http.StatusCreated {
		t.Fatalf("got %d %s", w.Code, w.Body)
	}
	if guardtest.IsHeld(t, g, "lock:order:42") {
		t.Error("still held")
	}
	if inside == outside || outside.Context().Err() != nil {
		t.Error("the request from outside was changed")
	}
	if !errors.Is(context.Cause(inside.Context()), lock.ErrReleased) {
		t.Errorf("the handler's context ended with %v", context.Cause(inside.Context()))
	}
}

// runs is a handler for requests that must not get to it.
func runs(t *testing.T) http.HandlerFunc {
	t.Helper()
	return func(http.ResponseWriter, *http.Request) { t.Error("the handler ran") }
}

func TestContendedRequestDoesNotRunTheHandler(t *testing.T) {
	g := guardtest.Guard(t)
	mux := on("POST /{id}", runs(t), httplock.New(g, "lock:<id>"))
	lease := guardtest.Hold(t, g, "lock:1")
	w := guardtest.Send(mux, "POST", "/1", "")
	if w.Code != http.StatusConflict || guardtest.Code(t, w) != "LOCK_CONTENDED" || w.Header().Get("Retry-After") != "1" {
		t.Errorf("got %d %v %s", w.Code, w.Header(), w.Body)
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Errorf("the holder: %v", err)
	}
}

func TestAnotherKeyIsNotInTheWay(t *testing.T) {
	g := guardtest.Guard(t)
	mux := on("POST /{id}", tellKey, httplock.New(g, "lock:<id>"))
	guardtest.Hold(t, g, "lock:1")
	if w := guardtest.Send(mux, "POST", "/2", ""); w.Code != http.StatusCreated {
		t.Errorf("got %d", w.Code)
	}
}

func TestWaitingRequestGetsTheLockWhenItIsFree(t *testing.T) {
	waiting := make(chan struct{}, 1)
	hooks := lock.Hooks{Waiting: func(context.Context, lock.Event) func() {
		waiting <- struct{}{}
		return nil
	}}
	g := guard.Must(guard.New(guardtest.Locker(t, memstore.New(), lock.WithHooks(hooks))))
	mux := on("POST /{id}", tellKey, httplock.New(g, "lock:<id>", httplock.WithWait(guardtest.Patience)))
	lease := guardtest.Hold(t, g, "lock:1")
	answer := make(chan int, 1)
	go func() { answer <- guardtest.Send(mux, "POST", "/1", "").Code }()
	guardtest.Receive(t, waiting, "the wait")
	_ = lease.Release(t.Context())
	if code := guardtest.Receive(t, answer, "the answer"); code != http.StatusCreated {
		t.Errorf("got %d", code)
	}
}

func TestWaitThatIsOverIsContention(t *testing.T) {
	g := guardtest.Guard(t)
	mux := on("POST /{id}", runs(t), httplock.New(g, "lock:<id>", httplock.WithWait(20*time.Millisecond)))
	guardtest.Hold(t, g, "lock:1")
	if w := guardtest.Send(mux, "POST", "/1", ""); w.Code != http.StatusConflict {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

func TestSkippedRequestSucceedsWithoutTheHandler(t *testing.T) {
	g := guardtest.Guard(t)
	mux := on("POST /{id}", runs(t), httplock.New(g, "lock:<id>", httplock.WithOnBusy(rule.Skip)))
	guardtest.Hold(t, g, "lock:1")
	if w := guardtest.Send(mux, "POST", "/1", ""); w.Code != http.StatusNoContent || w.Body.Len() != 0 {
		t.Errorf("got %d %q", w.Code, w.Body)
	}
}

func TestSkipperLetsRequestsPass(t *testing.T) {
	g := guardtest.Guard(t)
	mux := on("POST /{id}", tellKey, httplock.New(g, "lock:<id>", httplock.WithSkipper(func(r *http.Request) bool {
		return r.URL.Query().Has("dry")
	})))
	guardtest.Hold(t, g, "lock:1")
	if w := guardtest.Send(mux, "POST", "/1?dry=1", ""); w.Body.String() != "no lock" {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
	if w := guardtest.Send(mux, "POST", "/1", ""); w.Code != http.StatusConflict {
		t.Errorf("not skipped: got %d", w.Code)
	}
}

func TestUnavailableStoreDoesNotRunTheHandler(t *testing.T) {
	g := guard.Must(guard.New(guardtest.Locker(t, guardtest.Broken{Store: memstore.New()})))
	var reported error
	g = g.WithHooks(guard.Hooks{Refused: func(_ context.Context, e *guard.Error) { reported = e }})
	mux := on("POST /{id}", runs(t), httplock.New(g, "lock:<id>"))
	w := guardtest.Send(mux, "POST", "/42", "")
	if w.Code != http.StatusServiceUnavailable || guardtest.Code(t, w) != "LOCK_UNAVAILABLE" || w.Header().Get("Retry-After") == "" {
		t.Errorf("got %d %v %s", w.Code, w.Header(), w.Body)
	}
	if !errors.Is(reported, guardtest.ErrDown) {
		t.Errorf("the guard's hook got %v, want the cause for the operator", reported)
	}
}

func TestPanicReleasesTheLockAndPassesThrough(t *testing.T) {
	for name, value := range map[string]any{"of the handler": "boom", "that aborts": http.ErrAbortHandler} {
		t.Run(name, func(t *testing.T) {
			g := guardtest.Guard(t)
			var recovered any
			mux := on("POST /{id}", func(http.ResponseWriter, *http.Request) { panic(value) }, recovery(&recovered), httplock.New(g, "lock:<id>"))
			guardtest.Send(mux, "POST", "/1", "")
			if recovered != value {
				t.Errorf("recovered %v, want %v", recovered, value)
			}
			if guardtest.IsHeld(t, g, "lock:1") {
				t.Error("still held")
			}
		})
	}
}

// recovery answers a panic with 418 and keeps its value.
func recovery(recovered *any) middleware {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer func() {
				if *recovered = recover(); *recovered != nil {
					w.WriteHeader(http.StatusTeapot)
				}
			}()
			next.ServeHTTP(w, r)
		})
	}
}

// short is a guard whose leases notice soon that the store has dropped them.
func short(t *testing.T) (*guard.Guard, lock.Store) {
	t.Helper()
	store := memstore.New()
	return guard.Must(guard.New(guardtest.Locker(t, store, lock.WithWatchdog(900*time.Millisecond)))), store
}

// lose takes a key away, as another process would, and waits until the handler
// can know.
func lose(t *testing.T, store lock.Store, key string, ctx context.Context) {
	t.Helper()
	freed, err := guardtest.Locker(t, store).ForceRelease(context.Background(), key)
	if err != nil || !freed {
		t.Errorf("force release: %v, %v", freed, err)
	}
	<-ctx.Done()
	if !errors.Is(context.Cause(ctx), lock.ErrLost) {
		t.Errorf("cause is %v, want ErrLost", context.Cause(ctx))
	}
}

func TestPanicUnderALostLeaseIsNotAnsweredTwice(t *testing.T) {
	g, store := short(t)
	var recovered any
	mux := on("POST /{id}", func(_ http.ResponseWriter, r *http.Request) {
		lose(t, store, "lock:1", r.Context())
		panic("boom")
	}, recovery(&recovered), httplock.New(g, "lock:<id>"))
	if w := guardtest.Send(mux, "POST", "/1", ""); w.Code != http.StatusTeapot || w.Body.Len() != 0 {
		t.Errorf("got %d %q, want only the answer of the recovery", w.Code, w.Body)
	}
}

func TestLostLeaseIsAnsweredUnlessTheHandlerHasBegunTo(t *testing.T) {
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		code    int
		body    string // in it
	}{
		"nothing": {
			func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", "3")
				w.Header().Set("Content-Type", "text/x")
			},
			http.StatusInternalServerError, "LOCK_LOST",
		},
		"early hints": {
			func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusEarlyHints) },
			http.StatusInternalServerError, "LOCK_LOST",
		},
		"a status": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) }, http.StatusCreated, ""},
		"bytes":    {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("done")) }, http.StatusOK, "done"},
		"a text": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.(interface{ WriteString(string) (int, error) }).WriteString("done")
		}, http.StatusOK, "done"},
		"a flush":            {func(w http.ResponseWriter, _ *http.Request) { w.(http.Flusher).Flush() }, http.StatusOK, ""},
		"a controlled flush": {func(w http.ResponseWriter, _ *http.Request) { _ = http.NewResponseController(w).Flush() }, http.StatusOK, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g, store := short(t)
			server := httptest.NewServer(on("POST /{id}", func(w http.ResponseWriter, r *http.Request) {
				lose(t, store, "lock:1", r.Context())
				test.handler(w, r)
			}, httplock.New(g, "lock:<id>")))
			defer server.Close()
			status, header, body := exchange(t, server, "/1")
			if status != test.code || !strings.Contains(body, test.body) || test.body == "" && body != "" {
				t.Errorf("got %d %q", status, body)
			}
			if header.Get("Retry-After") != "" {
				t.Errorf("headers are %v", header)
			}
		})
	}
}

func TestErrorHandlerLearnsOfALostLease(t *testing.T) {
	g, store := short(t)
	mux := on("POST /{id}", func(_ http.ResponseWriter, r *http.Request) {
		lose(t, store, "lock:1", r.Context())
	}, httplock.New(g, "lock:<id>", httplock.WithErrorHandler(func(w http.ResponseWriter, _ *http.Request, e *guard.Error) {
		http.Error(w, e.Kind.Code(), http.StatusTeapot)
	})))
	if w := guardtest.Send(mux, "POST", "/1", ""); w.Code != http.StatusTeapot || strings.TrimSpace(w.Body.String()) != "LOCK_LOST" {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

func TestErrorHandlerCannotLetTheRequestThrough(t *testing.T) {
	g := guardtest.Guard(t)
	var got *guard.Error
	mux := on("POST /{id}", runs(t), httplock.New(g, "lock:<id>", httplock.WithName("thing"),
		httplock.WithErrorHandler(func(w http.ResponseWriter, r *http.Request, e *guard.Error) {
			got = e
			w.Header().Set("X-Wrapped", "1")
			httplock.Problem(w, r, e)
		}), httplock.WithContentionStatus(http.StatusLocked)))
	guardtest.Hold(t, g, "lock:1")
	w := guardtest.Send(mux, "POST", "/1", "")
	if w.Code != http.StatusLocked || w.Header().Get("X-Wrapped") != "1" || guardtest.Code(t, w) != "LOCK_CONTENDED" {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
	if got == nil || got.Kind != guard.Contended || got.Operation != "POST /{id}" || got.Name != "thing" {
		t.Errorf("the handler got %#v", got)
	}
}

func TestRequestThatRunsOutOfTimeWhileWaitingIsNotASuccess(t *testing.T) {
	g := guardtest.Guard(t)
	mux := on("POST /{id}", runs(t), func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithTimeout(r.Context(), 20*time.Millisecond)
			defer cancel()
			next.ServeHTTP(w, r.WithContext(ctx))
		})
	}, httplock.New(g, "lock:<id>", httplock.WithWait(time.Hour)))
	guardtest.Hold(t, g, "lock:1")
	w := guardtest.Send(mux, "POST", "/1", "")
	if w.Code != http.StatusServiceUnavailable || guardtest.Code(t, w) != "LOCK_CANCELED" || w.Header().Get("Retry-After") == "" {
		t.Errorf("got %d %v %s", w.Code, w.Header(), w.Body)
	}
}

func TestTwoLocksNest(t *testing.T) {
	g := guardtest.Guard(t)
	mux := on("POST /{id}", func(w http.ResponseWriter, r *http.Request) {
		for _, key := range []string{"lock:a:1", "lock:b:1"} {
			if err := lock.AssertHeld(r.Context(), key); err != nil {
				t.Error(err)
			}
		}
		w.WriteHeader(http.StatusCreated)
	}, httplock.New(g, "lock:a:<id>"), httplock.New(g, "lock:b:<id>"), httplock.New(g, "lock:a:<id>"))
	if w := guardtest.Send(mux, "POST", "/1", ""); w.Code != http.StatusCreated {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
	for _, key := range []string{"lock:a:1", "lock:b:1"} {
		if guardtest.IsHeld(t, g, key) {
			t.Errorf("%s is still held", key)
		}
	}
}

func TestKeyFuncMakesTheKey(t *testing.T) {
	g := guardtest.Guard(t)
	mux := on("POST /", tellKey, httplock.New(g, "", httplock.WithName("mine"), httplock.WithKeyFunc(func(r *http.Request) (string, error) {
		switch user := r.Header.Get("X-User"); user {
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
	for user, want := range map[string]struct {
		code int
		body string
	}{
		"42":    {http.StatusCreated, "my:42"},
		"bad":   {http.StatusBadRequest, "LOCK_KEY_INVALID"},
		"":      {http.StatusBadRequest, "LOCK_KEY_INVALID"},
		"unset": {http.StatusInternalServerError, "LOCK_RULE_INVALID"},
	} {
		w := guardtest.Send(mux, "POST", "/", "", "X-User", user)
		if w.Code != want.code || !strings.Contains(w.Body.String(), want.body) || strings.Contains(w.Body.String(), "secret") {
			t.Errorf("%q: got %d %s", user, w.Code, w.Body)
		}
	}
}

func TestEveryOptionOfARuleReachesTheLock(t *testing.T) {
	g := guard.Must(guard.New(guardtest.Locker(t, guardtest.ExclusiveOnly{Store: memstore.New()})))
	mux := on("POST /fair", tellKey, httplock.New(g, "lock:x", httplock.WithMode(lock.Fair)))
	route(mux, "POST /permits", tellKey, httplock.New(g, "lock:x", httplock.WithPermits(1, 2)))
	route(mux, "POST /plain", tellKey, httplock.New(g, "lock:x"))
	route(mux, "POST /brief", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		httplock.New(g, "lock:y", httplock.WithLease(300*time.Millisecond)))
	for path, want := range map[string]string{
		"/fair": "LOCK_RULE_INVALID", "/permits": "LOCK_RULE_INVALID", // the store has no such locks
		"/plain": "lock:x", "/brief": "LOCK_LOST",
	} {
		if w := guardtest.Send(mux, "POST", path, ""); !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: got %d %s, want %s", path, w.Code, w.Body, want)
		}
	}
}

func TestRulesTakeTheLockOfTheRoute(t *testing.T) {
	g := guardtest.Guard(t,
		rule.Rule{Operation: "POST /vouchers/{id}/orders", Key: "lock:order:<userId>"},
		rule.Rule{Operation: "PUT /any/{id}", Key: "lock:any:<id>"},
		rule.Rule{Operation: "GET /read/{id}", Key: "lock:read:<id>"},
		rule.Rule{Operation: "POST shop.example/{id}", Key: "lock:host:<id>"},
		rule.Rule{Operation: "/shop.v1.Stock/Refill", Key: "lock:stock:<req.voucher_id>"}, // of another door
	)
	locks := httplock.Rules(g, httplock.WithVar("userId", httplock.Header("X-User-Id")), httplock.WithPrereadBody(1))
	mux := on("POST /vouchers/{id}/orders", tellKey, locks)
	for _, pattern := range []string{"GET /vouchers/{id}/orders", "POST /free", "/any/{id}", "GET /read/{id}", "POST shop.example/{id}"} {
		route(mux, pattern, tellKey, locks)
	}
	for target, want := range map[string]string{
		"POST /vouchers/7/orders":     "lock:order:42",
		"GET /vouchers/7/orders":      "no lock",
		"PUT /any/7":                  "lock:any:7",
		"POST /any/7":                 "no lock",
		"HEAD /read/7":                "lock:read:7", // served by the route of GET
		"POST http://shop.example/7":  "lock:host:7",
		"POST http://other.example/7": "404 page not found\n",
	} {
		method, path, _ := strings.Cut(target, " ")
		if w := guardtest.Send(mux, method, path, "", "X-User-Id", "42"); w.Body.String() != want {
			t.Errorf("%s: got %d %s, want %s", target, w.Code, w.Body, want)
		}
	}
	if w := guardtest.Send(mux, "POST", "/free", "a body", "X-User-Id", "42"); w.Body.String() != "no lock" {
		t.Errorf("a route without a rule: got %d %s", w.Code, w.Body)
	}
}

func TestRulesInFrontOfTheRouterLetNothingPass(t *testing.T) {
	g := guardtest.Guard(t, rule.Rule{Operation: "POST /{id}", Key: "lock:<id>"})
	mux := on("POST /{id}", runs(t))
	w := guardtest.Send(httplock.Rules(g)(mux), "POST", "/7", "")
	if w.Code != http.StatusInternalServerError || guardtest.Code(t, w) != "LOCK_RULE_INVALID" {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

func TestRulesCanBeReplacedWhileServing(t *testing.T) {
	g := guardtest.Guard(t)
	g.Serve("httplock", "POST /{id}")
	mux := on("POST /{id}", tellKey, httplock.Rules(g))
	if w := guardtest.Send(mux, "POST", "/7", ""); w.Body.String() != "no lock" {
		t.Errorf("got %s", w.Body)
	}
	if err := g.Replace([]rule.Rule{{Operation: "POST /{id}", Key: "lock:<id>"}}); err != nil {
		t.Fatal(err)
	}
	if w := guardtest.Send(mux, "POST", "/7", ""); w.Body.String() != "lock:7" {
		t.Errorf("got %s", w.Body)
	}
}

func TestPatternAndPathValuesOfAnotherRouter(t *testing.T) {
	g := guardtest.Guard(t, rule.Rule{Operation: "POST /o/<no>", Key: "lock:<no>:<route>"})
	locks := httplock.Rules(g,
		httplock.WithPattern(func(*http.Request) string { return "/o/<no>" }),
		httplock.WithPathValue(func(r *http.Request, name string) (string, bool) {
			return strings.TrimPrefix(r.URL.Path, "/o/"), name == "no"
		}))
	h := locks(http.HandlerFunc(tellKey))
	if w := guardtest.Send(h, "POST", "/o/7", ""); w.Body.String() != "lock:7:%2Fo%2F%3Cno%3E" {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
	if w := guardtest.Send(h, "POST", "/o/", ""); w.Code != http.StatusBadRequest {
		t.Errorf("an empty path value: got %d %s", w.Code, w.Body)
	}
	if w := guardtest.Send(h, "GET", "/o/7", ""); w.Body.String() != "no lock" {
		t.Errorf("another method: got %d %s", w.Code, w.Body)
	}
}

func TestBuildReportsWhatIsWrong(t *testing.T) {
	g := guardtest.Guard(t)
	bad := guardtest.Served(guard.Must(guard.New(g.Locker(), rule.Rule{Operation: "POST example.com/x", Key: "lock:<md.user>"})))
	src := httplock.Query("x")
	key := func(*http.Request) (string, error) { return "k", nil }
	build := func(template string, opts ...httplock.Option) func() error {
		return func() error { _, err := httplock.Build(g, template, opts...); return err }
	}
	for name, test := range map[string]struct {
		build func() error
		want  string
	}{
		"no guard":                {func() error { _, err := httplock.Build(nil, "lock:x"); return err }, "httplock: guard is nil"},
		"no guard for rules":      {func() error { _, err := httplock.BuildRules(nil); return err }, "guard is nil"},
		"empty template":          {build(""), "key: is missing"},
		"broken template":         {build("lock:<"), "column 6"},
		"source of another door":  {build("lock:<md.user>"), "<md.user> does not exist in net/http"},
		"request of another door": {build("lock:<req.user>"), "<req.user> does not exist in net/http"},
		"name of another door":    {build("lock:<service>"), "<service> does not exist in net/http"},
		"rule of another door":    {func() error { _, err := httplock.BuildRules(bad); return err }, "<md.user> does not exist in net/http"},
		"negative wait":           {build("lock:x", httplock.WithWait(-1)), "wait: -1ns is negative"},
		"short lease":             {build("lock:x", httplock.WithLease(1)), "lease: 1ns is too short"},
		"unknown mode":            {build("lock:x", httplock.WithMode(99)), "mode: unknown"},
		"too many permits":        {build("lock:x", httplock.WithPermits(3, 2)), "permits: 3 of 2 cannot be taken"},
		"unknown policy":          {build("lock:x", httplock.WithOnBusy(99)), "onBusy: unknown"},
		"nil option":              {build("lock:x", nil), "an option is nil"},
		"unused variable":         {build("lock:<y>", httplock.WithVar("x", src)), "has no <x>"},
		"variable with a source":  {build("lock:<path.x>", httplock.WithVar("x", src)), "has no <x>"},
		"nil source":              {build("lock:<x>", httplock.WithVar("x", nil)), "the source is nil"},
		"reserved variable":       {build("lock:<ip>", httplock.WithVar("ip", src)), "the name is reserved"},
		"status of another kind":  {build("lock:x", httplock.WithContentionStatus(500)), "use 409, 423 or 429"},
		"no retry-after":          {build("lock:x", httplock.WithRetryAfter(0)), "WithRetryAfter(0s): must be positive"},
		"no body":                 {build("lock:x", httplock.WithMaxBody(0)), "WithMaxBody(0): must be positive"},
		"no preread body":         {build("lock:x", httplock.WithPrereadBody(-1)), "WithPrereadBody(-1): must be positive"},
		"nil error handler":       {build("lock:x", httplock.WithErrorHandler(nil)), "WithErrorHandler: the func is nil"},
		"nil pattern":             {build("lock:x", httplock.WithPattern(nil)), "WithPattern: the func is nil"},
		"nil path value":          {build("lock:x", httplock.WithPathValue(nil)), "WithPathValue: the func is nil"},
		"nil key func":            {build("", httplock.WithKeyFunc(nil), httplock.WithName("n")), "WithKeyFunc: the func is nil"},
		"key func without name":   {build("", httplock.WithKeyFunc(key)), "WithName is missing"},
		"key func and template":   {build("lock:x", httplock.WithKeyFunc(key), httplock.WithName("n")), "would not be used"},
		"two faults, the second":  {build("lock:<", httplock.WithMaxBody(0)), "WithMaxBody"},
		"rule's option for rules": {func() error { _, err := httplock.BuildRules(g, httplock.WithWait(1)); return err }, "WithWait: is part of a rule"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := test.build(); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q in it", err, test.want)
			}
		})
	}
}

func TestConstructorsPanicOnProgrammerErrors(t *testing.T) {
	g := guardtest.Guard(t)
	for name, construct := range map[string]func(){
		"New":   func() { httplock.New(g, "lock:<") },
		"Rules": func() { httplock.Rules(nil) },
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

func TestManyRequestsAtOnceRunOneAtATime(t *testing.T) {
	g := guardtest.Guard(t)
	counter := 0 // the race detector and the count tell if two run at once
	mux := on("POST /{id}", func(w http.ResponseWriter, _ *http.Request) {
		counter++
		w.WriteHeader(http.StatusCreated)
	}, httplock.New(g, "lock:<id>", httplock.WithWait(guardtest.Patience)))
	const requests = 200
	codes := make(chan int, requests)
	for range requests {
		go func() { codes <- guardtest.Send(mux, "POST", "/1", "").Code }()
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
