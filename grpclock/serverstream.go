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
	s := &serverStream{ServerStream: ss, locks: i, method: info.FullMethod, inside: ss.Context()}
	if info.IsClientStream && !i.first[info.FullMethod] {
		if s.begin(nil, nil) != nil {
			return s.answer(info)
		}
		if s.lease == nil {
			return handler(srv, ss)
		}
	}
	returned := false
	defer func() {
		switch s.end(); {
		case !returned:
		case s.failure != nil:
			err = s.answer(info)
		case err != nil && s.isGuarded():
			err = passOn(err, s.SetTrailer)
		}
	}()
	err = handler(srv, s)
	returned = true
	return err
}

// serverStream is a stream that takes its lock, at the latest, with its first
// message. Only then it looks its rule up: a client may take its time.
type serverStream struct {
	grpc.ServerStream
	locks  *Interceptors
	method string

	mu      sync.Mutex // handlers may receive in one goroutine and return in another
	call    call       // once it has asked for its lock
	inside  context.Context
	lease   *lock.Lease
	asked   bool  // for the lock, or found that it needs none
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

// SendMsg sends nothing for a handler that goes on although it was refused, or has
// lost its lock.
func (s *serverStream) SendMsg(m any) error {
	if _, failure := s.state(); failure != nil {
		return failure
	}
	return s.ServerStream.SendMsg(m)
}

// RecvMsg takes the lock when the first message is there. A refusal is returned
// from then on, whether or not the client sends more, and so is a loss. One that
// waits for a message finds the loss when that comes: nothing can wake it.
func (s *serverStream) RecvMsg(m any) error {
	if _, failure := s.state(); failure != nil {
		return failure
	}
	err := s.ServerStream.RecvMsg(m)
	asked, failure := s.state()
	switch {
	case failure != nil:
		return failure
	case !asked && (err == nil || errors.Is(err, io.EOF)):
		return s.begin(m, err)
	}
	return err
}

// state returns why the handler must not go on, nil if it may.
func (s *serverStream) state() (asked bool, failure error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failure != nil || s.lease == nil || s.inside.Err() == nil {
		return s.asked, s.failure
	}
	if cause := context.Cause(s.inside); guard.KindOf(cause) == guard.Lost || errors.Is(cause, lock.ErrClosed) {
		e := &guard.Error{Kind: guard.Lost, Operation: s.method, Name: s.call.rule.Name, Err: cause}
		return true, &refusal{s.call.describe(s.inside, e, 0), e} // end reports it
	}
	return true, nil
}

// begin takes the lock of the rule that is in force now. It returns the error of a
// stream that doesn't get it, or else received, which is io.EOF if there is no message.
func (s *serverStream) begin(m any, received error) error {
	ctx := s.ServerStream.Context()
	var lease *lock.Lease
	var refused *guard.Error
	decided := false
	defer func() {
		if !decided { // a handler that recovers has the message, and no lock
			s.fail()
		}
	}()
	c, ok := s.locks.incoming(s.method)
	switch {
	case !ok:
	case received != nil && c.rule != nil:
		refused = c.refuse(ctx, key.ErrMissing)
	default:
		lease, refused = c.acquire(ctx, m)
	}
	err := s.enter(c, lease, refused)
	decided = true
	if err != nil {
		return err
	}
	return received
}

var errNoKey = status.Error(codes.Internal, "the stream has no lock: its first message caused a panic")

// fail ends a stream whose first message caused a panic.
func (s *serverStream) fail() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.asked, s.failure = true, errNoKey
	}
}

// enter records how the acquisition of the lock ended, and returns its error. A
// stream without a rule has neither a lease nor a refusal.
func (s *serverStream) enter(c call, lease *lock.Lease, refused *guard.Error) error {
	var failure error
	if refused != nil {
		failure = c.answer(s.ServerStream.Context(), refused, s.SetTrailer)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		if lease != nil {
			_ = c.release(s.ServerStream.Context(), lease) // nothing runs under it
		}
		return status.Error(codes.Canceled, "the handler has returned")
	}
	s.call, s.asked, s.failure = c, true, failure
	switch {
	case refused != nil:
		s.skipped = refused.Kind == guard.Skipped
	case lease != nil:
		s.inside, s.lease = lease.Context(), lease
	}
	return failure
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

// isGuarded reports whether the stream has a lock, or would have got one by a first
// message that the handler didn't wait for.
func (s *serverStream) isGuarded() bool {
	if s.asked {
		return s.lease != nil
	}
	_, guarded := s.locks.incoming(s.method)
	return guarded
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
