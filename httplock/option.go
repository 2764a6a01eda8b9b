package httplock

import (
	"net/http"
	"time"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/httpguard"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/rule"
)

// Defaults of a middleware.
const (
	// DefaultMaxBody is the largest body that is read for a key, in bytes.
	DefaultMaxBody = httpguard.DefaultMaxBody
	// DefaultRetryAfter is what clients are told to wait before they try
	// again.
	DefaultRetryAfter = httpguard.DefaultRetryAfter
)

// Option is a setting of a middleware. A later one overrides an earlier one.
type Option interface{ apply(*config) }

type optionFunc func(*config)

func (f optionFunc) apply(c *config) { f(c) }

type config struct {
	httpguard.Config[*http.Request]
	onError   func(http.ResponseWriter, *http.Request, *guard.Error)
	pattern   func(*http.Request) string
	pathValue func(*http.Request, string) (string, bool)
	// placed says that a request behind the router always has a pattern.
	placed bool
}

func newConfig(opts []Option) config {
	c := config{
		Config:  httpguard.NewConfig[*http.Request]("httplock", "net/http"),
		onError: Problem, pattern: patternOf, pathValue: pathValueOf, placed: true,
	}
	for _, o := range opts {
		if o == nil {
			c.Fault("an option is nil")
			continue
		}
		o.apply(&c)
	}
	return c
}

// WithWait makes a request wait up to d for the lock. Default 0: try once.
// Each waiting request occupies a goroutine and its connection.
func WithWait(d time.Duration) Option {
	return optionFunc(func(c *config) { c.SetWait(d) })
}

// WithLease holds the lock for at most d, whether or not the handler is done
// by then. Default: as long as the handler runs, kept alive by the watchdog.
func WithLease(d time.Duration) Option {
	return optionFunc(func(c *config) { c.SetLease(d) })
}

// WithMode asks for a kind of lock. Default [lock.Exclusive].
func WithMode(m lock.Mode) Option {
	return optionFunc(func(c *config) { c.SetMode(m) })
}

// WithPermits makes the lock a semaphore of that size, of which each request
// takes n permits. See [lock.WithPermits].
func WithPermits(n, size int) Option {
	return optionFunc(func(c *config) { c.SetPermits(n, size) })
}

// WithOnBusy says what happens when another owner holds the lock. Default
// [rule.Reject]; [rule.Skip] answers 204 without running the handler.
func WithOnBusy(b rule.OnBusy) Option {
	return optionFunc(func(c *config) { c.SetOnBusy(b) })
}

// WithName names the lock in metrics and logs. Default: the template.
func WithName(name string) Option {
	return optionFunc(func(c *config) { c.SetName(name) })
}

// WithKeyFunc makes the key with f in place of a template, which must be
// empty then; it needs a [WithName]. The key is used as f returns it: f must
// see to it that two requests share one only if they should. An error of f is
// answered with 400, unless it wraps [guard.ErrUnresolvable]; an empty key is
// an error.
func WithKeyFunc(f func(*http.Request) (string, error)) Option {
	return optionFunc(func(c *config) { c.SetKeyFunc(f) })
}

// WithVar binds the bare variable <name> to a source, and to no other.
//
//	httplock.New(g, "lock:order:<userId>", httplock.WithVar("userId", httplock.Header("X-User-Id")))
func WithVar(name string, src Source) Option {
	return optionFunc(func(c *config) { c.SetVar(name, src) })
}

// WithPattern tells the pattern of a request's route, for a router that does
// not set [http.Request.Pattern]. [Rules] and <route> use it. The empty text is
// no route: it passes through Rules, as it must where a router sends requests
// for no route through its middlewares, too, as Echo's Use does.
//
//	httplock.WithPattern(func(r *http.Request) string { // gorilla/mux
//		text, _ := mux.CurrentRoute(r).GetPathTemplate()
//		return text
//	})
func WithPattern(pattern func(*http.Request) string) Option {
	return optionFunc(func(c *config) {
		if pattern == nil {
			c.Fault("WithPattern: the func is nil")
		}
		c.pattern, c.placed = pattern, false
	})
}

// WithPathValue tells the path values of a request, for a router that does not
// set [http.Request.PathValue]. ok is false for a name that the route does not
// have. <name> and <path.name> use it.
//
//	httplock.WithPathValue(func(r *http.Request, name string) (string, bool) { // gorilla/mux
//		value, ok := mux.Vars(r)[name]
//		return value, ok
//	})
func WithPathValue(value func(r *http.Request, name string) (text string, ok bool)) Option {
	return optionFunc(func(c *config) {
		if value == nil {
			c.Fault("WithPathValue: the func is nil")
		}
		c.pathValue = value
	})
}

// WithSkipper lets requests pass without the lock for which skip returns
// true.
func WithSkipper(skip func(*http.Request) bool) Option {
	return optionFunc(func(c *config) { c.Skip = skip })
}

// WithErrorHandler answers with f in place of [Problem], which f may call.
// The handler does not run whatever f does. Of a lost lease f learns only if
// nothing was written yet.
func WithErrorHandler(f func(http.ResponseWriter, *http.Request, *guard.Error)) Option {
	return optionFunc(func(c *config) {
		if f == nil {
			c.Fault("WithErrorHandler: the func is nil")
		}
		c.onError = f
	})
}

// WithContentionStatus is the status of a request that did not get its lock:
// 409 (the default), 429 (for clients whose retries know that one only) or
// 423 (for APIs whose clients see locks as resources).
func WithContentionStatus(status int) Option {
	return optionFunc(func(c *config) { c.SetContention(status) })
}

// WithRetryAfter is what clients are told to wait before they try again,
// rounded up to seconds. Default [DefaultRetryAfter].
func WithRetryAfter(d time.Duration) Option {
	return optionFunc(func(c *config) { c.SetRetryAfter(d) })
}

// WithMaxBody is the largest body that is read for a key, in bytes; a larger
// one is answered with 413. It does not bound what handlers read of bodies
// that no key needs. Default [DefaultMaxBody].
func WithMaxBody(n int64) Option {
	return optionFunc(func(c *config) { c.SetMaxBody(n) })
}

// WithPrereadBody reads the whole body, up to n bytes, before the lock is
// taken also when the key does not need it: a client that sends slowly does
// not hold the lock meanwhile. n takes the place of [WithMaxBody].
func WithPrereadBody(n int64) Option {
	return optionFunc(func(c *config) { c.SetPreread(n) })
}
