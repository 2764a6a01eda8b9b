package httpsuite

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/core/guard/httpguard"
	"github.com/redlatch/redlatch/core/key"
)

// sources are the tests of where variables come from.
type sources struct{ Framework }

type (
	userID  int64
	name    string
	version struct{ major, minor byte }
	opaque  struct{ n int }
)

func (v version) String() string { return string([]byte{'0' + v.major, '.', '0' + v.minor}) }

const badKey, invalid = "LOCK_KEY_INVALID", "LOCK_RULE_INVALID"

// statusOf is the status that goes with what a test wants.
func statusOf(want string) int {
	switch want {
	case badKey:
		return http.StatusBadRequest
	case invalid:
		return http.StatusInternalServerError
	}
	return http.StatusCreated
}

func (f *sources) TestVariablesComeFromWhereTheTemplateSays(t *testing.T) {
	long := strings.Repeat("x", key.MaxValue+1)
	for title, test := range map[string]struct {
		template, pattern, target string
		userID                    any // in the request's context
		headers                   []string
		want                      string
	}{
		"path parameter":                         {template: "lock:<path.id>", want: "lock:7"},
		"path parameter by its bare name":        {template: "lock:<id>", want: "lock:7"},
		"path parameter that is not there":       {template: "lock:<path.no>", want: invalid},
		"path parameter with the start of it":    {template: "lock:<path.i>", want: invalid},
		"bare name that nobody sets":             {template: "lock:<userId>", want: invalid},
		"query":                                  {template: "lock:<query.u>", target: "/o/7?u=42", want: "lock:42"},
		"query for a bare name is not looked at": {template: "lock:<userId>", target: "/o/7?userId=42", want: invalid},
		"query missing":                          {template: "lock:<query.u>", want: badKey},
		"query empty":                            {template: "lock:<query.u>", target: "/o/7?u=", want: badKey},
		"query twice":                            {template: "lock:<query.u>", target: "/o/7?u=1&u=2", want: badKey},
		"query twice the same":                   {template: "lock:<query.u>", target: "/o/7?u=1&u=1", want: badKey},
		"query twice, escaped differently":       {template: "lock:<query.u>", target: "/o/7?u=1&%75=2", want: badKey},
		"query with a semicolon":                 {template: "lock:<query.u>", target: "/o/7?u=1;u=2", want: badKey},
		"query with a semicolon elsewhere":       {template: "lock:<query.u>", target: "/o/7?u=1&a=1;u=2", want: badKey},
		"query badly escaped elsewhere":          {template: "lock:<query.u>", target: "/o/7?u=1&a=%zz", want: badKey},
		"query of names that are not HTTP's":     {template: "lock:<query.service>:<query.host>", target: "/o/7?service=1&host=2", want: "lock:1:2"},
		"query besides a path parameter":         {template: "lock:<id>", target: "/o/7?id=8", want: "lock:7"},
		"header":                                 {template: "lock:<header.X-User-Id>", headers: []string{"x-user-id", "42"}, want: "lock:42"},
		"header missing":                         {template: "lock:<header.X-User-Id>", want: badKey},
		"header twice":                           {template: "lock:<header.X-User-Id>", headers: []string{"X-User-Id", "1", "X-User-Id", "2"}, want: badKey},
		"cookie":                                 {template: "lock:<cookie.sid>", headers: []string{"Cookie", "sid=abc"}, want: "lock:abc"},
		"cookie escaped in another way":          {template: "lock:<cookie.sid>", headers: []string{"Cookie", "sid=a%62c"}, want: "lock:abc"},
		"cookie escaped wrongly":                 {template: "lock:<cookie.sid>", headers: []string{"Cookie", "sid=a%zz"}, want: badKey},
		"cookie missing":                         {template: "lock:<cookie.sid>", want: badKey},
		"cookie twice":                           {template: "lock:<cookie.sid>", headers: []string{"Cookie", "sid=a; sid=b"}, want: badKey},
		"cookie twice in two headers":            {template: "lock:<cookie.sid>", headers: []string{"Cookie", "sid=a", "Cookie", "sid=b"}, want: badKey},
		"form without a body":                    {template: "lock:<form.u>", want: badKey},
		"set":                                    {template: "lock:<userId>", userID: "42", want: "lock:42"},
		"set and in the path alike":              {template: "lock:<userId>", pattern: "/o/{userId}", userID: 7, want: "lock:7"},
		"set and in the path differently":        {template: "lock:<userId>", pattern: "/o/{userId}", userID: 8, want: badKey},
		"set, with its prefix":                   {template: "lock:<ctx.userId>", userID: "42", want: "lock:42"},
		"not set, with its prefix":               {template: "lock:<ctx.userId>", want: invalid},
		"set to the empty string":                {template: "lock:<userId>", userID: "", want: badKey},
		"set to a nil pointer":                   {template: "lock:<userId>", userID: (*time.Time)(nil), want: badKey},
		"set to a defined integer":               {template: "lock:<userId>", userID: userID(-42), want: "lock:-42"},
		"set to an unsigned integer":             {template: "lock:<userId>", userID: uint64(1 << 63), want: "lock:9223372036854775808"},
		"set to a defined string":                {template: "lock:<userId>", userID: name("x:y"), want: "lock:x%3Ay"},
		"set to a boolean":                       {template: "lock:<userId>", userID: true, want: "lock:true"},
		"set to a type that marshals":            {template: "lock:<userId>", userID: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), want: "lock:2026-01-02T03%3A04%3A05Z"},
		"set to a type with a String":            {template: "lock:<userId>", userID: version{1, 2}, want: "lock:1.2"},
		"set to a type that is no string":        {template: "lock:<userId>", userID: opaque{1}, want: invalid},
		"set to a float":                         {template: "lock:<userId>", userID: 1.5, want: invalid},
		"method":                                 {template: "lock:<method>", want: "lock:POST"},
		"client address":                         {template: "lock:<ip>", want: "lock:192.0.2.1"},

		"separator in a value":     {template: "lock:<path.id>:<query.u>", target: "/o/7?u=x%3Ay", want: "lock:7:x%3Ay"},
		"brace in a value":         {template: "lock:<query.u>", target: "/o/7?u=%7Bx%7D", want: "lock:%7Bx%7D"},
		"control byte in a value":  {template: "lock:<query.u>", target: "/o/7?u=a%00b", want: "lock:a%00b"},
		"number written otherwise": {template: "lock:<path.id>", target: "/o/07", want: "lock:07"},
		"the same, filtered":       {template: "lock:<path.id|int>", target: "/o/07", want: badKey},
		"plus sign, filtered":      {template: "lock:<path.id|int>", target: "/o/+7", want: badKey},
		"value too long":           {template: "lock:<path.id>", target: "/o/" + long, want: badKey},
		"long value, hashed":       {template: "lock:<path.id|sha256>", target: "/o/" + long, want: "lock:15eb95a462ee20bd91a415ae2d4aed341288186ddaa2b37908f7d592f0c3f85f"},
	} {
		t.Run(title, func(t *testing.T) {
			if test.pattern == "" {
				test.pattern = "/o/{id}"
			}
			if test.target == "" {
				test.target = "/o/7"
			}
			layers := []Layer{f.layer(t, guardtest.Guard(t), test.template)}
			if test.userID != nil {
				layers = []Layer{f.set("userId", test.userID), layers[0]}
			}
			w := guardtest.Send(f.on("POST", test.pattern, tellKey, layers...), "POST", test.target, "", test.headers...)
			expect(t, w, statusOf(test.want), test.want)
		})
	}
}

