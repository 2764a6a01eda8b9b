package grpclock

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/key"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/rule"
)

// DefaultRetryDelay is how long clients should wait, at least, before they send
// a call again.
const DefaultRetryDelay = 100 * time.Millisecond

// Option is a setting of [Interceptors]. A later one overrides an earlier one.
type Option interface{ apply(*config) }

type optionFunc func(*config)

func (f optionFunc) apply(c *config) { f(c) }

// Source finds a value for a key. req is the request, or nil where there is
// none before the handler runs. It returns [key.ErrMissing] when there is no
// value and [key.ErrAmbiguous] when there are several; other errors are the
// request's fault as well, unless they wrap [guard.ErrUnresolvable].
type Source = func(ctx context.Context, req any) (string, error)

// Mapper returns the error for a call that didn't run or whose lock was lost. st is
// the default status, which is used if Mapper returns nil.
type Mapper = func(ctx context.Context, e *guard.Error, st *status.Status) error

type config struct {
	rules      map[string]*rule.Compiled // by full method
	first      map[string]bool           // methods whose key is in the first message
	vars       map[string]Source
	identity   []string // variables that say who the caller is
	mapper     Mapper
	contention codes.Code
	retryDelay time.Duration
	files      *protoregistry.Files
	faults     []error
}

func newConfig(opts []Option) config {
	c := config{
		rules:      make(map[string]*rule.Compiled),
		first:      make(map[string]bool),
		vars:       make(map[string]Source),
		contention: codes.Aborted,
		retryDelay: DefaultRetryDelay,
		files:      protoregistry.GlobalFiles,
	}
	for _, o := range opts {
		if o == nil {
			c.fault("an option is nil")
			continue
		}
		o.apply(&c)
	}
	return c
}

func (c *config) fault(format string, args ...any) {
	c.faults = append(c.faults, fmt.Errorf("grpclock: "+format, args...))
}

// WithRule sets the rule of a method, "/shop.v1.Orders/Place". It overrides the
// rules of the guard and of the .proto. The rule's Operation may be left empty.
func WithRule(fullMethod string, r rule.Rule) Option {
	return optionFunc(func(c *config) {
		if !isMethod(fullMethod) {
			c.fault("WithRule(%q): a full method looks like \"/shop.v1.Orders/Place\"", fullMethod)
			return
		}
		if r.Operation != "" && r.Operation != fullMethod {
			c.fault("WithRule(%q): the rule is for another operation, %q", fullMethod, r.Operation)
			return
		}
		r.Operation = fullMethod
		compiled, err := r.Compile()
		if err != nil {
			c.fault("WithRule: %w", err)
			return
		}
		c.rules[fullMethod] = compiled
	})
}

// WithVar binds the bare variable <name> to a source, and to no other, in the
// templates of all methods. A name that no template has but that is nearly one of
// theirs, "usr" for <user>, is a fault of [guard.Guard.Validate].
//
//	grpclock.WithVar("user", func(ctx context.Context, _ any) (string, error) {
//		return auth.UserID(ctx), nil
//	})
func WithVar(name string, src Source) Option {
	return optionFunc(func(c *config) {
		if src == nil {
			c.fault("WithVar(%q): the source is nil", name)
		}
		switch v, ok := variable(name); {
		case (key.Var{Name: name}).Reserved():
			c.fault("WithVar(%q): the name is reserved", name)
		case !ok || v.Source != "":
			c.fault("WithVar(%q): no template can have that bare variable, write its name as in <user>", name)
		}
		c.vars[name] = src
	})
}

// WithIdentity names the variables that identify the caller, written as in the
// templates: "user", "md.user-id". A call without one is refused with
// [codes.Unauthenticated] instead of InvalidArgument. Misspelled names are faults as
// those of [WithVar] are.
func WithIdentity(variables ...string) Option {
	return optionFunc(func(c *config) {
		for _, name := range variables {
			if _, ok := variable(name); !ok {
				c.fault("WithIdentity(%q): no template can have that variable, write it as in <user> or <md.user-id>, without the brackets", name)
			}
		}
		c.identity = append(c.identity, variables...)
	})
}

// variable returns the variable that a template of gRPC has as <name>; false if none
// can have it.
func variable(name string) (v key.Var, ok bool) {
	template, err := key.Parse("lock:<" + name + ">")
	if err != nil {
		return v, false
	}
	v = template.Vars()[0]
	return v, v.String() == name && isKnown(v)
}

// WithFirstMessage makes the keys of client-streaming methods from the first
// message, so that templates can name its fields. The lock is taken when the
// handler receives that message: until then the handler runs without it, and only
// from then on Context of the stream returns the lease's context. A handler that
// asks for a message of a stream that has none is refused.
func WithFirstMessage(fullMethods ...string) Option {
	return optionFunc(func(c *config) {
		for _, method := range fullMethods {
			if !isMethod(method) {
				c.fault("WithFirstMessage(%q): a full method looks like \"/shop.v1.Orders/Place\"", method)
			}
			c.first[method] = true
		}
	})
}

// WithErrorMapper replaces the errors that interceptors return. Whatever f returns, a
// call that was refused doesn't run its handler.
func WithErrorMapper(f Mapper) Option {
	return optionFunc(func(c *config) {
		if f == nil {
			c.fault("WithErrorMapper: the func is nil")
		}
		c.mapper = f
	})
}

// WithRetryDelay sets how long clients should wait, at least, before they retry. A
// random time of up to half of d is added, so that clients that were refused
// together don't retry together. At least 1ms, at most [lock.MaxDuration]. Default
// [DefaultRetryDelay].
func WithRetryDelay(d time.Duration) Option {
	return optionFunc(func(c *config) {
		if d < time.Millisecond || d > lock.MaxDuration {
			c.fault("WithRetryDelay(%v): must be at least 1ms, and at most %v (a year)", d, lock.MaxDuration)
		}
		c.retryDelay = d
	})
}

// WithContentionCode sets the code of a call that didn't get its lock:
// [codes.Aborted] (the default), or [codes.ResourceExhausted] for clients that
// retry only that one.
func WithContentionCode(code codes.Code) Option {
	return optionFunc(func(c *config) {
		switch code {
		case codes.Aborted, codes.ResourceExhausted:
			c.contention = code
		default:
			c.fault("WithContentionCode(%v): use Aborted or ResourceExhausted", code)
		}
	})
}

// WithFiles sets where the descriptors of methods are found. Default: those of all
// generated code in the program, [protoregistry.GlobalFiles].
func WithFiles(files *protoregistry.Files) Option {
	return optionFunc(func(c *config) {
		if files == nil {
			c.fault("WithFiles: the files are nil")
		}
		c.files = files
	})
}

// isMethod reports whether operation is a full method of gRPC.
func isMethod(operation string) bool {
	service, method := split(operation)
	return strings.HasPrefix(operation, "/") && service != "" && method != "" &&
		!strings.ContainsAny(service, "/ ") && !strings.Contains(method, " ")
}

// split splits "/shop.v1.Orders/Place" into service and method.
func split(fullMethod string) (service, method string) {
	name := strings.TrimPrefix(fullMethod, "/")
	i := strings.LastIndexByte(name, '/')
	if i < 0 {
		return "", name
	}
	return name[:i], name[i+1:]
}
