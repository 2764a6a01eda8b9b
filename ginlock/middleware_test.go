package ginlock_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/ginlock"
)

func TestHandlerRunsUnderTheLockAndReleasesIt(t *testing.T) {
	g := guardtest.Guard(t)
	r := gin.New()
	var outside, inside, after *http.Request
	r.Use(func(c *gin.Context) {
		outside = c.Request
		c.Next()
		after = c.Request
	})
	r.POST("/orders/:userId", ginlock.New(g, "lock:order:<userId>"), func(c *gin.Context) {
		inside = c.Request
		lease, ok := ginlock.From(c)
		if !ok || lease.Key() != "lock:order:42" || lease.Fence() == 0 {
			t.Errorf("From: %v, %v", lease, ok)
		}
		if err := lock.AssertHeld(c.Request.Context(), "lock:order:42"); err != nil {
			t.Error(err)
		}
		c.Status(http.StatusCreated)
	})
	if w := guardtest.Send(r, "POST", "/orders/42", ""); w.Code != http.StatusCreated {
		t.Fatalf("got %d %s", w.Code, w.Body)
	}
	if guardtest.IsHeld(t, g, "lock:order:42") {
		t.Error("still held")
	}
	if inside == outside || after != outside {
		t.Error("the request was not replaced for the handler, or not restored")
	}
	if !errors.Is(context.Cause(inside.Context()), lock.ErrReleased) {
		t.Errorf("the handler's context ended with %v", context.Cause(inside.Context()))
	}
}

func TestContendedRequestDoesNotRunTheHandler(t *testing.T) {
	g := guardtest.Guard(t)
	r := gin.New()
	r.POST("/:id", ginlock.New(g, "lock:<id>"), func(*gin.Context) { t.Error("the handler ran") })
	lease := guardtest.Hold(t, g, "lock:1")
	w := guardtest.Send(r, "POST", "/1", "")
	if w.Code != http.StatusConflict || guardtest.Code(t, w) != "LOCK_CONTENDED" || w.Header().Get("Retry-After") != "1" {
		t.Errorf("got %d %v %s", w.Code, w.Header(), w.Body)
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Errorf("the holder: %v", err)
	}
}