func (f *sources) TestEscapedPathParameterIsTheOneThatTheHandlerSees(t *testing.T) {
	plain, filtered := "lock:7", "lock:7"
	if f.EscapedPath {
		plain, filtered = "lock:%2537", badKey
	}
	r := f.on("POST", "/o/{id}", tellKey, f.layer(t, guardtest.Guard(t), "lock:<path.id>"))
	expect(t, guardtest.Send(r, "POST", "/o/%37", ""), http.StatusCreated, plain)
	r = f.on("POST", "/o/{id}", tellKey, f.layer(t, guardtest.Guard(t), "lock:<path.id|int>"))
	expect(t, guardtest.Send(r, "POST", "/o/%37", ""), statusOf(filtered), filtered)
}

func (f *sources) TestClientDoesNotChooseItsAddress(t *testing.T) {
	if f.TrustsProxy {
		t.Skip("the framework trusts proxies by default")
	}
	r := f.on("POST", "/x", tellKey, f.layer(t, guardtest.Guard(t), "lock:<ip>"))
	expect(t, guardtest.Send(r, "POST", "/x", "", "X-Forwarded-For", "203.0.113.9"), http.StatusCreated, "lock:192.0.2.1")
}

// from is a layer that says where a request comes from.
func (f *sources) from(address string) Layer {
	return f.before(func(r *http.Request) *http.Request {
		r = r.WithContext(r.Context())
		r.RemoteAddr = address
		return r
	})
}

// Middlewares that believe a proxy put its client's address where that of the connection
// was, without a port.
func (f *sources) TestAddressThatAMiddlewareHasSet(t *testing.T) {
	f.needs(t, Requests)
	if f.TrustsProxy {
		t.Skip("the framework finds the address itself")
	}
	for address, want := range map[string]string{
		"203.0.113.9":          "lock:203.0.113.9",
		"203.0.113.9:80":       "lock:203.0.113.9",
		"2001:DB8:0::9":        "lock:2001%3Adb8%3A%3A9",
		"[2001:db8::9]:80":     "lock:2001%3Adb8%3A%3A9",
		"[fe80::9%eth0]:80":    "lock:fe80%3A%3A9%25eth0",
		"::ffff:203.0.113.9":   "lock:203.0.113.9",
		"a client's name":      invalid,
		"a-client.example:443": invalid,
	} {
		r := f.on("POST", "/x", tellKey, f.from(address), f.layer(t, guardtest.Guard(t), "lock:<ip>"))
		expect(t, guardtest.Send(r, "POST", "/x", ""), statusOf(want), want)
	}
}

