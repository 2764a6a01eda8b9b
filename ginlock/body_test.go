package ginlock_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/gin-gonic/gin/binding"

	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/ginlock"
)

const (
	jsonType = "application/json"
	formType = "application/x-www-form-urlencoded"
)

func TestBodyFieldsThatMakeAKey(t *testing.T) {
	const refused = ""
	for title, test := range map[string]struct{ field, body, want string }{
		"text":                              {"userId", `{"userId":"alice"}`, "lock:alice"},
		"text with an escape":               {"userId", `{"userId":"\u0061lice"}`, "lock:alice"},
		"integer":                           {"userId", `{"userId":42}`, "lock:42"},
		"negative integer":                  {"userId", `{"userId":-42}`, "lock:-42"},
		"integer beyond float precision":    {"userId", `{"userId":9007199254740993}`, "lock:9007199254740993"},
		"integer beyond 64 bits":            {"userId", `{"userId":123456789012345678901234567890}`, "lock:123456789012345678901234567890"},
		"boolean":                           {"userId", `{"userId":true}`, "lock:true"},
		"dotted path":                       {"user.id", `{"user":{"name":"x","id":7},"id":8}`, "lock:7"},
		"space around":                      {"userId", " {\n\t\"userId\" :\r 42 } \n", "lock:42"},
		"other members that look alike":     {"userId", `{"a":1,"A":2,"userId":3}`, "lock:3"},
		"name written with an escape":       {"userId", `{"user\u0049d":42}`, "lock:42"},
		"missing":                           {"userId", `{"other":1}`, refused},
		"empty text":                        {"userId", `{"userId":""}`, refused},
		"null":                              {"userId", `{"userId":null}`, refused},
		"fraction":                          {"userId", `{"userId":1.0}`, refused},
		"exponent":                          {"userId", `{"userId":1e0}`, refused},
		"upper exponent":                    {"userId", `{"userId":1E0}`, refused},
		"minus zero":                        {"userId", `{"userId":-0}`, refused},
		"object":                            {"userId", `{"userId":{}}`, refused},
		"array":                             {"userId", `{"userId":[1]}`, refused},
		"path through a text":               {"user.id", `{"user":"id"}`, refused},
		"path through an array":             {"user.id", `{"user":[{"id":1}]}`, refused},
		"path through null":                 {"user.id", `{"user":null}`, refused},
		"not an object":                     {"userId", `[{"userId":1}]`, refused},
		"twice":                             {"userId", `{"userId":1,"userId":2}`, refused},
		"twice the same":                    {"userId", `{"userId":1,"userId":1}`, refused},
		"twice in another case":             {"userId", `{"userId":1,"USERID":2}`, refused},
		"twice, the other one first":        {"userId", `{"USERID":2,"userId":1}`, refused},
		"only in another case":              {"userId", `{"USERID":2}`, refused},
		"twice with the Kelvin sign":        {"kind", "{\"kind\":1,\"\u212aind\":2}", refused},
		"twice with the long s":             {"userId", "{\"userId\":1,\"u\u017ferId\":2}", refused},
		"twice, escaped":                    {"userId", `{"userId":1,"user\u0069d":2}`, refused},
		"outer object twice":                {"user.id", `{"user":{"id":1},"User":{"id":2}}`, refused},
		"inner member twice":                {"user.id", `{"user":{"id":1,"ID":2}}`, refused},
		"second document":                   {"userId", `{"userId":1}{"userId":2}`, refused},
		"text behind it":                    {"userId", `{"userId":1} x`, refused},
		"cut off":                           {"userId", `{"userId":1`, refused},
		"cut off behind what is looked for": {"user.id", `{"user":{"id":1},"x"`, refused},
		"not JSON":                          {"userId", `userId=1`, refused},
		"no body":                           {"userId", ``, refused},
		"too deep":                          {"userId", strings.Repeat(`{"userId":`, 20_000) + "1" + strings.Repeat("}", 20_000), refused},
	} {
		t.Run(title, func(t *testing.T) {
			r := gin.New()
			r.POST("/", ginlock.New(guardtest.Guard(t), "lock:<body."+test.field+">"), tellKey)
			w := guardtest.Send(r, "POST", "/", test.body, "Content-Type", jsonType)
			switch {
			case test.want == refused:
				if w.Code != http.StatusBadRequest || guardtest.Code(t, w) != "LOCK_KEY_INVALID" {
					t.Errorf("got %d %s, want it refused", w.Code, w.Body)
				}
			case w.Code != http.StatusCreated || w.Body.String() != test.want:
				t.Errorf("got %d %s, want %s", w.Code, w.Body, test.want)
			}
		})
	}
}

