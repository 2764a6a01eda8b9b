package httpsuite

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
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

// promises are the tests of rules that nobody would redeem, and of settings that
// are wrong: no handler runs without its lock, and messages name the cure.
type promises struct{ Framework }

// quiet keeps what a guard says of its faults out of the output of tests.
func quiet(g *guard.Guard) *guard.Guard { return g.WithLogger(slog.New(slog.DiscardHandler)) }

// TestOperationThatIsMisspelled: a set refuses what is no operation, and a guard
// lets nobody in while nothing serves one.
func (f *promises) TestOperationThatIsMisspelled(t *testing.T) {
	path := f.Pattern("/a/{id}")
	for operation, cure := range map[string]string{
		"post " + path:              `write "POST ` + path,
		"POST  " + path:             `write "POST ` + path,
		path:                        `"POST ` + path,
		"POST:" + path:              `write "POST ` + path,
		"POST" + path:               `write "POST ` + path,
		"*":                         "is not an operation",
		"* " + path:                 "one rule for each method",
		"ANY " + path:               "one rule for each method",
		"PSOT " + path:              `did you mean "POST"`,
		"POST " + path + "?x=1":     "query",
		"POST a":                    "no path",
		"POST http://x.test" + path: "scheme",

		"POST " + f.Pattern("/b/{id}"):   `did you mean "POST ` + path,
		"POST " + path + "/":             `did you mean "POST ` + path,
		"POST " + f.Pattern("/a/{no}"):   `did you mean "POST ` + path,
		"POST /x" + path:                 `did you mean "POST ` + path,
		"PUT " + path:                    `nothing serves it`,
		"POST " + strings.ToUpper(path):  `did you mean "POST ` + path,
		"POST " + otherSyntax(f.Pattern): `did you mean "POST ` + path,
	} {
		t.Run(operation, func(t *testing.T) {
			g, err := guard.New(guardtest.Guard(t).Locker(), rule.Rule{Operation: operation, Key: "lock:a"})
			if err == nil {
				g = quiet(g)
				r := f.NewRouter()
				f.rules(t, r, "POST", "/a/{id}", refused(t), g)
				err = g.Validate()
				expect(t, guardtest.Send(r, "POST", "/a/7", ""), http.StatusInternalServerError, invalid)
			}
			if err == nil || !strings.Contains(err.Error(), cure) {
				t.Errorf("got %v, want %q in it", err, cure)
			}
		})
	}
}

// otherSyntax is the pattern as another router writes it.
func otherSyntax(pattern func(string) string) string {
	if pattern("/a/{id}") == "/a/{id}" {
		return "/a/:id"
	}
	return "/a/{id}"
}

// TestRouteThatIsNotBehindTheLock: what the router doesn't send to the guard, it
// can't refuse. Its validation names the route, and nothing else is let in.
func (f *promises) TestRouteThatIsNotBehindTheLock(t *testing.T) {
	for name, register := range map[string]func(g *guard.Guard, r Router) error{
		"registered bare": func(_ *guard.Guard, r Router) error {
			r.Handle("POST", "/a/{id}", http.HandlerFunc(tellKey))
			return nil
		},
		"behind the lock of a guard that has no rules": func(_ *guard.Guard, r Router) error {
			f.rules(t, r, "POST", "/a/{id}", tellKey, guardtest.Guard(t))
			return nil
		},
		"registered before the lock is made": func(g *guard.Guard, r Router) error {
			r.Handle("POST", "/a/{id}", http.HandlerFunc(tellKey))
			_, err := f.Rules(r, "POST", f.Pattern("/c/{id}"), g)
			return err
		},
		"with its own rule": func(g *guard.Guard, r Router) error {
			r.Handle("POST", "/a/{id}", http.HandlerFunc(tellKey), f.layer(t, g, "lock:other"))
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			operation := f.operation("POST", "/a/{id}")
			g := quiet(guardOf(t, rule.Rule{Operation: operation, Key: "lock:a:<id>"}))
			r := f.NewRouter()
			f.rules(t, r, "POST", "/b/{id}", refused(t), g)
			err := register(g, r)
			if err == nil {
				err = g.Validate()
			}
			if err == nil || !strings.Contains(err.Error(), operation) || !strings.Contains(err.Error(), "has a rule, ") {
				t.Errorf("got %v, want a fault of %s", err, operation)
			}
			if !errors.Is(g.Validate(), rule.ErrInvalid) {
				t.Error("the guard is valid")
			}
			r.Handle("POST", "/own", refused(t), f.layer(t, g, "lock:own"))
			for _, path := range []string{"/b/7", "/own"} {
				expect(t, guardtest.Send(r, "POST", path, ""), http.StatusInternalServerError, invalid)
			}
		})
	}
}

