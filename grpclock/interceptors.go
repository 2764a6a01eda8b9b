package grpclock

import (
	"errors"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/grpclock/rpcguard"
)

// Locks run the methods of servers, and the calls of clients, under the locks of their
// rules: by interceptors, and by the decorators that protoc-gen-go-grpclock generates.
// They are safe for concurrent use.
type Locks struct {
	config
	guard *guard.Guard
	rpc   *rpcguard.Locks
	// made says which interceptors there are.
	made    struct{ unaryServer, streamServer, unaryClient, streamClient atomic.Bool }
	version atomic.Int64 // of what the guard has to look at

	serving sync.Once // the first call of an interceptor: no more services can be registered

	mu        sync.Mutex
	servers   []Registry
	decorated map[string]decorated // by service
	surveyed  int                  // how many services the attached servers had
}

// New returns the locks of a guard. The error lists everything that is
// wrong with the options. What only a server can show, [guard.Guard.Validate]
// reports, see [Locks.Attach].
func New(g *guard.Guard, opts ...Option) (*Locks, error) {
	i := &Locks{guard: g, config: newConfig(opts), decorated: make(map[string]decorated)}
	if g == nil {
		i.fault("guard is nil")
	}
	if err := errors.Join(i.faults...); err != nil {
		return nil, err
	}
	rpc, err := rpcguard.New(g, rpcguard.Config{
		By: name, Rules: i.rules, Vars: i.vars, Identity: i.identity, Files: i.files,
		RetryDelay: i.retryDelay, Contention: guard.RPCCode(i.contention),
	})
	if err != nil {
		return nil, err
	}
	i.rpc = rpc
	i.attach()
	return i, nil
}

// name is this package in messages.
const name = "grpclock"

// attach has the guard look at the interceptors, once more if it has done so: they
// are made and get their servers one by one, maybe while others use the guard.
func (i *Locks) attach() {
	version := i.version.Add(1)
	i.guard.Attach(name, nil, func(rules *rule.Set) ([]string, error) {
		if i.version.Load() != version {
			return nil, nil // a later one looks at everything
		}
		return i.survey(rules)
	})
}

// make notes that there is an interceptor of a kind.
func (i *Locks) make(kind *atomic.Bool) {
	if !kind.Swap(true) {
		i.attach()
	}
}

// UnaryServerInterceptor returns an interceptor that runs the handlers of unary
// methods under the locks of their rules. It doesn't recover: a panic releases the
// lock and goes on.
func (i *Locks) UnaryServerInterceptor() grpc.UnaryServerInterceptor {
	i.make(&i.made.unaryServer)
	return i.unaryServer
}

// StreamServerInterceptor returns an interceptor that runs the handlers of streams
// under the locks of their rules. It doesn't recover: a panic releases the lock and
// goes on.
func (i *Locks) StreamServerInterceptor() grpc.StreamServerInterceptor {
	i.make(&i.made.streamServer)
	return i.streamServer
}

// UnaryClientInterceptor returns an interceptor that holds a lock around outgoing
// calls, retries included. Only [WithRule] and the guard's rules count: the option
// in a .proto is for the server, and a client that took the same lock would keep
// the server out. For the same reason, a program that serves what it calls needs a
// separate guard here. A call that is skipped leaves its reply as it is.
//
// A rule for an outgoing method is served if the files (see [WithFiles]) have
// the method.
func (i *Locks) UnaryClientInterceptor() grpc.UnaryClientInterceptor {
	i.make(&i.made.unaryClient)
	return i.unaryClient
}

// StreamClientInterceptor returns an interceptor that holds a lock around outgoing
// streams, from their beginning until they end: when RecvMsg has returned an error,
// or the one answer of a method that streams none; when the context ends; or when
// the connection is closed. gRPC requires that one of these happens. A stream that
// is skipped ends at once, without an error: RecvMsg returns io.EOF or the one empty
// answer, and SendMsg returns io.EOF if the client streams.
//
// The key of a stream of one request is made when it is sent; that of a
// stream of many before the stream is opened, or, by [WithFirstMessage], when
// the first message is sent, by the rule that is in force then. A stream that
// begins while its method has no rule has no lock. See
// [Locks.UnaryClientInterceptor] for the rules.
//
// An interceptor that retries streams belongs in front, where each attempt takes
// the lock. One behind has no time left when the first attempt ends, as the lock
// and its context end too. The retryPolicy of a service config retries under one
// lock.
func (i *Locks) StreamClientInterceptor() grpc.StreamClientInterceptor {
	i.make(&i.made.streamClient)
	return i.streamClient
}
