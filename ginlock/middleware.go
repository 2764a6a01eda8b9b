package ginlock

import (
	"context"
	"errors"
	"net/http"
	"sync"

	"github.com/gin-gonic/gin"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/httpguard"
	"github.com/redlatch/redlatch/core/key"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/rule"
)

// New returns a middleware that runs the handlers behind it under the lock
// that template names. By default it tries once and answers 409 when another
// owner holds the lock; see [WithWait]. It panics where [Build] returns an
// error.
func New(g *guard.Guard, template string, opts ...Option) gin.HandlerFunc {
	return must(Build(g, template, opts...))
}

// Build is [New] for templates and options that come from outside of the
// program. The error lists everything that is wrong.
func Build(g *guard.Guard, template string, opts ...Option) (gin.HandlerFunc, error) {
	m := newMiddleware(g, opts)
	m.compiled = m.Compile(template)
	return m.handler()
}

// Rules returns a middleware that takes the lock of the rule that g has for
// the route, named "POST /vouchers/:id/orders": its method and its path as
// registered. Routes without a rule pass through, so it can be used for a
// whole group or engine. [Check] finds rules that no route has.
//
// Options that are part of a rule ([WithWait], [WithLease], [WithMode],
// [WithOnBusy], [WithName], [WithKeyFunc]) are refused. It panics where
// [BuildRules] returns an error.
func Rules(g *guard.Guard, opts ...Option) gin.HandlerFunc {
	return must(BuildRules(g, opts...))
}

// BuildRules is [Rules] for rules and options that come from outside of the
// program. The error lists everything that is wrong.
func BuildRules(g *guard.Guard, opts ...Option) (gin.HandlerFunc, error) {
	m := newMiddleware(g, opts)
	m.CheckRules(g)
	return m.handler()
}

// From returns the lease that the request runs under: the innermost, if there
// are several. It is [lock.FromContext] of the request's context.
func From(c *gin.Context) (*lock.Lease, bool) {
	return lock.FromContext(c.Request.Context())
}

func must(h gin.HandlerFunc, err error) gin.HandlerFunc {
	if err != nil {
		panic(err) //nolint:forbidigo // New and Rules say so
	}
	return h
}

type middleware struct {
	config
	guard    *guard.Guard
	compiled *rule.Compiled // nil: the guard's rule for the route
	// operations has the names of the routes that were asked for, by route.
	operations sync.Map
}

// place is where a request arrives.
type place struct{ method, path string }

func newMiddleware(g *guard.Guard, opts []Option) *middleware {
	m := &middleware{guard: g, config: newConfig(opts)}
	m.CheckGuard(g)
	return m
}

func (m *middleware) handler() (gin.HandlerFunc, error) {
	if err := m.Err(); err != nil {
		return nil, err
	}
	return m.handle, nil
}

// handle is the middleware. There is no recover in it: a panic releases the
// lock on its way to whoever recovers, http.ErrAbortHandler included.
func (m *middleware) handle(c *gin.Context) {
	if c.Request == probe {
		c.Set(probed{}, m)
		return
	}
	if m.Skip != nil && m.Skip(c) {
		return
	}
	operation := m.operation(c)
	r := m.compiled
	if r == nil {
		var err error
		if r, err = m.guard.Rule(operation); err != nil {
			m.refuse(c, err)
			return
		} else if r == nil {
			return
		}
	}
	call := guard.Call{Operation: operation, Rule: r, Key: func() (string, error) { return m.key(c, r) }}
	ctx, leave, err := m.guard.Enter(c.Request.Context(), call)
	if err != nil {
		m.refuse(c, err)
		return
	}
	m.run(c, ctx, leave)
}

// operation names a route as rules do. The names are kept: there are as many as
// routes, but without a route clients choose the method.
func (m *middleware) operation(c *gin.Context) string {
	at := place{c.Request.Method, c.FullPath()}
	if name, ok := m.operations.Load(at); ok {
		return name.(string)
	}
	name := httpguard.Operation(at.method, at.path)
	if at.path != "" {
		m.operations.Store(at, name)
	}
	return name
}

// run runs the rest of the chain with the lease's context.
func (m *middleware) run(c *gin.Context, ctx context.Context, leave func() error) {
	outside := c.Request
	returned := false
	defer func() {
		c.Request = outside
		if err := leave(); err != nil && returned {
			m.lost(c, err)
		}
	}()
	c.Request = outside.WithContext(ctx)
	c.Next()
	returned = true
}

// refuse answers in place of the handlers. It aborts before the error handler
// runs, so that no error handler can let the request through.
func (m *middleware) refuse(c *gin.Context, err error) {
	c.Abort()
	m.answer(c, err)
}

// lost tells of a lease that ended before the handlers did. An answer that
// was begun cannot be taken back.
func (m *middleware) lost(c *gin.Context, err error) {
	if c.Writer.Written() {
		_ = c.Error(err)
		return
	}
	m.answer(c, err)
}

func (m *middleware) answer(c *gin.Context, err error) {
	var e *guard.Error
	errors.As(err, &e) // a guard returns no other
	switch e.Kind {
	case guard.Unavailable, guard.Lost, guard.Invalid:
		_ = c.Error(e) // for the operator: the client's answer says less
	}
	c.Set(answers{}, m.Answers)
	m.onError(c, e)
}

// key makes the key. The body is read now if it is to be read first.
func (m *middleware) key(c *gin.Context, r *rule.Compiled) (string, error) {
	if m.Preread {
		if _, err := m.readBody(c); err != nil {
			return "", err
		}
	}
	if m.KeyFunc != nil {
		return m.KeyFunc(c)
	}
	return r.Template.Resolve(func(v key.Var) (string, error) { return m.value(c, v) })
}

// probe is the request with which [Check] asks a handler who it is. No client
// can send it: it is recognised by its address.
var probe = &http.Request{}

type probed struct{} // key of gin.Context: the middleware that was probed
