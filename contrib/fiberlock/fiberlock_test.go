package fiberlock_test

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/gofiber/fiber/v3"
	"github.com/valyala/fasthttp"

	"github.com/redlatch/redlatch/contrib/fiberlock"
	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/core/guard/httpguard"
	"github.com/redlatch/redlatch/core/rule"
)

func tellKey(c fiber.Ctx) error {
	lease, ok := fiberlock.From(c)
	if !ok {
		return c.SendString("no lock")
	}
	return c.Status(http.StatusCreated).SendString(lease.Key())
}

// logging is a guard whose lines can be read.
func logging(t *testing.T, rules ...rule.Rule) (*guard.Guard, *strings.Builder) {
	t.Helper()
	var logged strings.Builder
	return guardtest.Guard(t, rules...).WithLogger(slog.New(slog.NewTextHandler(&logged, nil))), &logged
}

// Use runs a middleware before the route is known.
func TestLocksOfUseAreTheProgramsFaultUnlessTheKeyNeedsNoRoute(t *testing.T) {
	const operation = "POST /orders/:id"
	for name, test := range map[string]struct {
		lock func(*guard.Guard) fiber.Handler
		want string // in the log; empty: the handler runs
	}{
		"a bare parameter": {func(g *guard.Guard) fiber.Handler { return fiberlock.New(g, "lock:order:<id>") }, "put the lock around the handler of a route"},
		"a path parameter": {func(g *guard.Guard) fiber.Handler { return fiberlock.New(g, "lock:order:<path.id>") }, "put the lock around the handler of a route"},
		"a route":          {func(g *guard.Guard) fiber.Handler { return fiberlock.Route(g, operation) }, "is a lock in front of the router"},
		"a fixed key":      {func(g *guard.Guard) fiber.Handler { return fiberlock.New(g, "lock:orders") }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g, logged := logging(t, rule.Rule{Operation: operation, Key: "lock:order:<id>"})
			app := fiber.New()
			app.Use(test.lock(g))
			app.Post("/orders/:id", tellKey)
			w := guardtest.Send(router{app}, "POST", "/orders/7", "")
			if test.want == "" {
				if w.Code != http.StatusCreated {
					t.Errorf("got %d %s", w.Code, w.Body)
				}
				return
			}
			if w.Code != http.StatusInternalServerError || guardtest.Code(t, w) != "LOCK_RULE_INVALID" || !strings.Contains(logged.String(), test.want) {
				t.Errorf("got %d %s, logged %s", w.Code, w.Body, logged.String())
			}
		})
	}
}

// Fiber knows the parameters of patterns that others don't have.
func TestRoutesWithFibersOwnPatterns(t *testing.T) {
	for pattern, test := range map[string]struct{ key, path, want string }{
		"/orders/:id<int>":       {"lock:<id>", "/orders/7", "lock:7"},
		"/flights/:from-:to":     {"lock:<from>:<path.to>", "/flights/a-b", "lock:a:b"},
		"/files/:name.:ext":      {"lock:<name>", "/files/a.txt", "lock:a"},
		"/shops/:shop/orders/:n": {"lock:<shop>:<n>", "/shops/3/orders/7", "lock:3:7"},
	} {
		t.Run(pattern, func(t *testing.T) {
			g, err := guard.New(guardtest.Guard(t).Locker(), rule.Rule{Operation: "POST " + pattern, Key: test.key})
			if err != nil {
				t.Fatal(err)
			}
			app := fiber.New()
			app.Post(pattern, fiberlock.Route(g, "POST "+pattern), tellKey)
			if err := g.Validate(); err != nil {
				t.Fatal(err)
			}
			if w := guardtest.Send(router{app}, "POST", test.path, ""); w.Body.String() != test.want {
				t.Errorf("got %d %s", w.Code, w.Body)
			}
		})
	}
	g, err := guard.New(guardtest.Guard(t).Locker(), rule.Rule{Operation: "POST /orders/:id<int>", Key: "lock:<path.ID>"})
	if err != nil {
		t.Fatal(err)
	}
	fiberlock.Route(g, "POST /orders/:id<int>")
	if err := g.WithLogger(slog.New(slog.DiscardHandler)).Validate(); err == nil || !strings.Contains(err.Error(), "<path.ID> is not a parameter of the route") {
		t.Errorf("a misspelled parameter: %v", err)
	}
}

// The error of a handler is Fiber's to answer, unless its lease was lost.
func TestErrorsOfHandlersAreAnsweredByFiber(t *testing.T) {
	for name, loses := range map[string]bool{"held": false, "lost": true} {
		t.Run(name, func(t *testing.T) {
			g, _ := logging(t)
			app := fiber.New(fiber.Config{ErrorHandler: func(c fiber.Ctx, _ error) error { return c.SendStatus(http.StatusTeapot) }})
			app.Post("/:id", fiberlock.New(g, "lock:<id>"), func(c fiber.Ctx) error {
				if loses {
					guardtest.Lose(t, g, "lock:7")
					<-c.Context().Done()
				}
				return errors.New("no tea")
			})
			w := guardtest.Send(router{app}, "POST", "/7", "")
			if loses && (w.Code != http.StatusInternalServerError || guardtest.Code(t, w) != "LOCK_LOST") || !loses && w.Code != http.StatusTeapot {
				t.Errorf("got %d %s", w.Code, w.Body)
			}
		})
	}
}

