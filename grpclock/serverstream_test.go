package grpclock_test

import (
	"context"
	"errors"
	"io"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/grpclock"
	"github.com/redlatch/redlatch/grpclock/internal/testpb"
)

// kinds are streams of every kind, each under the lock that its .proto names,
// for the user u. They return the key that the handler reported, and the trailer.
var kinds = map[string]struct {
	method, key string
	call        func(context.Context, testpb.OrderServiceClient) (string, metadata.MD, error)
}{
	"server": {watch, "lock:watch:u", callWatch},
	"client": {upload, "lock:upload:u", callUpload},
	"bidi":   {chat, "lock:chat:u", callChat},
}

func callWatch(ctx context.Context, client testpb.OrderServiceClient) (key string, trailer metadata.MD, err error) {
	stream, err := client.Watch(ctx, &testpb.WatchRequest{UserId: "u"})
	if err != nil {
		return "", nil, err
	}
	for {
		message, err := stream.Recv()
		if err != nil {
			return key, stream.Trailer(), wellEnded(err)
		}
		key = message.GetKey()
	}
}

func callUpload(ctx context.Context, client testpb.OrderServiceClient) (key string, trailer metadata.MD, err error) {
	stream, err := client.Upload(metadata.AppendToOutgoingContext(ctx, "user-id", "u"))
	if err != nil {
		return "", nil, err
	}
	if err := stream.Send(&testpb.UploadRequest{UserId: "u"}); err != nil && !errors.Is(err, io.EOF) {
		return "", nil, err
	}
	answer, err := stream.CloseAndRecv()
	return answer.GetKey(), stream.Trailer(), err
}

func callChat(ctx context.Context, client testpb.OrderServiceClient) (key string, trailer metadata.MD, err error) {
	stream, err := client.Chat(metadata.AppendToOutgoingContext(ctx, "user-id", "u"))
	if err != nil {
		return "", nil, err
	}
	if err := stream.Send(&testpb.ChatRequest{UserId: "u"}); err != nil && !errors.Is(err, io.EOF) {
		return "", nil, err
	}
	_ = stream.CloseSend()
	for {
		message, err := stream.Recv()
		if err != nil {
			return key, stream.Trailer(), wellEnded(err)
		}
		key = message.GetKey()
	}
}

// wellEnded is nil for a stream that ended well.
func wellEnded(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func TestStreamRunsUnderItsLock(t *testing.T) {
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			g := guardtest.Guard(t)
			key, _, err := kind.call(t.Context(), dial(t, &orders{}, g))
			if err != nil || key != kind.key {
				t.Errorf("got %q, %v; want %q", key, err, kind.key)
			}
			if guardtest.IsHeld(t, g, kind.key) {
				t.Error("still held")
			}
		})
	}
}

// busy are handlers that must not run.
func busy(t *testing.T) *orders {
	t.Helper()
	return &orders{
		watch: func(*testpb.WatchRequest, grpc.ServerStreamingServer[testpb.WatchResponse]) error {
			t.Error("the handler ran")
			return nil
		},
		upload: func(grpc.ClientStreamingServer[testpb.UploadRequest, testpb.UploadResponse]) error {
			t.Error("the handler ran")
			return nil
		},
		chat: func(grpc.BidiStreamingServer[testpb.ChatRequest, testpb.ChatResponse]) error {
			t.Error("the handler ran")
			return nil
		},
	}
}

func TestContendedStreamDoesNotRunTheHandler(t *testing.T) {
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			g := guardtest.Guard(t)
			guardtest.Hold(t, g, kind.key)
			_, trailer, err := kind.call(t.Context(), dial(t, busy(t), g))
			if status.Code(err) != codes.Aborted || !grpclock.IsContended(err) {
				t.Errorf("got %v", err)
			}
			if len(trailer.Get("grpc-retry-pushback-ms")) != 1 {
				t.Errorf("trailer is %v", trailer)
			}
		})
	}
}

