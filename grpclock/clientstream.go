package grpclock

import (
	"context"
	"io"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/key"
)

func (i *Interceptors) streamClient(
	ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn,
	method string, streamer grpc.Streamer, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	c, ok := i.outgoing(method)
	if !ok {
		return streamer(ctx, desc, cc, method, opts...)
	}
	o := &opener{call: c, ctx: ctx, answersOnce: !desc.ServerStreams}
	o.stream = func(ctx context.Context, onFinish grpc.CallOption) (grpc.ClientStream, error) {
		all := append(opts[:len(opts):len(opts)], onFinish)
		return streamer(ctx, desc, cc, method, all...)
	}
	if desc.ClientStreams && !i.first[method] {
		return o.open(c.enter(ctx, nil))
	}
	return &pendingStream{opener: o, opened: make(chan struct{})}, nil
}

// opener opens a stream under its lock.
type opener struct {
	call        call
	ctx         context.Context
	answersOnce bool
	stream      func(context.Context, grpc.CallOption) (grpc.ClientStream, error)
}

func (o *opener) open(inside context.Context, leave func() error, err error) (grpc.ClientStream, error) {
	if err != nil {
		if guard.KindOf(err) == guard.Skipped {
			return &skippedStream{ctx: o.ctx, answers: o.answersOnce}, nil
		}
		return nil, o.call.answer(inside, err, nil)
	}
	inside, cancel := context.WithCancel(inside)
	s := &heldStream{opener: o, cancel: cancel, leave: leave}
	// The stream's end cancels inside, as the caller's or a loss does, so a
	// caller that no longer reads leaves no lock behind.
	context.AfterFunc(inside, func() { _ = s.end() })
	s.ClientStream, err = o.stream(inside, grpc.OnFinish(func(error) { cancel() }))
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
	leave  func() error
	once   sync.Once
	lost   error
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
		return s.call.answer(s.ctx, lost, nil)
	}
	return err
}

func (s *heldStream) end() error {
	s.once.Do(func() {
		s.cancel()
		s.lost = s.leave()
	})
	return s.lost
}

// pendingStream is opened by its first message. Receiving waits until then.
type pendingStream struct {
	*opener
	once   sync.Once
	opened chan struct{}

	// Written before opened is closed.
	current grpc.ClientStream
	err     error
}

func (s *pendingStream) SendMsg(m any) error {
	s.begin(func() (context.Context, func() error, error) { return s.call.enter(s.ctx, m) })
	if s.err != nil {
		return s.err
	}
	return s.current.SendMsg(m)
}

// CloseSend on a stream without a message is refused: there is nothing to make
// the key of.
func (s *pendingStream) CloseSend() error {
	s.begin(func() (context.Context, func() error, error) { return s.call.refuse(s.ctx, key.ErrMissing) })
	if s.err != nil {
		return s.err
	}
	return s.current.CloseSend()
}

func (s *pendingStream) begin(enter func() (context.Context, func() error, error)) {
	s.once.Do(func() {
		s.current, s.err = s.open(enter())
		close(s.opened)
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
	ctx     context.Context
	answers bool // there is one, which is empty
}

func (s *skippedStream) Header() (metadata.MD, error) { return nil, nil } //nolint:nilnil // no header is no error
func (s *skippedStream) Trailer() metadata.MD         { return skippedTrailer() }
func (s *skippedStream) CloseSend() error             { return nil }
func (s *skippedStream) Context() context.Context     { return s.ctx }
func (s *skippedStream) SendMsg(any) error            { return nil }

func (s *skippedStream) RecvMsg(any) error {
	if s.answers {
		s.answers = false
		return nil
	}
	return io.EOF
}
