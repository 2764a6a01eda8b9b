package rpcguard

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/rule"
)

// DefaultRetryDelay is how long clients should wait, at least, before they send a call
// again.
const DefaultRetryDelay = 100 * time.Millisecond

// Source finds a value for a key. req is the request, or nil where there is none before
// the handler runs. It returns [key.ErrMissing] when there is no value and
// [key.ErrAmbiguous] when there are several; other errors are the request's fault as
// well, unless they wrap [guard.ErrUnresolvable].
type Source = func(ctx context.Context, req any) (string, error)

// Config are the settings of [Locks]. Only By is required.
type Config struct {
	// By is the integration, as messages name it.
	By string
	// Rules are the rules of methods, "/shop.v1.Orders/Place". They override those of the
	// guard and of the .proto.
	Rules map[string][]*rule.Compiled
	// Streams says that the integration takes the locks of streams as well. Interceptors of
	// many frameworks see unary methods only: without it, a stream with a rule among the
	// services of [Locks.Serve] is a fault.
	Streams bool
	// Vars bind bare variables to a source, in the templates of all methods.
	Vars map[string]Source
	// Identity are the variables that say who the caller is, written as in the templates.
	// A call without one is refused as unauthenticated.
	Identity []string
	// Files is where the descriptors of methods are found. Default: those of all generated
	// code in the program.
	Files *protoregistry.Files
	// RetryDelay is how long clients should wait, at least, before they send a call again.
	// A random time of up to half of it is added. Default [DefaultRetryDelay].
	RetryDelay time.Duration
	// Contention is the code of a call that another owner keeps from its lock. Default
	// ABORTED.
	Contention guard.RPCCode
}

// Locks run the methods of an integration under the locks of their rules. They are safe
// for concurrent use.
type Locks struct {
	config Config
	guard  *guard.Guard
	// options has the *declared of methods in the files, plans the *plan of
	// methods that have a rule.
	options, plans sync.Map

	mu       sync.Mutex
	services []protoreflect.ServiceDescriptor // of Serve
}

// New returns the locks of an integration that takes them from g.
func New(g *guard.Guard, c Config) (*Locks, error) {
	switch {
	case c.By == "":
		return nil, errors.New("rpcguard: the integration has no name: set By")
	case g == nil:
		return nil, fmt.Errorf("%s: guard is nil", c.By)
	}
	if c.Files == nil {
		c.Files = protoregistry.GlobalFiles
	}
	if c.RetryDelay == 0 {
		c.RetryDelay = DefaultRetryDelay
	}
	if c.Contention == 0 {
		c.Contention = guard.Contended.Info().GRPC
	}
	return &Locks{config: c, guard: g}, nil
}

// Guard returns the guard that the locks are taken from.
func (l *Locks) Guard() *guard.Guard { return l.guard }

// Incoming returns a call that a server received; false if it needs no lock.
func (l *Locks) Incoming(method string) (Call, bool) {
	c := l.configured(method)
	if len(c.rules) == 0 && c.closed == nil {
		if option := l.declared(method); option != nil {
			c.rules, c.fault = option.rules, option.fault
		}
	}
	return c, len(c.rules) > 0 || c.fault != nil || c.closed != nil
}

// Outgoing returns a call that a client makes; false if it needs no lock. The option in a
// .proto doesn't count: it is for the server, and a client that took the same lock would
// keep the server out.
func (l *Locks) Outgoing(method string) (Call, bool) {
	c := l.configured(method)
	return c, len(c.rules) > 0 || c.closed != nil
}

// configured is a call with the rules that aren't in a .proto.
func (l *Locks) configured(method string) Call {
	rules, err := l.guard.RulesOf(method)
	if own, ok := l.config.Rules[method]; ok {
		rules = own
	}
	return Call{locks: l, method: method, rules: rules, closed: errors.Unwrap(err)} // Refuse wraps it again
}

// rulesOf returns the rules that a method would have with the rules of set.
func (l *Locks) rulesOf(set *rule.Set, method string) ([]*rule.Compiled, error) {
	if own, ok := l.config.Rules[method]; ok {
		return own, nil
	}
	if rules := set.Lookup(method); len(rules) > 0 {
		return rules, nil
	}
	if option := l.declared(method); option != nil {
		return option.rules, option.fault
	}
	return nil, nil
}

// delay is the retry delay and up to half of it by chance, in whole milliseconds.
func (l *Locks) delay() time.Duration {
	d := l.config.RetryDelay
	return (d + rand.N(d/2+1)).Truncate(time.Millisecond)
}

// Serve declares that the methods of these services go through the integration. The
// guard isn't valid while one of their rules, or of their options, can't be applied. It
// may be called again, with other services.
func (l *Locks) Serve(services ...protoreflect.ServiceDescriptor) {
	l.mu.Lock()
	l.services = append(l.services, services...)
	l.mu.Unlock()
	l.guard.Attach(l.config.By, l, l.survey)
}

// survey looks at the methods of the services that are served.
func (l *Locks) survey(rules *rule.Set) (served []string, err error) {
	l.mu.Lock()
	services := slices.Clone(l.services)
	l.mu.Unlock()
	var faults []error
	for _, service := range services {
		for i := range service.Methods().Len() {
			m := service.Methods().Get(i)
			name := "/" + string(service.FullName()) + "/" + string(m.Name())
			served = append(served, name)
			method := Method{Name: name, ClientStream: m.IsStreamingClient(), ServerStream: m.IsStreamingServer()}
			for _, wrong := range l.unserved(rules, method) {
				faults = append(faults, fmt.Errorf("%s: %s: %w", l.config.By, name, wrong))
			}
		}
	}
	return served, errors.Join(faults...)
}

// unserved returns what keeps a method of a service that is served from its lock.
func (l *Locks) unserved(set *rule.Set, m Method) []error {
	if rules, err := l.Rules(set, m); (m.ClientStream || m.ServerStream) && !l.config.Streams && (len(rules) > 0 || err != nil) {
		return []error{fmt.Errorf("has a rule, and %s takes no locks of streams: take them, and set Streams of rpcguard.Config", l.config.By)}
	}
	return l.Check(set, m)
}