func TestBodyIsOnlyReadAsWhatItSaysItIs(t *testing.T) {
	const body = `{"userId":1}`
	for title, test := range map[string]struct {
		headers []string
		want    int
	}{
		"json":                {[]string{"Content-Type", "application/json"}, http.StatusCreated},
		"json with a charset": {[]string{"Content-Type", "Application/JSON; charset=utf-8"}, http.StatusCreated},
		"a kind of json":      {[]string{"Content-Type", "application/merge-patch+json"}, http.StatusCreated},
		"json, not encoded":   {[]string{"Content-Type", jsonType, "Content-Encoding", "identity"}, http.StatusCreated},
		"json, compressed":    {[]string{"Content-Type", jsonType, "Content-Encoding", "gzip"}, http.StatusBadRequest},
		"text":                {[]string{"Content-Type", "text/plain"}, http.StatusBadRequest},
		"a form":              {[]string{"Content-Type", formType}, http.StatusBadRequest},
		"nothing":             {nil, http.StatusBadRequest},
		"nonsense":            {[]string{"Content-Type", ";;"}, http.StatusBadRequest},
	} {
		t.Run(title, func(t *testing.T) {
			r := gin.New()
			r.POST("/", ginlock.New(guardtest.Guard(t), "lock:<body.userId>"), tellKey)
			if w := guardtest.Send(r, "POST", "/", body, test.headers...); w.Code != test.want {
				t.Errorf("got %d %s, want %d", w.Code, w.Body, test.want)
			}
		})
	}
}

func TestFormFieldsThatMakeAKey(t *testing.T) {
	for title, test := range map[string]struct {
		contentType, body string
		want              int
		key               string
	}{
		"field":           {formType, "a=1&userId=4%32", http.StatusCreated, "lock:42"},
		"missing":         {formType, "a=1", http.StatusBadRequest, ""},
		"twice":           {formType, "userId=1&userId=2", http.StatusBadRequest, ""},
		"badly escaped":   {formType, "userId=1&b=%zz", http.StatusBadRequest, ""},
		"of another type": {jsonType, "userId=1", http.StatusBadRequest, ""},
		"multipart":       {"multipart/form-data; boundary=x", "--x\r\nContent-Disposition: form-data; name=\"userId\"\r\n\r\n1\r\n--x--\r\n", http.StatusBadRequest, ""},
	} {
		t.Run(title, func(t *testing.T) {
			r := gin.New()
			r.POST("/", ginlock.New(guardtest.Guard(t), "lock:<form.userId>"), func(c *gin.Context) {
				if c.PostForm("userId") != "42" {
					t.Errorf("the handler reads %q", c.PostForm("userId"))
				}
				tellKey(c)
			})
			w := guardtest.Send(r, "POST", "/?userId=query", test.body, "Content-Type", test.contentType)
			if w.Code != test.want || test.key != "" && w.Body.String() != test.key {
				t.Errorf("got %d %s", w.Code, w.Body)
			}
		})
	}
}