func TestSkippedStreamEndsWellWithoutTheHandler(t *testing.T) {
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			g := guardtest.Guard(t, rule.Rule{Operation: kind.method, Key: "lock:job", OnBusy: rule.Skip})
			guardtest.Hold(t, g, "lock:job")
			key, trailer, err := kind.call(t.Context(), dial(t, busy(t), g))
			if err != nil || key != "" {
				t.Errorf("got %q, %v", key, err)
			}
			if got := trailer.Get(grpclock.CodeTrailer); len(got) != 1 || got[0] != "LOCK_SKIPPED" {
				t.Errorf("trailer is %v", trailer)
			}
		})
	}
}

func TestSkippedCallWhoseAnswersAreNotKnownIsAnError(t *testing.T) {
	g := guardtest.Guard(t, rule.Rule{Operation: place, Key: "lock:job", OnBusy: rule.Skip}, rule.Rule{Operation: upload, Key: "lock:job", OnBusy: rule.Skip})
	guardtest.Hold(t, g, "lock:job")
	o := busy(t)
	client := dial(t, o, g, grpclock.WithFiles(new(protoregistry.Files)))
	if _, err := client.Place(t.Context(), &testpb.PlaceRequest{}); reasonOf(err) != "LOCK_RULE_INVALID" {
		t.Errorf("unary: %v", err)
	}
	if _, _, err := callUpload(t.Context(), client); reasonOf(err) != "LOCK_RULE_INVALID" {
		t.Errorf("stream: %v", err)
	}
}

// A server that nobody attached may have such a method: there is no empty answer to send.
func TestASkippedCallThatCannotBeAnsweredEndsWithACode(t *testing.T) {
	g := guardtest.Guard(t, rule.Rule{Operation: place, Key: "lock:job", OnBusy: rule.Skip}, rule.Rule{Operation: upload, Key: "lock:job", OnBusy: rule.Skip})
	guardtest.Hold(t, g, "lock:job")
	unary, stream := locksOf(t, g, registered(), grpclock.WithFiles(new(protoregistry.Files)))
	_, err := unary(t.Context(), &testpb.PlaceRequest{}, &grpc.UnaryServerInfo{FullMethod: place},
		func(context.Context, any) (any, error) { t.Error("the handler ran"); return nil, nil })
	if status.Code(err) != codes.AlreadyExists || reasonOf(err) != "LOCK_SKIPPED" {
		t.Errorf("unary: %v", err)
	}
	err = stream(nil, lastingStream{ctx: t.Context()}, &grpc.StreamServerInfo{FullMethod: upload, IsClientStream: true},
		func(any, grpc.ServerStream) error { t.Error("the handler ran"); return nil })
	if status.Code(err) != codes.AlreadyExists || reasonOf(err) != "LOCK_SKIPPED" {
		t.Errorf("stream: %v", err)
	}
}

func TestLossOverrulesWhatTheHandlerOfAStreamReturns(t *testing.T) {
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			store := memstore.New()
			g := guard.Must(guard.New(guardtest.Locker(t, store, lock.WithWatchdog(900*time.Millisecond))))
			lose := func(ctx context.Context) error {
				force(t, store, kind.key)
				<-ctx.Done()
				return nil
			}
			client := dial(t, &orders{
				watch: func(_ *testpb.WatchRequest, s grpc.ServerStreamingServer[testpb.WatchResponse]) error {
					return lose(s.Context())
				},
				upload: func(s grpc.ClientStreamingServer[testpb.UploadRequest, testpb.UploadResponse]) error {
					return lose(s.Context())
				},
				chat: func(s grpc.BidiStreamingServer[testpb.ChatRequest, testpb.ChatResponse]) error {
					return lose(s.Context())
				},
			}, g)
			_, trailer, err := kind.call(t.Context(), client)
			if status.Code(err) != codes.Internal || !grpclock.IsLost(err) {
				t.Errorf("got %v", err)
			}
			if got := trailer.Get("grpc-retry-pushback-ms"); len(got) != 1 || got[0] != "-1" {
				t.Errorf("pushback is %q", got)
			}
		})
	}
}

