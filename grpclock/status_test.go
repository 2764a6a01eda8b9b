package grpclock_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
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
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/core/key"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/grpclock"
	"github.com/redlatch/redlatch/grpclock/internal/testpb"
)

// failing returns a client whose calls of Place for "alice" fail, and the
// strings that must not get out.
type failing func(t *testing.T, opts ...grpclock.Option) (testpb.OrderServiceClient, []string)

func contended(t *testing.T, opts ...grpclock.Option) (testpb.OrderServiceClient, []string) {
	t.Helper()
	g := guardtest.Guard(t)
	lease := guardtest.Hold(t, g, "lock:order:alice")
	return dial(t, &orders{}, g, opts...), []string{lease.Owner()}
}

// overloaded is a call that would be the second to wait, where one may.
func overloaded(t *testing.T, opts ...grpclock.Option) (testpb.OrderServiceClient, []string) {
	t.Helper()
	waits := make(chan struct{}, 1)
	l := guardtest.Locker(t, memstore.New(), lock.WithMaxWaiters(1), lock.WithHooks(lock.Hooks{
		Waiting: func(context.Context, lock.Event) func() { waits <- struct{}{}; return nil },
	}))
	g := guardtest.Served(guard.Must(guard.New(l, rule.Rule{Operation: place, Key: "lock:order:<user_id>", Wait: guardtest.Timeout})))
	lease := guardtest.Hold(t, g, "lock:order:alice")
	client := dial(t, &orders{}, g, opts...)
	var first sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	first.Go(func() { _, _ = client.Place(ctx, &testpb.PlaceRequest{UserId: "alice"}) })
	t.Cleanup(first.Wait)
	t.Cleanup(cancel)
	<-waits
	return client, []string{lease.Owner()}
}

func unavailable(t *testing.T, opts ...grpclock.Option) (testpb.OrderServiceClient, []string) {
	t.Helper()
	g := guard.Must(guard.New(guardtest.Locker(t, guardtest.Broken{Store: memstore.New()})))
	return dial(t, &orders{}, g, opts...), []string{"NOAUTH", "10.1.2.3"}
}

func lost(t *testing.T, opts ...grpclock.Option) (testpb.OrderServiceClient, []string) {
	t.Helper()
	store := memstore.New()
	g := guard.Must(guard.New(guardtest.Locker(t, store, lock.WithWatchdog(900*time.Millisecond))))
	return dial(t, &orders{place: func(ctx context.Context, _ *testpb.PlaceRequest) (*testpb.PlaceResponse, error) {
		force(t, store, "lock:order:alice")
		<-ctx.Done()
		return nil, ctx.Err()
	}}, g, opts...), nil
}

func ruled(key string) failing {
	return func(t *testing.T, opts ...grpclock.Option) (testpb.OrderServiceClient, []string) {
		t.Helper()
		return dial(t, &orders{}, guardtest.Guard(t), append(opts, grpclock.WithRule(place, rule.Rule{Key: key}))...), nil
	}
}

// ended is a call whose context has ended when it acquires its lock.
func ended(end func(context.Context) (context.Context, context.CancelFunc)) failing {
	return func(t *testing.T, opts ...grpclock.Option) (testpb.OrderServiceClient, []string) {
		t.Helper()
		g := guardtest.Guard(t, rule.Rule{Operation: place, Key: "lock:order:<user_id>", Wait: guardtest.Timeout})
		guardtest.Hold(t, g, "lock:order:alice")
		over := func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			ctx, cancel := end(ctx)
			cancel()
			return handler(ctx, req)
		}
		server := append([]grpc.ServerOption{grpc.ChainUnaryInterceptor(over)}, guarded(t, g, opts...)...)
		return testpb.NewOrderServiceClient(connect(t, &orders{}, server)), nil
	}
}

