package ginlock_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/ginlock"
)

func TestCheckFindsVariablesThatARouteDoesNotHave(t *testing.T) {
	g := guardtest.Guard(t)
	lock := func(template string, opts ...ginlock.Option) gin.HandlerFunc {
		return ginlock.New(g, template, opts...)
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
		"bound name":                   {"/v/:id", lock("lock:<userId>", ginlock.WithVar("userId", ginlock.Header("X"))), ""},
		"name that a middleware sets":  {"/v/:id", lock("lock:<userId>"), ""},
		"other sources":                {"/v", lock("lock:<query.a>:<header.b>:<cookie.c>:<form.d>:<body.e>:<ctx.f>"), ""},
		"reserved names":               {"/v", lock("lock:<method>:<route>:<ip>"), ""},
		"key func":                     {"/v", lock("", ginlock.WithName("n"), ginlock.WithKeyFunc(func(*gin.Context) (string, error) { return "k", nil })), ""},
		"misspelt path parameter":      {"/v/:id", lock("lock:<path.ID>"), `POST /v/:id: template "lock:<path.ID>", column 6: <path.ID> is not a parameter of the route`},
		"misspelt bare name":           {"/v/:id", lock("lock:a:<userld>"), `POST /v/:id: template "lock:a:<userld>", column 8: <userld> is not bound`},
		"part of a path parameter":     {"/v/:ident", lock("lock:<path.id>"), "<path.id> is not a parameter"},
		"part of the path without one": {"/v/id", lock("lock:<path.id>"), "<path.id> is not a parameter"},
	} {
		t.Run(title, func(t *testing.T) {
			r := gin.New()
			foreign := func(*gin.Context) { t.Error("a handler ran") }
			r.Use(foreign)
			r.POST(test.route, foreign, test.lock, foreign)
			err := ginlock.Check(r, "userId")
			if test.want == "" && err != nil {
				t.Errorf("got %v", err)
			}
			if test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q in it", err, test.want)
			}
		})
	}
}

func TestCheckNeedsToBeToldWhatMiddlewaresSet(t *testing.T) {
	r := gin.New()
	r.POST("/", ginlock.New(guardtest.Guard(t), "lock:<userId>"), tellKey)
	if err := ginlock.Check(r); err == nil {
		t.Error("no error for a name that nothing is known to set")
	}
	if err := ginlock.Check(r, "userId"); err != nil {
		t.Error(err)
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
			want = append(want, method+" "+path+" everywhere", method+" /g"+path+" everywhere", method+" /g"+path+" group")
		}
	}
	err := ginlock.Check(r)
	if err == nil {
		t.Fatal("no error")
	}
	var got []string
	for line := range strings.Lines(err.Error()) {
		operation, rest, _ := strings.Cut(strings.TrimPrefix(line, "ginlock: "), ": template")
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

func TestCheckComparesRulesWithRoutes(t *testing.T) {
	g := guardtest.Guard(t,
		rule.Rule{Operation: "POST /v/:id/orders", Key: "lock:order:<id>"},
		rule.Rule{Operation: "PUT /v/:id", Key: "lock:v:<path.no>"},
		rule.Rule{Operation: "POST /v/:id/order", Key: "lock:v:<id>"},            // misspelt
		rule.Rule{Operation: "DELETE /v/:id", Key: "lock:v:<id>"},                // the middleware is missing
		rule.Rule{Operation: "/shop.v1.Stock/Refill", Key: "lock:<req.voucher>"}, // of another door
	)
	r := gin.New()
	r.DELETE("/v/:id", tellKey)
	r.Use(ginlock.Rules(g))
	r.POST("/v/:id/orders", tellKey)
	r.PUT("/v/:id", tellKey)
	r.GET("/v/:id", tellKey)
	err := ginlock.Check(r)
	if err == nil {
		t.Fatal("no error")
	}
	want := []string{
		`ginlock: PUT /v/:id: template "lock:v:<path.no>", column 8: <path.no> is not a parameter of the route`,
		`ginlock: DELETE /v/:id: has a rule, but Rules is not among its handlers`,
		`ginlock: POST /v/:id/order: has a rule, but there is no such route`,
	}
	if got := strings.Split(err.Error(), "\n"); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestCheckOfAnEngineWithoutRoutesOrLocksIsClean(t *testing.T) {
	r := gin.New()
	if err := ginlock.Check(r); err != nil {
		t.Errorf("no routes: %v", err)
	}
	r.GET("/", tellKey)
	if err := ginlock.Check(r); err != nil {
		t.Errorf("no locks: %v", err)
	}
}

func TestCheckLeavesTheEngineAsItIs(t *testing.T) {
	g := guardtest.Guard(t)
	r := gin.New()
	r.POST("/v/:id", ginlock.New(g, "lock:<id>"), tellKey)
	if err := ginlock.Check(r); err != nil {
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
