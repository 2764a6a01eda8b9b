package rule_test

import (
	"strings"
	"testing"

	"github.com/redlatch/redlatch/core/rule"
)

func TestShapesOfOperations(t *testing.T) {
	for operation, want := range map[string]rule.Shape{
		"POST /vouchers/:id/orders": rule.HTTP,
		"GET /":                     rule.HTTP,
		"GET /{id...}":              rule.HTTP,
		"POST example.com/a/{$}":    rule.HTTP,
		"PROPFIND /dav":             rule.HTTP,
		"PROPPATCH /dav":            rule.HTTP,
		"REPORT /calendars/:id":     rule.HTTP,
		"SEARCH /vouchers":          rule.HTTP,
		"LIST /vouchers":            rule.HTTP,
		"GET /a/{id:[a-z]+?}":       rule.HTTP,
		"X /a":                      rule.HTTP, // not a misspelt one
		"/shop.v1.Stock/Refill":     rule.GRPC,
		"/Stock/Refill":             rule.GRPC,
		"OrderService.Place":        rule.Method,
		"shop.OrderService.Place":   rule.Method,
		"nightly-report":            rule.Name,
		"place":                     rule.Name,
		"a_1":                       rule.Name,
	} {
		if got, err := rule.ShapeOf(operation); err != nil || got != want {
			t.Errorf("%s: got %v, %v; want %v", operation, got, err, want)
		}
	}
}

