package httpguard

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/key"
)

const (
	// DefaultMaxBody is the largest body that is read, in bytes.
	DefaultMaxBody = 1 << 20
	// DefaultRetryAfter is how long responses say to wait before the next try.
	DefaultRetryAfter = time.Second
)

// Option is a setting of a middleware. A later one overrides an earlier one.
type Option func(*settings)

// settings are the options of a middleware, and what is wrong with them.
type settings struct {
	answers
	by       string
	more     []string // rules besides the first
	vars     map[string]Source
	keyFunc  Source
	skip     func(Request) bool
	onError  func(http.ResponseWriter, Request, *guard.Error)
	maxBody  int64
	streamed bool
	provided []string
	identity []string
	params   func(path string) []string
	faults   []error
}

func newSettings(by string, opts []Option) settings {
	s := settings{
		answers: defaultAnswers, by: by, vars: make(map[string]Source), maxBody: DefaultMaxBody,
	}
	for _, o := range opts {
		if o == nil {
			s.fault("an option is nil")
			continue
		}
		o(&s)
	}
	return s
}

func (s *settings) fault(format string, args ...any) {
	s.faults = append(s.faults, fmt.Errorf(s.by+": "+format, args...))
}

func (s *settings) err() error { return errors.Join(s.faults...) }

// WithRule adds another rule, in the form of the first, to a middleware that has its own.
// The locks of all its rules are taken together: all or none, within one wait, in an
// order in which two requests whose keys overlap can't block each other.
//
//	ginlock.New(g, "lock:account:<body.from> wait=1s", httpguard.WithRule("lock:account:<body.to>"))
//
// wait and onBusy are for the request as a whole, and one of the rules says them.
// [lock.LeaseOf] finds the lease of one key.
func WithRule(text string) Option {
	return func(s *settings) { s.more = append(s.more, text) }
}

// WithVar binds the bare variable <name> to a source, and to no other. A name that no
// template has but that is nearly one of those of the middleware's routes, "usrId" for
// <userId>, is a fault of [guard.Guard.Validate].
//
//	httpguard.WithVar("userId", httpguard.Header("X-User-Id"))
//	httpguard.WithVar("userId", httpguard.Ctx(auth.UserKey{})) // a typed key of a context
func WithVar(name string, source Source) Option {
	return func(s *settings) {
		if source == nil {
			s.fault("WithVar(%q): the source is nil", name)
		}
		s.bare("WithVar", name)
		s.vars[name] = source
	}
}

// bare refuses a name that an option can't give a value.
func (s *settings) bare(option, name string) {
	switch v, ok := variable(name); {
	case (key.Var{Name: name}).Reserved():
		s.fault("%s(%q): the name is reserved", option, name)
	case !ok || v.Source != "":
		s.fault("%s(%q): no template can have that bare variable, write its name as in <userId>", option, name)
	}
}

// variable returns the variable that a template has as <name>; false if none can have it.
func variable(name string) (v key.Var, ok bool) {
	template, err := key.Parse("lock:<" + name + ">")
	if err != nil {
		return v, false
	}
	v = template.Vars()[0]
	return v, v.String() == name && impossible(v, "") == ""
}

// WithProvided says that middlewares in front set these bare names, so that the
// templates of the same routes may have them: with c.Set of the framework, or in the
// request's context. A name that no template can have is a fault.
// A guard isn't valid with a rule that names a variable nobody sets. A request for which none
// was set is refused with 500, and the log says so: for callers that may be unknown, use
// [WithIdentity].
func WithProvided(names ...string) Option {
	return func(s *settings) {
		for _, name := range names {
			s.bare("WithProvided", name)
		}
		s.provided = append(s.provided, names...)
	}
}