func (f *sources) TestAddressOfAConnectionThatHasNone(t *testing.T) {
	f.needs(t, Requests)
	const unixSocket = "@"
	r := f.on("POST", "/x", tellKey, f.from(unixSocket), f.layer(t, guardtest.Guard(t), "lock:<ip>"))
	expect(t, guardtest.Send(r, "POST", "/x", ""), http.StatusInternalServerError, invalid)
}

// A request that doesn't say who sends it is 401 where the service says which variables
// those are. Otherwise it is 400 if the client sends them, and 500 if the program sets them:
// the middleware that does so may stand behind the lock, or use another name.
func (f *sources) TestCallerThatIsNotKnown(t *testing.T) {
	const unauthenticated = "LOCK_UNAUTHENTICATED"
	who := httpguard.WithIdentity
	for title, test := range map[string]struct {
		template string
		opts     []httpguard.Option
		set      any
		status   int
		want     string
	}{
		"by default":        {"lock:<userId>", nil, nil, http.StatusInternalServerError, invalid},
		"provided":          {"lock:<userId>", []httpguard.Option{httpguard.WithProvided("userId")}, nil, http.StatusInternalServerError, invalid},
		"in a context":      {"lock:<ctx.userId>", nil, nil, http.StatusInternalServerError, invalid},
		"empty":             {"lock:<userId>", nil, "", http.StatusBadRequest, badKey},
		"in a header":       {"lock:<header.X-User>", nil, nil, http.StatusBadRequest, badKey},
		"not set":           {"lock:<userId>", []httpguard.Option{who("userId")}, nil, http.StatusUnauthorized, unauthenticated},
		"set to nothing":    {"lock:<userId>", []httpguard.Option{who("userId")}, "", http.StatusUnauthorized, unauthenticated},
		"set":               {"lock:<userId>", []httpguard.Option{who("userId")}, "42", http.StatusCreated, "lock:42"},
		"wrong, not absent": {"lock:<userId|int>", []httpguard.Option{who("userId")}, "x", http.StatusBadRequest, badKey},
		"of a context":      {"lock:<ctx.userId>", []httpguard.Option{who("ctx.userId")}, nil, http.StatusUnauthorized, unauthenticated},
		"of a header":       {"lock:<header.X-User>", []httpguard.Option{who("header.X-User")}, nil, http.StatusUnauthorized, unauthenticated},
		"bound": {
			"lock:<userId>",
			[]httpguard.Option{who("userId"), httpguard.WithVar("userId", httpguard.Header("X-User"))},
			nil,
			http.StatusUnauthorized,
			unauthenticated,
		},
		"another variable": {
			"lock:<userId>:<query.q>", []httpguard.Option{who("userId")}, "42", http.StatusBadRequest, badKey,
		},
	} {
		t.Run(title, func(t *testing.T) {
			layers := []Layer{f.layer(t, guardtest.Guard(t), test.template, test.opts...)}
			if test.set != nil {
				layers = []Layer{f.set("userId", test.set), layers[0]}
			}
			r := f.on("POST", "/o/{id}", tellKey, layers...)
			expect(t, guardtest.Send(r, "POST", "/o/7", ""), test.status, test.want)
		})
	}
}

func (f *sources) TestBoundVariableIsFoundNowhereElse(t *testing.T) {
	type private struct{}
	for title, test := range map[string]struct {
		source  httpguard.Source
		headers []string
		want    string
	}{
		"path":               {httpguard.Path("id"), nil, "lock:7"},
		"path, no parameter": {httpguard.Path("no"), nil, invalid},
		"query":              {httpguard.Query("q"), nil, "lock:8"},
		"query, missing":     {httpguard.Query("no"), nil, badKey},
		"header":             {httpguard.Header("X-User"), []string{"X-User", "9"}, "lock:9"},
		"header, missing":    {httpguard.Header("X-User"), nil, badKey},
		"cookie":             {httpguard.Cookie("c"), []string{"Cookie", "c=10"}, "lock:10"},
		"context, typed key": {httpguard.Ctx(private{}), nil, "lock:11"},
		"context, missing":   {httpguard.Ctx("no"), nil, invalid},
		"form":               {httpguard.Form("f"), []string{"Content-Type", formType}, "lock:12"},
		"a func":             {func(httpguard.Request) (string, error) { return "13", nil }, nil, "lock:13"},
	} {
		t.Run(title, func(t *testing.T) {
			r := f.on("POST", "/{id}", tellKey, f.set("userId", "set"), f.set(private{}, 11),
				f.layer(t, guardtest.Guard(t), "lock:<userId>", httpguard.WithVar("userId", test.source)))
			w := guardtest.Send(r, "POST", "/7?q=8&userId=query", "f=12", test.headers...)
			expect(t, w, statusOf(test.want), test.want)
		})
	}
}
