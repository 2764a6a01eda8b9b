package grpclock

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/redlatch/redlatch/core/guard"
)

func (i *Interceptors) unaryServer(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
	c, ok := i.incoming(info.FullMethod)
	if !ok {
		return handler(ctx, req)
	}
	trail := func(md metadata.MD) { _ = grpc.SetTrailer(ctx, md) } // fails where there is no network, as in unit tests
	lease, refused := c.acquire(ctx, req)
	if refused != nil {
		return c.refused(ctx, refused, trail)
	}
	returned := false
	defer func() {
		switch lost := c.release(ctx, lease); {
		case !returned:
		case lost != nil:
			// Whatever the handler says of a loss, it may be no more than the
			// error of its context.
			resp, err = nil, c.answer(ctx, lost, trail)
		case err != nil:
			err = passOn(err, trail)
		}
	}()
	resp, err = handler(lease.Context(), req) //nolint:contextcheck // it is derived from ctx
	returned = true
	return resp, err
}

func (i *Interceptors) unaryClient(
	ctx context.Context, method string, req, reply any,
	cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption,
) (err error) {
	c, ok := i.outgoing(method)
	if !ok {
		return invoker(ctx, method, req, reply, cc, opts...)
	}
	lease, refused := c.acquire(ctx, req)
	if refused != nil {
		if refused.Kind == guard.Skipped {
			return nil
		}
		return c.answer(ctx, refused, nil)
	}
	returned := false
	defer func() {
		if lost := c.release(ctx, lease); lost != nil && returned {
			err = c.answer(ctx, lost, nil)
		}
	}()
	err = invoker(lease.Context(), method, req, reply, cc, opts...) //nolint:contextcheck // it is derived from ctx
	returned = true
	return err
}

// refused is the answer to a unary call that didn't get its lock.
func (c *call) refused(ctx context.Context, e *guard.Error, trail func(metadata.MD)) (any, error) {
	if e.Kind == guard.Skipped {
		if empty := c.empty(); empty != nil {
			trail(skippedTrailer())
			return empty, nil
		}
	}
	return nil, c.answer(ctx, e, trail)
}

func skippedTrailer() metadata.MD { return metadata.Pairs(CodeTrailer, guard.Skipped.Code()) }

// empty is the answer to a call that is skipped; nil if the type of answers
// isn't known.
func (c *call) empty() proto.Message {
	descriptor := c.locks.descriptor(c.method)
	if descriptor == nil {
		return nil
	}
	if known, err := protoregistry.GlobalTypes.FindMessageByName(descriptor.Output().FullName()); err == nil {
		return known.New().Interface()
	}
	return dynamicpb.NewMessage(descriptor.Output())
}
