package grpclock_test

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/grpclock"
	"github.com/redlatch/redlatch/grpclock/internal/testpb"
)

func TestHandlerRunsUnderTheLockAndReleasesIt(t *testing.T) {
	g := guardtest.Guard(t)
	var inside context.Context
	o := &orders{place: func(ctx context.Context, _ *testpb.PlaceRequest) (*testpb.PlaceResponse, error) {
		inside = ctx
		return &testpb.PlaceResponse{}, lock.AssertHeld(ctx, "lock:order:42")
	}}
	if _, err := dial(t, o, g).Place(t.Context(), &testpb.PlaceRequest{UserId: "42"}); err != nil {
		t.Fatal(err)
	}
	if guardtest.IsHeld(t, g, "lock:order:42") {
		t.Error("still held")
	}
	if cause := context.Cause(inside); !errors.Is(cause, lock.ErrReleased) {
		t.Errorf("the handler's context ended with %v", cause)
	}
}

func TestRuleOfAMethodIsTheFirstThatThereIs(t *testing.T) {
	ofGuard := rule.Rule{Operation: place, Key: "lock:guard:<userId>"}
	ofOption := grpclock.WithRule(place, rule.Rule{Key: "lock:rule:<req.voucher_id>"})
	for name, test := range map[string]struct {
		rules []rule.Rule
		opts  []grpclock.Option
		want  string
	}{
		"the .proto":                   {nil, nil, "lock:order:u"},
		"the guard over the .proto":    {[]rule.Rule{ofGuard}, nil, "lock:guard:u"},
		"WithRule over the guard":      {[]rule.Rule{ofGuard}, []grpclock.Option{ofOption}, "lock:rule:v"},
		"rules of others do not count": {[]rule.Rule{{Operation: "POST " + place, Key: "lock:<path.x>"}}, nil, "lock:order:u"},
	} {
		t.Run(name, func(t *testing.T) {
			g := guardtest.Guard(t, test.rules...)
			g.Serve("another integration", "POST "+place)
			answer, err := dial(t, &orders{}, g, test.opts...).
				Place(t.Context(), &testpb.PlaceRequest{UserId: "u", VoucherId: "v"})
			if err != nil || answer.GetKey() != test.want {
				t.Errorf("got %q, %v; want %q", answer.GetKey(), err, test.want)
			}
		})
	}
}

func TestReplacedRuleCountsFromTheNextCallOn(t *testing.T) {
	g := guardtest.Guard(t, rule.Rule{Operation: plain, Key: "lock:a:<user_id>"})
	client := dial(t, &orders{}, g)
	keyOfPlain := func() string {
		answer, err := client.Plain(t.Context(), &testpb.PlainRequest{UserId: "7"})
		if err != nil {
			return reasonOf(err)
		}
		return answer.GetKey()
	}
	for name, step := range map[string]struct {
		rules    []rule.Rule
		unlocked []string
		want     string // "": the rules are refused
	}{
		"another key":      {[]rule.Rule{{Operation: plain, Key: "lock:b:<req.userId|int>"}}, nil, "lock:b:7"},
		"the method":       {[]rule.Rule{{Operation: plain, Key: "lock:c:<method>"}}, nil, "lock:c:Plain"},
		"no lock, meant":   {nil, []string{plain}, "none"},
		"no lock, unmeant": {nil, nil, ""},
		"no such field":    {[]rule.Rule{{Operation: plain, Key: "lock:b:<typo>"}}, nil, ""},
		"no such method":   {[]rule.Rule{{Operation: plain, Key: "lock:b"}, {Operation: plain + "x", Key: "lock:x"}}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			before := []rule.Rule{{Operation: plain, Key: "lock:a:<user_id>"}}
			if err := g.Replace(before); err != nil {
				t.Fatal(err)
			}
			if got := keyOfPlain(); got != "lock:a:7" {
				t.Errorf("before: %q", got)
			}
			err := g.Replace(step.rules, step.unlocked...)
			if got := keyOfPlain(); got != cmp.Or(strings.TrimSuffix(step.want, "none"), map[bool]string{true: "lock:a:7"}[step.want == ""]) || (err == nil) != (step.want != "") {
				t.Errorf("got %q, %v, want %q", got, err, step.want)
			}
		})
	}
}