// WithIdentity names the variables that say who the caller is, written as in the
// template: "userId", "header.X-User-Id". A request without one is refused with 401
// LOCK_UNAUTHENTICATED instead of 400 or 500. The answer has no WWW-Authenticate, which
// only the application knows: see [WithErrorHandler]. A bare name is also taken as
// provided, as by [WithProvided]. Misspelled names are faults as those of [WithVar] are.
func WithIdentity(variables ...string) Option {
	return func(s *settings) {
		for _, name := range variables {
			if _, ok := variable(name); !ok {
				s.fault("WithIdentity(%q): no template can have that variable, write it as in <userId> or <header.X-User-Id>, without the brackets", name)
			}
		}
		s.identity = append(s.identity, variables...)
		s.provided = append(s.provided, variables...)
	}
}

// WithKeyFunc makes the key with f instead of the rule's template, which may have
// no variables then and only names the lock in metrics and logs. The key is used
// as f returns it: f must make sure that two requests share one only if they
// should. An error of f is answered with 400, unless it wraps
// [guard.ErrUnresolvable]. An empty key is an error.
func WithKeyFunc(f Source) Option {
	return func(s *settings) {
		if f == nil {
			s.fault("WithKeyFunc: the func is nil")
		}
		s.keyFunc = f
	}
}

// WithParameters says which path parameters a path has. Integrations give it to [ForRoute]
// where their framework writes patterns in a way that [HasParameter] can't read.
func WithParameters(of func(path string) []string) Option {
	return func(s *settings) { s.params = of }
}

// WithSkipper lets requests for which skip returns true pass without the lock. What it
// reads of the body is gone for the key and the handler.
func WithSkipper(skip func(Request) bool) Option {
	return func(s *settings) {
		if skip == nil {
			s.fault("WithSkipper: the func is nil")
		}
		s.skip = skip
	}
}

// WithErrorHandler answers with f instead of [Problem], which f may call. Whatever f
// does, the handler of a refused request doesn't run. For a lost lease, when the
// handler has run, f is called only if that has written nothing. If f writes neither a
// status nor a body, [Problem] answers. In Gin, f may also add to c.Errors, for a
// middleware in front to answer.
func WithErrorHandler(f func(http.ResponseWriter, Request, *guard.Error)) Option {
	return func(s *settings) {
		if f == nil {
			s.fault("WithErrorHandler: the func is nil")
		}
		s.onError = f
	}
}

// WithContentionStatus sets the status of a request that didn't get its lock: 409
// (the default), 429 (for clients that retry on that one only) or 423 (for APIs
// whose clients see locks as resources).
func WithContentionStatus(status int) Option {
	return func(s *settings) {
		switch status {
		case http.StatusConflict, http.StatusLocked, http.StatusTooManyRequests:
			s.contention = status
		default:
			s.fault("WithContentionStatus(%d): use 409, 423 or 429", status)
		}
	}
}

// WithRetryAfter sets the Retry-After header of responses, rounded up to seconds.
// The default is [DefaultRetryAfter].
func WithRetryAfter(d time.Duration) Option {
	return func(s *settings) {
		if d <= 0 {
			s.fault("WithRetryAfter(%v): must be positive", d)
		}
		s.retryAfter = d
	}
}

// WithMaxBody sets the largest body that is read, in bytes. A larger one is
// answered with 413. Default [DefaultMaxBody].
func WithMaxBody(n int64) Option {
	return func(s *settings) {
		if n <= 0 {
			s.fault("WithMaxBody(%d): must be positive", n)
		}
		s.maxBody = n
	}
}

// WithStreamedBody leaves the body to the handler unless the key needs it: for
// uploads that are larger than memory, and for handlers that answer while they
// read. A client that sends slowly then holds the lock meanwhile: give the server
// a ReadTimeout. One that leaves while it waits for the lock may stay unnoticed
// until its wait ends. If a source of the key reads the body, all of it is read
// before the lock is taken, up to [WithMaxBody], and the handler reads it again.
func WithStreamedBody() Option {
	return func(s *settings) { s.streamed = true }
}