func TestAnOperationThatIsNearlyOneIsAFaultWithItsCure(t *testing.T) {
	for operation, cure := range map[string]string{
		"":                       "name the route or method",
		" POST /a":               "remove it",
		"POST /a\n":              "remove it",
		"post /a/:id":            `write "POST /a/:id"`,
		"Post /a":                `write "POST /a"`,
		"POST  /a":               `more than one space between the method and the path, write "POST /a"`,
		"POST\t/a":               "remove it",
		"POST:/a":                `write "POST /a"`,
		"POST: /a":               `write "POST /a"`,
		"POST/a":                 `no space between the method and the path, write "POST /a"`,
		"post/a":                 `write "POST /a"`,
		"/a/:id":                 `write one in front of the path, as in "POST /a/:id"`,
		"/a":                     "has no HTTP method",
		"/a/{id}":                "has no HTTP method",
		"/a/b/c":                 "has no HTTP method",
		"/":                      "has no HTTP method",
		"/shop.v1.Stock/Refill/": "full method of gRPC",
		"/shop.v1.Stock":         "has no HTTP method",
		"/shop.v1.Stock/2nd":     "full method of gRPC",
		"/shop..Stock/Refill":    "full method of gRPC",
		"/my-shop.Stock/Refill":  "full method of gRPC",
		"/my-shop/Refill":        "has no HTTP method",
		"/api.v1/:id":            "has no HTTP method",
		"a:/b":                   "is not an operation",
		"shop.v1.Stock/Refill":   `nearly a method of gRPC, write "/shop.v1.Stock/Refill"`,
		"*":                      "is not an operation",
		"* /a":                   "write one rule for each method",
		"ANY /a":                 "write one rule for each method",
		"ALL /a":                 "write one rule for each method",
		"PSOT /a":                `unknown method, did you mean "POST"?`,
		"DELTE /a":               `unknown method, did you mean "DELETE"?`,
		"OPTION /a":              `unknown method, did you mean "OPTIONS"?`,
		"PACTH /a":               `unknown method, did you mean "PATCH"?`,
		"POST a":                 `write it as "POST /a"`,
		"POST":                   "", // a name that the program may declare
		"POST /a b":              "a space in its path",
		"POST /a?x=1":            "a query or fragment",
		"POST /{id}?x={x}":       "a query or fragment",
		"POST https://a/b":       "a scheme",
		"OrderService.":          "is not an operation",
		"Order Service.Place":    "no HTTP method",
		"order#1":                "is not an operation",
	} {
		_, err := rule.ShapeOf(operation)
		if cure == "" {
			if err != nil {
				t.Errorf("%q: %v", operation, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), cure) {
			t.Errorf("%q: got %v, want %s", operation, err, cure)
		}
		if _, setErr := rule.NewSet(rule.Rule{Operation: operation, Key: "lock:a"}); setErr == nil {
			t.Errorf("%q: a set accepts it", operation)
		}
	}
}

func TestATemplateThatIsConstantByMistakeIsAFaultWithItsCure(t *testing.T) {
	const route = "POST /users/:userId/orders"
	for key, want := range map[string]string{
		"lock:order:{userId}":         "write <userId>",
		"lock:order:${userId}":        "write <userId>",
		"lock:order:#{userId}":        "write <userId>",
		"lock:order:$userId":          "write <userId>",
		"lock:a::id":                  "write <id>",
		"lock:a:@id":                  "write <id>",
		"lock:a/:id":                  "write <id>",
		":id":                         "write <id>",
		"lock:{:id}":                  "write <id>",
		"lock:a:#id":                  "write <id>",
		"#id":                         "write <id>",
		"lock:a:#{#id}":               "write <id>",
		"lock:a:#user.id:b":           "write <user.id>",
		"lock:order:userId":           `write <userId>, or another word`,
		"lock:${tenant}:<userId>":     "write <tenant>",
		"lock:{userId}:<body.id>":     "write <userId>",
		"lock:<userId>,wait=5s":       `",wait=5s" is a part of the key and sets no field`,
		"lock:<userId>;x=1&lease=5s":  `"&lease=5s" is a part of the key`,
		"wait=<userId>":               `"wait=<userId>" is a part of the key and sets no field`,
		"key=<userId>":                `"key=<userId>" is a part of the key`,
		"lock:{tenant}":               "write <tenant>, or leave the braces out",
		"size=<userId>":               "",
		"lock:<userId>,key=5":         "", // a rule in a string has its template in front
		"lock:{userId}:<path.userId>": "",
		"lock:order:<userId>":         "",
		"lock:{order:<userId>}":       "",
		"lock:{orders}:<userId>":      "",
		"lock:userId:<path.userId>":   "",
		"lock:nightly":                "",
		"lock:npm/@scope/a#b:#1":      "",
		"lock:users:all":              "",
		"lock:<userId>,size=5":        "",
	} {
		_, err := rule.Rule{Operation: route, Key: key}.Compile()
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", key, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: got %v, want %s", key, err, want)
		}
	}
}

func TestARouteIsSplitIntoMethodAndPath(t *testing.T) {
	for operation, want := range map[string][2]string{
		"POST /vouchers/:id/orders": {"POST", "/vouchers/:id/orders"},
		"GET example.com/{$}":       {"GET", "example.com/{$}"},
		"/shop.v1.Stock/Refill":     {}, "OrderService.Place": {}, "nightly": {}, "": {}, "post /a": {}, "POST a": {}, "POST  /a": {},
	} {
		method, path, ok := rule.SplitRoute(operation)
		if got := [2]string{method, path}; got != want || ok != (want != [2]string{}) {
			t.Errorf("%q: got %q, %v", operation, got, ok)
		}
	}
}

func TestDidYouMeanIsQuietAboutStrangers(t *testing.T) {
	known := []string{"wait", "lease", "onBusy"}
	for given, want := range map[string]string{
		"wiat": "wait", "Wait": "wait", "WAIT": "wait", "onbusy": "onBusy", "leases": "lease", "colour": "", "": "",
		strings.Repeat("x", 1000): "",
	} {
		if want != "" {
			want = `, did you mean "` + want + `"?`
		}
		if got := rule.DidYouMean(given, known); got != want {
			t.Errorf("%q: got %q, want %q", given, got, want)
		}
	}
}