func TestStreamsLockIsHeldUntilItsHandlerReturns(t *testing.T) {
	g := guardtest.Guard(t)
	inside, leave := make(chan struct{}), make(chan struct{})
	client := dial(t, &orders{watch: func(_ *testpb.WatchRequest, s grpc.ServerStreamingServer[testpb.WatchResponse]) error {
		err := s.Send(&testpb.WatchResponse{})
		close(inside)
		<-leave
		return err
	}}, g)
	stream, err := client.Watch(t.Context(), &testpb.WatchRequest{UserId: "u"})
	if err != nil {
		t.Fatal(err)
	}
	guardtest.Receive(t, inside, "the handler")
	if !guardtest.IsHeld(t, g, "lock:watch:u") {
		t.Error("not held")
	}
	close(leave)
	for err == nil {
		_, err = stream.Recv()
	}
	if guardtest.IsHeld(t, g, "lock:watch:u") {
		t.Error("still held")
	}
}

func TestPanicInAStreamReleasesTheLockAndPassesThrough(t *testing.T) {
	g := guardtest.Guard(t)
	recovered := make(chan any, 1)
	recovery := func(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
		defer func() {
			recovered <- recover()
			err = status.Error(codes.Unknown, "recovered")
		}()
		return handler(srv, ss)
	}
	server := append([]grpc.ServerOption{grpc.ChainStreamInterceptor(recovery)}, guarded(t, g)...)
	client := testpb.NewOrderServiceClient(connect(t, &orders{
		watch: func(*testpb.WatchRequest, grpc.ServerStreamingServer[testpb.WatchResponse]) error { panic("boom") },
	}, server))
	if _, _, err := callWatch(t.Context(), client); status.Code(err) != codes.Unknown {
		t.Errorf("got %v", err)
	}
	if value := guardtest.Receive(t, recovered, "the recovery"); value != "boom" {
		t.Errorf("recovered %v", value)
	}
	if guardtest.IsHeld(t, g, "lock:watch:u") {
		t.Error("still held")
	}
}

func TestKeyOfTheFirstMessage(t *testing.T) {
	rules := []rule.Rule{
		{Operation: upload, Key: "lock:upload:<user_id>"},
		{Operation: chat, Key: "lock:chat:<user_id>"},
	}
	first := grpclock.WithFirstMessage(upload, chat)
	for _, name := range []string{"client", "bidi"} {
		kind := kinds[name]
		t.Run(name, func(t *testing.T) {
			g := guardtest.Guard(t, rules...)
			client := dial(t, &orders{}, g, first)
			if key, _, err := kind.call(t.Context(), client); err != nil || key != kind.key {
				t.Errorf("free: %q, %v", key, err)
			}
			lease := guardtest.Hold(t, g, kind.key)
			if _, _, err := kind.call(t.Context(), client); !grpclock.IsContended(err) {
				t.Errorf("contended, and the handler hides it: %v", err)
			}
			_ = lease.Release(t.Context())
			if guardtest.IsHeld(t, g, kind.key) {
				t.Error("still held")
			}
		})
		t.Run(name+" without the option", func(t *testing.T) {
			if _, _, err := kind.call(t.Context(), dial(t, busy(t), guardtest.Guard(t, rules...))); reasonOf(err) != "LOCK_RULE_INVALID" {
				t.Errorf("got %v", err)
			}
		})
	}
	for _, template := range []string{"lock:upload:<user_id>", "lock:upload"} {
		t.Run("there is none, "+template, func(t *testing.T) {
			stream, err := dial(t, &orders{}, guardtest.Guard(t, rule.Rule{Operation: upload, Key: template}), grpclock.WithFirstMessage(upload)).Upload(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := stream.CloseAndRecv(); reasonOf(err) != "LOCK_KEY_INVALID" {
				t.Errorf("got %v", err)
			}
		})
	}
	t.Run("the context is the lease's from then on", func(t *testing.T) {
		o := &orders{chat: func(s grpc.BidiStreamingServer[testpb.ChatRequest, testpb.ChatResponse]) error {
			before := keyOf(s.Context())
			if _, err := s.Recv(); err != nil {
				return err
			}
			return s.Send(&testpb.ChatResponse{Key: before + "," + keyOf(s.Context())})
		}}
		if key, _, err := callChat(t.Context(), dial(t, o, guardtest.Guard(t, rules...), first)); err != nil || key != ",lock:chat:u" {
			t.Errorf("got %q, %v", key, err)
		}
	})
}

// lastingStream is one whose messages and context outlive the handler.
type lastingStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s lastingStream) Context() context.Context { return s.ctx }
func (s lastingStream) SetTrailer(metadata.MD)   {}

