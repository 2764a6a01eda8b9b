package ginlock_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/gin-gonic/gin/binding"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/core/guard/httpguard"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/ginlock"
)

// one is an engine with one route.
func one(path string, chain ...gin.HandlerFunc) *gin.Engine {
	r := gin.New()
	r.POST(path, append(chain, tellKey)...)
	return r
}

func TestRequestIsReplacedForTheHandlerAndRestored(t *testing.T) {
	r := gin.New()
	var outside, inside, after *http.Request
	r.Use(func(c *gin.Context) {
		outside = c.Request
		c.Next()
		after = c.Request
	})
	body := httpguard.WithVar("body", ginlock.Source(func(c *gin.Context) (string, error) { return c.PostForm("id"), nil }))
	r.POST("/:id", ginlock.New(guardtest.Guard(t), "lock:<body>", body), func(c *gin.Context) {
		inside = c.Request
		if lease, ok := ginlock.From(c); !ok || lease.Key() != "lock:1" {
			t.Errorf("From: %v, %v", lease, ok)
		}
	})
	guardtest.Send(r, "POST", "/1", "id=1", "Content-Type", "application/x-www-form-urlencoded")
	if inside == nil || inside == outside || after != outside {
		t.Error("the request was not replaced for the handler, or not restored")
	}
}