func TestMethodWithoutARulePassesThrough(t *testing.T) {
	answer, err := dial(t, &orders{}, guardtest.Guard(t)).Plain(t.Context(), &testpb.PlainRequest{})
	if err != nil || answer.GetKey() != "" {
		t.Errorf("got %q, %v", answer.GetKey(), err)
	}
}

func TestWhereTheValuesOfAKeyComeFrom(t *testing.T) {
	type private struct{}
	const invalid, refused = "LOCK_RULE_INVALID", "LOCK_KEY_INVALID"
	withCtx := func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		ctx = context.WithValue(ctx, "tenant", "acme") //nolint:revive,staticcheck // <ctx.tenant> is such a key
		ctx = context.WithValue(ctx, "list", []int{1}) //nolint:revive,staticcheck // as above
		return handler(context.WithValue(ctx, private{}, "bound"), req)
	}
	bound := grpclock.WithVar("user_id", func(ctx context.Context, req any) (string, error) {
		return ctx.Value(private{}).(string) + req.(*testpb.PlaceRequest).GetVoucherId(), nil
	})
	failing := grpclock.WithVar("user_id", func(context.Context, any) (string, error) {
		return "", guardtest.ErrDown
	})
	for name, test := range map[string]struct {
		template string
		opts     []grpclock.Option
		headers  []string
		want     string
	}{
		"field":                    {template: "lock:<user_id>", want: "lock:u"},
		"field by its JSON name":   {template: "lock:<userId>", want: "lock:u"},
		"field, explicit":          {template: "lock:<req.voucher_id>:<req.userId>", want: "lock:v:u"},
		"the same, filtered":       {template: "lock:<user_id|int>", want: refused},
		"no such field":            {template: "lock:<nobody>", want: invalid},
		"no such field, explicit":  {template: "lock:<req.user_id.x>", want: invalid},
		"variable":                 {template: "lock:<user_id>", opts: []grpclock.Option{bound}, want: "lock:boundv"},
		"variable over no field":   {template: "lock:<req.user_id>", opts: []grpclock.Option{bound}, want: "lock:u"},
		"variable that fails":      {template: "lock:<user_id>", opts: []grpclock.Option{failing}, want: refused},
		"metadata":                 {template: "lock:<md.x-user>", headers: []string{"x-user", "a b"}, want: "lock:a%20b"},
		"metadata in other case":   {template: "lock:<md.X-User>", headers: []string{"x-user", "7"}, want: "lock:7"},
		"metadata, missing":        {template: "lock:<md.x-user>", want: refused},
		"metadata, repeated":       {template: "lock:<md.x-user>", headers: []string{"x-user", "1", "x-user", "1"}, want: refused},
		"metadata is no bare name": {template: "lock:<token>", headers: []string{"token", "7"}, want: invalid},
		"context":                  {template: "lock:<ctx.tenant>", want: "lock:acme"},
		"context, missing":         {template: "lock:<ctx.nobody>", want: invalid},
		"context, a list":          {template: "lock:<ctx.list>", want: invalid},
		"method and service":       {template: "lock:<service>:<method>", want: "lock:redlatch.test.v1.OrderService:Place"},
	} {
		t.Run(name, func(t *testing.T) {
			opts := append(test.opts, grpclock.WithRule(place, rule.Rule{Key: test.template}))
			server := append([]grpc.ServerOption{grpc.ChainUnaryInterceptor(withCtx)}, guarded(t, guardtest.Guard(t), opts...)...)
			client := testpb.NewOrderServiceClient(connect(t, &orders{}, server))
			ctx := metadata.AppendToOutgoingContext(t.Context(), test.headers...)
			answer, err := client.Place(ctx, &testpb.PlaceRequest{UserId: "u", VoucherId: "v"})
			got := answer.GetKey()
			if err != nil {
				got = reasonOf(err)
			}
			if got != test.want {
				t.Errorf("got %q, %v; want %q", got, err, test.want)
			}
		})
	}
}