func (s lastingStream) RecvMsg(m any) error {
	m.(*testpb.ChatRequest).UserId = "u"
	return nil
}

// lateStream is one whose first message is sent when something has happened.
type lateStream struct {
	lastingStream
	happens func()
}

func (s lateStream) RecvMsg(m any) error {
	s.happens()
	return s.lastingStream.RecvMsg(m)
}

var chatInfo = &grpc.StreamServerInfo{FullMethod: chat, IsClientStream: true, IsServerStream: true}

// receiving is a handler that receives one message and returns the key it runs under.
func receiving(intercept grpc.StreamServerInterceptor, s grpc.ServerStream) (key string, err error) {
	err = intercept(nil, s, chatInfo, func(_ any, s grpc.ServerStream) error {
		if err := s.RecvMsg(new(testpb.ChatRequest)); err != nil {
			return err
		}
		key = keyOf(s.Context())
		return nil
	})
	return key, err
}

// A guard may become valid between the beginning of a stream and its first message.
func TestAStreamThatBeginsBeforeTheGuardIsValidHasTheLockOfItsRule(t *testing.T) {
	for name, opts := range map[string][]grpclock.Option{
		"lock:guard": nil,
		"lock:own":   {grpclock.WithRule(chat, rule.Rule{Key: "lock:own"})},
	} {
		for _, held := range []bool{false, true} {
			g := guard.Must(guard.New(guardtest.Locker(t, memstore.New()), rule.Rule{Operation: chat, Key: "lock:guard"}))
			locks, err := grpclock.New(g, append(opts, grpclock.WithFirstMessage(chat))...)
			if err != nil {
				t.Fatal(err)
			}
			locks.UnaryServerInterceptor()
			key, err := receiving(locks.StreamServerInterceptor(), lateStream{lastingStream{ctx: t.Context()}, func() {
				locks.Attach(grpclock.Unseen(registered(ordersService)))
				if err := g.Validate(); err != nil {
					t.Fatal(err)
				}
				if held {
					guardtest.Hold(t, g, name)
				}
			}})
			if held && !grpclock.IsContended(err) || !held && (err != nil || key != name) {
				t.Errorf("%s, held: %v: ran under %q, %v", name, held, key, err)
			}
		}
	}
}

// A client may take its time between the beginning of a stream and its first message.
func TestAReplacedRuleCountsForAStreamWhoseFirstMessageComesLater(t *testing.T) {
	before := rule.Rule{Operation: chat, Key: "lock:old"}
	after := rule.Rule{Operation: chat, Key: "lock:new"}
	for name, test := range map[string]struct {
		before, after []rule.Rule
		want          string
	}{
		"another":       {[]rule.Rule{before}, []rule.Rule{after}, "lock:new"},
		"the first one": {nil, []rule.Rule{after}, "lock:new"},
		"none":          {[]rule.Rule{before}, nil, ""},
	} {
		g := guardtest.Guard(t, test.before...)
		noOption := grpclock.WithFiles(new(protoregistry.Files))
		_, intercept := locksOf(t, g, registered(ordersService), grpclock.WithFirstMessage(chat), noOption)
		if err := g.Validate(); err != nil {
			t.Fatal(err)
		}
		key, err := receiving(intercept, lateStream{lastingStream{ctx: t.Context()}, func() {
			if err := g.Replace(test.after, chat); err != nil {
				t.Error(err)
			}
		}})
		if err != nil || key != test.want {
			t.Errorf("%s: ran under %q, %v, want %q", name, key, err, test.want)
		}
	}
}

