package grpclock

import (
	"context"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/key"
	"github.com/redlatch/redlatch/core/lock"
)

func (i *Interceptors) streamServer(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
	c, ok := i.incoming(info.FullMethod)
	if !ok {
		return handler(srv, ss)
	}
	s := &serverStream{ServerStream: ss, call: c, inside: ss.Context()}
	if info.IsClientStream && !i.first[info.FullMethod] {
		if s.enter(c.acquire(ss.Context(), nil)) != nil {
			return s.answer(info)
		}
	}
	returned := false
	defer func() {
		if s.end(); returned && s.failure != nil {
			err = s.answer(info)
		}
	}()
	err = handler(srv, s)
	returned = true
	return err
}

// serverStream is a stream that takes its lock, at the latest, with its first
// message.
type serverStream struct {
	grpc.ServerStream
	call call

	mu      sync.Mutex // handlers may receive in one goroutine and return in another
	inside  context.Context
	lease   *lock.Lease
	asked   bool  // for the lock
	ended   bool  // the handler has returned
	skipped bool  // the failure is no failure to the client
	failure error // what counts instead of what the handler returns
}

// Context is the lease's, once there is one.
func (s *serverStream) Context() context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inside
}

// SendMsg sends nothing for a handler that goes on although it was refused.
func (s *serverStream) SendMsg(m any) error {
	if _, failure := s.state(); failure != nil {
		return failure
	}
	return s.ServerStream.SendMsg(m)
}

// RecvMsg takes the lock when the first message is there. A refusal is returned
// from then on, whether or not the client sends more.
func (s *serverStream) RecvMsg(m any) error {
	if _, failure := s.state(); failure != nil {
		return failure
	}
	err := s.ServerStream.RecvMsg(m)
	asked, failure := s.state()
	switch ctx := s.ServerStream.Context(); {
	case failure != nil:
		return failure
	case asked:
		return err
	case err == nil:
		return s.enter(s.call.acquire(ctx, m))
	case errors.Is(err, io.EOF):
		return s.enter(nil, s.call.refuse(ctx, key.ErrMissing))
	}
	return err
}

func (s *serverStream) state() (asked bool, failure error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked, s.failure
}

// enter records how the acquisition of the lock ended, and returns its error.
func (s *serverStream) enter(lease *lock.Lease, refused *guard.Error) error {
	var failure error
	if refused != nil {
		failure = s.call.answer(s.ServerStream.Context(), refused, s.SetTrailer)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		if lease != nil {
			_ = s.call.release(s.ServerStream.Context(), lease) // nothing runs under it
		}
		return status.Error(codes.Canceled, "the handler has returned")
	}
	s.asked, s.failure = true, failure
	if refused != nil {
		s.skipped = refused.Kind == guard.Skipped
		return failure
	}
	s.inside, s.lease = lease.Context(), lease
	return nil
}

// end releases the lock, if there is one. What the stream has noted doesn't
// change after that.
func (s *serverStream) end() {
	s.mu.Lock()
	s.ended = true
	lease := s.lease
	s.mu.Unlock()
	if lease == nil {
		return
	}
	if lost := s.call.release(s.ServerStream.Context(), lease); lost != nil {
		failure := s.call.answer(s.ServerStream.Context(), lost, s.SetTrailer)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.failure = failure // what the handler left behind may still receive
	}
}

// answer returns the error that ends the stream, whether or not the handler ran.
func (s *serverStream) answer(info *grpc.StreamServerInfo) error {
	if !s.skipped {
		return s.failure
	}
	if info.IsServerStream {
		s.SetTrailer(skippedTrailer())
		return nil
	}
	empty := s.call.empty()
	if empty == nil {
		return s.failure
	}
	s.SetTrailer(skippedTrailer())
	return s.ServerStream.SendMsg(empty)
}
