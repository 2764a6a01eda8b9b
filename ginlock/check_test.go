package ginlock_test

import (
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/core/guard/httpguard"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/ginlock"
)

func TestCheckFindsVariablesThatARouteDoesNotHave(t *testing.T) {
	lock := func(template string, opts ...ginlock.Option) gin.HandlerFunc {
		return ginlock.New(guardtest.Guard(t), template, opts...)
	}
	for title, test := range map[string]struct {
		route string
		lock  gin.HandlerFunc
		want  string // in the error; empty: none
	}{
		"bare path parameter":          {"/v/:id", lock("lock:<id>"), ""},
		"path parameter":               {"/v/:id/x/:other", lock("lock:<path.other>"), ""},
		"wildcard parameter":           {"/f/*rest", lock("lock:<path.rest>"), ""},
		"parameter behind a prefix":    {"/f/v:id", lock("lock:<path.id>"), ""},
		"bound name":                   {"/v/:id", lock("lock:<userId>", httpguard.WithVar("userId", httpguard.Header("X"))), ""},
		"name that a middleware sets":  {"/v/:id", lock("lock:<userId>"), ""},
		"other sources":                {"/v", lock("lock:<query.a>:<header.b>:<cookie.c>:<form.d>:<body.e>:<ctx.f>"), ""},
		"reserved names":               {"/v", lock("lock:<method>:<route>:<ip>"), ""},
		"key func":                     {"/v", lock("lock:n", httpguard.WithKeyFunc(func(httpguard.Request) (string, error) { return "k", nil })), ""},
		"key func, named by a literal": {"/v", lock("lock:userId", httpguard.WithKeyFunc(func(httpguard.Request) (string, error) { return "k", nil }), httpguard.WithProvided("userId")), ""},
		"misspelt path parameter":      {"/v/:id", lock("lock:<path.ID>"), `"POST /v/:id": template "lock:<path.ID>", column 6: <path.ID> is not a parameter of the route`},
		"misspelt bare name":           {"/v/:id", lock("lock:a:<userld>"), `"POST /v/:id": template "lock:a:<userld>", column 8: <userld> is not a parameter of the route, not bound by WithVar`},
		"part of a path parameter":     {"/v/:ident", lock("lock:<path.id>"), "<path.id> is not a parameter"},
		"part of the path without one": {"/v/id", lock("lock:<path.id>"), "<path.id> is not a parameter"},
	} {
		t.Run(title, func(t *testing.T) {
			r := gin.New()
			foreign := func(*gin.Context) { t.Error("a handler ran") }
			r.Use(foreign)
			r.POST(test.route, foreign, test.lock, foreign)
			err := ginlock.Check(r, guardtest.Guard(t), "userId")
			if test.want == "" && err != nil {
				t.Errorf("got %v", err)
			}
			if test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q in it", err, test.want)
			}
		})
	}
}