// A handler may return while a goroutine that it started still receives.
func TestLockThatComesTooLateIsGivenBack(t *testing.T) {
	g, waiting := waitingGuard(t, rule.Rule{Operation: chat, Key: "lock:chat:<user_id>", Wait: guardtest.Timeout})
	_, intercept := locksOf(t, g, registered(ordersService), grpclock.WithFirstMessage(chat))
	lease := guardtest.Hold(t, g, "lock:chat:u")
	received := make(chan error, 1)
	err := intercept(nil, lastingStream{ctx: t.Context()}, chatInfo, func(_ any, s grpc.ServerStream) error {
		go func() { received <- s.RecvMsg(new(testpb.ChatRequest)) }()
		guardtest.Receive(t, waiting, "the wait")
		return nil
	})
	if err != nil {
		t.Errorf("got %v", err)
	}
	_ = lease.Release(t.Context())
	if err := guardtest.Receive(t, received, "the end of RecvMsg"); status.Code(err) != codes.Canceled {
		t.Errorf("RecvMsg: %v", err)
	}
	if guardtest.IsHeld(t, g, "lock:chat:u") {
		t.Error("still held")
	}
}

// A loss is noted while such a goroutine receives. The race detector has to look on,
// so the test must not order what the two do.
func TestALossIsNotedBesideAReceiver(t *testing.T) {
	g := guardtest.Guard(t)
	_, intercept := locksOf(t, g, registered(ordersService))
	ctx, cancel := context.WithCancel(metadata.NewIncomingContext(t.Context(), metadata.Pairs("user-id", "u")))
	defer cancel()
	var messages atomic.Int64
	received := make(chan struct{})
	info := &grpc.StreamServerInfo{FullMethod: chat, IsClientStream: true, IsServerStream: true}
	err := intercept(nil, lastingStream{ctx: ctx}, info, func(_ any, s grpc.ServerStream) error {
		guardtest.Lose(t, g, "lock:chat:u")
		go func() {
			defer close(received)
			for ctx.Err() == nil {
				_ = s.RecvMsg(new(testpb.ChatRequest))
				messages.Add(1)
			}
		}()
		return nil
	})
	if !grpclock.IsLost(err) {
		t.Errorf("got %v", err)
	}
	enough := messages.Load() + 2 // the last of them came after the loss
	for deadline := time.Now().Add(guardtest.Timeout); messages.Load() < enough; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatal("the goroutine receives nothing")
		}
	}
	cancel()
	guardtest.Receive(t, received, "the end of the goroutine")
}

func TestRefusalOfAStreamLasts(t *testing.T) {
	g := guardtest.Guard(t, rule.Rule{Operation: chat, Key: "lock:chat:<user_id>"})
	_, intercept := locksOf(t, g, registered(ordersService), grpclock.WithFirstMessage(chat))
	guardtest.Hold(t, g, "lock:chat:u")
	err := intercept(nil, lastingStream{ctx: t.Context()}, chatInfo, func(_ any, s grpc.ServerStream) error {
		for range 3 {
			if err := s.RecvMsg(new(testpb.ChatRequest)); !grpclock.IsContended(err) {
				t.Errorf("the handler got %v", err)
			}
		}
		return nil // it hides the refusal
	})
	if !grpclock.IsContended(err) {
		t.Errorf("got %v", err)
	}
}

// brokenStream is one whose message cannot be received.
type brokenStream struct {
	lastingStream
	err error
}

func (s brokenStream) RecvMsg(any) error { return s.err }