// Fiber reads the next request into the memory of the last. A key may live longer: a
// release that the store didn't answer is repeated.
func TestKeysShareNoMemoryWithRequests(t *testing.T) {
	var keys []string
	app := fiber.New()
	app.Post("/:id", fiberlock.New(guardtest.Guard(t), "<id>:<query.q>:<header.X-H>"), func(c fiber.Ctx) error {
		lease, _ := fiberlock.From(c)
		keys = append(keys, lease.Key())
		return nil
	})
	var c fasthttp.RequestCtx
	for _, v := range []string{"a", "b"} {
		c.Request.Header.SetMethod(http.MethodPost)
		c.Request.Header.Set("X-H", v+v)
		c.Request.SetRequestURI("/" + v + v + "?q=" + v + v)
		c.Response.Reset()
		app.Handler()(&c)
	}
	if want := "aa:aa:aa bb:bb:bb"; strings.Join(keys, " ") != want {
		t.Errorf("got %q, want %s", keys, want)
	}
}

// A server of Fiber that leaves bodies to handlers: what the key reads, they read again.
func TestAStreamedBodyIsReadForTheKeyAndByTheHandler(t *testing.T) {
	const body = `{"userId":42}`
	for key, want := range map[string]string{"lock:<body.userId>": "lock:42", "lock:x": "lock:x"} {
		for name, opts := range map[string][]fiberlock.Option{"read": nil, "streamed": {httpguard.WithStreamedBody()}} {
			t.Run(key+", "+name, func(t *testing.T) {
				app := fiber.New(fiber.Config{StreamRequestBody: true})
				app.Post("/", fiberlock.New(guardtest.Guard(t), key, opts...), func(c fiber.Ctx) error {
					if got := string(c.Body()); got != body {
						t.Errorf("the handler reads %q", got)
					}
					return tellKey(c)
				})
				for title, sent := range map[string]io.Reader{"known": strings.NewReader(body), "unknown": struct{ io.Reader }{strings.NewReader(body)}} {
					status, got := send(t, app, sent)
					if status != http.StatusCreated || got != want {
						t.Errorf("length %s: got %d %s, want %s", title, status, got, want)
					}
				}
			})
		}
	}
}

// send posts JSON to a server of Fiber, over a connection.
func send(t *testing.T, app *fiber.App, body io.Reader) (status int, answer string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it is closed by Fiber
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- app.Listener(listener, fiber.ListenConfig{DisableStartupMessage: true}) }()
	defer func() {
		if err := errors.Join(app.Shutdown(), <-ended); err != nil {
			t.Error(err)
		}
	}()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: guardtest.Timeout}
	response, err := client.Post("http://"+listener.Addr().String()+"/", "application/json", body)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Error(err)
	}
	return response.StatusCode, string(text)
}

func TestErrorHandlersMayAnswerByFibersContext(t *testing.T) {
	g := guardtest.Guard(t)
	guardtest.Hold(t, g, "lock:7")
	app := fiber.New()
	app.Post("/:id", fiberlock.New(g, "lock:<id>", httpguard.WithErrorHandler(func(_ http.ResponseWriter, q httpguard.Request, e *guard.Error) {
		_ = fiberlock.Context(q).Status(http.StatusTeapot).SendString(e.Kind.Code())
	})), tellKey)
	if w := guardtest.Send(router{app}, "POST", "/7", ""); w.Code != http.StatusTeapot || w.Body.String() != "LOCK_CONTENDED" {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

func TestSourcesReadFibersContext(t *testing.T) {
	tenant := fiberlock.Source(func(c fiber.Ctx) (string, error) { return c.Query("tenant"), nil })
	app := fiber.New()
	app.Post("/:id", fiberlock.New(guardtest.Guard(t), "lock:<tenant>", httpguard.WithVar("tenant", tenant)), tellKey)
	if w := guardtest.Send(router{app}, "POST", "/7?tenant=3", ""); w.Body.String() != "lock:3" {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

func TestProblemAnswersForAHandlerThatEntersTheGuard(t *testing.T) {
	app := fiber.New()
	app.Post("/", func(c fiber.Ctx) error { return fiberlock.Problem(c, &guard.Error{Kind: guard.Contended}) })
	w := guardtest.Send(router{app}, "POST", "/", "")
	if w.Code != http.StatusConflict || guardtest.Code(t, w) != "LOCK_CONTENDED" || w.Header().Get("Retry-After") != "1" {
		t.Errorf("got %d %v %s", w.Code, w.Header(), w.Body)
	}
}
