package ginlock_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/core/key"
	"github.com/redlatch/redlatch/ginlock"
)

type (
	userID  int64
	name    string
	version struct{ major, minor byte }
	opaque  struct{ n int }
)

func (v version) String() string { return string([]byte{'0' + v.major, '.', '0' + v.minor}) }

// set is a middleware that provides a value in both of Gin's ways.
func set(name string, inGin, inContext any) gin.HandlerFunc {
	return func(c *gin.Context) {
		if inGin != nil {
			c.Set(name, inGin)
		}
		if inContext != nil {
			c.Request = c.Request.WithContext(context.WithValue(c.Request.Context(), name, inContext)) //nolint:revive,staticcheck // templates name texts
		}
	}
}

func TestVariablesComeFromWhereTheTemplateSays(t *testing.T) {
	const refused, misconfigured = "400 LOCK_KEY_INVALID", "500 LOCK_RULE_INVALID"
	pass := func(*gin.Context) {}
	when := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for title, test := range map[string]struct {
		template, route, target string
		before                  gin.HandlerFunc
		headers                 []string
		want                    string
	}{
		"path parameter":                         {template: "lock:<path.id>", target: "/o/7", want: "lock:7"},
		"path parameter by its bare name":        {template: "lock:<id>", target: "/o/7", want: "lock:7"},
		"path parameter that is not there":       {template: "lock:<path.no>", target: "/o/7", want: misconfigured},
		"bare name that nobody sets":             {template: "lock:<userId>", target: "/o/7", want: misconfigured},
		"wildcard parameter":                     {template: "lock:<path.rest>", route: "/f/*rest", target: "/f/a/b", want: "lock:%2Fa%2Fb"},
		"query":                                  {template: "lock:<query.u>", target: "/o/7?u=42", want: "lock:42"},
		"query for a bare name is not looked at": {template: "lock:<userId>", target: "/o/7?userId=42", want: misconfigured},
		"query missing":                          {template: "lock:<query.u>", target: "/o/7", want: refused},
		"query empty":                            {template: "lock:<query.u>", target: "/o/7?u=", want: refused},
		"query twice":                            {template: "lock:<query.u>", target: "/o/7?u=1&u=2", want: refused},
		"query twice the same":                   {template: "lock:<query.u>", target: "/o/7?u=1&u=1", want: refused},
		"query twice, escaped differently":       {template: "lock:<query.u>", target: "/o/7?u=1&%75=2", want: refused},
		"query beside a path parameter":          {template: "lock:<id>", target: "/o/7?id=8", want: "lock:7"},
		"header":                                 {template: "lock:<header.X-User-Id>", target: "/o/7", headers: []string{"x-user-id", "42"}, want: "lock:42"},
		"header missing":                         {template: "lock:<header.X-User-Id>", target: "/o/7", want: refused},
		"header twice":                           {template: "lock:<header.X-User-Id>", target: "/o/7", headers: []string{"X-User-Id", "1", "X-User-Id", "2"}, want: refused},
		"cookie":                                 {template: "lock:<cookie.sid>", target: "/o/7", headers: []string{"Cookie", "sid=abc"}, want: "lock:abc"},
		"cookie escaped in another way":          {template: "lock:<cookie.sid>", target: "/o/7", headers: []string{"Cookie", "sid=a%62c"}, want: "lock:abc"},
		"cookie escaped wrongly":                 {template: "lock:<cookie.sid>", target: "/o/7", headers: []string{"Cookie", "sid=a%zz"}, want: refused},
		"cookie missing":                         {template: "lock:<cookie.sid>", target: "/o/7", want: refused},
		"cookie twice":                           {template: "lock:<cookie.sid>", target: "/o/7", headers: []string{"Cookie", "sid=a; sid=b"}, want: refused},
		"form":                                   {template: "lock:<form.u>", target: "/o/7", want: refused}, // no body of that type
		"set with c.Set":                         {template: "lock:<userId>", target: "/o/7", before: set("userId", "42", nil), want: "lock:42"},
		"set in the context":                     {template: "lock:<userId>", target: "/o/7", before: set("userId", nil, "42"), want: "lock:42"},
		"set in both ways alike":                 {template: "lock:<userId>", target: "/o/7", before: set("userId", 42, "42"), want: "lock:42"},
		"set in both ways differently":           {template: "lock:<userId>", target: "/o/7", before: set("userId", "42", "43"), want: refused},
		"set and in the path alike":              {template: "lock:<id>", target: "/o/7", before: set("id", 7, nil), want: "lock:7"},
		"set and in the path differently":        {template: "lock:<id>", target: "/o/7", before: set("id", "8", nil), want: refused},
		"set, with its prefix":                   {template: "lock:<ctx.userId>", target: "/o/7", before: set("userId", "42", nil), want: "lock:42"},
		"not set, with its prefix":               {template: "lock:<ctx.userId>", target: "/o/7", want: refused},
		"set to the empty text":                  {template: "lock:<userId>", target: "/o/7", before: set("userId", "", nil), want: refused},
		"set to nil":                             {template: "lock:<userId>", target: "/o/7", before: func(c *gin.Context) { c.Set("userId", nil) }, want: refused},
		"set to a nil pointer":                   {template: "lock:<userId>", target: "/o/7", before: set("userId", (*time.Time)(nil), nil), want: refused},
		"set to an own integer":                  {template: "lock:<userId>", target: "/o/7", before: set("userId", userID(-42), nil), want: "lock:-42"},
		"set to an unsigned integer":             {template: "lock:<userId>", target: "/o/7", before: set("userId", uint64(1<<63), nil), want: "lock:9223372036854775808"},
		"set to an own text":                     {template: "lock:<userId>", target: "/o/7", before: set("userId", name("x:y"), nil), want: "lock:x%3Ay"},
		"set to a boolean":                       {template: "lock:<userId>", target: "/o/7", before: set("userId", true, nil), want: "lock:true"},
		"set to a type with a text":              {template: "lock:<userId>", target: "/o/7", before: set("userId", when, nil), want: "lock:2026-01-02T03%3A04%3A05Z"},
		"set to a type with a String":            {template: "lock:<userId>", target: "/o/7", before: set("userId", version{1, 2}, nil), want: "lock:1.2"},
		"set to a type that is no text":          {template: "lock:<userId>", target: "/o/7", before: set("userId", opaque{1}, nil), want: misconfigured},
		"set to a float":                         {template: "lock:<userId>", target: "/o/7", before: set("userId", 1.5, nil), want: misconfigured},
		"context set to a type that is no text":  {template: "lock:<userId>", target: "/o/7", before: set("userId", "a", opaque{1}), want: misconfigured},
		"method and route":                       {template: "lock:<method>:<route>", target: "/o/7", want: "lock:POST:%2Fo%2F%3Aid"},
		"client address":                         {template: "lock:<ip>", target: "/o/7", want: "lock:192.0.2.1"},

		"separator in a value":     {template: "lock:<path.id>:<query.u>", target: "/o/x%3Ay?u=z", want: "lock:x%3Ay:z"},
		"brace in a value":         {template: "lock:<path.id>", target: "/o/%7Bx%7D", want: "lock:%7Bx%7D"},
		"control byte in a value":  {template: "lock:<path.id>", target: "/o/a%00b", want: "lock:a%00b"},
		"space in a value":         {template: "lock:<path.id>", target: "/o/7%20", want: "lock:7%20"},
		"number written otherwise": {template: "lock:<path.id>", target: "/o/07", want: "lock:07"},
		"the same, filtered":       {template: "lock:<path.id|int>", target: "/o/07", want: refused},
		"plus sign, filtered":      {template: "lock:<path.id|int>", target: "/o/+7", want: refused},
		"escaped digit, filtered":  {template: "lock:<path.id|int>", target: "/o/%37", want: "lock:7"},
		"value too long":           {template: "lock:<path.id>", target: "/o/" + strings.Repeat("x", key.MaxValue+1), want: refused},
		"long value, hashed":       {template: "lock:<path.id|sha256>", target: "/o/" + strings.Repeat("x", key.MaxValue+1), want: "lock:15eb95a462ee20bd91a415ae2d4aed341288186ddaa2b37908f7d592f0c3f85f"},
	} {
		t.Run(title, func(t *testing.T) {
			if test.route == "" {
				test.route = "/o/:id"
			}
			if test.before == nil {
				test.before = pass
			}
			r := gin.New()
			r.POST(test.route, test.before, ginlock.New(guardtest.Guard(t), test.template), tellKey)
			w := guardtest.Send(r, "POST", test.target, "", test.headers...)
			got := w.Body.String()
			if w.Code != http.StatusCreated {
				got = strings.Join([]string{http.StatusText(w.Code), guardtest.Code(t, w)}, " ")
				got = strings.NewReplacer("Bad Request", "400", "Internal Server Error", "500").Replace(got)
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
		source  ginlock.Source
		headers []string
		want    int
		key     string
	}{
		"path":               {ginlock.Path("id"), nil, http.StatusCreated, "lock:7"},
		"path, no parameter": {ginlock.Path("no"), nil, http.StatusInternalServerError, ""},
		"query":              {ginlock.Query("q"), nil, http.StatusCreated, "lock:8"},
		"query, missing":     {ginlock.Query("no"), nil, http.StatusBadRequest, ""},
		"header":             {ginlock.Header("X-User"), []string{"X-User", "9"}, http.StatusCreated, "lock:9"},
		"header, missing":    {ginlock.Header("X-User"), nil, http.StatusBadRequest, ""},
		"cookie":             {ginlock.Cookie("c"), []string{"Cookie", "c=10"}, http.StatusCreated, "lock:10"},
		"context, own key":   {ginlock.Ctx(private{}), nil, http.StatusCreated, "lock:11"},
		"context, missing":   {ginlock.Ctx("no"), nil, http.StatusBadRequest, ""},
		"own source":         {func(*gin.Context) (string, error) { return "12", nil }, nil, http.StatusCreated, "lock:12"},
	} {
		t.Run(title, func(t *testing.T) {
			r := gin.New()
			r.POST("/:id", set("userId", "set", nil), func(c *gin.Context) {
				c.Request = c.Request.WithContext(context.WithValue(c.Request.Context(), private{}, 11))
			}, ginlock.New(guardtest.Guard(t), "lock:<userId>", ginlock.WithVar("userId", test.source)), tellKey)
			w := guardtest.Send(r, "POST", "/7?q=8&userId=query", "", test.headers...)
			if w.Code != test.want || test.key != "" && w.Body.String() != test.key {
				t.Errorf("got %d %s", w.Code, w.Body)
			}
		})
	}
}

func TestClientAddressIsTheOneThatGinTrusts(t *testing.T) {
	r := gin.New()
	if err := r.SetTrustedProxies(nil); err != nil {
		t.Fatal(err)
	}
	r.POST("/", ginlock.New(guardtest.Guard(t), "lock:<ip>"), tellKey)
	if w := guardtest.Send(r, "POST", "/", "", "X-Forwarded-For", "203.0.113.9"); w.Body.String() != "lock:192.0.2.1" {
		t.Errorf("got %s: a client chose its own address", w.Body)
	}
}

func TestRequestWithoutABodyIsNoPanic(t *testing.T) {
	r := gin.New()
	r.POST("/", ginlock.New(guardtest.Guard(t), "lock:<body.id>"), tellKey)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	r.ServeHTTP(w, request)
	if w.Code != http.StatusBadRequest {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}