// A message that is too large, or a client that left, is no missing value.
func TestAFirstMessageThatCannotBeReceivedIsTheErrorOfTheStream(t *testing.T) {
	g := guardtest.Guard(t, rule.Rule{Operation: chat, Key: "lock:chat:<user_id>"}).WithHooks(guard.Hooks{
		Refused: func(_ context.Context, e *guard.Error) { t.Errorf("reported %v", e) },
	})
	_, intercept := locksOf(t, g, registered(ordersService), grpclock.WithFirstMessage(chat))
	large := status.Error(codes.ResourceExhausted, "grpc: received message larger than max")
	if key, err := receiving(intercept, brokenStream{lastingStream{ctx: t.Context()}, large}); key != "" || err != large { //nolint:errorlint // the very error
		t.Errorf("ran under %q, %v", key, err)
	}
}

// The message may have come before the client left.
func TestAFirstMessageOfAClientThatHasLeftDoesNotRunTheHandler(t *testing.T) {
	_, intercept := locksOf(t, guardtest.Guard(t, rule.Rule{Operation: chat, Key: "lock:chat:<user_id>"}), registered(ordersService), grpclock.WithFirstMessage(chat))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if key, err := receiving(intercept, lastingStream{ctx: ctx}); key != "" || reasonOf(err) != "LOCK_CANCELED" {
		t.Errorf("ran under %q, %v", key, err)
	}
}

// The handler has the message, and must not go on with it or take the next one for the first.
func TestAHandlerThatRecoversFromAPanicOfASourceHasNoStream(t *testing.T) {
	calls := 0
	user := grpclock.WithVar("user", func(context.Context, any) (string, error) {
		if calls++; calls == 1 {
			panic("boom")
		}
		return "u", nil
	})
	_, intercept := locksOf(t, guardtest.Guard(t, rule.Rule{Operation: chat, Key: "lock:chat:<user>"}), registered(ordersService), grpclock.WithFirstMessage(chat), user)
	err := intercept(nil, lastingStream{ctx: t.Context()}, chatInfo, func(_ any, s grpc.ServerStream) error {
		func() {
			defer func() {
				if what := recover(); what != "boom" {
					t.Errorf("recovered %v", what)
				}
			}()
			_ = s.RecvMsg(new(testpb.ChatRequest))
		}()
		if err := s.RecvMsg(new(testpb.ChatRequest)); status.Code(err) != codes.Internal {
			t.Errorf("received: %v", err)
		}
		if err := s.SendMsg(new(testpb.ChatResponse)); status.Code(err) != codes.Internal {
			t.Errorf("sent: %v", err)
		}
		return nil
	})
	if status.Code(err) != codes.Internal {
		t.Errorf("got %v", err)
	}
}