// A middleware in front that answers c.Errors, as gin.ErrorLogger does.
func TestErrorsOfTheOperatorAreNotAnsweredByOthers(t *testing.T) {
	g := guard.Must(guard.New(guardtest.Locker(t, guardtest.Broken{Store: memstore.New()})))
	r := one("/:id", gin.ErrorLogger(), ginlock.New(g, "lock:<id>"))
	if w := guardtest.Send(r, "POST", "/1", ""); guardtest.Code(t, w) != "LOCK_UNAVAILABLE" {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

func TestValueSetInBothPlacesMustAgree(t *testing.T) {
	for title, test := range map[string]struct {
		inGin, inContext any
		want             string
	}{
		"with c.Set":         {"42", nil, "lock:42"},
		"in the context":     {nil, "42", "lock:42"},
		"in both alike":      {42, "42", "lock:42"},
		"in both, otherwise": {"42", "43", "LOCK_KEY_INVALID"},
		"in neither":         {nil, nil, "LOCK_RULE_INVALID"},
		"of a wrong type":    {"a", 1.5, "LOCK_RULE_INVALID"},
		"of one with c.Set":  {1.5, nil, "LOCK_RULE_INVALID"},
	} {
		t.Run(title, func(t *testing.T) {
			r := one("/", func(c *gin.Context) {
				if test.inGin != nil {
					c.Set("userId", test.inGin)
				}
				if test.inContext != nil {
					c.Request = c.Request.WithContext(withValue(c.Request.Context(), "userId", test.inContext))
				}
			}, ginlock.New(guardtest.Guard(t), "lock:<userId>"))
			w := guardtest.Send(r, "POST", "/", "")
			got := w.Body.String()
			if w.Code != http.StatusCreated {
				got = guardtest.Code(t, w)
			}
			if got != test.want {
				t.Errorf("got %d %s, want %s", w.Code, w.Body, test.want)
			}
		})
	}
}

func TestRestOfAPathIsAsGinHasIt(t *testing.T) {
	r := one("/f/*rest", ginlock.New(guardtest.Guard(t), "lock:<path.rest>:<route>"))
	if w := guardtest.Send(r, "POST", "/f/a/b", ""); w.Body.String() != "lock:%2Fa%2Fb:%2Ff%2F%2Arest" {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

func TestClientAddressIsTheOneThatGinTrusts(t *testing.T) {
	r := one("/", ginlock.New(guardtest.Guard(t), "lock:<ip>"))
	if err := r.SetTrustedProxies(nil); err != nil {
		t.Fatal(err)
	}
	if w := guardtest.Send(r, "POST", "/", "", "X-Forwarded-For", "203.0.113.9"); w.Body.String() != "lock:192.0.2.1" {
		t.Errorf("got %s: a client chose its own address", w.Body)
	}
}

func TestSourcesAndHandlersSeeTheContextOfGin(t *testing.T) {
	tenant := ginlock.Source(func(c *gin.Context) (string, error) { return c.GetString("tenant"), nil })
	lock := ginlock.New(guardtest.Guard(t), "lock:<tenant>:<id>", httpguard.WithVar("tenant", tenant),
		httpguard.WithErrorHandler(func(_ http.ResponseWriter, q httpguard.Request, e *guard.Error) {
			ginlock.Context(q).String(http.StatusTeapot, e.Kind.Code())
		}))
	r := one("/:id", func(c *gin.Context) { c.Set("tenant", c.Query("tenant")) }, lock)
	if w := guardtest.Send(r, "POST", "/1?tenant=a", ""); w.Body.String() != "lock:a:1" {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
	if w := guardtest.Send(r, "POST", "/1", ""); w.Code != http.StatusTeapot || w.Body.String() != "LOCK_KEY_INVALID" {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

// A middleware in front answers from c.Errors, and Gin writes a status at the end.
func TestErrorHandlersMayLeaveTheAnswerToGin(t *testing.T) {
	g := guardtest.Guard(t)
	guardtest.Hold(t, g, "lock:x")
	front := func(c *gin.Context) {
		if c.Next(); c.Errors.Last() != nil {
			c.String(http.StatusTeapot, "later")
		}
	}
	for name, answer := range map[string]struct {
		by   func(*gin.Context, error)
		want string
	}{
		"a status": {func(c *gin.Context, _ error) { c.Status(http.StatusLocked) }, "423 "},
		"an error": {func(c *gin.Context, err error) { _ = c.Error(err) }, "418 later"},
	} {
		t.Run(name, func(t *testing.T) {
			r := one("/", front, ginlock.New(g, "lock:x",
				httpguard.WithErrorHandler(func(_ http.ResponseWriter, q httpguard.Request, e *guard.Error) {
					answer.by(ginlock.Context(q), e)
				})))
			w := guardtest.Send(r, "POST", "/", "")
			if got := fmt.Sprint(w.Code, " ", w.Body); got != answer.want {
				t.Errorf("got %q, want %q", got, answer.want)
			}
		})
	}
}

// foreign is a request of another framework.
type foreign struct{ httpguard.Request }

func (foreign) Value(any) any { return nil }

// Options may be shared with a middleware of another framework.
func TestSourceOfGinIsNoneForOtherRequests(t *testing.T) {
	source := ginlock.Source(func(*gin.Context) (string, error) { return "a", nil })
	if value, err := source(foreign{}); value != "" || !errors.Is(err, guard.ErrUnresolvable) {
		t.Errorf("got %q, %v, want ErrUnresolvable", value, err)
	}
}

type order struct {
	UserID int    `json:"userId" form:"userId"`
	Note   string `json:"note" form:"note"`
}

func TestHandlersBindTheBodyInEveryStyle(t *testing.T) {
	const body = `{"userId":42,"note":"n"}`
	g := guardtest.Guard(t)
	bindBefore := func(c *gin.Context) { _ = c.ShouldBindBodyWith(&order{}, binding.JSON) }
	a := ginlock.New(g, "lock:a:<body.userId>")
	both := ginlock.New(g, "lock:a:<body.userId>", httpguard.WithRule("lock:b:<body.note>"))
	for place, chain := range map[string][]gin.HandlerFunc{
		"two keys of the body":                   {both},
		"a key that does not need it":            {ginlock.New(g, "lock:x")},
		"behind another one that bound the body": {bindBefore, a},
	} {
		for style, bind := range map[string]func(*gin.Context, *order) error{
			"ShouldBindJSON":     func(c *gin.Context, o *order) error { return c.ShouldBindJSON(o) },
			"ShouldBind":         func(c *gin.Context, o *order) error { return c.ShouldBind(o) },
			"ShouldBindBodyWith": func(c *gin.Context, o *order) error { return c.ShouldBindBodyWith(o, binding.JSON) },
			"both": func(c *gin.Context, o *order) error {
				return errors.Join(c.ShouldBindBodyWith(&order{}, binding.JSON), c.ShouldBindBodyWith(o, binding.JSON))
			},
			"GetRawData": func(c *gin.Context, o *order) error {
				raw, err := c.GetRawData()
				return errors.Join(err, json.Unmarshal(raw, o))
			},
		} {
			t.Run(style+", "+place, func(t *testing.T) {
				r := one("/", append(chain[:len(chain):len(chain)], func(c *gin.Context) {
					var o order
					if err := bind(c, &o); err != nil || o != (order{42, "n"}) {
						t.Errorf("read %+v, %v", o, err)
					}
				})...)
				if w := guardtest.Send(r, "POST", "/", body, "Content-Type", "application/json"); w.Code != http.StatusCreated {
					t.Errorf("got %d %s", w.Code, w.Body)
				}
			})
		}
	}
}

func TestBodyThatAnEarlierBindingKeptIsBoundedAsWell(t *testing.T) {
	r := one("/", func(c *gin.Context) {
		_ = c.ShouldBindBodyWith(&order{}, binding.JSON)
		c.Request.ContentLength = -1
	}, ginlock.New(guardtest.Guard(t), "lock:<body.userId>", httpguard.WithMaxBody(5)))
	if w := guardtest.Send(r, "POST", "/", `{"userId":42}`, "Content-Type", "application/json"); w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

func TestHandlerAnswersAGuardThatItEntersItself(t *testing.T) {
	r := one("/", func(c *gin.Context) { ginlock.Problem(c, &guard.Error{Kind: guard.Contended}) }, func(*gin.Context) { t.Error("not aborted") })
	if w := guardtest.Send(r, "POST", "/", ""); w.Code != http.StatusConflict || guardtest.Code(t, w) != "LOCK_CONTENDED" {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

func TestConstructorsPanicOnProgrammerErrors(t *testing.T) {
	for name, construct := range map[string]func(){
		"New":    func() { ginlock.New(guardtest.Guard(t), "lock:<") },
		"Rules":  func() { ginlock.Rules(nil, gin.New()) },
		"engine": func() { ginlock.Rules(guardtest.Guard(t), nil) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			construct()
		})
	}
}

// A source of Gin's context reads the body as handlers do, and leaves it to them.
func TestSourceReadsTheBody(t *testing.T) {
	for name, test := range map[string]struct {
		source     func(c *gin.Context) (string, error)
		kind, text string
	}{
		"bound": {func(c *gin.Context) (string, error) {
			var order struct{ ID string }
			err := c.ShouldBindBodyWithJSON(&order)
			return order.ID, err
		}, "application/json", `{"id":"7"}`},
		"form": {func(c *gin.Context) (string, error) { return c.PostForm("id"), nil }, "application/x-www-form-urlencoded", "id=7"},
	} {
		t.Run(name, func(t *testing.T) {
			r := gin.New()
			r.POST("/", ginlock.New(guardtest.Guard(t), "lock:<id>", httpguard.WithVar("id", ginlock.Source(test.source))), func(c *gin.Context) {
				if got, err := c.GetRawData(); string(got) != test.text || err != nil {
					t.Errorf("the handler reads %q, %v", got, err)
				}
				tellKey(c)
			})
			if w := guardtest.Send(r, "POST", "/", test.text, "Content-Type", test.kind); w.Body.String() != "lock:7" {
				t.Errorf("got %d %s", w.Code, w.Body)
			}
		})
	}
}

// keeping is a writer that keeps the body back, as a cache does.
type keeping struct {
	gin.ResponseWriter
	body   strings.Builder
	hijack error
}

func (w *keeping) Write(p []byte) (int, error)                  { return w.body.Write(p) }
func (w *keeping) WriteString(s string) (int, error)            { return w.body.WriteString(s) }
func (w *keeping) WriteHeaderNow()                              { w.body.WriteString("header") }
func (w *keeping) Flush()                                       { w.body.WriteString("flush") }
func (w *keeping) Hijack() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, w.hijack }

func TestLostLeaseIsNotAnsweredBehindAnAnswerThatIsKeptBack(t *testing.T) {
	g := guardtest.Guard(t)
	r := gin.New()
	var hijack error
	r.Use(func(c *gin.Context) {
		kept := &keeping{ResponseWriter: c.Writer, hijack: hijack}
		c.Writer = kept
		c.Next()
		if c.Writer != kept {
			t.Error("the writer isn't put back")
		}
		c.Writer = kept.ResponseWriter
		_, _ = c.Writer.WriteString(kept.body.String())
	})
	r.Use(ginlock.New(g, "lock:<path.id>"))
	r.POST("/begun/:id", func(c *gin.Context) {
		c.String(http.StatusCreated, "done")
		guardtest.Lose(t, g, "lock:1")
	})
	r.POST("/not/:id", func(*gin.Context) { guardtest.Lose(t, g, "lock:1") })
	if w := guardtest.Send(r, "POST", "/begun/1", ""); w.Code != http.StatusCreated || w.Body.String() != "done" {
		t.Errorf("an answer had begun: got %d %s", w.Code, w.Body)
	}
	for want, begin := range map[string]func(gin.ResponseWriter){
		"bytes":  func(w gin.ResponseWriter) { _, _ = w.Write([]byte("bytes")) },
		"string": func(w gin.ResponseWriter) { _, _ = w.WriteString("string") },
		"header": gin.ResponseWriter.WriteHeaderNow,
		"flush":  gin.ResponseWriter.Flush,
		"":       func(w gin.ResponseWriter) { _, _, _ = w.Hijack() },
	} {
		r.POST("/begun/:id/"+want, func(c *gin.Context) {
			begin(c.Writer)
			guardtest.Lose(t, g, "lock:1")
		})
		if w := guardtest.Send(r, "POST", "/begun/1/"+want, ""); w.Body.String() != want {
			t.Errorf("%q: got %d %s", want, w.Code, w.Body)
		}
	}
	hijack = http.ErrNotSupported
	if w := guardtest.Send(r, "POST", "/begun/1/", ""); guardtest.Code(t, w) != "LOCK_LOST" {
		t.Errorf("a hijack that failed: got %d %s", w.Code, w.Body)
	}
	if w := guardtest.Send(r, "POST", "/not/1", ""); w.Code != http.StatusInternalServerError || guardtest.Code(t, w) != "LOCK_LOST" {
		t.Errorf("none had begun: got %d %s", w.Code, w.Body)
	}
}

// named is a writer that is no pointer.
type named struct{ gin.ResponseWriter }

// What another route answers, to which a handler has passed the request on, goes to Gin's
// own writer.
func TestLostLeaseIsNotAnsweredBehindTheAnswerOfAnotherRoute(t *testing.T) {
	g := guardtest.Guard(t)
	r := gin.New()
	put := func(c *gin.Context) { c.Writer = named{c.Writer} }
	r.POST("/a", put, ginlock.New(g, "lock:1"), func(c *gin.Context) {
		c.Request.URL.Path = "/b"
		r.HandleContext(c)
		guardtest.Lose(t, g, "lock:1")
	})
	r.POST("/b", func(c *gin.Context) { c.String(http.StatusCreated, "done") })
	if w := guardtest.Send(r, "POST", "/a", ""); w.Code != http.StatusCreated || w.Body.String() != "done" {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

// A middleware behind the lock that doesn't put the writer back, as gin-contrib/gzip does not:
// what it left is closed, or is another request's by then.
func TestLostLeaseIsAnsweredPastAWriterThatWasLeft(t *testing.T) {
	g := guardtest.Guard(t)
	left := &keeping{}
	r := one("/:id", ginlock.New(g, "lock:<id>"), func(c *gin.Context) {
		left.ResponseWriter = c.Writer
		c.Writer = left
		guardtest.Lose(t, g, "lock:1")
		c.Abort()
	})
	if w := guardtest.Send(r, "POST", "/1", ""); w.Code != http.StatusInternalServerError || guardtest.Code(t, w) != "LOCK_LOST" {
		t.Errorf("got %d %s, and %s for the writer that was left", w.Code, w.Body, &left.body)
	}
}

func TestErrorsOfAHandlerAreNotAnsweredBesideALostLease(t *testing.T) {
	g := guardtest.Guard(t)
	failure := errors.New("of the handler")
	var told []error
	tell := func(c *gin.Context) {
		c.Next()
		for _, err := range c.Errors {
			told = append(told, err.Err)
		}
	}
	lose := false
	r := one("/:id", tell, gin.ErrorLogger(), ginlock.New(g, "lock:<id>"), func(c *gin.Context) {
		if lose {
			guardtest.Lose(t, g, "lock:1")
		}
		_ = c.Error(failure)
		c.Abort()
	})
	if w := guardtest.Send(r, "POST", "/1", ""); !strings.Contains(w.Body.String(), failure.Error()) || len(told) != 1 {
		t.Errorf("with its lease: got %d %s, and %v", w.Code, w.Body, told)
	}
	lose, told = true, nil
	if w := guardtest.Send(r, "POST", "/1", ""); guardtest.Code(t, w) != "LOCK_LOST" || len(told) > 0 {
		t.Errorf("got %d %s, and %v", w.Code, w.Body, told)
	}
}

func TestClientAddressHasOneSpelling(t *testing.T) {
	r := one("/", ginlock.New(guardtest.Guard(t), "lock:<ip>"))
	for text, want := range map[string]string{
		"2001:DB8:0::1": "lock:2001%3Adb8%3A%3A1", "::ffff:203.0.113.9": "lock:203.0.113.9", "203.0.113.9": "lock:203.0.113.9",
	} {
		if w := guardtest.Send(r, "POST", "/", "", "X-Forwarded-For", text); w.Body.String() != want {
			t.Errorf("%s: got %s, want %s", text, w.Body, want)
		}
	}
}

// A lease that a middleware in front has taken is found again behind the lock.
func TestLeaseInGinsContextIsPutBack(t *testing.T) {
	g := guardtest.Guard(t)
	outer := guardtest.Hold(t, g, "lock:outer")
	var found []string
	tell := func(c *gin.Context) {
		lease, ok := lock.FromContext(c)
		if !ok {
			t.Fatal("no lease")
		}
		found = append(found, lease.Key())
	}
	r := gin.New()
	r.POST("/:id", func(c *gin.Context) {
		c.Set(lock.ContextKey, outer)
		c.Next()
		tell(c)
	}, ginlock.New(g, "lock:<id>"), tell)
	guardtest.Send(r, "POST", "/7", "")
	if want := []string{"lock:7", "lock:outer"}; !slices.Equal(found, want) {
		t.Errorf("found %q, want %q", found, want)
	}
}