// Proxies have messages of generated code and others for one method.
func TestRequestsOfOneMethodMayHaveSeveralTypes(t *testing.T) {
	other, err := filesWith(t, "", nil, protoregistry.GlobalTypes).FindDescriptorByName("redlatch.test.v1.PlaceRequest")
	if err != nil {
		t.Fatal(err)
	}
	dynamic := dynamicpb.NewMessage(other.(protoreflect.MessageDescriptor))
	dynamic.Set(dynamic.Descriptor().Fields().ByName("user_id"), protoreflect.ValueOfString("2"))
	intercept, _ := locksOf(t, guardtest.Guard(t), registered(ordersService))
	for _, step := range []struct {
		req  any
		want string
	}{
		{&testpb.PlaceRequest{UserId: "1"}, "lock:order:1"},
		{dynamic, "lock:order:2"},
		{&testpb.PlaceRequest{UserId: "3"}, "lock:order:3"},
		{[]byte("no message"), ""},
	} {
		got, err := intercept(t.Context(), step.req, &grpc.UnaryServerInfo{FullMethod: place},
			func(ctx context.Context, _ any) (any, error) { return keyOf(ctx), nil })
		if step.want == "" && reasonOf(err) != "LOCK_RULE_INVALID" || step.want != "" && got != step.want {
			t.Errorf("%T: got %v, %v; want %q", step.req, got, err, step.want)
		}
	}
}

func TestContendedCallDoesNotRunTheHandler(t *testing.T) {
	g := guardtest.Guard(t)
	client := dial(t, &orders{place: func(context.Context, *testpb.PlaceRequest) (*testpb.PlaceResponse, error) {
		t.Error("the handler ran")
		return nil, nil
	}}, g)
	lease := guardtest.Hold(t, g, "lock:order:1")
	if _, err := client.Place(t.Context(), &testpb.PlaceRequest{UserId: "1"}); status.Code(err) != codes.Aborted {
		t.Errorf("got %v", err)
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Errorf("the holder: %v", err)
	}
}

// waitingGuard returns a channel that reports a call that waits for its lock.
func waitingGuard(t testing.TB, rules ...rule.Rule) (*guard.Guard, <-chan struct{}) {
	t.Helper()
	waiting := make(chan struct{}, 100)
	hooks := lock.Hooks{Waiting: func(context.Context, lock.Event) func() {
		waiting <- struct{}{}
		return nil
	}}
	g, err := guard.New(guardtest.Locker(t, memstore.New(), lock.WithHooks(hooks)), rules...)
	if err != nil {
		t.Fatal(err)
	}
	return g, waiting
}

func TestWaitingCallGetsTheLockWhenItIsFree(t *testing.T) {
	g, waiting := waitingGuard(t, rule.Rule{Operation: place, Key: "lock:<user_id>", Wait: guardtest.Timeout})
	client := dial(t, &orders{}, g)
	lease := guardtest.Hold(t, g, "lock:1")
	answer := make(chan error, 1)
	go func() {
		_, err := client.Place(t.Context(), &testpb.PlaceRequest{UserId: "1"})
		answer <- err
	}()
	guardtest.Receive(t, waiting, "the wait")
	_ = lease.Release(t.Context())
	if err := guardtest.Receive(t, answer, "the answer"); err != nil {
		t.Error(err)
	}
}

func TestCallThatEndsWhileItWaitsLeavesNothing(t *testing.T) {
	for name, test := range map[string]struct {
		end  func(ctx context.Context) (context.Context, context.CancelFunc)
		want codes.Code
	}{
		"deadline": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 2*time.Second) // which a busy machine reaches while it waits
		}, codes.DeadlineExceeded},
		"cancel": {context.WithCancel, codes.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			g, waiting := waitingGuard(t, rule.Rule{Operation: place, Key: "lock:<user_id>", Wait: guardtest.Timeout})
			// What the server answered, which no client waits for. The end is
			// put in there as well: a client whose deadline has passed cancels.
			answered := make(chan error, 1)
			ends := make(chan context.CancelFunc, 1)
			spy := func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
				ctx, cancel := test.end(ctx)
				defer cancel()
				ends <- cancel
				resp, err := handler(ctx, req)
				answered <- err
				return resp, err
			}
			server := append([]grpc.ServerOption{grpc.ChainUnaryInterceptor(spy)}, guarded(t, g)...)
			client := testpb.NewOrderServiceClient(connect(t, &orders{}, server))
			lease := guardtest.Hold(t, g, "lock:1")
			done := make(chan struct{})
			go func() {
				defer close(done)
				_, _ = client.Place(t.Context(), &testpb.PlaceRequest{UserId: "1"})
			}()
			guardtest.Receive(t, waiting, "the wait")
			if cancel := guardtest.Receive(t, ends, "the call"); test.want == codes.Canceled {
				cancel()
			}
			err := guardtest.Receive(t, answered, "the server's answer")
			if status.Code(err) != test.want || reasonOf(err) != "LOCK_CANCELED" {
				t.Errorf("got %v, want %v", err, test.want)
			}
			guardtest.Receive(t, done, "the client's return")
			_ = lease.Release(t.Context())
			if guardtest.IsHeld(t, g, "lock:1") {
				t.Error("still held")
			}
		})
	}
}

