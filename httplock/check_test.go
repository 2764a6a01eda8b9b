package httplock_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/core/guard/httpguard"
	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/httplock"
)

// guardOf is a guard whose rules nobody serves yet.
func guardOf(t *testing.T, rules ...rule.Rule) *guard.Guard {
	t.Helper()
	return guard.Must(guard.New(guardtest.Guard(t).Locker(), rules...))
}

func TestCheckComparesRulesWithRoutes(t *testing.T) {
	g := guardOf(t,
		rule.Rule{Operation: "POST /v/{id}/orders", Key: "lock:order:<userId>:<id>:<path.id>:<query.q>:<method>"},
		rule.Rule{Operation: "PUT /v/{id}", Key: "lock:v:<path.no>"},          // no such value
		rule.Rule{Operation: "PATCH /v/{id}", Key: "lock:v:<userld>"},         // misspelt
		rule.Rule{Operation: "POST /v/{id}/order", Key: "lock:v:<id>"},        // misspelt
		rule.Rule{Operation: "DELETE /v/{number}", Key: "lock:v:<number>"},    // the route has {id}
		rule.Rule{Operation: "GET /v/latest", Key: "lock:latest"},             // more special than {id}
		rule.Rule{Operation: "GET /files/{rest...}", Key: "lock:f:<rest>"},    //
		rule.Rule{Operation: "GET /tree/", Key: "lock:tree"},                  //
		rule.Rule{Operation: "GET /exact/{$}", Key: "lock:exact"},             //
		rule.Rule{Operation: "POST /any/{id}", Key: "lock:any:<id>"},          // the route has no method
		rule.Rule{Operation: "POST shop.example/{id}", Key: "lock:host:<id>"}, // with a host
		rule.Rule{Operation: "POST other.example/{id}", Key: "lock:other"},    // no such host
		rule.Rule{Operation: "/shop.v1.Stock/Refill", Key: "lock:<req.voucher>", Optional: true},
		rule.Rule{Operation: "POST /g/:id", Key: "lock:gin:<id>", Optional: true},
	)
	mux := http.NewServeMux()
	for _, pattern := range []string{
		"POST /v/{id}/orders", "PUT /v/{id}", "PATCH /v/{id}", "DELETE /v/{id}", "GET /v/{id}", "GET /v/latest",
		"GET /files/{rest...}", "GET /tree/", "GET /exact/{$}", "/any/{id}", "GET /any/{id}", "POST shop.example/{id}",
	} {
		route(mux, pattern, runs(t), httplock.Rules(g))
	}
	err := httplock.Check(mux, g, "userId")
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		`httplock: PUT /v/{id}: template "lock:v:<path.no>", column 8: <path.no> is not a parameter of the route`,
		`httplock: PATCH /v/{id}: template "lock:v:<userld>", column 8: <userld> is not a parameter of the route, not bound by WithVar`,
		`"POST /v/{id}/order": has a rule, and nothing serves it, did you mean "POST /v/{id}/orders"?`,
		`"DELETE /v/{number}": has a rule, and nothing serves it, did you mean "DELETE /v/{id}"?`,
		`"POST other.example/{id}": has a rule, and nothing serves it`,
		`httplock: POST /any/{id}: the route takes any method, and PUT has no rule`, // HEAD goes to GET
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got\n%v\nwant %s", err, want)
		}
	}
	if got := strings.Count(err.Error(), "\n") + 1; got != 6 {
		t.Errorf("%d faults, want 6:\n%v", got, err)
	}
}

func TestCheckOfAGuardWithoutRulesIsClean(t *testing.T) {
	if err := httplock.Check(http.NewServeMux(), guardtest.Guard(t)); err != nil {
		t.Error(err)
	}
}

func TestServedRoutesAreCheckedAsThoseOfAMux(t *testing.T) {
	for want, routes := range map[string][]string{
		"": {"POST /a/{id}", "GET /a/{id}"},
		`"POST /a/{id}": has a rule, and nothing serves it, did you mean "POST /b/{id}"?`:                                       {"POST /b/{id}"},
		`httplock: POST /a/{id}: the route takes any method, and GET has no rule`:                                               every("/a/{id}"),
		`httplock: POST /a/{id}: template "lock:<id>:<userId>", column 11: <userId> is not a parameter of the route, not bound`: {"POST /a/{id}", "no names"},
	} {
		g := guardOf(t, rule.Rule{Operation: "POST /a/{id}", Key: "lock:<id>:<userId>"})
		provided := []string{"userId"}
		if routes[len(routes)-1] == "no names" {
			provided, routes = nil, routes[:1]
		}
		httplock.Serve(g, routes, provided...)
		if err := g.Validate(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got %v, want %q", routes, err, want)
		}
	}
}

// every lists a route for any method, as chi does.
func every(pattern string) (routes []string) {
	for _, method := range httpguard.Methods() {
		routes = append(routes, method+" "+pattern)
	}
	return routes
}
