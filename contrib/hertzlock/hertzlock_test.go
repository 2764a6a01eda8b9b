package hertzlock_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/cloudwego/hertz/pkg/app"
	"github.com/cloudwego/hertz/pkg/common/config"
	"github.com/cloudwego/hertz/pkg/route"

	"github.com/redlatch/redlatch/contrib/hertzlock"
	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/core/guard/httpguard"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/rule"
)

func tellKey(ctx context.Context, c *app.RequestContext) {
	lease, ok := lock.FromContext(ctx)
	if !ok {
		c.String(http.StatusOK, "no lock")
		return
	}
	c.String(http.StatusCreated, "%s", lease.Key())
}

func newEngine() router { return router{route.NewEngine(config.NewOptions(nil))} }

// What a new user gets wrong is a 500 and a line with the cure.
func TestMistakesAreTheProgramsFault(t *testing.T) {
	const operation = "POST /orders/:id"
	for name, test := range map[string]struct {
		register func(r router, g *guard.Guard)
		want     string
	}{
		"behind its handler": {func(r router, g *guard.Guard) {
			r.POST("/orders/:id", func(context.Context, *app.RequestContext) {}, hertzlock.New(g, "lock:<id>"))
		}, "a lock stands behind the handler, put it in front"},
		"a route that another request comes to": {func(r router, g *guard.Guard) {
			r.Use(hertzlock.Route(g, "POST /refunds/:id"))
			r.POST("/orders/:id", tellKey)
		}, "is a lock for this route"},
		"a name that nobody has": {func(r router, g *guard.Guard) {
			r.POST("/orders/:id", hertzlock.New(g, "lock:<path.no>"), tellKey)
		}, "<path.no>, correct its name"},
		"a lock behind a lock": {func(r router, g *guard.Guard) {
			r.POST("/orders/:id", hertzlock.New(g, "lock:a"), hertzlock.New(g, "lock:b"), tellKey)
		}, "as in hertzlock.New(g, a, httpguard.WithRule(b))"},
	} {
		t.Run(name, func(t *testing.T) {
			var logged strings.Builder
			g := guardtest.Guard(t, rule.Rule{Operation: operation, Key: "lock:order:<id>"}).WithLogger(slog.New(slog.NewTextHandler(&logged, nil)))
			r := newEngine()
			test.register(r, g)
			w := guardtest.Send(r, "POST", "/orders/7", "")
			if w.Code != http.StatusInternalServerError || guardtest.Code(t, w) != "LOCK_RULE_INVALID" || !strings.Contains(logged.String(), test.want) {
				t.Errorf("got %d %s, logged %s", w.Code, w.Body, logged.String())
			}
		})
	}
}

// A handler that has Hertz' context only finds the lease there, and none behind the lock.
func TestLeaseIsInHertzContext(t *testing.T) {
	g := guardtest.Guard(t)
	r := newEngine()
	held := func(c *app.RequestContext) bool {
		lease, _ := c.Value(lock.ContextKey).(*lock.Lease)
		return lease != nil && lease.Key() == "lock:7"
	}
	r.POST("/:id", func(ctx context.Context, c *app.RequestContext) {
		c.Next(ctx)
		if held(c) {
			t.Error("the lease is still there")
		}
	}, hertzlock.New(g, "lock:<id>"), func(ctx context.Context, c *app.RequestContext) {
		if !held(c) {
			t.Error("no lease")
		}
		guardtest.AssertHeld(t, ctx, "lock:7")
		c.Status(http.StatusCreated)
	})
	if w := guardtest.Send(r, "POST", "/7", ""); w.Code != http.StatusCreated {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

// A server that leaves bodies to handlers: what the key reads, they read again.
func TestAStreamedBodyIsReadForTheKeyAndByTheHandler(t *testing.T) {
	const body = `{"userId":42}`
	for key, want := range map[string]string{"lock:<body.userId>": "lock:42", "lock:x": "lock:x"} {
		for name, opts := range map[string][]hertzlock.Option{"read": nil, "streamed": {httpguard.WithStreamedBody()}} {
			t.Run(key+", "+name, func(t *testing.T) {
				r := newEngine()
				r.POST("/", hertzlock.New(guardtest.Guard(t), key, opts...), func(ctx context.Context, c *app.RequestContext) {
					got, err := io.ReadAll(c.RequestBodyStream())
					if string(got) != body || err != nil {
						t.Errorf("the handler reads %q, %v", got, err)
					}
					tellKey(ctx, c)
				})
				c := r.NewContext()
				c.Request.Header.SetMethod(http.MethodPost)
				c.Request.Header.SetContentTypeBytes([]byte("application/json"))
				c.Request.SetRequestURI("/")
				c.Request.SetBodyStream(strings.NewReader(body), len(body))
				r.Engine.ServeHTTP(t.Context(), c)
				if got := string(c.Response.Body()); got != want {
					t.Errorf("got %d %s, want %s", c.Response.StatusCode(), got, want)
				}
			})
		}
	}
}

func TestErrorHandlersMayAnswerByHertzContext(t *testing.T) {
	g := guardtest.Guard(t)
	guardtest.Hold(t, g, "lock:7")
	r := newEngine()
	r.POST("/:id", hertzlock.New(g, "lock:<id>", httpguard.WithErrorHandler(func(_ http.ResponseWriter, q httpguard.Request, e *guard.Error) {
		hertzlock.Context(q).String(http.StatusTeapot, "%s", e.Kind.Code())
	})), tellKey)
	if w := guardtest.Send(r, "POST", "/7", ""); w.Code != http.StatusTeapot || w.Body.String() != "LOCK_CONTENDED" {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

func TestSourcesReadHertzContext(t *testing.T) {
	r := newEngine()
	tenant := hertzlock.Source(func(c *app.RequestContext) (string, error) {
		if tenant := c.Query("tenant"); tenant != "" {
			return tenant, nil
		}
		return "", errors.New("no tenant")
	})
	r.POST("/:id", hertzlock.New(guardtest.Guard(t), "lock:<tenant>", httpguard.WithVar("tenant", tenant)), tellKey)
	if w := guardtest.Send(r, "POST", "/7?tenant=3", ""); w.Body.String() != "lock:3" {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
	if w := guardtest.Send(r, "POST", "/7", ""); w.Code != http.StatusBadRequest {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

func TestProblemAnswersForAHandlerThatEntersTheGuard(t *testing.T) {
	r := newEngine()
	r.POST("/", func(ctx context.Context, c *app.RequestContext) {
		hertzlock.Problem(ctx, c, &guard.Error{Kind: guard.Contended})
	}, func(context.Context, *app.RequestContext) { t.Error("the chain goes on") })
	w := guardtest.Send(r, "POST", "/", "")
	if w.Code != http.StatusConflict || guardtest.Code(t, w) != "LOCK_CONTENDED" || w.Header().Get("Retry-After") != "1" {
		t.Errorf("got %d %v %s", w.Code, w.Header(), w.Body)
	}
}
