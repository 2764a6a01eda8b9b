package grpclock_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"reflect"
	"strings"
	"testing"

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

// decorate returns a decorator of o and its locks.
func decorate(t testing.TB, o *orders, g *guard.Guard, opts ...grpclock.Option) (testpb.OrderServiceServer, *grpclock.Locks) {
	t.Helper()
	locks, err := grpclock.New(g, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return testpb.NewOrderServiceServerLock(o, locks), locks
}

// Whatever calls the implementation in the process has no interceptor.
func TestADecoratorTakesTheLockOfTheOptionAndOfARule(t *testing.T) {
	g := guardtest.Guard(t, rule.Rule{Operation: plain, Key: "lock:plain:<user_id>"})
	decorated, _ := decorate(t, &orders{}, g)
	if err := g.Validate(); err != nil {
		t.Fatal(err)
	}
	if got, err := decorated.Place(t.Context(), &testpb.PlaceRequest{UserId: "7"}); got.GetKey() != "lock:order:7" || err != nil {
		t.Errorf("the option: %v, %v", got, err)
	}
	if got, err := decorated.Plain(t.Context(), &testpb.PlainRequest{UserId: "7"}); got.GetKey() != "lock:plain:7" || err != nil {
		t.Errorf("the guard's rule: %v, %v", got, err)
	}
	guardtest.Hold(t, g, "lock:order:7")
	got, err := decorated.Place(t.Context(), &testpb.PlaceRequest{UserId: "7"})
	if got != nil || status.Code(err) != codes.Aborted || reasonOf(err) != "LOCK_CONTENDED" || !grpclock.IsContended(err) {
		t.Errorf("while another owner holds it: %v, %v", got, err)
	}
	if delay, ok := grpclock.RetryDelay(err); !ok || delay <= 0 {
		t.Errorf("no RetryInfo in %v", err)
	}
	if _, err := decorated.Place(t.Context(), &testpb.PlaceRequest{}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("without a key: %v", err)
	}
}

func TestADecoratorReleasesWhenTheMethodPanics(t *testing.T) {
	g := guardtest.Guard(t)
	decorated, _ := decorate(t, &orders{place: func(context.Context, *testpb.PlaceRequest) (*testpb.PlaceResponse, error) { panic("handler") }}, g)
	func() {
		defer func() { _ = recover() }()
		_, _ = decorated.Place(t.Context(), &testpb.PlaceRequest{UserId: "7"})
	}()
	guardtest.AssertFree(t, g, "lock:order:7")
}

func TestADecoratorAnswersALossAndASkip(t *testing.T) {
	g := guardtest.Guard(t).WithLogger(slog.New(slog.DiscardHandler))
	decorated, _ := decorate(t, &orders{place: func(ctx context.Context, _ *testpb.PlaceRequest) (*testpb.PlaceResponse, error) {
		guardtest.Lose(t, g, "lock:order:7")
		<-ctx.Done()
		return &testpb.PlaceResponse{Key: "late"}, nil
	}}, g, grpclock.WithRule(plain, rule.Rule{Key: "lock:job", OnBusy: rule.Skip}))
	if got, err := decorated.Place(t.Context(), &testpb.PlaceRequest{UserId: "7"}); got != nil || !grpclock.IsLost(err) {
		t.Errorf("a lost lease: %v, %v", got, err)
	}
	guardtest.Hold(t, g, "lock:job")
	if got, err := decorated.Plain(t.Context(), &testpb.PlainRequest{}); got == nil || got.GetKey() != "" || err != nil {
		t.Errorf("a call that is skipped: %v, %v", got, err)
	}
}

// A semaphore of one permit would wait for itself if both took it.
func TestBehindAnInterceptorTheDecoratorLocks(t *testing.T) {
	permit := rule.Rule{Mode: lock.Semaphore, Size: 1, Permits: 1}
	var opts []grpclock.Option
	for method, key := range map[string]string{place: "lock:p:<user_id>", watch: "lock:w:<user_id>", upload: "lock:u:<user_id>", chat: "lock:c:<md.user-id>"} {
		r := permit
		r.Key = key
		opts = append(opts, grpclock.WithRule(method, r))
	}
	g := guardtest.Guard(t)
	decorated, locks := decorate(t, &orders{}, g, append(opts, grpclock.WithFirstMessage(upload))...)
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(locks.UnaryServerInterceptor()), grpc.ChainStreamInterceptor(locks.StreamServerInterceptor()))
	testpb.RegisterOrderServiceServer(server, decorated)
	locks.Attach(server)
	if err := g.Validate(); err != nil {
		t.Fatal(err)
	}
	keys := keysOf(t, testpb.NewOrderServiceClient(serve(t, server)), "7")
	if want := "lock:p:7 lock:w:7 lock:u:7 lock:c:7"; keys != want {
		t.Errorf("the methods ran under %q, want %q", keys, want)
	}
}

