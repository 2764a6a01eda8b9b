package grpclock

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/key"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/grpclock/rpcguard"
)

// DefaultRetryDelay is how long clients should wait, at least, before they send
// a call again.
const DefaultRetryDelay = rpcguard.DefaultRetryDelay

// Option is a setting of [Locks]. A later one overrides an earlier one.
type Option interface{ apply(*config) }

type optionFunc func(*config)

func (f optionFunc) apply(c *config) { f(c) }

// Source finds a value for a key, see [rpcguard.Source].
type Source = rpcguard.Source

// Mapper returns the error for a call that didn't run or whose lock was lost. st is
// the default status, which is used if Mapper returns nil.
type Mapper = func(ctx context.Context, e *guard.Error, st *status.Status) error

type config struct {
	rules      map[string][]*rule.Compiled // by full method
	first      map[string]bool             // methods whose key is in the first message
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
		rules:      make(map[string][]*rule.Compiled),
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

// WithRule sets the rule of a method, "/shop.v1.Orders/Place", or several whose locks are
// taken together. They override all rules of the guard and of the .proto for it, so name
// each lock that it needs. A second WithRule for a method is a fault. A rule's Operation
// may be left empty.
func WithRule(fullMethod string, rules ...rule.Rule) Option {
	return optionFunc(func(c *config) {
		if !isMethod(fullMethod) {
			c.fault("WithRule(%q): a full method looks like \"/shop.v1.Orders/Place\"", fullMethod)
			return
		}
		if len(rules) == 0 {
			c.fault("WithRule(%q): there is no rule", fullMethod)
			return
		}
		if len(c.rules[fullMethod]) > 0 {
			c.fault("WithRule(%[1]q): the method has a rule already: name all of them in one, WithRule(%[1]q, a, b)", fullMethod)
			return
		}
		own := slices.Clone(rules)
		for i := range own {
			if of := own[i].Operation; of != "" && of != fullMethod {
				c.fault("WithRule(%q): the rule is for another operation, %q", fullMethod, of)
				return
			}
			own[i].Operation = fullMethod
		}
		compiled, err := rule.JoinAll(own...)
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
		switch v, ok := rpcguard.Variable(name); {
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
			if _, ok := rpcguard.Variable(name); !ok {
				c.fault("WithIdentity(%q): no template can have that variable, write it as in <user> or <md.user-id>, without the brackets", name)
			}
		}
		c.identity = append(c.identity, variables...)
	})
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
// [codes.Aborted] (the default) or [codes.ResourceExhausted]. Leave it at Aborted for
// clients that retry by a policy: a transport also makes ResourceExhausted, after a handler
// has run.
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
	service, method, ok := strings.Cut(strings.TrimPrefix(operation, "/"), "/")
	return ok && strings.HasPrefix(operation, "/") && service != "" && method != "" &&
		!strings.Contains(service, " ") && !strings.ContainsAny(method, "/ ")
}