// Handlers see the end of a stream by its messages, hardly by its context.
func TestAStreamThatLosesItsLockReceivesAndSendsNoMore(t *testing.T) {
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			g := guardtest.Guard(t)
			goOn := func(s grpc.ServerStream) error {
				guardtest.Lose(t, g, kind.key)
				if err := s.SendMsg(new(testpb.ChatResponse)); !grpclock.IsLost(err) || !errors.Is(err, lock.ErrForced) {
					t.Errorf("sent: %v", err)
				}
				if err := s.RecvMsg(new(testpb.ChatRequest)); !grpclock.IsLost(err) {
					t.Errorf("received: %v", err)
				}
				return nil
			}
			_, trailer, err := kind.call(t.Context(), dial(t, &orders{
				watch:  func(_ *testpb.WatchRequest, s grpc.ServerStreamingServer[testpb.WatchResponse]) error { return goOn(s) },
				upload: func(s grpc.ClientStreamingServer[testpb.UploadRequest, testpb.UploadResponse]) error { return goOn(s) },
				chat:   func(s grpc.BidiStreamingServer[testpb.ChatRequest, testpb.ChatResponse]) error { return goOn(s) },
			}, g))
			if got := trailer.Get("grpc-retry-pushback-ms"); !grpclock.IsLost(err) || len(got) != 1 || got[0] != "-1" {
				t.Errorf("the client got %v and %q", err, got)
			}
		})
	}
	t.Run("when the locker is closed", func(t *testing.T) {
		locker := lock.New(memstore.New())
		_, intercept := locksOf(t, guard.Must(guard.New(locker, rule.Rule{Operation: chat, Key: "lock:chat"})), registered(ordersService))
		err := intercept(nil, lastingStream{ctx: t.Context()}, chatInfo, func(_ any, s grpc.ServerStream) error {
			if err := locker.Close(t.Context()); err != nil {
				t.Error(err)
			}
			if err := s.SendMsg(new(testpb.ChatResponse)); !grpclock.IsLost(err) {
				t.Errorf("sent: %v", err)
			}
			if err := s.RecvMsg(new(testpb.ChatRequest)); !grpclock.IsLost(err) {
				t.Errorf("received: %v", err)
			}
			return nil
		})
		if !grpclock.IsLost(err) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("while it waits for a message", func(t *testing.T) {
		g := guardtest.Guard(t, rule.Rule{Operation: chat, Key: "lock:chat"})
		_, intercept := locksOf(t, g, registered(ordersService))
		err := intercept(nil, lateStream{lastingStream{ctx: t.Context()}, func() { guardtest.Lose(t, g, "lock:chat") }}, chatInfo,
			func(_ any, s grpc.ServerStream) error {
				if err := s.RecvMsg(new(testpb.ChatRequest)); !grpclock.IsLost(err) {
					t.Errorf("received: %v", err)
				}
				return nil
			})
		if !grpclock.IsLost(err) {
			t.Errorf("got %v", err)
		}
	})
}

// The client waits for an answer, and a handler that hides the refusal for a message.
func TestARefusedHandlerHearsAndSaysNothing(t *testing.T) {
	for name, test := range map[string]struct {
		onBusy rule.OnBusy
		check  func(error) bool
	}{
		"reject": {rule.Reject, grpclock.IsContended},
		"skip":   {rule.Skip, func(err error) bool { return err == nil }},
	} {
		hides := &orders{
			upload: func(s grpc.ClientStreamingServer[testpb.UploadRequest, testpb.UploadResponse]) error {
				_, _ = s.Recv()
				return s.SendAndClose(&testpb.UploadResponse{Key: "of the handler"})
			},
			chat: func(s grpc.BidiStreamingServer[testpb.ChatRequest, testpb.ChatResponse]) error {
				for range 2 {
					if _, err := s.Recv(); err == nil {
						t.Error("the handler got a message")
					}
				}
				if s.Send(&testpb.ChatResponse{Key: "of the handler"}) == nil {
					t.Error("the handler sent a message")
				}
				return nil
			},
		}
		t.Run(name+", upload", func(t *testing.T) {
			g := guardtest.Guard(t, rule.Rule{Operation: upload, Key: "lock:job", OnBusy: test.onBusy})
			guardtest.Hold(t, g, "lock:job")
			s, err := dial(t, hides, g, grpclock.WithFirstMessage(upload)).Upload(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Send(&testpb.UploadRequest{}); err != nil {
				t.Error(err)
			}
			if got, err := s.CloseAndRecv(); !test.check(err) || got.GetKey() != "" {
				t.Errorf("got %v, %v", got, err)
			}
		})
		t.Run(name+", chat", func(t *testing.T) {
			g := guardtest.Guard(t, rule.Rule{Operation: chat, Key: "lock:job", OnBusy: test.onBusy})
			guardtest.Hold(t, g, "lock:job")
			ctx, cancel := context.WithTimeout(t.Context(), guardtest.Timeout)
			defer cancel()
			s, err := dial(t, hides, g, grpclock.WithFirstMessage(chat)).Chat(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Send(&testpb.ChatRequest{}); err != nil {
				t.Error(err)
			}
			if got, err := s.Recv(); !test.check(wellEnded(err)) || got != nil {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
}