func TestFormThatIsTooLargeIsRefused(t *testing.T) {
	r := gin.New()
	r.POST("/", ginlock.New(guardtest.Guard(t), "lock:<form.userId>", ginlock.WithMaxBody(8)), tellKey)
	if w := guardtest.Send(r, "POST", "/", "userId=42", "Content-Type", formType); w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

func TestFormThatWasParsedBeforeIsTheOneThatCounts(t *testing.T) {
	r := gin.New()
	r.POST("/", func(c *gin.Context) { _ = c.PostForm("userId") },
		ginlock.New(guardtest.Guard(t), "lock:<form.userId>"), tellKey)
	if w := guardtest.Send(r, "POST", "/?userId=query", "userId=42", "Content-Type", formType); w.Body.String() != "lock:42" {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

type order struct {
	UserID int    `json:"userId" form:"userId"`
	Note   string `json:"note" form:"note"`
}

func TestHandlersReadTheBodyInEveryStyle(t *testing.T) {
	const body = `{"userId":42,"note":"n"}`
	bindings := map[string]func(*gin.Context, *order) error{
		"ShouldBindJSON":     func(c *gin.Context, o *order) error { return c.ShouldBindJSON(o) },
		"ShouldBind":         func(c *gin.Context, o *order) error { return c.ShouldBind(o) },
		"ShouldBindBodyWith": func(c *gin.Context, o *order) error { return c.ShouldBindBodyWith(o, binding.JSON) },
		"both": func(c *gin.Context, o *order) error {
			return errors.Join(c.ShouldBindBodyWith(&order{}, binding.JSON), c.ShouldBindJSON(o))
		},
		"GetRawData": func(c *gin.Context, o *order) error {
			raw, err := c.GetRawData()
			return errors.Join(err, json.Unmarshal(raw, o))
		},
		"Request.Body": func(c *gin.Context, o *order) error {
			return errors.Join(json.NewDecoder(c.Request.Body).Decode(o), c.Request.Body.Close())
		},
	}
	bindBefore := func(c *gin.Context) { _ = c.ShouldBindBodyWith(&order{}, binding.JSON) }
	readBetween := func(c *gin.Context) { _, _ = io.Copy(io.Discard, c.Request.Body) }
	a, b := locks(t, "lock:a:<body.userId>"), locks(t, "lock:b:<body.note>")
	chains := map[string][]gin.HandlerFunc{
		"one key of the body":                    locks(t, "lock:<body.userId>:<body.note>"),
		"two keys of the body":                   slices.Concat(a, b),
		"preread":                                {ginlock.New(guardtest.Guard(t), "lock:x", ginlock.WithPrereadBody(100))},
		"behind another one that bound the body": slices.Concat([]gin.HandlerFunc{bindBefore}, a),
		"with one between that reads it again":   slices.Concat(a, []gin.HandlerFunc{readBetween}, b),
	}
	for style, bind := range bindings {
		for place, chain := range chains {
			t.Run(style+", "+place, func(t *testing.T) {
				r := gin.New()
				r.POST("/", append(slices.Clip(chain), func(c *gin.Context) {
					var o order
					if err := bind(c, &o); err != nil || o != (order{42, "n"}) {
						t.Errorf("read %+v, %v", o, err)
					}
					c.Status(http.StatusCreated)
				})...)
				if w := guardtest.Send(r, "POST", "/", body, "Content-Type", jsonType); w.Code != http.StatusCreated {
					t.Errorf("got %d %s", w.Code, w.Body)
				}
			})
		}
	}
}

func locks(t *testing.T, templates ...string) []gin.HandlerFunc {
	t.Helper()
	g := guardtest.Guard(t)
	var chain []gin.HandlerFunc
	for _, template := range templates {
		chain = append(chain, ginlock.New(g, template))
	}
	return chain
}

func TestBodyThatIsNotNeededIsLeftAlone(t *testing.T) {
	r := gin.New()
	r.POST("/", func(c *gin.Context) {
		c.Request.Body = guardtest.WatchRead(c.Request.Body, func() { t.Error("the body was read") })
	}, ginlock.New(guardtest.Guard(t), "lock:x"), tellKey)
	if w := guardtest.Send(r, "POST", "/", "text"); w.Code != http.StatusCreated {
		t.Errorf("got %d", w.Code)
	}
}

func TestBodyThatIsTooLargeIsRefusedBeforeTheHandler(t *testing.T) {
	const limit = 20
	fits, large := `{"userId":12345678}`+" ", `{"userId":12345678}  `
	if len(fits) != limit || len(large) != limit+1 {
		t.Fatal("the bodies have the wrong size")
	}
	for title, test := range map[string]struct {
		body    string
		chunked bool
		want    int
	}{
		"at the limit":                  {fits, false, http.StatusCreated},
		"at the limit, size unknown":    {fits, true, http.StatusCreated},
		"above the limit":               {large, false, http.StatusRequestEntityTooLarge},
		"above the limit, size unknown": {large, true, http.StatusRequestEntityTooLarge},
	} {
		for option, lock := range map[string]gin.HandlerFunc{
			"WithMaxBody":     ginlock.New(guardtest.Guard(t), "lock:<body.userId>", ginlock.WithMaxBody(limit)),
			"WithPrereadBody": ginlock.New(guardtest.Guard(t), "lock:x", ginlock.WithPrereadBody(limit)),
		} {
			t.Run(title+", "+option, func(t *testing.T) {
				r := gin.New()
				ran := false
				r.POST("/", func(c *gin.Context) {
					if test.chunked {
						c.Request.ContentLength = -1
					}
				}, lock, func(c *gin.Context) { ran = true; c.Status(http.StatusCreated) })
				w := guardtest.Send(r, "POST", "/", test.body, "Content-Type", jsonType)
				if w.Code != test.want || ran != (test.want == http.StatusCreated) {
					t.Errorf("got %d, the handler ran: %v", w.Code, ran)
				}
				if !ran && guardtest.Code(t, w) != "LOCK_KEY_INVALID" {
					t.Errorf("got %s", w.Body)
				}
			})
		}
	}
}

func TestBodyThatSaysItIsTooLargeIsNotRead(t *testing.T) {
	r := gin.New()
	r.POST("/", func(c *gin.Context) {
		c.Request.Body = guardtest.WatchRead(c.Request.Body, func() { t.Error("the body was read") })
	}, ginlock.New(guardtest.Guard(t), "lock:<body.userId>", ginlock.WithMaxBody(5)), tellKey)
	if w := guardtest.Send(r, "POST", "/", `{"userId":42}`, "Content-Type", jsonType); w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

func TestBodyThatAnEarlierBindingKeptIsBoundedAsWell(t *testing.T) {
	r := gin.New()
	r.POST("/", func(c *gin.Context) {
		_ = c.ShouldBindBodyWith(&order{}, binding.JSON)
		c.Request.ContentLength = -1
	}, ginlock.New(guardtest.Guard(t), "lock:<body.userId>", ginlock.WithMaxBody(5)), tellKey)
	if w := guardtest.Send(r, "POST", "/", `{"userId":42}`, "Content-Type", jsonType); w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

func TestDefaultBodyLimitIsOneMebibyte(t *testing.T) {
	r := gin.New()
	r.POST("/", ginlock.New(guardtest.Guard(t), "lock:<body.userId>"), tellKey)
	body := `{"userId":1}` + strings.Repeat(" ", ginlock.DefaultMaxBody-len(`{"userId":1}`))
	if w := guardtest.Send(r, "POST", "/", body, "Content-Type", jsonType); w.Code != http.StatusCreated {
		t.Errorf("1 MiB: got %d %s", w.Code, w.Body)
	}
	if w := guardtest.Send(r, "POST", "/", body+" ", "Content-Type", jsonType); w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("1 byte more: got %d %s", w.Code, w.Body)
	}
}

func TestBodyIsReadBeforeTheLockIsTaken(t *testing.T) {
	for title, test := range map[string]struct {
		template string
		opts     []ginlock.Option
	}{
		"because the key needs it":        {"lock:stock:<path.id>:<body.userId>", nil},
		"because the key may not need it": {"lock:stock:<path.id>:42", []ginlock.Option{ginlock.WithPrereadBody(1000)}},
	} {
		t.Run(title, func(t *testing.T) {
			g := guardtest.Guard(t)
			read := false
			r := gin.New()
			r.POST("/:id", func(c *gin.Context) {
				c.Request.Body = guardtest.WatchRead(c.Request.Body, func() {
					read = true
					if guardtest.IsHeld(t, g, "lock:stock:7:42") {
						t.Error("held while the client sends")
					}
				})
			}, ginlock.New(g, test.template, test.opts...), tellKey)
			w := guardtest.Send(r, "POST", "/7", `{"userId":42}`, "Content-Type", jsonType)
			if !read || w.Body.String() != "lock:stock:7:42" {
				t.Errorf("got %d %s, body read: %v", w.Code, w.Body, read)
			}
		})
	}
}

func TestSlowBodyDoesNotHoldUpAnotherRequest(t *testing.T) {
	g := guardtest.Guard(t)
	reading := make(chan struct{}, 100)
	r := gin.New()
	r.POST("/:id", func(c *gin.Context) {
		c.Request.Body = guardtest.WatchRead(c.Request.Body, func() { reading <- struct{}{} })
	}, ginlock.New(g, "lock:<id>", ginlock.WithPrereadBody(1000)), tellKey)
	server := httptest.NewServer(r)
	defer server.Close()
	slow, finish := io.Pipe()
	answer := make(chan int, 1)
	go func() {
		response, err := server.Client().Post(server.URL+"/1", "text/plain", slow)
		if err != nil {
			answer <- 0
			return
		}
		_ = response.Body.Close()
		answer <- response.StatusCode
	}()
	guardtest.Receive(t, reading, "the start of the slow body")
	response, err := server.Client().Post(server.URL+"/1", "text/plain", strings.NewReader("quick"))
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusCreated {
		t.Errorf("the quick one got %s", response.Status)
	}
	_ = finish.Close()
	if code := guardtest.Receive(t, answer, "the answer to the slow one"); code != http.StatusCreated {
		t.Errorf("the slow one got %d", code)
	}
}

func TestBodyThatBreaksOff(t *testing.T) {
	for title, test := range map[string]struct {
		leaves bool
		want   int
	}{
		"is refused":                         {false, http.StatusBadRequest},
		"is not answered if the client left": {true, 499},
	} {
		for option, opts := range map[string][]ginlock.Option{
			"for the key": nil, "preread": {ginlock.WithPrereadBody(100)},
		} {
			t.Run(title+", "+option, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				r := gin.New()
				r.POST("/", func(c *gin.Context) {
					broken := io.MultiReader(strings.NewReader(`{"userId":4`), readerFunc(func() error {
						if test.leaves {
							cancel()
						}
						return io.ErrUnexpectedEOF
					}))
					c.Request = c.Request.WithContext(ctx)
					c.Request.Body = io.NopCloser(broken)
					c.Request.ContentLength = -1
				}, ginlock.New(guardtest.Guard(t), "lock:<body.userId>", opts...), func(*gin.Context) { t.Error("the handler ran") })
				w := guardtest.Send(r, "POST", "/", "", "Content-Type", jsonType)
				if w.Code != test.want || test.leaves != (w.Body.Len() == 0) {
					t.Errorf("got %d %s", w.Code, w.Body)
				}
			})
		}
	}
}

type readerFunc func() error

func (f readerFunc) Read([]byte) (int, error) { return 0, f() }

// FuzzBodyField: whatever is locked is what a handler's binding reads.
func FuzzBodyField(f *testing.F) {
	for _, seed := range []string{
		`{"userId":1}`, `{"userId":"x"}`, `{"userId":1,"USERID":2}`, `{"user\u0049d":true}`, `{"userId":-0}`,
		"{\"u\u017ferId\":2,\"userId\":1}", `{"a":{"userId":2},"userId":1}`, `{"userId":"\ud800"}`, `{"userId":null,"userid":3}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		locked, err := ginlock.JSONField(text, []string{"userId"})
		if err != nil {
			return
		}
		var bound struct {
			UserID json.RawMessage `json:"userId"`
		}
		if err := json.Unmarshal(text, &bound); err != nil {
			t.Fatalf("locked %q of a text that does not bind: %v", locked, err)
		}
		var value any
		d := json.NewDecoder(bytes.NewReader(bound.UserID))
		d.UseNumber()
		if err := d.Decode(&value); err != nil {
			t.Fatal(err)
		}
		switch v := value.(type) {
		case string:
			if v != locked {
				t.Fatalf("locked %q, bound %q", locked, v)
			}
		case json.Number:
			if v.String() != locked || strings.ContainsAny(locked, ".eE") {
				t.Fatalf("locked %q, bound %q", locked, v)
			}
		case bool:
			if (locked == "true") != v {
				t.Fatalf("locked %q, bound %v", locked, v)
			}
		default:
			t.Fatalf("locked %q, bound %v", locked, v)
		}
	})
}