func TestAnotherKeyIsNotInTheWay(t *testing.T) {
	g := guardtest.Guard(t)
	r := gin.New()
	r.POST("/:id", ginlock.New(g, "lock:<id>"), tellKey)
	guardtest.Hold(t, g, "lock:1")
	if w := guardtest.Send(r, "POST", "/2", ""); w.Code != http.StatusCreated {
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
	r := gin.New()
	r.POST("/:id", ginlock.New(g, "lock:<id>", ginlock.WithWait(guardtest.Patience)), tellKey)
	lease := guardtest.Hold(t, g, "lock:1")
	answer := make(chan int, 1)
	go func() { answer <- guardtest.Send(r, "POST", "/1", "").Code }()
	guardtest.Receive(t, waiting, "the wait")
	_ = lease.Release(t.Context())
	if code := guardtest.Receive(t, answer, "the answer"); code != http.StatusCreated {
		t.Errorf("got %d", code)
	}
}

func TestWaitThatIsOverIsContention(t *testing.T) {
	g := guardtest.Guard(t)
	r := gin.New()
	r.POST("/:id", ginlock.New(g, "lock:<id>", ginlock.WithWait(20*time.Millisecond)), tellKey)
	guardtest.Hold(t, g, "lock:1")
	if w := guardtest.Send(r, "POST", "/1", ""); w.Code != http.StatusConflict {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

func TestSkippedRequestSucceedsWithoutTheHandler(t *testing.T) {
	g := guardtest.Guard(t)
	r := gin.New()
	r.POST("/:id", ginlock.New(g, "lock:<id>", ginlock.WithOnBusy(rule.Skip)), func(*gin.Context) { t.Error("the handler ran") })
	guardtest.Hold(t, g, "lock:1")
	if w := guardtest.Send(r, "POST", "/1", ""); w.Code != http.StatusNoContent || w.Body.Len() != 0 {
		t.Errorf("got %d %q", w.Code, w.Body)
	}
}

func TestSkipperLetsRequestsPass(t *testing.T) {
	g := guardtest.Guard(t)
	r := gin.New()
	r.POST("/:id", ginlock.New(g, "lock:<id>", ginlock.WithSkipper(func(c *gin.Context) bool {
		return c.Query("dry") != ""
	})), tellKey)
	guardtest.Hold(t, g, "lock:1")
	if w := guardtest.Send(r, "POST", "/1?dry=1", ""); w.Body.String() != "no lock" {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
	if w := guardtest.Send(r, "POST", "/1", ""); w.Code != http.StatusConflict {
		t.Errorf("not skipped: got %d", w.Code)
	}
}

func TestUnavailableStoreDoesNotRunTheHandler(t *testing.T) {
	g := guard.Must(guard.New(guardtest.Locker(t, guardtest.Broken{Store: memstore.New()})))
	r := gin.New()
	var reported error
	r.Use(func(c *gin.Context) {
		c.Next()
		reported = c.Errors.Last()
	})
	r.POST("/:id", ginlock.New(g, "lock:<id>"), func(*gin.Context) { t.Error("the handler ran") })
	w := guardtest.Send(r, "POST", "/42", "")
	if w.Code != http.StatusServiceUnavailable || guardtest.Code(t, w) != "LOCK_UNAVAILABLE" || w.Header().Get("Retry-After") == "" {
		t.Errorf("got %d %v %s", w.Code, w.Header(), w.Body)
	}
	if !errors.Is(reported, guardtest.ErrDown) {
		t.Errorf("c.Errors has %v, want the cause for the operator", reported)
	}
}

func TestPanicReleasesTheLockAndPassesThrough(t *testing.T) {
	for name, value := range map[string]any{"of the handler": "boom", "that aborts": http.ErrAbortHandler} {
		t.Run(name, func(t *testing.T) {
			g := guardtest.Guard(t)
			r := gin.New()
			var outside, seen *http.Request
			var recovered any
			r.Use(func(c *gin.Context) {
				outside = c.Request
				defer func() {
					recovered, seen = recover(), c.Request
					c.AbortWithStatus(http.StatusInternalServerError)
				}()
				c.Next()
			})
			r.POST("/:id", ginlock.New(g, "lock:<id>"), func(*gin.Context) { panic(value) })
			guardtest.Send(r, "POST", "/1", "")
			if recovered != value {
				t.Errorf("recovered %v, want %v", recovered, value)
			}
			if seen != outside {
				t.Error("the request was not restored")
			}
			if guardtest.IsHeld(t, g, "lock:1") {
				t.Error("still held")
			}
		})
	}
}

func TestPanicUnderALostLeaseIsNotAnsweredTwice(t *testing.T) {
	store := memstore.New()
	g := guard.Must(guard.New(guardtest.Locker(t, store, lock.WithWatchdog(900*time.Millisecond))))
	r := gin.New()
	r.Use(gin.CustomRecoveryWithWriter(nil, func(c *gin.Context, _ any) { c.AbortWithStatus(http.StatusTeapot) }))
	r.POST("/:id", ginlock.New(g, "lock:<id>"), func(c *gin.Context) {
		force(t, store, "lock:1")
		<-c.Request.Context().Done()
		panic("boom")
	})
	if w := guardtest.Send(r, "POST", "/1", ""); w.Code != http.StatusTeapot || w.Body.Len() != 0 {
		t.Errorf("got %d %q, want only the answer of the recovery", w.Code, w.Body)
	}
}

// force takes a key away, as another process would.
func force(t testing.TB, store lock.Store, key string) {
	t.Helper()
	freed, err := guardtest.Locker(t, store).ForceRelease(context.Background(), key)
	if err != nil || !freed {
		t.Errorf("force release: %v, %v", freed, err)
	}
}

func TestLostLeaseIsAnswered(t *testing.T) {
	for name, test := range map[string]struct {
		handler  gin.HandlerFunc
		code     int
		wantCode string
	}{
		"with 500 if nothing was written": {
			func(c *gin.Context) {
				c.Status(http.StatusCreated)
				c.Header("Content-Length", "3")
				c.Header("Content-Type", "text/x")
			},
			http.StatusInternalServerError, "LOCK_LOST",
		},
		"not at all if the handler has answered": {
			func(c *gin.Context) { c.JSON(http.StatusCreated, gin.H{"code": "of the handler"}) },
			http.StatusCreated, "of the handler",
		},
	} {
		t.Run(name, func(t *testing.T) {
			store := memstore.New()
			g := guard.Must(guard.New(guardtest.Locker(t, store, lock.WithWatchdog(900*time.Millisecond))))
			r := gin.New()
			var reported error
			r.Use(func(c *gin.Context) {
				c.Next()
				reported = c.Errors.Last()
			})
			r.POST("/:id", ginlock.New(g, "lock:<id>"), func(c *gin.Context) {
				ctx := c.Request.Context()
				force(t, store, "lock:1")
				<-ctx.Done()
				if !errors.Is(context.Cause(ctx), lock.ErrLost) {
					t.Errorf("cause is %v, want ErrLost", context.Cause(ctx))
				}
				test.handler(c)
			})
			w := guardtest.Send(r, "POST", "/1", "")
			if w.Code != test.code || guardtest.Code(t, w) != test.wantCode {
				t.Errorf("got %d %s", w.Code, w.Body)
			}
			if length := w.Header().Get("Content-Length"); length != "" && length != strconv.Itoa(w.Body.Len()) {
				t.Errorf("Content-Length is %s for %d bytes", length, w.Body.Len())
			}
			if w.Header().Get("Retry-After") != "" {
				t.Errorf("headers are %v", w.Header())
			}
			if guard.KindOf(reported) != guard.Lost {
				t.Errorf("c.Errors has %v, want kind Lost", reported)
			}
		})
	}
}

func TestClientThatLeavesWhileWaitingLeavesTheQueue(t *testing.T) {
	waiting, waited := make(chan struct{}, 1), make(chan struct{}, 1)
	hooks := lock.Hooks{Waiting: func(context.Context, lock.Event) func() {
		waiting <- struct{}{}
		return func() { waited <- struct{}{} }
	}}
	g := guard.Must(guard.New(guardtest.Locker(t, memstore.New(), lock.WithHooks(hooks))))
	type answer struct {
		status  int
		written bool
	}
	answers := make(chan answer, 1)
	r := gin.New()
	r.Use(func(c *gin.Context) {
		c.Next()
		answers <- answer{c.Writer.Status(), c.Writer.Written()}
	})
	r.POST("/:id", ginlock.New(g, "lock:<id>", ginlock.WithWait(time.Hour)), func(*gin.Context) { t.Error("the handler ran") })
	lease := guardtest.Hold(t, g, "lock:1")
	leave := post(t, r, "/1")
	guardtest.Receive(t, waiting, "the wait")
	leave()
	guardtest.Receive(t, waited, "the end of the wait")
	if got := guardtest.Receive(t, answers, "the answer"); got != (answer{499, false}) {
		t.Errorf("got %+v, want 499 for the log and nothing written", got)
	}
	_ = lease.Release(t.Context())
	if guardtest.IsHeld(t, g, "lock:1") {
		t.Error("somebody got the lock who had left")
	}
}

func TestClientThatLeavesWhileTheHandlerRunsDoesNotFreeTheLock(t *testing.T) {
	g := guardtest.Guard(t)
	running, gone, finish, done := make(chan struct{}), make(chan struct{}), make(chan struct{}), make(chan struct{})
	r := gin.New()
	r.Use(func(c *gin.Context) {
		c.Next()
		close(done)
	})
	r.POST("/:id", ginlock.New(g, "lock:<id>"), func(c *gin.Context) {
		close(running)
		<-c.Request.Context().Done()
		close(gone)
		<-finish
	})
	leave := post(t, r, "/1")
	guardtest.Receive(t, running, "the handler")
	leave()
	guardtest.Receive(t, gone, "the end of the handler's context")
	if !guardtest.IsHeld(t, g, "lock:1") {
		t.Error("free although the handler runs")
	}
	if _, err := g.Locker().TryAcquire(t.Context(), "lock:1"); !errors.Is(err, lock.ErrBusy) {
		t.Errorf("another one got %v, want ErrBusy", err)
	}
	close(finish)
	guardtest.Receive(t, done, "the end of the handler")
	if guardtest.IsHeld(t, g, "lock:1") {
		t.Error("still held")
	}
}

// post sends a request over a real connection and returns a func that breaks
// the connection.
func post(t *testing.T, h http.Handler, path string) (leave func()) {
	t.Helper()
	server := httptest.NewServer(h)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+path, nil)
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

func TestRequestThatRunsOutOfTimeWhileWaitingIsNotASuccess(t *testing.T) {
	g := guardtest.Guard(t)
	r := gin.New()
	r.Use(func(c *gin.Context) {
		ctx, cancel := context.WithTimeout(c.Request.Context(), 20*time.Millisecond)
		defer cancel()
		c.Request = c.Request.WithContext(ctx)
		c.Next()
	})
	r.POST("/:id", ginlock.New(g, "lock:<id>", ginlock.WithWait(time.Hour)), func(*gin.Context) { t.Error("the handler ran") })
	guardtest.Hold(t, g, "lock:1")
	w := guardtest.Send(r, "POST", "/1", "")
	if w.Code != http.StatusServiceUnavailable || guardtest.Code(t, w) != "LOCK_CANCELED" || w.Header().Get("Retry-After") == "" {
		t.Errorf("got %d %v %s", w.Code, w.Header(), w.Body)
	}
}

func TestErrorHandlerCannotLetTheRequestThrough(t *testing.T) {
	g := guardtest.Guard(t)
	r := gin.New()
	var got *guard.Error
	r.POST("/:id", ginlock.New(g, "lock:<id>", ginlock.WithName("thing"), ginlock.WithErrorHandler(func(c *gin.Context, e *guard.Error) {
		got = e
		c.Next()
		c.String(http.StatusTeapot, "mine")
	})), func(*gin.Context) { t.Error("the handler ran") })
	guardtest.Hold(t, g, "lock:1")
	if w := guardtest.Send(r, "POST", "/1", ""); w.Code != http.StatusTeapot || w.Body.String() != "mine" {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
	if got == nil || got.Kind != guard.Contended || got.Operation != "POST /:id" || got.Name != "thing" {
		t.Errorf("the handler got %#v", got)
	}
}

func TestErrorHandlerLearnsOfALostLease(t *testing.T) {
	store := memstore.New()
	g := guard.Must(guard.New(guardtest.Locker(t, store, lock.WithWatchdog(900*time.Millisecond))))
	r := gin.New()
	r.POST("/:id", ginlock.New(g, "lock:<id>", ginlock.WithErrorHandler(func(c *gin.Context, e *guard.Error) {
		c.String(http.StatusTeapot, e.Kind.Code())
	})), func(c *gin.Context) {
		force(t, store, "lock:1")
		<-c.Request.Context().Done()
	})
	if w := guardtest.Send(r, "POST", "/1", ""); w.Code != http.StatusTeapot || w.Body.String() != "LOCK_LOST" {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

func TestTwoLocksNest(t *testing.T) {
	g := guardtest.Guard(t)
	r := gin.New()
	r.POST("/:id", ginlock.New(g, "lock:a:<id>"), ginlock.New(g, "lock:b:<id>"), ginlock.New(g, "lock:a:<id>"), func(c *gin.Context) {
		for _, key := range []string{"lock:a:1", "lock:b:1"} {
			if err := lock.AssertHeld(c.Request.Context(), key); err != nil {
				t.Error(err)
			}
		}
		c.Status(http.StatusCreated)
	})
	if w := guardtest.Send(r, "POST", "/1", ""); w.Code != http.StatusCreated {
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
	r := gin.New()
	r.POST("/", ginlock.New(g, "", ginlock.WithName("mine"), ginlock.WithKeyFunc(func(c *gin.Context) (string, error) {
		switch user := c.GetHeader("X-User"); user {
		case "bad":
			return "", errors.New("secret reason")
		case "unset":
			return "", guard.ErrUnresolvable
		case "":
			return "", nil
		default:
			return "my:" + user, nil
		}
	})), tellKey)
	for user, want := range map[string]struct {
		code int
		body string
	}{
		"42":    {http.StatusCreated, "my:42"},
		"bad":   {http.StatusBadRequest, "LOCK_KEY_INVALID"},
		"":      {http.StatusBadRequest, "LOCK_KEY_INVALID"},
		"unset": {http.StatusInternalServerError, "LOCK_RULE_INVALID"},
	} {
		w := guardtest.Send(r, "POST", "/", "", "X-User", user)
		if w.Code != want.code || !strings.Contains(w.Body.String(), want.body) || strings.Contains(w.Body.String(), "secret") {
			t.Errorf("%q: got %d %s", user, w.Code, w.Body)
		}
	}
}

func TestModeReachesTheStore(t *testing.T) {
	g := guard.Must(guard.New(guardtest.Locker(t, guardtest.ExclusiveOnly{Store: memstore.New()})))
	r := gin.New()
	r.POST("/fair", ginlock.New(g, "lock:x", ginlock.WithMode(lock.Fair)), tellKey)
	r.POST("/plain", ginlock.New(g, "lock:x"), tellKey)
	if w := guardtest.Send(r, "POST", "/fair", ""); w.Code != http.StatusInternalServerError || guardtest.Code(t, w) != "LOCK_RULE_INVALID" {
		t.Errorf("fair: got %d %s, but the store has no fair locks", w.Code, w.Body)
	}
	if w := guardtest.Send(r, "POST", "/plain", ""); w.Code != http.StatusCreated {
		t.Errorf("exclusive: got %d %s", w.Code, w.Body)
	}
}

func TestFixedLeaseEndsWithTheHandlerStillRunning(t *testing.T) {
	g := guardtest.Guard(t)
	r := gin.New()
	r.POST("/", ginlock.New(g, "lock:x", ginlock.WithLease(300*time.Millisecond)), func(c *gin.Context) {
		<-c.Request.Context().Done()
	})
	if w := guardtest.Send(r, "POST", "/", ""); w.Code != http.StatusInternalServerError || guardtest.Code(t, w) != "LOCK_LOST" {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

func TestRulesTakeTheLockOfTheRoute(t *testing.T) {
	g := guardtest.Guard(t,
		rule.Rule{Operation: "POST /vouchers/:id/orders", Key: "lock:order:<userId>"},
		rule.Rule{Operation: "/shop.v1.Stock/Refill", Key: "lock:stock:<req.voucher_id>"}, // of another door
	)
	r := gin.New()
	r.Use(ginlock.Rules(g, ginlock.WithVar("userId", ginlock.Header("X-User-Id")), ginlock.WithPrereadBody(1)))
	r.POST("/vouchers/:id/orders", tellKey)
	r.GET("/vouchers/:id/orders", tellKey)
	r.POST("/free", tellKey)
	for target, want := range map[string]string{
		"POST /vouchers/7/orders": "lock:order:42",
		"GET /vouchers/7/orders":  "no lock",
		"POST /nowhere":           "404 page not found",
	} {
		method, path, _ := strings.Cut(target, " ")
		if w := guardtest.Send(r, method, path, "", "X-User-Id", "42"); w.Body.String() != want {
			t.Errorf("%s: got %d %s, want %s", target, w.Code, w.Body, want)
		}
	}
	if w := guardtest.Send(r, "POST", "/free", "a body", "X-User-Id", "42"); w.Body.String() != "no lock" {
		t.Errorf("a route without a rule: got %d %s", w.Code, w.Body)
	}
}

func TestBuildReportsWhatIsWrong(t *testing.T) {
	g := guardtest.Guard(t)
	bad := guardtest.Served(guard.Must(guard.New(g.Locker(), rule.Rule{Operation: "POST /x", Key: "lock:<md.user>"})))
	src := ginlock.Query("x")
	key := func(*gin.Context) (string, error) { return "k", nil }
	build := func(template string, opts ...ginlock.Option) func() error {
		return func() error { _, err := ginlock.Build(g, template, opts...); return err }
	}
	for name, test := range map[string]struct {
		build func() error
		want  string
	}{
		"no guard":                {func() error { _, err := ginlock.Build(nil, "lock:x"); return err }, "guard is nil"},
		"no guard for rules":      {func() error { _, err := ginlock.BuildRules(nil); return err }, "guard is nil"},
		"empty template":          {build(""), "key: is missing"},
		"broken template":         {build("lock:<"), "column 6"},
		"source of another door":  {build("lock:<md.user>"), "<md.user> does not exist in Gin"},
		"request of another door": {build("lock:<req.user>"), "<req.user> does not exist in Gin"},
		"name of another door":    {build("lock:<service>"), "<service> does not exist in Gin"},
		"rule of another door":    {func() error { _, err := ginlock.BuildRules(bad); return err }, "<md.user> does not exist in Gin"},
		"negative wait":           {build("lock:x", ginlock.WithWait(-1)), "wait: -1ns is negative"},
		"short lease":             {build("lock:x", ginlock.WithLease(1)), "lease: 1ns is too short"},
		"unknown mode":            {build("lock:x", ginlock.WithMode(99)), "mode: unknown"},
		"unknown policy":          {build("lock:x", ginlock.WithOnBusy(99)), "onBusy: unknown"},
		"nil option":              {build("lock:x", nil), "an option is nil"},
		"unused variable":         {build("lock:<y>", ginlock.WithVar("x", src)), "has no <x>"},
		"variable with a source":  {build("lock:<path.x>", ginlock.WithVar("x", src)), "has no <x>"},
		"nil source":              {build("lock:<x>", ginlock.WithVar("x", nil)), "the source is nil"},
		"reserved variable":       {build("lock:<ip>", ginlock.WithVar("ip", src)), "the name is reserved"},
		"status of another kind":  {build("lock:x", ginlock.WithContentionStatus(500)), "use 409, 423 or 429"},
		"no retry-after":          {build("lock:x", ginlock.WithRetryAfter(0)), "WithRetryAfter(0s): must be positive"},
		"no body":                 {build("lock:x", ginlock.WithMaxBody(0)), "WithMaxBody(0): must be positive"},
		"no preread body":         {build("lock:x", ginlock.WithPrereadBody(-1)), "WithPrereadBody(-1): must be positive"},
		"nil error handler":       {build("lock:x", ginlock.WithErrorHandler(nil)), "WithErrorHandler: the func is nil"},
		"nil key func":            {build("", ginlock.WithKeyFunc(nil), ginlock.WithName("n")), "WithKeyFunc: the func is nil"},
		"key func without name":   {build("", ginlock.WithKeyFunc(key)), "WithName is missing"},
		"key func and template":   {build("lock:x", ginlock.WithKeyFunc(key), ginlock.WithName("n")), "would not be used"},
		"two faults, the second":  {build("lock:<", ginlock.WithMaxBody(0)), "WithMaxBody"},
		"rule's option for rules": {func() error { _, err := ginlock.BuildRules(g, ginlock.WithWait(1)); return err }, "WithWait: is part of a rule"},
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
		"New":   func() { ginlock.New(g, "lock:<") },
		"Rules": func() { ginlock.Rules(nil) },
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
	r := gin.New()
	counter := 0 // the race detector and the count tell if two run at once
	r.POST("/:id", ginlock.New(g, "lock:<id>", ginlock.WithWait(guardtest.Patience)), func(c *gin.Context) {
		counter++
		c.Status(http.StatusCreated)
	})
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