func TestEveryKindHasItsStatus(t *testing.T) {
	const template = "lock:order:<user_id>"
	resource := &errdetails.ResourceInfo{ResourceType: "lock", ResourceName: template}
	violation := func(field, complaint string) *errdetails.BadRequest {
		return &errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: field, Description: complaint}}}
	}
	bound := func(value string, err error) []grpclock.Option {
		return []grpclock.Option{grpclock.WithVar("user", func(context.Context, any) (string, error) { return value, err })}
	}
	for name, test := range map[string]struct {
		call     failing
		opts     []grpclock.Option
		code     codes.Code
		reason   string
		template string // if it is another one
		retry    bool
		pushback string // "delay" is that of the RetryInfo
		resource *errdetails.ResourceInfo
		bad      *errdetails.BadRequest
	}{
		"contended": {
			call: contended, code: codes.Aborted, reason: "LOCK_CONTENDED", retry: true, pushback: "delay", resource: resource,
		},
		"contended, as the option says": {
			call: contended, opts: []grpclock.Option{grpclock.WithContentionCode(codes.ResourceExhausted)},
			code: codes.ResourceExhausted, reason: "LOCK_CONTENDED", retry: true, pushback: "delay", resource: resource,
		},
		"overloaded": {
			call: overloaded, code: codes.ResourceExhausted, reason: "LOCK_OVERLOADED", retry: true, pushback: "delay", resource: resource,
		},
		"field missing": {
			call: ruled("lock:<req.voucherId>"), template: "lock:<req.voucherId>", code: codes.InvalidArgument, reason: "LOCK_KEY_INVALID",
			bad: violation("voucher_id", "is missing or empty"),
		},
		"field refused": {
			call: ruled("lock:<user_id|int>"), template: "lock:<user_id|int>", code: codes.InvalidArgument, reason: "LOCK_KEY_INVALID",
			bad: violation("user_id", "is not written as it must be"),
		},
		"value given twice": {
			call: ruled("lock:<user>"), template: "lock:<user>", opts: bound("", key.ErrAmbiguous), code: codes.InvalidArgument, reason: "LOCK_KEY_INVALID",
			bad: violation("user", "is given more than once"),
		},
		"value too long": {
			call: ruled("lock:<user>"), template: "lock:<user>", opts: bound(strings.Repeat("x", 2000), nil), code: codes.InvalidArgument, reason: "LOCK_KEY_INVALID",
			bad: violation("user", "is too long"),
		},
		"metadata missing": {
			call: ruled("lock:<md.x-user>"), template: "lock:<md.x-user>", code: codes.InvalidArgument, reason: "LOCK_KEY_INVALID",
			bad: violation("md.x-user", "is missing or empty"),
		},
		"caller missing": {
			call: ruled("lock:<md.x-user>"), template: "lock:<md.x-user>", opts: []grpclock.Option{grpclock.WithIdentity("md.x-user")},
			code: codes.Unauthenticated, reason: "LOCK_UNAUTHENTICATED",
		},
		"another value than the caller missing": {
			call: ruled("lock:<md.x-user>"), template: "lock:<md.x-user>", opts: []grpclock.Option{grpclock.WithIdentity("user")},
			code: codes.InvalidArgument, reason: "LOCK_KEY_INVALID", bad: violation("md.x-user", "is missing or empty"),
		},
		"unavailable": {call: unavailable, code: codes.Unavailable, reason: "LOCK_UNAVAILABLE", retry: true},
		"deadline": {
			call: ended(func(ctx context.Context) (context.Context, context.CancelFunc) { return context.WithTimeout(ctx, 0) }),
			code: codes.DeadlineExceeded, reason: "LOCK_CANCELED",
		},
		"cancelled": {call: ended(context.WithCancel), code: codes.Canceled, reason: "LOCK_CANCELED"},
		"lost":      {call: lost, code: codes.Internal, reason: "LOCK_LOST", pushback: "-1"},
		"invalid":   {call: ruled("lock:<nobody>"), template: "lock:<nobody>", code: codes.Internal, reason: "LOCK_RULE_INVALID"},
	} {
		t.Run(name, func(t *testing.T) {
			client, secrets := test.call(t, test.opts...)
			var trailer metadata.MD
			_, err := client.Place(t.Context(), &testpb.PlaceRequest{UserId: "alice"}, grpc.Trailer(&trailer))
			st := status.Convert(err)
			if st.Code() != test.code {
				t.Errorf("code is %v", st.Code())
			}
			d := sort(t, st)
			if d.info.GetReason() != test.reason || d.info.GetDomain() != "github.com/redlatch/redlatch" {
				t.Errorf("info is %v", d.info)
			}
			if got, want := d.info.GetMetadata()["template"], cmp.Or(test.template, template); got != want || len(d.info.GetMetadata()) != 1 {
				t.Errorf("metadata is %v, want the template %s", d.info.GetMetadata(), want)
			}
			if got, want := fmt.Sprint(d.resource), fmt.Sprint(test.resource); got != want {
				t.Errorf("resource is %s, want %s", got, want)
			}
			if got, want := fmt.Sprint(d.bad), fmt.Sprint(test.bad); got != want {
				t.Errorf("bad request is %s, want %s", got, want)
			}
			delay, ok := grpclock.RetryDelay(err)
			if ok != test.retry || ok && (delay < grpclock.DefaultRetryDelay || delay > grpclock.DefaultRetryDelay*3/2) {
				t.Errorf("delay is %v, %v", delay, ok)
			}
			want := test.pushback
			if want == "delay" {
				want = strconv.FormatInt(delay.Milliseconds(), 10)
			}
			if got := strings.Join(trailer.Get("grpc-retry-pushback-ms"), ","); got != want {
				t.Errorf("pushback is %q, want %q", got, want)
			}
			all := prototext.Format(st.Proto()) + fmt.Sprint(trailer)
			for _, secret := range append(secrets, "alice", "lock:order:alice", "redis") {
				if strings.Contains(strings.ReplaceAll(all, "redlatch", ""), secret) {
					t.Errorf("%q is in %s", secret, all)
				}
			}
		})
	}
}

