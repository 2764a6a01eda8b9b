package httplock_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/core/key"
	"github.com/redlatch/redlatch/httplock"
)

type (
	userID  int64
	name    string
	version struct{ major, minor byte }
	opaque  struct{ n int }
)

func (v version) String() string { return fmt.Sprintf("%d.%d", v.major, v.minor) }

func TestVariablesComeFromWhereTheTemplateSays(t *testing.T) {
	const refused, misconfigured = "400 LOCK_KEY_INVALID", "500 LOCK_RULE_INVALID"
	when := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for title, test := range map[string]struct {
		template, pattern, target string
		userID                    any // in the context
		headers                   []string
		want                      string
	}{
		"path value":                             {template: "lock:<path.id>", want: "lock:7"},
		"path value by its bare name":            {template: "lock:<id>", want: "lock:7"},
		"path value that is not there":           {template: "lock:<path.no>", want: misconfigured},
		"path value with the start of a name":    {template: "lock:<path.i>", want: misconfigured},
		"bare name that nobody sets":             {template: "lock:<userId>", want: misconfigured},
		"rest of a path":                         {template: "lock:<path.rest>", pattern: "/f/{rest...}", target: "/f/a/b", want: "lock:a%2Fb"},
		"rest of a path, empty":                  {template: "lock:<rest>", pattern: "/f/{rest...}", target: "/f/", want: refused},
		"query":                                  {template: "lock:<query.u>", target: "/o/7?u=42", want: "lock:42"},
		"query for a bare name is not looked at": {template: "lock:<userId>", target: "/o/7?userId=42", want: misconfigured},
		"query missing":                          {template: "lock:<query.u>", want: refused},
		"query empty":                            {template: "lock:<query.u>", target: "/o/7?u=", want: refused},
		"query twice":                            {template: "lock:<query.u>", target: "/o/7?u=1&u=2", want: refused},
		"query twice the same":                   {template: "lock:<query.u>", target: "/o/7?u=1&u=1", want: refused},
		"query twice, escaped differently":       {template: "lock:<query.u>", target: "/o/7?u=1&%75=2", want: refused},
		"query beside a path value":              {template: "lock:<id>", target: "/o/7?id=8", want: "lock:7"},
		"header":                                 {template: "lock:<header.X-User-Id>", headers: []string{"x-user-id", "42"}, want: "lock:42"},
		"header missing":                         {template: "lock:<header.X-User-Id>", want: refused},
		"header twice":                           {template: "lock:<header.X-User-Id>", headers: []string{"X-User-Id", "1", "X-User-Id", "2"}, want: refused},
		"cookie":                                 {template: "lock:<cookie.sid>", headers: []string{"Cookie", "sid=abc"}, want: "lock:abc"},
		"cookie escaped in another way":          {template: "lock:<cookie.sid>", headers: []string{"Cookie", "sid=a%62c"}, want: "lock:abc"},
		"cookie escaped wrongly":                 {template: "lock:<cookie.sid>", headers: []string{"Cookie", "sid=a%zz"}, want: refused},
		"cookie missing":                         {template: "lock:<cookie.sid>", want: refused},
		"cookie twice":                           {template: "lock:<cookie.sid>", headers: []string{"Cookie", "sid=a; sid=b"}, want: refused},
		"form":                                   {template: "lock:<form.u>", want: refused}, // no body of that type
		"set":                                    {template: "lock:<userId>", userID: "42", want: "lock:42"},
		"set and in the path alike":              {template: "lock:<userId>", pattern: "/o/{userId}", userID: 7, want: "lock:7"},
		"set and in the path differently":        {template: "lock:<userId>", pattern: "/o/{userId}", userID: 8, want: refused},
		"set, with its prefix":                   {template: "lock:<ctx.userId>", userID: "42", want: "lock:42"},
		"not set, with its prefix":               {template: "lock:<ctx.userId>", want: refused},
		"set to the empty text":                  {template: "lock:<userId>", userID: "", want: refused},
		"set to a nil pointer":                   {template: "lock:<userId>", userID: (*time.Time)(nil), want: refused},
		"set to an own integer":                  {template: "lock:<userId>", userID: userID(-42), want: "lock:-42"},
		"set to an unsigned integer":             {template: "lock:<userId>", userID: uint64(1 << 63), want: "lock:9223372036854775808"},
		"set to an own text":                     {template: "lock:<userId>", userID: name("x:y"), want: "lock:x%3Ay"},
		"set to a boolean":                       {template: "lock:<userId>", userID: true, want: "lock:true"},
		"set to a type with a text":              {template: "lock:<userId>", userID: when, want: "lock:2026-01-02T03%3A04%3A05Z"},
		"set to a type with a String":            {template: "lock:<userId>", userID: version{1, 2}, want: "lock:1.2"},
		"set to a type that is no text":          {template: "lock:<userId>", userID: opaque{1}, want: misconfigured},
		"set to a float":                         {template: "lock:<userId>", userID: 1.5, want: misconfigured},
		"method and route":                       {template: "lock:<method>:<route>", want: "lock:POST:%2Fo%2F%7Bid%7D"},
		"client address":                         {template: "lock:<ip>", headers: []string{"X-Forwarded-For", "203.0.113.9"}, want: "lock:192.0.2.1"},

		"separator in a value":     {template: "lock:<path.id>:<query.u>", target: "/o/x%3Ay?u=z", want: "lock:x%3Ay:z"},
		"slash in a value":         {template: "lock:<path.id>", target: "/o/x%2Fy", want: "lock:x%2Fy"},
		"brace in a value":         {template: "lock:<path.id>", target: "/o/%7Bx%7D", want: "lock:%7Bx%7D"},
		"control byte in a value":  {template: "lock:<path.id>", target: "/o/a%00b", want: "lock:a%00b"},
		"number written otherwise": {template: "lock:<path.id>", target: "/o/07", want: "lock:07"},
		"the same, filtered":       {template: "lock:<path.id|int>", target: "/o/07", want: refused},
		"escaped digit, filtered":  {template: "lock:<path.id|int>", target: "/o/%37", want: "lock:7"},
		"value too long":           {template: "lock:<path.id>", target: "/o/" + strings.Repeat("x", key.MaxValue+1), want: refused},
	} {
		t.Run(title, func(t *testing.T) {
			if test.pattern == "" {
				test.pattern = "/o/{id}"
			}
			if test.target == "" {
				test.target = "/o/7"
			}
			mux := on(test.pattern, tellKey, set("userId", test.userID), httplock.New(guardtest.Guard(t), test.template))
			w := guardtest.Send(mux, "POST", test.target, "", test.headers...)
			got := w.Body.String()
			if w.Code != http.StatusCreated {
				got = fmt.Sprintf("%d %s", w.Code, guardtest.Code(t, w))
			}
			if got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestBoundVariableIsFoundNowhereElse(t *testing.T) {
	type private struct{}
	for title, test := range map[string]struct {
		source  httplock.Source
		headers []string
		want    int
		key     string
	}{
		"path":                {httplock.Path("id"), nil, http.StatusCreated, "lock:7"},
		"path, no such value": {httplock.Path("no"), nil, http.StatusInternalServerError, ""},
		"query":               {httplock.Query("q"), nil, http.StatusCreated, "lock:8"},
		"query, missing":      {httplock.Query("no"), nil, http.StatusBadRequest, ""},
		"header":              {httplock.Header("X-User"), []string{"X-User", "9"}, http.StatusCreated, "lock:9"},
		"header, missing":     {httplock.Header("X-User"), nil, http.StatusBadRequest, ""},
		"cookie":              {httplock.Cookie("c"), []string{"Cookie", "c=10"}, http.StatusCreated, "lock:10"},
		"context, own key":    {httplock.Ctx(private{}), nil, http.StatusCreated, "lock:11"},
		"context, missing":    {httplock.Ctx("no"), nil, http.StatusBadRequest, ""},
		"own source":          {func(*http.Request) (string, error) { return "12", nil }, nil, http.StatusCreated, "lock:12"},
	} {
		t.Run(title, func(t *testing.T) {
			mux := on("POST /{id}", tellKey, set("userId", "set"), set(private{}, 11),
				httplock.New(guardtest.Guard(t), "lock:<userId>", httplock.WithVar("userId", test.source)))
			w := guardtest.Send(mux, "POST", "/7?q=8&userId=query", "", test.headers...)
			if w.Code != test.want || test.key != "" && w.Body.String() != test.key {
				t.Errorf("got %d %s", w.Code, w.Body)
			}
		})
	}
}

func TestAddressOfAConnectionThatHasNone(t *testing.T) {
	mux := on("POST /", tellKey, before(func(r *http.Request) *http.Request {
		r = r.WithContext(context.Background())
		r.RemoteAddr = "@" // as of a Unix socket
		return r
	}), httplock.New(guardtest.Guard(t), "lock:<ip>"))
	if w := guardtest.Send(mux, "POST", "/", ""); w.Code != http.StatusInternalServerError || guardtest.Code(t, w) != "LOCK_RULE_INVALID" {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}
