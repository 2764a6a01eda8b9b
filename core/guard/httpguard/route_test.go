package httpguard_test

import (
	"testing"

	"github.com/redlatch/redlatch/core/guard/httpguard"
)

func TestOperationsOfPatterns(t *testing.T) {
	for _, test := range []struct{ method, pattern, want string }{
		{"POST", "/vouchers/:id", "POST /vouchers/:id"},
		{"HEAD", "GET /vouchers/{id}", "GET /vouchers/{id}"},
		{"GET", "GET  /vouchers/{id}", "GET /vouchers/{id}"},
		{"GET", "GET\t/vouchers/{id}", "GET /vouchers/{id}"},
		{"GET", "GET shop.example/{id}", "GET shop.example/{id}"},
		{"GET", "shop.example/{id}", "GET shop.example/{id}"},
		{"GET", "/a path with/ blanks", "GET /a path with/ blanks"},
		{"GET", "", "GET"},
	} {
		if got := httpguard.Operation(test.method, test.pattern); got != test.want {
			t.Errorf("%s %q: got %q, want %q", test.method, test.pattern, got, test.want)
		}
	}
}

func TestParametersOfPatterns(t *testing.T) {
	for pattern, want := range map[string]bool{
		"/v/{id}": true, "POST /v/{id}/x": true, "/v/{id...}": true, "/v/{id:[0-9]+}": true, "/v/:id": true, "/v/:id/x": true,
		"/v/*id": true, "/v/v:id": true, "/v/id": false, "/v/{ident}": false, "/v/:ident": false, "/v/{i}": false, "": false, "/v/{id": false,
		"/{day}-{id}": true, "/{day:[0-9]{2}}-{id}.json": true, "/all:{id}": true, "/{day:[a-z/]+}-{id}": true,
		"/v/{}": false, "/v/{:x}": false, "/v/:x:id": false, "/{day:a/:id/b}": false, "/{day:a{id}}": false, "/{day}:id": false, "/{day}:x/:id": true,
		"POST /v:id": false, "POST /v/:id": false, "POST /v/*id": false, "POST\t/v:id/{no}": false,
	} {
		if got := httpguard.HasParameter(pattern, "id"); got != want {
			t.Errorf("%q: got %v", pattern, got)
		}
	}
}
