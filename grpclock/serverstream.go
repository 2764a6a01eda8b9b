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
	"github.com/redlatch/redlatch/grpclock/rpcguard"
)

func (i *Locks) streamServer(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
	if info == probeStream {
		ss.(*probed).by = i
		return nil
	}
	i.serving.Do(i.serves)
	if by := decoratorOf(srv); by != nil {
		if by != i {
			return i.otherLocks(ss.Context(), info.FullMethod)
		}
		return handler(srv, ss) // the decorator locks
	}
	s := newServerStream(i, ss, info.FullMethod)
	skipped := func() error {
		if info.IsServerStream {
			return nil
		}
		empty := i.rpc.Empty(info.FullMethod)
		if empty == nil {
			return s.failure
		}
		return ss.SendMsg(empty)
	}
	var first beginning
	if info.IsClientStream && !i.first[info.FullMethod] {
		first = s.begin
	}
	return s.run(first, skipped, func() error {
		if first != nil && !s.locked() {
			return handler(srv, ss)
		}
		return handler(srv, s)
	})
}

// beginning takes the lock of a stream before its handler runs, with its only message if
// there is one.
type beginning = func(m any, received error) error

// run runs the handler of a stream. Without a beginning, the lock is taken with the first
// message that the handler receives. skipped answers a stream that another one does the
// work of.
func (s *serverStream) run(begin beginning, skipped func() error, handler func() error) (err error) {
	answer := func() error {
		if !s.skipped {
			return s.failure
		}
		s.SetTrailer(skippedTrailer())
		return skipped()
	}
	if begin != nil && begin(nil, nil) != nil {
		return answer()
	}
	returned := false
	defer func() {
		switch s.end(); {
		case !returned:
		case s.failure != nil:
			err = answer()
		case s.isGuarded():
			err = s.locks.passOn(s.ServerStream.Context(), err, s.SetTrailer)
		default:
			err = bare(s.ServerStream.Context(), err, s.SetTrailer)
		}
	}()
	err = handler()
	returned = true
	return err
}

// serverStream is a stream that takes its lock, at the latest, with its first
// message. Only then it looks its rule up: a client may take its time.
type serverStream struct {
	grpc.ServerStream
	locks  *Locks
	method string

	mu      sync.Mutex     // handlers may receive in one goroutine and return in another
	call    *rpcguard.Call // once it has asked for its lock
	inside  context.Context
	held    *guard.Held
	asked   bool  // for the lock, or found that it needs none
	ended   bool  // the handler has returned
	skipped bool  // the failure is no failure to the client
	failure error // what counts instead of what the handler returns
}

func newServerStream(locks *Locks, ss grpc.ServerStream, method string) *serverStream {
	return &serverStream{ServerStream: ss, locks: locks, method: method, inside: ss.Context()}
}

// locked reports whether the stream has a lock.
func (s *serverStream) locked() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held != nil
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
	return s.receive(func() (any, error) { return m, s.ServerStream.RecvMsg(m) })
}

// receive receives a message by next.
func (s *serverStream) receive(next func() (m any, err error)) error {
	if _, failure := s.state(); failure != nil {
		return failure
	}
	m, err := next()
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
	if s.failure != nil || s.held == nil || s.inside.Err() == nil {
		return s.asked, s.failure
	}
	if cause := context.Cause(s.inside); guard.KindOf(cause) == guard.Lost || errors.Is(cause, lock.ErrClosed) {
		e := s.call.Lost(cause)
		return true, &refusal{statusOf(s.call.Refusal(s.inside, e).Status), e} // end reports it
	}
	return true, nil
}

// begin takes the locks of the rules that are in force now. It returns the error of a
// stream that doesn't get them, or else received, which is io.EOF if there is no message.
func (s *serverStream) begin(m any, received error) error {
	ctx := s.ServerStream.Context()
	var held guard.Held
	var refused *guard.Error
	decided := false
	defer func() {
		if !decided { // a handler that recovers has the message, and no lock
			s.fail()
		}
	}()
	c, ok := s.locks.rpc.Incoming(s.method)
	switch {
	case !ok:
	case received != nil && c.IsLocked():
		refused = c.Refuse(ctx, key.ErrMissing)
	default:
		held, refused = c.Acquire(ctx, incoming(m))
	}
	err := s.enter(&c, ok && refused == nil, held, refused)
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

// enter records how the acquisition of the locks ended, and returns its error. A
// stream without a rule is neither locked nor refused.
func (s *serverStream) enter(c *rpcguard.Call, locked bool, held guard.Held, refused *guard.Error) error {
	var failure error
	if refused != nil {
		failure = s.locks.answer(s.ServerStream.Context(), c, refused, s.SetTrailer)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		if locked {
			_ = c.Release(s.ServerStream.Context(), held) // nothing runs under it
		}
		return status.Error(codes.Canceled, "the handler has returned")
	}
	s.call, s.asked, s.failure = c, true, failure
	switch {
	case refused != nil:
		s.skipped = refused.Kind == guard.Skipped
	case locked:
		s.inside, s.held = held.Context(), &held
	}
	return failure
}

// end releases the locks, if there are any. What the stream has noted doesn't
// change after that.
func (s *serverStream) end() {
	s.mu.Lock()
	s.ended = true
	held := s.held
	s.mu.Unlock()
	if held == nil {
		return
	}
	if lost := s.call.Release(s.ServerStream.Context(), *held); lost != nil {
		failure := s.locks.answer(s.ServerStream.Context(), s.call, lost, s.SetTrailer)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.failure = failure // what the handler left behind may still receive
	}
}

// isGuarded reports whether the stream has a lock, or would have got one by a first
// message that the handler didn't wait for.
func (s *serverStream) isGuarded() bool {
	if s.asked {
		return s.held != nil
	}
	_, guarded := s.locks.rpc.Incoming(s.method)
	return guarded
}