func TestCheckSeesEveryRouteAndEveryMiddleware(t *testing.T) {
	g := guardtest.Guard(t)
	r := gin.New()
	r.Use(gin.Recovery(), ginlock.New(g, "lock:<path.everywhere>"))
	group := r.Group("/g", ginlock.New(g, "lock:<path.group>"))
	want := []string{}
	for _, path := range []string{"/a", "/ab", "/abc/:id", "/abd", "/x/:id/y", "/x/:id/z", "/w/*rest"} {
		for _, method := range []string{"GET", "POST", "PURGE"} {
			r.Handle(method, path, tellKey)
			group.Handle(method, path, tellKey)
			want = append(want, method+" "+path+" everywhere", method+" /g"+path+" everywhere", method+" /g"+path+" group", method+" /g"+path+" behind")
		}
	}
	err := ginlock.Check(r, g)
	if err == nil {
		t.Fatal("no error")
	}
	var got []string
	for line := range strings.Lines(err.Error()) {
		_, line, _ := strings.Cut(line, "ginlock: ")
		operation, rest, _ := strings.Cut(strings.ReplaceAll(line, `"`, ""), ": template ")
		if at, _, behind := strings.Cut(line, ": a lock stands behind another one"); behind {
			operation, rest = strings.Trim(at, `"`), "column 6: <path.behind>"
		}
		_, name, _ := strings.Cut(rest, "column 6: <path.")
		name, _, _ = strings.Cut(name, ">")
		got = append(got, operation+" "+name)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// What a new user gets wrong: each is found before a request comes, and named with
// its cure, and no request runs its handler without the lock meanwhile.
func TestCheckFindsLocksThatWouldNeverBeTaken(t *testing.T) {
	const operation = "POST /v/:id"
	for title, test := range map[string]struct {
		register func(r *gin.Engine, locks func() gin.HandlerFunc, work gin.HandlerFunc)
		want     string
	}{
		"Use behind the routes": {func(r *gin.Engine, locks func() gin.HandlerFunc, work gin.HandlerFunc) {
			r.POST("/v/:id", work)
			r.Use(locks())
		}, `ginlock: "POST /v/:id": has a rule, but Rules is not among its handlers: call Use before the route is registered`},
		"no Use": {func(r *gin.Engine, _ func() gin.HandlerFunc, work gin.HandlerFunc) {
			r.POST("/v/:id", work)
		}, `ginlock: "POST /v/:id": has a rule, but Rules is not among its handlers`},
		"behind its handler": {func(r *gin.Engine, locks func() gin.HandlerFunc, work gin.HandlerFunc) {
			r.POST("/v/:id", work, locks())
		}, `ginlock: "POST /v/:id": a lock stands behind the handler, put it in front`},
		"another group": {func(r *gin.Engine, locks func() gin.HandlerFunc, work gin.HandlerFunc) {
			r.Group("/admin", locks()).POST("/v/:id", work)
			r.POST("/v/:id", work)
		}, `ginlock: "POST /v/:id": has a rule, but Rules is not among its handlers`},
		"a route inside of a group": {func(r *gin.Engine, locks func() gin.HandlerFunc, work gin.HandlerFunc) {
			r.Use(locks())
			r.Group("/api").POST("/v/:id", work)
		}, `"POST /v/:id": has a rule, and nothing serves it, did you mean "POST /api/v/:id"?`},
		"any method": {func(r *gin.Engine, locks func() gin.HandlerFunc, work gin.HandlerFunc) {
			r.Use(locks())
			r.Any("/v/:id", work)
		}, `ginlock: "POST /v/:id": the route takes any method, and GET has no rule`},
	} {
		t.Run(title, func(t *testing.T) {
			g := guard.Must(guard.New(guardtest.Guard(t).Locker(), rule.Rule{Operation: operation, Key: "lock:v:<id>"}))
			g = g.WithLogger(slog.New(slog.DiscardHandler))
			r := gin.New()
			// Where handlers can no longer get their lock, the program doesn't start.
			var err error
			test.register(r, func() gin.HandlerFunc {
				var h gin.HandlerFunc
				if h, err = ginlock.BuildRules(g, r); err != nil {
					h = func(*gin.Context) {}
				}
				return h
			}, func(*gin.Context) {})
			if (err != nil) != (title == "Use behind the routes") {
				t.Errorf("Rules returned %v", err)
			}
			if err == nil {
				err = ginlock.Check(r, g)
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v\nwant %s", err, test.want)
			}
		})
	}
}

// Routes that have been registered already can't get their lock any longer. Those without a
// rule need none.
func TestRulesBehindRoutesThatNeedNoneOfThem(t *testing.T) {
	for name, test := range map[string]struct {
		chain func(*guard.Guard) []gin.HandlerFunc // of the route with a rule
		want  bool
	}{
		"in front": {nil, true},
		"another guard's in front": {func(*guard.Guard) []gin.HandlerFunc {
			return []gin.HandlerFunc{ginlock.Rules(guardtest.Guard(t), gin.New())}
		}, false},
		"its own rule's in front":   {func(g *guard.Guard) []gin.HandlerFunc { return []gin.HandlerFunc{ginlock.New(g, "lock:own")} }, false},
		"the guard's, made earlier": {func(g *guard.Guard) []gin.HandlerFunc { return []gin.HandlerFunc{ginlock.Rules(g, gin.New())} }, true},
	} {
		t.Run(name, func(t *testing.T) {
			g := guardtest.Guard(t, rule.Rule{Operation: "POST /v/:id", Key: "lock:v:<id>"})
			r := gin.New()
			r.GET("/health", tellKey)
			if test.chain != nil {
				r.POST("/v/:id", append(test.chain(g), tellKey)...)
			}
			if _, err := ginlock.BuildRules(g, r); (err == nil) != test.want || err != nil && !strings.Contains(err.Error(), `"POST /v/:id": has a rule, but Rules is not among its handlers`) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// The engine that Rules was made for is looked at by each validation, once.
func TestRulesTellTheGuardOfTheirEngine(t *testing.T) {
	g := guard.Must(guard.New(guardtest.Guard(t).Locker(), rule.Rule{Operation: "POST /v/:id", Key: "lock:v:<userld>"}))
	g = g.WithLogger(slog.New(slog.DiscardHandler))
	r := gin.New()
	r.Group("/a", ginlock.Rules(g, r))
	r.Use(ginlock.Rules(g, r, httpguard.WithProvided("userId")))
	r.POST("/v/:id", func(*gin.Context) { t.Error("the handler ran without its lock") })
	err := g.Validate()
	if err == nil || strings.Count(err.Error(), "<userld> is not a parameter") != 1 {
		t.Errorf("got %v, want one fault of the template", err)
	}
	guardtest.Send(r, "POST", "/v/7", "")
	if w := guardtest.Send(r, "POST", "/nowhere", ""); w.Code != http.StatusNotFound {
		t.Errorf("a request without a route: got %d", w.Code)
	}
	if err := g.Replace([]rule.Rule{{Operation: "POST /v/:id", Key: "lock:v:<userId>"}}); err != nil {
		t.Error(err)
	}
	if err := g.Validate(); err != nil {
		t.Errorf("a name that a middleware provides: %v", err)
	}
}

// What a group provides is not there for the locks of another group.
func TestCheckFindsNamesThatAreProvidedElsewhere(t *testing.T) {
	g := guardtest.Guard(t).WithLogger(slog.New(slog.DiscardHandler))
	r := gin.New()
	provided := httpguard.WithProvided("userId")
	r.POST("/a", ginlock.New(g, "lock:a:<userId>", provided, httpguard.WithRule("lock:more:<userId>")), tellKey)
	r.POST("/b", ginlock.New(g, "lock:b:<userId>"), tellKey)
	err := ginlock.Check(r, g)
	if err == nil || !strings.Contains(err.Error(), `"POST /b": template "lock:b:<userId>"`) || strings.Contains(err.Error(), "POST /a") {
		t.Errorf("got %v, want a fault of POST /b alone", err)
	}
	if err := ginlock.Check(r, g, "userId"); err != nil {
		t.Errorf("a name that all routes have: %v", err)
	}
}

// Groups may share their options: each fault is named once, in the same order each time.
func TestNamesThatSeveralGroupsMisspellAreReportedOnce(t *testing.T) {
	g := guardtest.Guard(t, rule.Rule{Operation: "POST /a/:id", Key: "lock:<userId>:<tenant>"}, rule.Rule{Operation: "POST /b/:id", Key: "lock:<userId>:<tenant>"})
	r, source := gin.New(), httpguard.Header("X")
	for _, path := range []string{"/a", "/b"} {
		r.Group(path, ginlock.Rules(g, r, httpguard.WithProvided("userId", "tenant"),
			httpguard.WithVar("usrId", source), httpguard.WithVar("tenat", source))).POST("/:id", tellKey)
	}
	const want = `ginlock: WithVar("tenat"): no template has <tenat>, did you mean "tenant"?` + "\n" +
		`ginlock: WithVar("usrId"): no template has <usrId>, did you mean "userId"?`
	for range 20 {
		if err := g.Validate(); err == nil || err.Error() != want {
			t.Fatalf("got %v\nwant %s", err, want)
		}
	}
}

// Rules of a guard without rules are not those of another guard without rules: what the
// other one gets later, they don't take.
func TestRulesOfAnotherGuardAreNoLock(t *testing.T) {
	before, other := guardtest.Guard(t), guardtest.Guard(t)
	r := gin.New()
	r.Use(ginlock.Rules(before, r))
	r.POST("/x", tellKey)
	if err := ginlock.Check(r, other); err != nil {
		t.Fatal(err)
	}
	err := other.Replace([]rule.Rule{{Operation: "POST /x", Key: "lock:x"}})
	const want = `ginlock: "POST /x": has a rule, but Rules is not among its handlers`
	if err == nil || !strings.Contains(err.Error(), want) {
		w := guardtest.Send(r, "POST", "/x", "")
		t.Errorf("got %v, want %q; a request gets %d %s", err, want, w.Code, w.Body)
	}
	// A guard that shares the rules is the same.
	same := before.WithHooks(guard.Hooks{})
	if err := ginlock.Check(r, same); err != nil {
		t.Fatal(err)
	}
	if err := same.Replace([]rule.Rule{{Operation: "POST /x", Key: "lock:x"}}); err != nil {
		t.Errorf("the guard of the middleware: %v", err)
	}
	if w := guardtest.Send(r, "POST", "/x", ""); w.Body.String() != "lock:x" {
		t.Errorf("got %d %s, want the key", w.Code, w.Body)
	}
}

// A lock behind its handler runs when it is too late: it says so with the first request.
func TestLockBehindItsHandlerIsReported(t *testing.T) {
	var log strings.Builder
	g := guardtest.Guard(t).WithLogger(slog.New(slog.NewTextHandler(&log, nil)))
	r := gin.New()
	r.Use(ginlock.New(g, "lock:first"))
	r.POST("/v/:id", func(*gin.Context) {}, ginlock.New(g, "lock:v:<id>"))
	w := guardtest.Send(r, "POST", "/v/7", "")
	if w.Code != http.StatusInternalServerError || !strings.Contains(log.String(), "stands behind the handler, put it in front") {
		t.Errorf("got %d %s, the log is %s", w.Code, w.Body, &log)
	}
	if w := guardtest.Send(r, "POST", "/nowhere", ""); w.Code != http.StatusNotFound {
		t.Errorf("a request without a route, which has no handler: got %d", w.Code)
	}
}

func TestCheckOfAnEngineWithoutRoutesOrLocksIsClean(t *testing.T) {
	r, g := gin.New(), guardtest.Guard(t)
	if err := ginlock.Check(r, g); err != nil {
		t.Errorf("no routes: %v", err)
	}
	r.GET("/", tellKey)
	if err := ginlock.Check(r, g); err != nil {
		t.Errorf("no locks: %v", err)
	}
}

func TestNoEngineAndNoGuardAreErrors(t *testing.T) {
	g := guardtest.Guard(t)
	for name, check := range map[string]func() error{
		"Check of no engine":      func() error { return ginlock.Check(nil, g) },
		"Check of no guard":       func() error { return ginlock.Check(gin.New(), nil) },
		"BuildRules of no engine": func() error { _, err := ginlock.BuildRules(g, nil); return err },
		"BuildRules of no guard":  func() error { _, err := ginlock.BuildRules(nil, gin.New()); return err },
	} {
		if err := check(); err == nil || !strings.Contains(err.Error(), "is nil") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if err := g.Validate(); err != nil {
		t.Errorf("the guard was valid: %v", err)
	}
}

func TestCheckLeavesTheEngineAsItIs(t *testing.T) {
	g := guardtest.Guard(t)
	r := one("/v/:id", ginlock.New(g, "lock:<id>"))
	if err := ginlock.Check(r, g); err != nil {
		t.Fatal(err)
	}
	if w := guardtest.Send(r, "POST", "/v/7", ""); w.Body.String() != "lock:7" {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

func TestCheckRefusesARouterThatLooksDifferent(t *testing.T) {
	type node struct {
		fullPath string
		handlers gin.HandlersChain
		children []*node
	}
	type tree struct {
		method string
		root   *node
	}
	type otherNode struct {
		fullPath string
		handlers []string
		children []*otherNode
	}
	leaf := &node{fullPath: "/", handlers: gin.HandlersChain{tellKey}}
	same := struct{ trees []tree }{[]tree{{"GET", &node{children: []*node{leaf}}}}}
	if !ginlock.CanReadRoutes(&same) {
		t.Fatal("a router that looks the same is refused")
	}
	for title, engine := range map[string]any{
		"no trees":           &struct{ routes []tree }{},
		"trees by method":    &struct{ trees map[string]tree }{},
		"trees of something": &struct{ trees []string }{},
		"no method":          &struct{ trees []struct{ root *node } }{[]struct{ root *node }{{leaf}}},
		"no root":            &struct{ trees []struct{ method string } }{[]struct{ method string }{{"GET"}}},
		"nil root":           &struct{ trees []tree }{[]tree{{"GET", nil}}},
		"nil child":          &struct{ trees []tree }{[]tree{{"GET", &node{children: []*node{nil}}}}},
		"other handlers": &struct {
			trees []struct {
				method string
				root   *otherNode
			}
		}{[]struct {
			method string
			root   *otherNode
		}{{"GET", &otherNode{fullPath: "/", handlers: []string{"x"}, children: []*otherNode{}}}}},
	} {
		t.Run(title, func(t *testing.T) {
			if ginlock.CanReadRoutes(engine) {
				t.Error("not refused")
			}
		})
	}
}

// Gin takes the backslash of a literal colon out of its routes when the first request comes,
// so that one with a backslash in a rule would be found here, and by no request.
func TestALiteralColonHasNoBackslashInRules(t *testing.T) {
	routes := func(operation string) (*guard.Guard, *gin.Engine) {
		g := guard.Must(guard.New(guardtest.Locker(t, memstore.New()), rule.Rule{Operation: operation, Key: "lock:vouchers"}))
		r := gin.New()
		r.Use(ginlock.Rules(g, r))
		r.POST(`/vouchers\:redeem`, tellKey)
		return g, r
	}
	g, _ := routes(`POST /vouchers\:redeem`)
	if err := g.Validate(); err == nil || !strings.Contains(err.Error(), `POST /vouchers:redeem`) {
		t.Errorf("with a backslash: got %v", err)
	}
	g, r := routes("POST /vouchers:redeem")
	for range 2 { // before and after the first request
		if err := g.Validate(); err != nil {
			t.Error(err)
		}
		if w := guardtest.Send(r, "POST", "/vouchers:redeem", ""); w.Body.String() != "lock:vouchers" {
			t.Errorf("got %d %s", w.Code, w.Body)
		}
	}
}
