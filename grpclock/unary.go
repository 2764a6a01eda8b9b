package grpclock

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/grpclock/rpcguard"
)

func (i *Locks) unaryServer(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
	if info == probeUnary {
		return i, nil
	}
	i.serving.Do(i.serves)
	if by := decoratorOf(info.Server); by != nil {
		if by != i {
			return nil, i.otherLocks(ctx, info.FullMethod)
		}
		return handler(ctx, req) // the decorator locks
	}
	return i.unary(ctx, info.FullMethod, req, emptyOf, handler)
}

// emptyOf is the empty answer of a method; nil if its type isn't known.
func emptyOf(i *Locks, method string) any {
	if empty := i.rpc.Empty(method); empty != nil {
		return empty
	}
	return nil
}

// unary runs a handler under the locks of its method. empty is the answer to a call that is
// skipped, nil if there is none.
func (i *Locks) unary(
	ctx context.Context, method string, req any, empty func(i *Locks, method string) any, handler grpc.UnaryHandler,
) (resp any, err error) {
	trail := func(md metadata.MD) { _ = grpc.SetTrailer(ctx, md) } // fails where there is no network, as in unit tests
	c, ok := i.rpc.Incoming(method)
	if !ok {
		resp, err = handler(ctx, req)
		return resp, bare(ctx, err, trail)
	}
	held, refused := c.Acquire(ctx, incoming(req))
	if refused != nil {
		if refused.Kind == guard.Skipped {
			if answer := empty(i, method); answer != nil {
				trail(skippedTrailer())
				return answer, nil
			}
		}
		return nil, i.answer(ctx, &c, refused, trail)
	}
	returned := false
	defer func() {
		switch lost := c.Release(ctx, held); {
		case !returned:
		case lost != nil:
			// Whatever the handler says of a loss, it may be no more than the
			// error of its context.
			resp, err = nil, i.answer(ctx, &c, lost, trail)
		case err != nil:
			err = i.passOn(ctx, err, trail)
		}
	}()
	resp, err = handler(held.Context(), req) //nolint:contextcheck // it is derived from ctx
	returned = true
	return resp, err
}

// incoming is a request that a server received.
func incoming(req any) rpcguard.Request {
	return rpcguard.Request{Message: req, Metadata: metadata.ValueFromIncomingContext}
}

// outgoing is a request that a client sends.
func outgoing(req any) rpcguard.Request {
	return rpcguard.Request{Message: req, Metadata: func(ctx context.Context, name string) []string {
		md, _ := metadata.FromOutgoingContext(ctx)
		return md.Get(name)
	}}
}

func (i *Locks) unaryClient(
	ctx context.Context, method string, req, reply any,
	cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption,
) (err error) {
	c, ok := i.rpc.Outgoing(method)
	if !ok {
		return invoker(ctx, method, req, reply, cc, opts...)
	}
	held, refused := c.Acquire(ctx, outgoing(req))
	if refused != nil {
		if refused.Kind == guard.Skipped {
			return nil
		}
		return i.answer(ctx, &c, refused, nil)
	}
	returned := false
	defer func() {
		if lost := c.Release(ctx, held); lost != nil && returned {
			err = i.answer(ctx, &c, lost, nil)
		}
	}()
	err = invoker(held.Context(), method, req, reply, cc, opts...) //nolint:contextcheck // it is derived from ctx
	returned = true
	return err
}

func skippedTrailer() metadata.MD { return metadata.Pairs(CodeTrailer, guard.Skipped.Code()) }
