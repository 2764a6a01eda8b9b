package grpclock

import (
	"context"
	"io"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/key"
	"github.com/redlatch/redlatch/grpclock/rpcguard"
)

func (i *Locks) streamClient(
	ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn,
	method string, streamer grpc.Streamer, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	c, ok := i.rpc.Outgoing(method)
	if !ok {
		return streamer(ctx, desc, cc, method, opts...)
	}
	o := &opener{locks: i, method: method, call: &c, ctx: ctx, sendsMany: desc.ClientStreams, answersOnce: !desc.ServerStreams}
	o.stream = func(ctx context.Context, more ...grpc.CallOption) (grpc.ClientStream, error) {
		return streamer(ctx, desc, cc, method, append(opts[:len(opts):len(opts)], more...)...)
	}
	if desc.ClientStreams && !i.first[method] {
		return o.open(c.Acquire(ctx, outgoing(nil))) //nolint:contextcheck // it has ctx
	}
	return &pendingStream{opener: o, opened: make(chan struct{})}, nil
}

// opener opens a stream under its lock.
type opener struct {
	locks       *Locks
	method      string
	call        *rpcguard.Call
	ctx         context.Context
	sendsMany   bool
	answersOnce bool
	stream      func(context.Context, ...grpc.CallOption) (grpc.ClientStream, error)
}

func (o *opener) open(held guard.Held, refused *guard.Error) (grpc.ClientStream, error) {
	if refused != nil {
		if refused.Kind == guard.Skipped {
			return &skippedStream{ctx: o.ctx, sendsMany: o.sendsMany, answers: o.answersOnce}, nil
		}
		return nil, o.locks.answer(o.ctx, o.call, refused, nil)
	}
	inside, cancel := context.WithCancel(held.Context())
	s := &heldStream{opener: o, cancel: cancel, held: held}
	// The stream's end cancels inside, as the caller's or a loss does, so a
	// caller that no longer reads leaves no lock behind.
	context.AfterFunc(inside, func() { _ = s.end() })
	returned := false
	defer func() {
		if !returned { // an interceptor behind this one panics
			_ = s.end()
		}
	}()
	var err error
	s.ClientStream, err = o.stream(inside, grpc.OnFinish(func(error) { cancel() }))
	returned = true
	if err != nil {
		return nil, s.failure(err)
	}
	return s, nil
}

// heldStream is a stream that holds its lock until it ends.
type heldStream struct {
	grpc.ClientStream
	*opener
	cancel context.CancelFunc
	held   guard.Held
	once   sync.Once
	lost   *guard.Error
}

// RecvMsg releases the lock when nothing more can come.
func (s *heldStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err == nil && !s.answersOnce {
		return nil
	}
	return s.failure(err)
}

// failure is err, unless the lock was lost.
func (s *heldStream) failure(err error) error {
	if lost := s.end(); lost != nil {
		return s.locks.answer(s.ctx, s.call, lost, nil)
	}
	return err
}

func (s *heldStream) end() *guard.Error {
	s.once.Do(func() {
		s.cancel()
		s.lost = s.call.Release(s.ctx, s.held)
	})
	return s.lost
}

// pendingStream is opened by its first message, under the rule that is in force
// then. Receiving waits until then.
type pendingStream struct {
	*opener
	once   sync.Once
	opened chan struct{}

	// Written before opened is closed.
	current grpc.ClientStream
	err     error
}

func (s *pendingStream) SendMsg(m any) error {
	s.begin(func() (guard.Held, *guard.Error) { return s.call.Acquire(s.ctx, outgoing(m)) })
	if s.err != nil {
		return s.err
	}
	return s.current.SendMsg(m)
}

// CloseSend on a stream without a message is refused: there is nothing to make
// the key of.
func (s *pendingStream) CloseSend() error {
	s.begin(func() (guard.Held, *guard.Error) { return guard.Held{}, s.call.Refuse(s.ctx, key.ErrMissing) })
	if s.err != nil {
		return s.err
	}
	return s.current.CloseSend()
}

var errNotOpened = status.Error(codes.Internal, "the stream was not opened: its first message caused a panic")

func (s *pendingStream) begin(acquire func() (guard.Held, *guard.Error)) {
	s.once.Do(func() {
		defer close(s.opened)
		s.err = errNotOpened // if a source panics
		c, ok := s.locks.rpc.Outgoing(s.method)
		if !ok {
			s.current, s.err = s.stream(s.ctx)
			return
		}
		s.call = &c
		s.current, s.err = s.open(acquire())
	})
}

func (s *pendingStream) RecvMsg(m any) error {
	if err := s.wait(); err != nil {
		return err
	}
	return s.current.RecvMsg(m)
}

func (s *pendingStream) Header() (metadata.MD, error) {
	if err := s.wait(); err != nil {
		return nil, err
	}
	return s.current.Header()
}

func (s *pendingStream) Trailer() metadata.MD {
	if !s.isOpen() {
		return nil
	}
	return s.current.Trailer()
}

func (s *pendingStream) Context() context.Context {
	if !s.isOpen() {
		return s.ctx
	}
	return s.current.Context()
}

// wait returns when the stream is open, or will never be.
func (s *pendingStream) wait() error {
	select {
	case <-s.opened:
		return s.err
	case <-s.ctx.Done():
		return status.FromContextError(s.ctx.Err()).Err()
	}
}

func (s *pendingStream) isOpen() bool {
	select {
	case <-s.opened:
		return s.err == nil
	default:
		return false
	}
}

// skippedStream is a stream that succeeded without being opened.
type skippedStream struct {
	ctx       context.Context
	sendsMany bool
	answers   bool // there is one, which is empty
}

func (s *skippedStream) Header() (metadata.MD, error) { return nil, nil } //nolint:nilnil // no header is no error
func (s *skippedStream) Trailer() metadata.MD         { return skippedTrailer() }
func (s *skippedStream) CloseSend() error             { return nil }
func (s *skippedStream) Context() context.Context     { return s.ctx }

// SendMsg returns io.EOF, as gRPC does for a stream of messages that has ended; one
// that is for a single message succeeds.
func (s *skippedStream) SendMsg(any) error {
	if s.sendsMany {
		return io.EOF
	}
	return nil
}

func (s *skippedStream) RecvMsg(any) error {
	if s.answers {
		s.answers = false
		return nil
	}
	return io.EOF
}
