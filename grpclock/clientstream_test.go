package grpclock_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/grpclock"
	"github.com/redlatch/redlatch/grpclock/internal/testpb"
)

// ofClient are rules for outgoing calls.
var ofClient = []rule.Rule{
	{Operation: place, Key: "lock:out:<user_id>"},
	{Operation: watch, Key: "lock:out:<user_id>"},
	{Operation: upload, Key: "lock:out:<md.user-id>"},
	{Operation: chat, Key: "lock:out:<md.user-id>"},
}

func callPlace(ctx context.Context, client testpb.OrderServiceClient) (string, metadata.MD, error) {
	answer, err := client.Place(ctx, &testpb.PlaceRequest{UserId: "u"})
	return answer.GetKey(), nil, err
}

// outgoing are calls of every kind.
var outgoing = map[string]func(context.Context, testpb.OrderServiceClient) (string, metadata.MD, error){
	"unary": callPlace, "server": callWatch, "client": callUpload, "bidi": callChat,
}

// locking returns a client with interceptors, of a server without any.
func locking(t testing.TB, o *orders, g *guard.Guard, opts ...grpclock.Option) testpb.OrderServiceClient {
	t.Helper()
	return testpb.NewOrderServiceClient(connect(t, o, nil, calling(t, g, opts...)...))
}

// calling are the options of a client with interceptors.
func calling(t testing.TB, g *guard.Guard, opts ...grpclock.Option) []grpc.DialOption {
	t.Helper()
	locks, err := grpclock.New(g, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(locks.UnaryClientInterceptor()),
		grpc.WithChainStreamInterceptor(locks.StreamClientInterceptor()),
	}
}

// during are handlers that call f and return its result.
func during(f func(context.Context) error) *orders {
	return &orders{
		place: func(ctx context.Context, _ *testpb.PlaceRequest) (*testpb.PlaceResponse, error) {
			return &testpb.PlaceResponse{}, f(ctx)
		},
		watch: func(_ *testpb.WatchRequest, s grpc.ServerStreamingServer[testpb.WatchResponse]) error {
			return f(s.Context())
		},
		upload: func(s grpc.ClientStreamingServer[testpb.UploadRequest, testpb.UploadResponse]) error {
			if err := f(s.Context()); err != nil {
				return err
			}
			return s.SendAndClose(&testpb.UploadResponse{})
		},
		chat: func(s grpc.BidiStreamingServer[testpb.ChatRequest, testpb.ChatResponse]) error {
			return f(s.Context())
		},
	}
}

func TestOutgoingCallHoldsItsLock(t *testing.T) {
	for name, call := range outgoing {
		for title, result := range map[string]error{"until it succeeds": nil, "until it fails": status.Error(codes.NotFound, "no voucher")} {
			t.Run(name+" "+title, func(t *testing.T) {
				g := guardtest.Guard(t, ofClient...)
				_, _, err := call(t.Context(), locking(t, during(func(context.Context) error {
					if !guardtest.IsHeld(t, g, "lock:out:u") {
						t.Error("not held while the call runs")
					}
					return result
				}), g))
				if status.Code(err) != status.Code(result) {
					t.Errorf("got %v", err)
				}
				if guardtest.IsHeld(t, g, "lock:out:u") {
					t.Error("still held")
				}
			})
		}
	}
}

func TestOutgoingCallWithoutARulePassesThrough(t *testing.T) {
	for name, call := range outgoing {
		t.Run(name, func(t *testing.T) {
			ran := false
			_, _, err := call(t.Context(), locking(t, during(func(context.Context) error { ran = true; return nil }), guardtest.Guard(t)))
			if err != nil || !ran {
				t.Errorf("got %v, ran: %v", err, ran)
			}
		})
	}
}