// TestTemplateThatTheRouteCannotFill: variables that no request has.
func (f *promises) TestTemplateThatTheRouteCannotFill(t *testing.T) {
	for template, want := range map[string]string{
		"lock:<path.no>":     "<path.no> is not a parameter of the route",
		"lock:order:userId":  `"userId" is not a variable but a literal, the same for every request; write <userId>`,
		"lock:<userld>":      "<userld> is not a parameter of the route, not bound by WithVar, and not named by WithProvided",
		"lock:<md.user>":     "<md.user> does not exist in HTTP requests",
		"lock:<req.user>":    "<req.user> does not exist in HTTP requests",
		"lock:<service>":     "<service> does not exist in HTTP requests",
		"lock:<form.user>":   "net/http reads no form from the body of a DELETE",
		"lock:<header.Host>": "bind a variable to the request's Host with WithVar",
	} {
		t.Run(template, func(t *testing.T) {
			g := quiet(guardOf(t, rule.Rule{Operation: f.operation("DELETE", "/a/{id}"), Key: template}))
			r := f.NewRouter()
			f.rules(t, r, "DELETE", "/a/{id}", refused(t), g, httpguard.WithProvided("userId"))
			err := g.Validate()
			if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), f.operation("DELETE", "/a/{id}")) {
				t.Errorf("got %v, want %q in it", err, want)
			}
			expect(t, guardtest.Send(r, "DELETE", "/a/7", ""), http.StatusInternalServerError, invalid)
		})
	}
}