// keysOf calls a method of each kind, and returns the keys that they ran under.
func keysOf(t testing.TB, client testpb.OrderServiceClient, user string) string {
	t.Helper()
	ctx := metadata.AppendToOutgoingContext(t.Context(), "user-id", user)
	placed, err := client.Place(ctx, &testpb.PlaceRequest{UserId: user})
	if err != nil {
		t.Error(err)
	}
	watching, err := client.Watch(ctx, &testpb.WatchRequest{UserId: user})
	if err != nil {
		t.Fatal(err)
	}
	watched, err := watching.Recv()
	if err != nil {
		t.Error(err)
	}
	if _, err := watching.Recv(); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	uploading, err := client.Upload(ctx)
	if err == nil {
		err = uploading.Send(&testpb.UploadRequest{UserId: user})
	}
	if err != nil {
		t.Fatal(err)
	}
	uploaded, err := uploading.CloseAndRecv()
	if err != nil {
		t.Error(err)
	}
	chatting, err := client.Chat(ctx)
	if err == nil {
		err = chatting.Send(&testpb.ChatRequest{UserId: user})
	}
	if err != nil {
		t.Fatal(err)
	}
	chatted, err := chatting.Recv()
	if err == nil {
		err = chatting.CloseSend()
	}
	if err != nil {
		t.Error(err)
	}
	if _, err := chatting.Recv(); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	return strings.Join([]string{placed.GetKey(), watched.GetKey(), uploaded.GetKey(), chatted.GetKey()}, " ")
}

// The methods of a server without interceptors are locked by its decorator alone.
func TestADecoratorNeedsNoInterceptor(t *testing.T) {
	g := guardtest.Guard(t)
	decorated, _ := decorate(t, &orders{}, g)
	server := grpc.NewServer()
	testpb.RegisterOrderServiceServer(server, decorated)
	if err := g.Validate(); err != nil {
		t.Fatal(err)
	}
	client := testpb.NewOrderServiceClient(serve(t, server))
	if keys, want := keysOf(t, client, "7"), "lock:order:7 lock:watch:7 lock:upload:7 lock:chat:7"; keys != want {
		t.Errorf("the methods ran under %q, want %q", keys, want)
	}
	guardtest.Hold(t, g, "lock:watch:7")
	stream, err := client.Watch(t.Context(), &testpb.WatchRequest{UserId: "7"})
	if err == nil {
		_, err = stream.Recv()
	}
	if !grpclock.IsContended(err) {
		t.Errorf("a stream while another owner holds its key: %v", err)
	}
}