func TestPanicReleasesTheLockAndPassesThrough(t *testing.T) {
	g := guardtest.Guard(t)
	recovered := make(chan any, 1)
	recovery := func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
		defer func() {
			recovered <- recover()
			err = status.Error(codes.Unknown, "recovered")
		}()
		return handler(ctx, req)
	}
	server := append([]grpc.ServerOption{grpc.ChainUnaryInterceptor(recovery)}, guarded(t, g)...)
	client := testpb.NewOrderServiceClient(connect(t, &orders{
		place: func(context.Context, *testpb.PlaceRequest) (*testpb.PlaceResponse, error) { panic("boom") },
	}, server))
	if _, err := client.Place(t.Context(), &testpb.PlaceRequest{UserId: "1"}); status.Code(err) != codes.Unknown {
		t.Errorf("got %v", err)
	}
	if value := guardtest.Receive(t, recovered, "the recovery"); value != "boom" {
		t.Errorf("recovered %v", value)
	}
	if guardtest.IsHeld(t, g, "lock:order:1") {
		t.Error("still held")
	}
}

func TestLossOverrulesWhatTheHandlerReturns(t *testing.T) {
	for name, result := range map[string]func(context.Context) error{
		"success":                  func(context.Context) error { return nil },
		"the error of its context": func(ctx context.Context) error { return ctx.Err() },
		"its cause":                context.Cause,
		"a handler's error":        func(context.Context) error { return status.Error(codes.NotFound, "no voucher") },
	} {
		t.Run(name, func(t *testing.T) {
			store := memstore.New()
			g := guard.Must(guard.New(guardtest.Locker(t, store, lock.WithWatchdog(900*time.Millisecond))))
			client := dial(t, &orders{place: func(ctx context.Context, _ *testpb.PlaceRequest) (*testpb.PlaceResponse, error) {
				force(t, store, "lock:order:1")
				<-ctx.Done()
				if cause := context.Cause(ctx); !errors.Is(cause, lock.ErrLost) {
					t.Errorf("the cause is %v", cause)
				}
				return &testpb.PlaceResponse{Key: "secret"}, result(ctx)
			}}, g)
			var trailer metadata.MD
			_, err := client.Place(t.Context(), &testpb.PlaceRequest{UserId: "1"}, grpc.Trailer(&trailer))
			if status.Code(err) != codes.Internal || !grpclock.IsLost(err) {
				t.Errorf("got %v", err)
			}
			if got := trailer.Get("grpc-retry-pushback-ms"); len(got) != 1 || got[0] != "-1" {
				t.Errorf("pushback is %q", got)
			}
		})
	}
}