// TestFaultsOfRoutesHaveThePlaceOfTheRule: the rule stands in a file.
func (f *promises) TestFaultsOfRoutesHaveThePlaceOfTheRule(t *testing.T) {
	operation := f.operation("POST", "/a/{id}")
	set, err := rule.NewSetOf(rule.Entry{Rule: rule.Rule{Operation: operation, Key: "lock:<path.no>"}, Source: "locks.yaml", Line: 7, Column: 3})
	if err != nil {
		t.Fatal(err)
	}
	g := quiet(guardOf(t, set.Rules()...))
	f.rules(t, f.NewRouter(), "POST", "/a/{id}", refused(t), g)
	want := fmt.Sprintf("%s: locks.yaml:7:3: %q: ", f.By, operation)
	if err := set.Locate(nil, g.Validate()); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestNamesThatAreProvidedToOtherRoutesOnly: what stands in front of one route says
// nothing of another, in whatever order they are registered.
func (f *promises) TestNamesThatAreProvidedToOtherRoutesOnly(t *testing.T) {
	for name, opt := range map[string]httpguard.Option{
		"provided": httpguard.WithProvided("userId"), "identity": httpguard.WithIdentity("userId"),
	} {
		for _, pattern := range []string{"/a", "/c"} {
			t.Run(name+" to "+pattern, func(t *testing.T) {
				g := quiet(guardOf(t, rule.Rule{Operation: f.operation("POST", "/b"), Key: "lock:<userId>"},
					rule.Rule{Operation: f.operation("POST", pattern), Key: "lock:<userId>"}))
				r := f.NewRouter()
				for _, route := range []string{"/a", "/b", "/c"} {
					var opts []httpguard.Option
					if route == pattern {
						opts = append(opts, opt)
					}
					f.rules(t, r, "POST", route, refused(t), g, opts...)
				}
				err := g.Validate()
				const want = "<userId> is not a parameter of the route, not bound by WithVar, and not named by WithProvided"
				if err == nil || !strings.Contains(err.Error(), strconv.Quote(f.operation("POST", "/b"))+": ") || strings.Count(err.Error(), want) != 1 {
					t.Errorf("got %v, want one fault, %q of POST /b", err, want)
				}
				expect(t, guardtest.Send(r, "POST", "/b", ""), http.StatusInternalServerError, invalid)
			})
		}
	}
}

// TestNamesOfOptionsThatAreMisspelled: the variable would be read from the path, where
// the client chooses it.
func (f *promises) TestNamesOfOptionsThatAreMisspelled(t *testing.T) {
	source := httpguard.Header("X-User-Id")
	for name, test := range map[string]struct {
		opts []httpguard.Option
		want string // empty: nothing is wrong
	}{
		"a variable":             {[]httpguard.Option{httpguard.WithVar("userID", source)}, `WithVar("userID"): no template has <userID>, did you mean "userId"?`},
		"an identity":            {[]httpguard.Option{httpguard.WithIdentity("usrId")}, `WithIdentity("usrId"): no template has <usrId>, did you mean "userId"?`},
		"one that is bound":      {[]httpguard.Option{httpguard.WithVar("userId", source), httpguard.WithIdentity("userId")}, ""},
		"one of another rule":    {[]httpguard.Option{httpguard.WithVar("user_id", source)}, ""},
		"one of no rule yet":     {[]httpguard.Option{httpguard.WithVar("tenant", source)}, ""},
		"an identity of no rule": {[]httpguard.Option{httpguard.WithIdentity("header.X-Tenant")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := quiet(guardOf(t, rule.Rule{Operation: f.operation("POST", "/users/{userId}/orders"), Key: "lock:order:<userId>"},
				rule.Rule{Operation: "elsewhere", Key: "lock:<user_id>", Optional: true}))
			f.rules(t, f.NewRouter(), "POST", "/users/{userId}/orders", tellKey, g, test.opts...)
			err := g.Validate()
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.HasSuffix(err.Error(), f.By+": "+test.want)) {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}

// TestRouteForAnyMethodOfWhichOneHasARule: the client would choose another one.
func (f *promises) TestRouteForAnyMethodOfWhichOneHasARule(t *testing.T) {
	g := quiet(guardOf(t, rule.Rule{Operation: f.operation("POST", "/a/{id}"), Key: "lock:a:<id>"}))
	r := f.NewRouter()
	f.rules(t, r, "", "/a/{id}", refused(t), g)
	err := g.Validate()
	const want = "the route takes any method, and GET has no rule: register the route for one method, or give each a rule"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q in it", err, want)
	}
	for _, method := range []string{"GET", "POST", "PUT", "DELETE", "PATCH"} {
		expect(t, guardtest.Send(r, method, "/a/7", ""), http.StatusInternalServerError, invalid)
	}
}

// TestRulesThatAreReplacedWhileServing: what a new set would void is refused.
func (f *promises) TestRulesThatAreReplacedWhileServing(t *testing.T) {
	operation := f.operation("POST", "/a/{id}")
	g := guardOf(t, rule.Rule{Operation: operation, Key: "lock:a:<id>"})
	r := f.NewRouter()
	f.rules(t, r, "POST", "/a/{id}", tellKey, g)
	f.rules(t, r, "POST", "/b", tellKey, g)
	expect(t, guardtest.Send(r, "POST", "/a/7", ""), http.StatusCreated, "lock:a:7")
	for name, rules := range map[string][]rule.Rule{
		"a misspelled route": {{Operation: f.operation("POST", "/c/{id}"), Key: "lock:c"}},
		"a wrong variable":   {{Operation: operation, Key: "lock:a:<path.no>"}},
		"nothing":            {},
	} {
		if err := g.Replace(rules); err == nil {
			t.Errorf("%s: not refused", name)
		}
		expect(t, guardtest.Send(r, "POST", "/a/7", ""), http.StatusCreated, "lock:a:7")
	}
	if err := g.Replace([]rule.Rule{{Operation: operation, Key: "lock:new:<id>"}}); err != nil {
		t.Fatal(err)
	}
	expect(t, guardtest.Send(r, "POST", "/a/7", ""), http.StatusCreated, "lock:new:7")
	if err := g.Replace(nil, operation); err != nil {
		t.Fatal(err)
	}
	expect(t, guardtest.Send(r, "POST", "/a/7", ""), http.StatusOK, "no lock")
}

// TestOptionalRuleOfARouteThatIsServed: it may not be lost unnoticed, as one of
// a route that another service has may be.
func (f *promises) TestOptionalRuleOfARouteThatIsServed(t *testing.T) {
	optional := func(method, pattern string) rule.Rule {
		return rule.Rule{Operation: f.operation(method, pattern), Key: "lock:a", Optional: true}
	}
	every := func(pattern string) (rules []rule.Rule) {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "CONNECT", "OPTIONS", "TRACE"} {
			rules = append(rules, optional(method, pattern))
		}
		return rules
	}
	for method, of := range map[string]func(pattern string) []rule.Rule{
		"POST": func(pattern string) []rule.Rule { return []rule.Rule{optional("POST", pattern)} },
		"":     every, // a route for any method
	} {
		g := guardOf(t, append(of("/a/{id}"), optional("POST", "/elsewhere"))...)
		r := f.NewRouter()
		f.rules(t, r, method, "/a/{id}", tellKey, g)
		if err := g.Validate(); err != nil {
			t.Fatal(err)
		}
		if err := g.Replace(of("/b/{id}")); err == nil {
			t.Errorf("%q: a misspelled route is not refused", method)
		}
		expect(t, guardtest.Send(r, "POST", "/a/7", ""), http.StatusCreated, "lock:a")
		if err := g.Replace(of("/a/{id}")); err != nil {
			t.Errorf("%q: the rule of a route that another service has: %v", method, err)
		}
		expect(t, guardtest.Send(r, "POST", "/a/7", ""), http.StatusCreated, "lock:a")
	}
}

// TestSettingsThatAreWrong: everything is reported before a request comes.
func (f *promises) TestSettingsThatAreWrong(t *testing.T) {
	g := guardtest.Guard(t)
	source := httpguard.Query("x")
	build := func(text string, opts ...httpguard.Option) func() error {
		return func() error { _, err := f.New(g, text, opts...); return err }
	}
	rules := func(g *guard.Guard, opts ...httpguard.Option) func() error {
		return func() error { _, err := f.Rules(f.NewRouter(), "POST", f.Pattern("/a/{id}"), g, opts...); return err }
	}
	unfit := func() error {
		_, err := f.New(guard.Must(guard.New(guardtest.Locker(t, memstore.New(), lock.WithMaxHold(30*time.Second)))), "lock:x minHold=50s")
		return err
	}
	for name, test := range map[string]struct {
		build func() error
		want  string
	}{
		"no guard":                {func() error { _, err := f.New(nil, "lock:x"); return err }, f.By + ": guard is nil"},
		"no guard for rules":      {rules(nil), f.By + ": guard is nil"},
		"empty template":          {build(""), "the template is missing"},
		"broken template":         {build("lock:<"), "column 6: "},
		"another template syntax": {build("lock:order:{id}"), `"{id}" is not a variable but a literal`},
		"provided but a literal":  {build("lock:order:userId", httpguard.WithProvided("userId")), `column 12: "userId" is not a variable but a literal`},
		"source of gRPC":          {build("lock:<md.user>"), "<md.user> does not exist in HTTP requests"},
		"name of gRPC":            {build("lock:<service>"), "<service> does not exist in HTTP requests"},
		"unknown field":           {build("lock:x wiat=1s"), `did you mean "wait"`},
		"wait without a unit":     {build("lock:x wait=200"), "wait"},
		"short lease":             {build("lock:x lease=1ns"), "is too short"},
		"unknown mode":            {build("lock:x mode=fare"), `"fair"`},
		"ruled out by the locker": {unfit, f.By + `: template "lock:x": doesn't fit the settings of the locker: invalid argument: WithMinHold(50s): WithMaxHold(30s)`},
		"too many permits":        {build("lock:x mode=semaphore permits=3/2"), "permits"},
		"nil option":              {build("lock:x", nil), "an option is nil"},
		"unused variable":         {build("lock:<y>", httpguard.WithVar("x", source)), "has no <x>"},
		"variable with a source":  {build("lock:<path.x>", httpguard.WithVar("x", source)), "has no <x>"},
		"unused identity":         {build("lock:<y>", httpguard.WithIdentity("x")), `WithIdentity("x"): template "lock:<y>" has no <x>`},
		"nil source":              {build("lock:<x>", httpguard.WithVar("x", nil)), "the source is nil"},
		"reserved variable":       {build("lock:<ip>", httpguard.WithVar("ip", source)), "the name is reserved"},
		"bound, with a source":    {rules(g, httpguard.WithVar("path.x", source)), `WithVar("path.x"): no template can have that bare variable`},
		"bound, with a filter":    {rules(g, httpguard.WithVar("x|int", source)), `WithVar("x|int"): no template can have`},
		"identity in brackets":    {rules(g, httpguard.WithIdentity("<x>")), `WithIdentity("<x>"): no template can have that variable`},
		"identity of gRPC":        {rules(g, httpguard.WithIdentity("md.x")), `WithIdentity("md.x"): no template can have`},
		"no identity":             {rules(g, httpguard.WithIdentity("")), `WithIdentity(""): no template can have`},
		"status of another kind":  {build("lock:x", httpguard.WithContentionStatus(500)), "use 409, 423 or 429"},
		"no retry-after":          {build("lock:x", httpguard.WithRetryAfter(0)), "WithRetryAfter(0s): must be positive"},
		"no body":                 {build("lock:x", httpguard.WithMaxBody(0)), "WithMaxBody(0): must be positive"},
		"provided in brackets":    {rules(g, httpguard.WithProvided("<x>")), `WithProvided("<x>"): no template can have that bare variable`},
		"provided with a source":  {rules(g, httpguard.WithProvided("query.a")), `WithProvided("query.a"): no template can have that bare variable`},
		"provided and reserved":   {rules(g, httpguard.WithProvided("method")), `WithProvided("method"): the name is reserved`},
		"nothing provided":        {rules(g, httpguard.WithProvided("")), `WithProvided(""): no template can have`},
		"nil skipper":             {build("lock:x", httpguard.WithSkipper(nil)), "WithSkipper: the func is nil"},
		"nil error handler":       {build("lock:x", httpguard.WithErrorHandler(nil)), "WithErrorHandler: the func is nil"},
		"nil key func":            {build("lock:x", httpguard.WithKeyFunc(nil)), "WithKeyFunc: the func is nil"},
		"key func and variable":   {build("lock:<x>", httpguard.WithKeyFunc(source)), "<x> of template \"lock:<x>\" would not be used"},
		"key func for rules":      {rules(g, httpguard.WithKeyFunc(source)), "Rules takes the guard's"},
		"two faults, the second":  {build("lock:<", httpguard.WithMaxBody(0)), "WithMaxBody"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := test.build(); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q in it", err, test.want)
			}
		})
	}
}