type details struct {
	info     *errdetails.ErrorInfo
	resource *errdetails.ResourceInfo
	bad      *errdetails.BadRequest
}

// sort takes the details of a status apart, of which there is one of a type.
func sort(t *testing.T, st *status.Status) (d details) {
	t.Helper()
	seen := make(map[string]bool)
	for _, detail := range st.Details() {
		if name := fmt.Sprintf("%T", detail); seen[name] {
			t.Errorf("%s is there twice", name)
		} else {
			seen[name] = true
		}
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			d.info = detail
		case *errdetails.ResourceInfo:
			d.resource = detail
		case *errdetails.BadRequest:
			d.bad = detail
		case *errdetails.RetryInfo:
		default:
			t.Errorf("a detail is %T", detail)
		}
	}
	return d
}

func TestRetryDelayIsAnOption(t *testing.T) {
	client, _ := contended(t, grpclock.WithRetryDelay(10*time.Second))
	_, err := client.Place(t.Context(), &testpb.PlaceRequest{UserId: "alice"})
	if delay, ok := grpclock.RetryDelay(err); !ok || delay < 10*time.Second || delay > 15*time.Second {
		t.Errorf("got %v, %v", delay, ok)
	}
}

func TestErrorMapperHasTheLastWord(t *testing.T) {
	for name, test := range map[string]struct {
		mapper grpclock.Mapper
		want   codes.Code
	}{
		"another error": {func(context.Context, *guard.Error, *status.Status) error {
			return status.Error(codes.FailedPrecondition, "busy")
		}, codes.FailedPrecondition},
		"none": {func(_ context.Context, e *guard.Error, st *status.Status) error {
			if e.Kind != guard.Contended || st.Code() != codes.Aborted {
				return errors.New("another failure")
			}
			return nil
		}, codes.Aborted},
	} {
		t.Run(name, func(t *testing.T) {
			client, _ := contended(t, grpclock.WithErrorMapper(test.mapper))
			_, err := client.Place(t.Context(), &testpb.PlaceRequest{UserId: "alice"})
			if status.Code(err) != test.want {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestClientsSeeThroughWrappedErrors(t *testing.T) {
	client, _ := contended(t)
	_, busy := client.Place(t.Context(), &testpb.PlaceRequest{UserId: "alice"})
	losing, _ := lost(t)
	_, gone := losing.Place(t.Context(), &testpb.PlaceRequest{UserId: "alice"})
	foreign, err := status.New(codes.Aborted, "").WithDetails(
		&errdetails.ErrorInfo{Reason: "LOCK_CONTENDED", Domain: "example.com"},
		&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	noInfo, err := status.New(codes.Unavailable, "").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	noDelay, err := status.New(codes.Aborted, "").WithDetails(
		&errdetails.ErrorInfo{Reason: "LOCK_CONTENDED", Domain: grpclock.Domain},
		&errdetails.RetryInfo{RetryDelay: &durationpb.Duration{Seconds: 1, Nanos: -1}})
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		err                   error
		contended, lost, wait bool
	}{
		"contended":          {busy, true, false, true},
		"contended, wrapped": {fmt.Errorf("place: %w", busy), true, false, true},
		"lost, wrapped":      {fmt.Errorf("place: %w", gone), false, true, false},
		"of another domain":  {foreign.Err(), false, false, false},
		"of no domain":       {noInfo.Err(), false, false, false},
		"without a delay":    {noDelay.Err(), true, false, false},
		"no status":          {errors.New("x"), false, false, false},
		"nil":                {nil, false, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			_, wait := grpclock.RetryDelay(test.err)
			if grpclock.IsContended(test.err) != test.contended || grpclock.IsLost(test.err) != test.lost || wait != test.wait {
				t.Errorf("contended %v, lost %v, wait %v", grpclock.IsContended(test.err), grpclock.IsLost(test.err), wait)
			}
		})
	}
}

func TestRetryPolicyRepeatsContentionAndNeverALoss(t *testing.T) {
	const policy = `{"methodConfig": [{"name": [{}], "retryPolicy": {
		"maxAttempts": 1000, "initialBackoff": "0.01s", "maxBackoff": "0.1s", "backoffMultiplier": 2,
		"retryableStatusCodes": ["ABORTED", "INTERNAL"]}}]}`
	store := memstore.New()
	g := guard.Must(guard.New(guardtest.Locker(t, store, lock.WithWatchdog(900*time.Millisecond))))
	runs := make(chan string, 100)
	refusals := make(chan struct{}, 100)
	count := func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		resp, err := handler(ctx, req)
		if grpclock.IsContended(err) {
			refusals <- struct{}{}
		}
		return resp, err
	}
	server := append([]grpc.ServerOption{grpc.ChainUnaryInterceptor(count)}, guarded(t, g, grpclock.WithRetryDelay(20*time.Millisecond))...)
	client := testpb.NewOrderServiceClient(connect(t, &orders{place: func(ctx context.Context, req *testpb.PlaceRequest) (*testpb.PlaceResponse, error) {
		runs <- req.GetUserId()
		if req.GetUserId() == "unlucky" && len(runs) == 1 {
			force(t, store, "lock:order:unlucky")
			<-ctx.Done()
		}
		return &testpb.PlaceResponse{}, nil
	}}, server, grpc.WithDefaultServiceConfig(policy), grpc.WithMaxCallAttempts(1000)))

	lease := guardtest.Hold(t, g, "lock:order:patient")
	answer := make(chan error, 1)
	go func() {
		_, err := client.Place(t.Context(), &testpb.PlaceRequest{UserId: "patient"})
		answer <- err
	}()
	guardtest.Receive(t, refusals, "the first refusal")
	guardtest.Receive(t, refusals, "the second one")
	_ = lease.Release(t.Context())
	if err := guardtest.Receive(t, answer, "the answer"); err != nil || len(runs) != 1 {
		t.Errorf("contended: %v after %d runs", err, len(runs))
	}
	<-runs

	_, err := client.Place(t.Context(), &testpb.PlaceRequest{UserId: "unlucky"})
	if !grpclock.IsLost(err) || len(runs) != 1 {
		t.Errorf("lost: %v after %d runs", err, len(runs))
	}
}

// A handler that passes on what another locked service said has run.
func TestContentionOfAnotherServiceIsNotThatOfTheCall(t *testing.T) {
	const policy = `{"methodConfig": [{"name": [{}], "retryPolicy": {
		"maxAttempts": 4, "initialBackoff": "0.01s", "maxBackoff": "0.05s", "backoffMultiplier": 2, "retryableStatusCodes": ["ABORTED"]}}]}`
	other := guardtest.Guard(t)
	guardtest.Hold(t, other, "lock:order:u")
	behind := dial(t, &orders{}, other)
	for name, call := range outgoing {
		for title, opts := range map[string][]grpclock.Option{
			"": nil, ", before the first message": {grpclock.WithFirstMessage(upload, chat)},
		} {
			t.Run(name+title, func(t *testing.T) {
				var runs atomic.Int64
				pays := during(func(ctx context.Context) error {
					runs.Add(1)
					_, err := behind.Place(ctx, &testpb.PlaceRequest{UserId: "u"})
					if !grpclock.IsContended(err) {
						t.Errorf("the other service said %v", err)
					}
					return fmt.Errorf("pay: %w", err)
				})
				client := testpb.NewOrderServiceClient(connect(t, pays, guarded(t, guardtest.Guard(t), opts...), grpc.WithDefaultServiceConfig(policy)))
				_, _, err := call(t.Context(), client)
				if _, retry := grpclock.RetryDelay(err); retry || grpclock.IsContended(err) {
					t.Errorf("the client takes it for its own: %v", err)
				}
				if st := status.Convert(err); st.Code() != codes.Aborted || !strings.HasPrefix(st.Message(), "pay: ") || runs.Load() != 1 {
					t.Errorf("got %v after %d runs", err, runs.Load())
				}
				for _, detail := range status.Convert(err).Details() {
					if _, ok := detail.(*errdetails.ResourceInfo); !ok {
						t.Errorf("the client gets %T", detail)
					}
				}
			})
		}
	}
}

// Where its own method has no lock, a handler may pass on what it likes.
func TestAMethodWithoutALockPassesOnWhatAnotherServiceSays(t *testing.T) {
	other := guardtest.Guard(t)
	guardtest.Hold(t, other, "lock:order:u")
	behind := dial(t, &orders{}, other)
	for name, call := range outgoing {
		t.Run(name, func(t *testing.T) {
			pays := during(func(ctx context.Context) error {
				_, err := behind.Place(ctx, &testpb.PlaceRequest{UserId: "u"})
				return err
			})
			noOption := grpclock.WithFiles(new(protoregistry.Files))
			_, _, err := call(t.Context(), testpb.NewOrderServiceClient(connect(t, pays, guarded(t, guardtest.Guard(t), noOption))))
			if _, retry := grpclock.RetryDelay(err); !retry || !grpclock.IsContended(err) {
				t.Errorf("got %v", err)
			}
		})
	}
}