func TestErrorOfTheHandlerIsLeftAlone(t *testing.T) {
	detailed, err := status.New(codes.Aborted, "sold out").WithDetails(
		&errdetails.ErrorInfo{Reason: "LOCK_CONTENDED", Domain: "shop.example"}, &errdetails.RetryInfo{RetryDelay: durationpb.New(time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]*status.Status{"plain": status.New(codes.NotFound, "no voucher"), "with details": detailed} {
		client := dial(t, &orders{place: func(context.Context, *testpb.PlaceRequest) (*testpb.PlaceResponse, error) {
			return nil, want.Err()
		}}, guardtest.Guard(t))
		var trailer metadata.MD
		_, err := client.Place(t.Context(), &testpb.PlaceRequest{UserId: "1"}, grpc.Trailer(&trailer))
		if got := status.Convert(err); !proto.Equal(got.Proto(), want.Proto()) || len(trailer.Get("grpc-retry-pushback-ms")) != 0 || grpclock.IsContended(err) {
			t.Errorf("%s: got %v and %v", name, got.Proto(), trailer)
		}
	}
}

func TestSkippedCallSucceedsWithoutTheHandler(t *testing.T) {
	g := guardtest.Guard(t)
	ran := false
	client := dial(t, &orders{refill: func(context.Context, *testpb.RefillRequest) (*testpb.RefillResponse, error) {
		ran = true
		return &testpb.RefillResponse{Key: "x"}, nil
	}}, g)
	req := &testpb.RefillRequest{Buyer: &testpb.Buyer{Address: &testpb.Address{Zip: "1010"}}}
	var trailer metadata.MD
	if answer, err := client.Refill(t.Context(), req, grpc.Trailer(&trailer)); err != nil || answer.GetKey() != "x" {
		t.Fatalf("got %v, %v", answer, err)
	}
	if got := trailer.Get(grpclock.CodeTrailer); len(got) != 0 {
		t.Errorf("the trailer of a call that ran: %q", got)
	}

	lease, err := g.Locker().TryAcquire(t.Context(), "lock:refill:1010", lock.WithPermits(2, 3))
	if err != nil {
		t.Fatal(err)
	}
	defer lease.Release(t.Context()) //nolint:errcheck // judged elsewhere
	ran = false
	answer, err := client.Refill(t.Context(), req, grpc.Trailer(&trailer))
	if err != nil || answer.GetKey() != "" || ran {
		t.Errorf("got %v, %v, ran: %v", answer, err, ran)
	}
	if got := trailer.Get(grpclock.CodeTrailer); len(got) != 1 || got[0] != "LOCK_SKIPPED" {
		t.Errorf("the trailer is %q", got)
	}
}

func TestLockIsReenteredByContextOnly(t *testing.T) {
	g := guardtest.Guard(t)
	var client testpb.OrderServiceClient
	client = dial(t, &orders{place: func(ctx context.Context, req *testpb.PlaceRequest) (*testpb.PlaceResponse, error) {
		lease, err := g.Locker().TryAcquire(ctx, "lock:order:1")
		if err != nil {
			t.Errorf("with the context: %v", err)
			return nil, err
		}
		defer lease.Release(ctx) //nolint:errcheck // judged by the lock's state below
		// Over the network comes another context, and so another owner.
		if _, err := client.Place(ctx, req); !grpclock.IsContended(err) {
			t.Errorf("the nested call: %v", err)
		}
		return &testpb.PlaceResponse{}, nil
	}}, g)
	if _, err := client.Place(t.Context(), &testpb.PlaceRequest{UserId: "1"}); err != nil {
		t.Error(err)
	}
	if guardtest.IsHeld(t, g, "lock:order:1") {
		t.Error("still held")
	}
}

func TestOneKeyIsHeldByOneCallAtATime(t *testing.T) {
	const calls, users = 60, 3
	g := guardtest.Guard(t, rule.Rule{Operation: place, Key: "lock:<user_id>", Wait: guardtest.Timeout})
	var running [users]atomic.Int32
	var done atomic.Int32
	client := dial(t, &orders{place: func(_ context.Context, req *testpb.PlaceRequest) (*testpb.PlaceResponse, error) {
		mine := &running[req.GetUserId()[0]-'a']
		if mine.Add(1) != 1 {
			t.Error("two at once")
		}
		defer mine.Add(-1)
		done.Add(1)
		return &testpb.PlaceResponse{}, nil
	}}, g)
	var all sync.WaitGroup
	for i := range calls {
		all.Go(func() {
			if _, err := client.Place(t.Context(), &testpb.PlaceRequest{UserId: string(rune('a' + i%users))}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if done.Load() != calls {
		t.Errorf("%d of %d calls ran", done.Load(), calls)
	}
}

func TestCausesOfErrorsStayWithinTheProcess(t *testing.T) {
	g := guard.Must(guard.New(guardtest.Locker(t, guardtest.Broken{Store: memstore.New()})))
	seen := make(chan error, 1)
	log := func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		resp, err := handler(ctx, req)
		seen <- err
		return resp, err
	}
	server := append([]grpc.ServerOption{grpc.ChainUnaryInterceptor(log)}, guarded(t, g)...)
	client := testpb.NewOrderServiceClient(connect(t, &orders{}, server))
	_, got := client.Place(t.Context(), &testpb.PlaceRequest{UserId: "42"})
	err := guardtest.Receive(t, seen, "the call")
	if !errors.Is(err, guardtest.ErrDown) || guard.KindOf(err) != guard.Unavailable {
		t.Errorf("the cause is not in %v", err)
	}
	for _, text := range []string{err.Error(), got.Error()} {
		if strings.Contains(text, "NOAUTH") || strings.Contains(text, "42") {
			t.Errorf("%q says too much", text)
		}
	}
}
