package grpclock

import (
	"context"
	"fmt"
	"reflect"

	"google.golang.org/grpc"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/rule"
)

// Decorator is the part of a generated decorator that takes the locks. The command
// protoc-gen-go-grpclock writes a decorator of each service, which has it embedded:
//
//	orders := shopv1.NewOrdersServerLock(implementation, locks)
//
// Whatever calls orders, such as a gateway in the process, runs under the locks of its
// methods, and gets the errors that an interceptor returns. Behind the interceptors of the
// same [Locks], which recognize it, the decorator takes the locks and they don't.
type Decorator struct{ locks *Locks }

// Decorate is for generated code: it returns the decorator of a service whose methods
// next has. The guard counts the methods as served, and reports next if it is nil or has
// a decorator already.
func Decorate(locks *Locks, service *grpc.ServiceDesc, next any) Decorator {
	d := decorated{service: service, again: decoratorOf(next) != nil, missing: next == nil}
	locks.mu.Lock()
	before, known := locks.decorated[service.ServiceName]
	d.again, d.missing = d.again || before.again, d.missing || before.missing // one that is right mends no other
	locks.decorated[service.ServiceName] = d
	locks.mu.Unlock()
	if !known || d.again || d.missing {
		locks.attach()
	}
	return Decorator{locks}
}

func (d Decorator) lockedBy() *Locks { return d.locks }

// decoratorOf returns the locks of a decorator, nil if srv is none.
func decoratorOf(srv any) *Locks {
	if d, ok := srv.(interface{ lockedBy() *Locks }); ok {
		return d.lockedBy()
	}
	return nil
}

// decorated is a service that has a decorator.
type decorated struct {
	service        *grpc.ServiceDesc
	again, missing bool
}

// otherLocks refuses a call whose interceptor and decorator have different locks.
func (i *Locks) otherLocks(ctx context.Context, method string) error {
	c, _ := i.rpc.Incoming(method)
	return i.answer(ctx, &c, i.guard.Refuse(ctx, guard.Call{Operation: method}, fmt.Errorf("%w: %s", rule.ErrInvalid, differs)), nil)
}

const differs = "the decorator of the service was made with other locks than the interceptors of its server: make both with one grpclock.New"

// Unary is for generated code: it runs a unary method under its locks.
func Unary[Req, Res any](ctx context.Context, d Decorator, method string, req *Req, next func(context.Context, *Req) (*Res, error)) (*Res, error) {
	resp, err := d.locks.unary(ctx, method, req, func(*Locks, string) any { return new(Res) },
		func(ctx context.Context, _ any) (any, error) { return next(ctx, req) })
	answer, _ := resp.(*Res)
	return answer, err
}

// Stream is for generated code: it runs a streaming method under its locks. req is the
// request of a method that gets only one, and otherwise nil.
func Stream[Req, Res any, S grpc.ServerStream](d Decorator, method string, req *Req, stream S, next func(S) error) error {
	s := newServerStream(d.locks, stream, method)
	var begin beginning
	switch {
	case req != nil:
		begin = func(any, error) error { return s.begin(req, nil) }
	case !d.locks.first[method]:
		begin = s.begin
	}
	skipped := func() error {
		// The stream has all methods, whatever its direction; its type has the ones that count.
		if _, once := reflect.TypeFor[S]().MethodByName("SendAndClose"); once {
			return any(stream).(interface{ SendAndClose(m *Res) error }).SendAndClose(new(Res))
		}
		return nil
	}
	return s.run(begin, skipped, func() error {
		typed, _ := any(&typedStream[Req, Res]{s, stream}).(S) // an interface that it has all methods of
		return next(typed)
	})
}

// typedStream is a stream as generated code sees it, of any direction.
type typedStream[Req, Res any] struct {
	*serverStream
	typed any
}

// Send sends nothing for a handler that has lost its lock, as SendMsg.
func (t *typedStream[Req, Res]) Send(m *Res) error {
	if _, failure := t.state(); failure != nil {
		return failure
	}
	return t.typed.(interface{ Send(m *Res) error }).Send(m)
}

// SendAndClose sends nothing for a handler that has lost its lock, as SendMsg.
func (t *typedStream[Req, Res]) SendAndClose(m *Res) error {
	if _, failure := t.state(); failure != nil {
		return failure
	}
	return t.typed.(interface{ SendAndClose(m *Res) error }).SendAndClose(m)
}

// Recv takes the lock when the first message is there, as RecvMsg.
func (t *typedStream[Req, Res]) Recv() (m *Req, err error) {
	err = t.receive(func() (any, error) {
		var err error
		m, err = t.typed.(interface{ Recv() (*Req, error) }).Recv()
		return m, err
	})
	if err != nil {
		return nil, err
	}
	return m, nil
}