func TestADecoratorsStreamThatIsSkippedEndsWell(t *testing.T) {
	g := guardtest.Guard(t)
	job := rule.Rule{Key: "lock:job", OnBusy: rule.Skip}
	decorated, _ := decorate(t, &orders{
		upload: func(grpc.ClientStreamingServer[testpb.UploadRequest, testpb.UploadResponse]) error {
			t.Error("the handler ran")
			return nil
		},
	}, g, grpclock.WithRule(upload, job), grpclock.WithRule(chat, job))
	server := grpc.NewServer()
	testpb.RegisterOrderServiceServer(server, decorated)
	client := testpb.NewOrderServiceClient(serve(t, server))
	guardtest.Hold(t, g, "lock:job")
	uploading, err := client.Upload(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got, err := uploading.CloseAndRecv(); got.GetKey() != "" || err != nil || uploading.Trailer().Get(grpclock.CodeTrailer)[0] != "LOCK_SKIPPED" {
		t.Errorf("one answer: %v, %v, %v", got, err, uploading.Trailer())
	}
	chatting, err := client.Chat(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := chatting.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("many answers: %v", err)
	}
}

func TestADecoratorsStreamThatLostItsLockSendsAndReceivesNothing(t *testing.T) {
	g := guardtest.Guard(t).WithLogger(slog.New(slog.DiscardHandler))
	decorated, _ := decorate(t, &orders{
		chat: func(s grpc.BidiStreamingServer[testpb.ChatRequest, testpb.ChatResponse]) error {
			guardtest.Lose(t, g, "lock:chat:7")
			<-s.Context().Done()
			if err := s.Send(&testpb.ChatResponse{}); !grpclock.IsLost(err) {
				t.Errorf("Send: %v", err)
			}
			if _, err := s.Recv(); !grpclock.IsLost(err) {
				t.Errorf("Recv: %v", err)
			}
			return nil
		},
	}, g)
	server := grpc.NewServer()
	testpb.RegisterOrderServiceServer(server, decorated)
	client := testpb.NewOrderServiceClient(serve(t, server))
	stream, err := client.Chat(metadata.AppendToOutgoingContext(t.Context(), "user-id", "7"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); !grpclock.IsLost(err) {
		t.Errorf("the client got %v", err)
	}
}

// What is wrong with a decorator ends the start.
func TestADecoratorThatCannotWorkIsAFault(t *testing.T) {
	for name, test := range map[string]struct {
		wrong func(t *testing.T, g *guard.Guard)
		want  string
	}{
		"around nothing": {func(t *testing.T, g *guard.Guard) {
			t.Helper()
			locks, _ := grpclock.New(g)
			testpb.NewOrderServiceServerLock(nil, locks)
		}, "its decorator has no implementation"},
		"around a decorator": {func(t *testing.T, g *guard.Guard) {
			t.Helper()
			decorated, locks := decorate(t, &orders{}, g)
			testpb.NewOrderServiceServerLock(decorated, locks)
		}, "its decorator is around another decorator"},
		"with other locks than the interceptors": {func(t *testing.T, g *guard.Guard) {
			t.Helper()
			decorated, _ := decorate(t, &orders{}, g)
			others, _ := grpclock.New(g)
			server := grpc.NewServer(grpc.ChainUnaryInterceptor(others.UnaryServerInterceptor()), grpc.ChainStreamInterceptor(others.StreamServerInterceptor()))
			testpb.RegisterOrderServiceServer(server, decorated)
			others.Attach(server)
		}, "make both with one grpclock.New"},
		"around another one, and one more that is right": {func(t *testing.T, g *guard.Guard) {
			t.Helper()
			decorated, locks := decorate(t, &orders{}, g)
			testpb.NewOrderServiceServerLock(decorated, locks)
			testpb.NewOrderServiceServerLock(&orders{}, locks)
		}, "is around another decorator"},
		"an option that names no field": {func(t *testing.T, g *guard.Guard) {
			t.Helper()
			locks, _ := grpclock.New(g)
			grpclock.Decorate(locks, &testpb.FaultyService_ServiceDesc, &orders{})
		}, `has no field "usr_id", did you mean "user_id"?`},
		"a rule for a method that it doesn't have": {func(t *testing.T, g *guard.Guard) {
			t.Helper()
			decorate(t, &orders{}, g, grpclock.WithRule("/redlatch.test.v1.OrderService/Plian", rule.Rule{Key: "lock:x"}))
		}, `there is no such method, did you mean "/redlatch.test.v1.OrderService/Plain"?`},
	} {
		t.Run(name, func(t *testing.T) {
			g := guard.Must(guard.New(guardtest.Locker(t, memstore.New()))).WithLogger(slog.New(slog.DiscardHandler))
			test.wrong(t, g)
			if err := g.Validate(); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// A decorator that is older than the service would pass a new method on without its lock,
// and interceptors pass it, too. If nothing is embedded that has it, it doesn't compile.
func TestADecoratorPassesNoMethodOnThatItDoesNotKnow(t *testing.T) {
	decorated, _ := decorate(t, &orders{}, guardtest.Guard(t))
	service, fields := reflect.TypeFor[testpb.OrderServiceServer](), reflect.TypeOf(decorated).Elem()
	for i := range fields.NumField() {
		for _, m := range testpb.OrderService_ServiceDesc.Methods {
			if field := fields.Field(i); field.Anonymous && hasMethod(field.Type, m.MethodName) {
				t.Errorf("%v of the decorator of %v has %s", field.Type, service, m.MethodName)
			}
		}
	}
}

func hasMethod(of reflect.Type, name string) bool {
	_, has := of.MethodByName(name)
	return has
}

func TestInterceptorsRefuseADecoratorWithOtherLocks(t *testing.T) {
	g := guardtest.Guard(t).WithLogger(slog.New(slog.DiscardHandler))
	decorated, _ := decorate(t, &orders{place: func(context.Context, *testpb.PlaceRequest) (*testpb.PlaceResponse, error) {
		t.Error("the handler ran")
		return nil, errors.New("ran")
	}}, g)
	unary, _ := locksOf(t, g, registered())
	_, err := unary(t.Context(), &testpb.PlaceRequest{UserId: "7"}, &grpc.UnaryServerInfo{FullMethod: place, Server: decorated},
		func(ctx context.Context, req any) (any, error) {
			return decorated.Place(ctx, req.(*testpb.PlaceRequest))
		})
	if reasonOf(err) != "LOCK_RULE_INVALID" {
		t.Errorf("got %v", err)
	}
}

func TestADecoratorTakesCrossingTransfersOneByOne(t *testing.T) {
	var accounts guardtest.Accounts
	decorated, _ := decorate(t, &orders{transfer: func(_ context.Context, req *testpb.TransferRequest) (*testpb.TransferResponse, error) {
		accounts.Transfer(req.GetFrom(), req.GetTo())
		return &testpb.TransferResponse{}, nil
	}}, guardtest.Guard(t))
	accounts.Crossing(t, 10_000, func(from, to string) error {
		_, err := decorated.Transfer(t.Context(), &testpb.TransferRequest{From: from, To: to})
		return err
	})
}
