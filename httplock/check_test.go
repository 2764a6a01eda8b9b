package httplock_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/httplock"
)

func TestCheckComparesRulesWithRoutes(t *testing.T) {
	g := guardtest.Guard(t,
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
		rule.Rule{Operation: "/shop.v1.Stock/Refill", Key: "lock:<req.voucher>"},
		rule.Rule{Operation: "POST /g/:id", Key: "lock:gin:<id>"},
	)
	handler := runs(t)
	mux := http.NewServeMux()
	for _, pattern := range []string{
		"POST /v/{id}/orders", "PUT /v/{id}", "PATCH /v/{id}", "DELETE /v/{id}", "GET /v/{id}", "GET /v/latest",
		"GET /files/{rest...}", "GET /tree/", "GET /exact/{$}", "/any/{id}", "POST shop.example/{id}",
	} {
		route(mux, pattern, handler, httplock.Rules(g))
	}
	err := httplock.Check(mux, g, "userId")
	if err == nil {
		t.Fatal("no error")
	}
	want := []string{
		`httplock: PUT /v/{id}: template "lock:v:<path.no>", column 8: <path.no> is not a path value of the route`,
		`httplock: PATCH /v/{id}: template "lock:v:<userld>", column 8: <userld> is not a path value of the route, and not known to be bound or set by a middleware`,
		`httplock: POST /v/{id}/order: has a rule, but there is no such route`,
		`httplock: DELETE /v/{number}: has a rule, but there is no such route`,
		`httplock: POST other.example/{id}: has a rule, but there is no such route`,
	}
	if got := strings.Split(err.Error(), "\n"); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestCheckOfAGuardWithoutRulesIsClean(t *testing.T) {
	if err := httplock.Check(http.NewServeMux(), guardtest.Guard(t)); err != nil {
		t.Error(err)
	}
}