// A method without a rule may be the one that a misspelled rule is for.
func TestOutgoingCallIsNotMadeWhileTheGuardIsNotValid(t *testing.T) {
	for name, call := range outgoing {
		t.Run(name, func(t *testing.T) {
			g := guard.Must(guard.New(guardtest.Locker(t, memstore.New()), rule.Rule{Operation: "/redlatch.test.v1.OrderService/Plian", Key: "lock:x"}))
			_, _, err := call(t.Context(), locking(t, during(func(context.Context) error {
				t.Error("the handler ran")
				return nil
			}), g))
			if reasonOf(err) != "LOCK_RULE_INVALID" {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestContendedOutgoingCallIsNotMade(t *testing.T) {
	for name, call := range outgoing {
		t.Run(name, func(t *testing.T) {
			g := guardtest.Guard(t, ofClient...)
			guardtest.Hold(t, g, "lock:out:u")
			_, _, err := call(t.Context(), locking(t, during(func(context.Context) error {
				t.Error("the handler ran")
				return nil
			}), g))
			if !grpclock.IsContended(err) || status.Code(err) != codes.Aborted || guard.KindOf(err) != guard.Contended {
				t.Errorf("got %v", err)
			}
			if _, ok := grpclock.RetryDelay(err); !ok {
				t.Error("no delay")
			}
		})
	}
}

func TestSkippedOutgoingCallSucceedsWithoutBeingMade(t *testing.T) {
	for name, call := range outgoing {
		t.Run(name, func(t *testing.T) {
			rules := append([]rule.Rule(nil), ofClient...)
			for i := range rules {
				rules[i].OnBusy = rule.Skip
			}
			g := guardtest.Guard(t, rules...)
			guardtest.Hold(t, g, "lock:out:u")
			key, _, err := call(t.Context(), locking(t, during(func(context.Context) error {
				t.Error("the handler ran")
				return nil
			}), g))
			if err != nil || key != "" {
				t.Errorf("got %q, %v", key, err)
			}
		})
	}
}

func TestASkippedOutgoingStreamTakesNoMessages(t *testing.T) {
	for name, opts := range map[string][]grpclock.Option{
		"":                        nil,
		" with its first message": {grpclock.WithFirstMessage(upload, chat)},
	} {
		g := guardtest.Guard(t, rule.Rule{Operation: upload, Key: "lock:job", OnBusy: rule.Skip}, rule.Rule{Operation: chat, Key: "lock:job", OnBusy: rule.Skip})
		guardtest.Hold(t, g, "lock:job")
		client := locking(t, busy(t), g, opts...)
		t.Run("client"+name, func(t *testing.T) {
			stream, err := client.Upload(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := stream.Send(&testpb.UploadRequest{}); !errors.Is(err, io.EOF) {
				t.Errorf("sent: %v", err)
			}
			if answer, err := stream.CloseAndRecv(); err != nil || answer.GetKey() != "" {
				t.Errorf("got %v, %v", answer, err)
			}
			if err := stream.RecvMsg(new(testpb.UploadResponse)); !errors.Is(err, io.EOF) {
				t.Errorf("after the one answer: %v", err)
			}
		})
		t.Run("bidi"+name, func(t *testing.T) {
			stream, err := client.Chat(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := stream.Send(&testpb.ChatRequest{}); !errors.Is(err, io.EOF) {
					t.Errorf("sent: %v", err)
				}
			}
			if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
				t.Errorf("received: %v", err)
			}
		})
	}
}

func TestOutgoingCallThatLosesItsLockIsLost(t *testing.T) {
	for name, call := range outgoing {
		t.Run(name, func(t *testing.T) {
			store := memstore.New()
			g := guardtest.Served(guard.Must(guard.New(guardtest.Locker(t, store, lock.WithWatchdog(900*time.Millisecond)), ofClient...)))
			_, _, err := call(t.Context(), locking(t, during(func(ctx context.Context) error {
				force(t, store, "lock:out:u")
				<-ctx.Done() // the call is cancelled over the network
				return nil
			}), g))
			if !grpclock.IsLost(err) || status.Code(err) != codes.Internal {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestAbandonedStreamLeavesNoLock(t *testing.T) {
	for name, abandon := range map[string]func(context.CancelFunc, *grpc.ClientConn){
		"by cancelling":          func(cancel context.CancelFunc, _ *grpc.ClientConn) { cancel() },
		"by closing its channel": func(_ context.CancelFunc, cc *grpc.ClientConn) { _ = cc.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			g := guardtest.Guard(t, ofClient...)
			cc := connect(t, during(func(ctx context.Context) error {
				<-ctx.Done()
				return nil
			}), nil, calling(t, g)...)
			client := testpb.NewOrderServiceClient(cc)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ctx = metadata.AppendToOutgoingContext(ctx, "user-id", "c")
			if _, err := client.Watch(ctx, &testpb.WatchRequest{UserId: "s"}); err != nil {
				t.Fatal(err)
			}
			if _, err := client.Chat(ctx); err != nil {
				t.Fatal(err)
			}
			for _, key := range []string{"lock:out:s", "lock:out:c"} {
				if !guardtest.IsHeld(t, g, key) {
					t.Errorf("%s is not held", key)
				}
			}
			abandon(cancel, cc)
			awaitFree(t, g, "lock:out:s")
			awaitFree(t, g, "lock:out:c")
		})
	}
}

func TestStreamThatCannotBeOpenedLeavesNoLock(t *testing.T) {
	g := guardtest.Guard(t, ofClient...)
	failed := errors.New("no stream")
	locks, err := grpclock.New(g)
	if err != nil {
		t.Fatal(err)
	}
	locks.UnaryClientInterceptor() // for the other rules
	_, err = locks.StreamClientInterceptor()(
		metadata.AppendToOutgoingContext(t.Context(), "user-id", "u"),
		&grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, nil, chat,
		func(context.Context, *grpc.StreamDesc, *grpc.ClientConn, string, ...grpc.CallOption) (grpc.ClientStream, error) {
			return nil, failed
		})
	if !errors.Is(err, failed) || guardtest.IsHeld(t, g, "lock:out:u") {
		t.Errorf("got %v, held: %v", err, guardtest.IsHeld(t, g, "lock:out:u"))
	}
}

// retrying opens a stream once more when it is unavailable, as the interceptor of
// go-grpc-middleware does.
type retrying struct {
	grpc.ClientStream
	again func() (grpc.ClientStream, error)
	sent  any
}

func (r *retrying) SendMsg(m any) error {
	r.sent = m
	return r.ClientStream.SendMsg(m)
}

func (r *retrying) RecvMsg(m any) error {
	err := r.ClientStream.RecvMsg(m)
	if status.Code(err) != codes.Unavailable {
		return err
	}
	if r.ClientStream, err = r.again(); err != nil {
		return err
	}
	if err := r.SendMsg(r.sent); err != nil {
		return err
	}
	_ = r.CloseSend()
	return r.ClientStream.RecvMsg(m)
}

func TestAnInterceptorThatRetriesStreamsStandsInFront(t *testing.T) {
	g := guardtest.Guard(t, ofClient...)
	runs := 0
	o := &orders{watch: func(_ *testpb.WatchRequest, s grpc.ServerStreamingServer[testpb.WatchResponse]) error {
		if !guardtest.IsHeld(t, g, "lock:out:u") {
			t.Error("not held while an attempt runs")
		}
		if runs++; runs == 1 {
			return status.Error(codes.Unavailable, "once more")
		}
		return s.Send(&testpb.WatchResponse{Key: "second"})
	}}
	retry := func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		again := func() (grpc.ClientStream, error) { return streamer(ctx, desc, cc, method, opts...) }
		s, err := again()
		return &retrying{ClientStream: s, again: again}, err
	}
	client := testpb.NewOrderServiceClient(connect(t, o, nil, append([]grpc.DialOption{grpc.WithChainStreamInterceptor(retry)}, calling(t, g)...)...))
	if key, _, err := callWatch(t.Context(), client); key != "second" || err != nil {
		t.Errorf("got %q, %v", key, err)
	}
	guardtest.AssertFree(t, g, "lock:out:u")
}

// A panic of an interceptor or a source that somebody recovers leaves nothing behind.
func TestAPanicWhileAStreamIsOpened(t *testing.T) {
	recovered := func(f func()) (what any) {
		defer func() { what = recover() }()
		f()
		return nil
	}
	desc := &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}
	panics := func(context.Context, *grpc.StreamDesc, *grpc.ClientConn, string, ...grpc.CallOption) (grpc.ClientStream, error) {
		panic("boom")
	}
	t.Run("of an interceptor", func(t *testing.T) {
		g := guardtest.Guard(t, rule.Rule{Operation: chat, Key: "lock:out:<md.user-id>"})
		locks, err := grpclock.New(g)
		if err != nil {
			t.Fatal(err)
		}
		ctx := metadata.AppendToOutgoingContext(t.Context(), "user-id", "u")
		if what := recovered(func() { _, _ = locks.StreamClientInterceptor()(ctx, desc, nil, chat, panics) }); what != "boom" {
			t.Errorf("recovered %v", what)
		}
		guardtest.AssertFree(t, g, "lock:out:u")
	})
	t.Run("of a source", func(t *testing.T) {
		g := guardtest.Guard(t, rule.Rule{Operation: chat, Key: "lock:out:<user>"})
		locks, err := grpclock.New(g, grpclock.WithFirstMessage(chat),
			grpclock.WithVar("user", func(context.Context, any) (string, error) { panic("boom") }))
		if err != nil {
			t.Fatal(err)
		}
		stream, err := locks.StreamClientInterceptor()(t.Context(), desc, nil, chat, panics)
		if err != nil {
			t.Fatal(err)
		}
		if what := recovered(func() { _ = stream.SendMsg(new(testpb.ChatRequest)) }); what != "boom" {
			t.Errorf("recovered %v", what)
		}
		received := make(chan error, 1)
		go func() { received <- stream.RecvMsg(new(testpb.ChatResponse)) }()
		for _, err := range []error{stream.SendMsg(new(testpb.ChatRequest)), stream.CloseSend(), guardtest.Receive(t, received, "the end of RecvMsg")} {
			if status.Code(err) != codes.Internal {
				t.Errorf("got %v", err)
			}
		}
	})
}

func TestOutgoingKeyOfTheFirstMessage(t *testing.T) {
	g := guardtest.Guard(t, rule.Rule{Operation: chat, Key: "lock:out:<user_id>"}, rule.Rule{Operation: upload, Key: "lock:out:<user_id>"})
	client := locking(t, &orders{}, g, grpclock.WithFirstMessage(chat, upload))

	// One goroutine may receive before another one has sent.
	stream, err := client.Chat(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if stream.Context() != t.Context() || stream.Trailer() != nil || guardtest.IsHeld(t, g, "lock:out:u") {
		t.Error("something is there before the first message")
	}
	received := make(chan error, 1)
	go func() {
		_, err := stream.Recv()
		received <- err
	}()
	if err := stream.Send(&testpb.ChatRequest{UserId: "u"}); err != nil {
		t.Fatal(err)
	}
	if err := guardtest.Receive(t, received, "the message"); err != nil {
		t.Error(err)
	}
	if _, err := stream.Header(); err != nil || !guardtest.IsHeld(t, g, "lock:out:u") {
		t.Errorf("header: %v, held: %v", err, guardtest.IsHeld(t, g, "lock:out:u"))
	}
	_ = stream.CloseSend()
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	if guardtest.IsHeld(t, g, "lock:out:u") {
		t.Error("still held")
	}

	empty, err := client.Upload(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := empty.CloseAndRecv(); reasonOf(err) != "LOCK_KEY_INVALID" {
		t.Errorf("without a message: %v", err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	abandoned, err := client.Chat(ctx)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := abandoned.Recv(); status.Code(err) != codes.Canceled {
		t.Errorf("cancelled before the first message: %v", err)
	}
	if _, err := abandoned.Header(); status.Code(err) != codes.Canceled {
		t.Errorf("the header of a stream that was never opened: %v", err)
	}
}

func TestAReplacedRuleCountsForAnOutgoingStreamWhoseFirstMessageComesLater(t *testing.T) {
	for name, test := range map[string]struct {
		after []rule.Rule
		held  string
	}{
		"another": {[]rule.Rule{{Operation: chat, Key: "lock:new:<user_id>"}}, "lock:new:u"},
		"none":    {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := guardtest.Guard(t, rule.Rule{Operation: chat, Key: "lock:old:<user_id>"})
			stream, err := locking(t, &orders{}, g, grpclock.WithFirstMessage(chat)).Chat(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := g.Replace(test.after, chat); err != nil {
				t.Fatal(err)
			}
			if err := stream.Send(&testpb.ChatRequest{UserId: "u"}); err != nil {
				t.Fatal(err)
			}
			if _, err := stream.Recv(); err != nil {
				t.Fatal(err)
			}
			for _, key := range []string{"lock:old:u", "lock:new:u"} {
				if held := guardtest.IsHeld(t, g, key); held != (key == test.held) {
					t.Errorf("%s is held: %v", key, held)
				}
			}
			_ = stream.CloseSend()
			if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
				t.Error(err)
			}
		})
	}
}

func TestOptionOfTheProtoIsForTheServerAlone(t *testing.T) {
	g := guardtest.Guard(t)
	client := testpb.NewOrderServiceClient(connect(t, &orders{}, guarded(t, g), calling(t, g)...))
	answer, err := client.Place(t.Context(), &testpb.PlaceRequest{UserId: "u"})
	if err != nil || answer.GetKey() != "lock:order:u" {
		t.Errorf("got %q, %v", answer.GetKey(), err)
	}
}
