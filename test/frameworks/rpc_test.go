package frameworks_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"connectrpc.com/connect"
	connect2 "connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connecthttp"
	"connectrpc.com/connect/v2/connectproto"
	"connectrpc.com/vanguard"
	"connectrpc.com/vanguard/vanguardgrpc"
	kratos "github.com/go-kratos/kratos/v2/middleware"
	"github.com/go-kratos/kratos/v2/transport"
	kgrpc "github.com/go-kratos/kratos/v2/transport/grpc"
	khttp "github.com/go-kratos/kratos/v2/transport/http"
	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/grpclock"
	"github.com/redlatch/redlatch/grpclock/rpcguard"
	"github.com/redlatch/redlatch/test/frameworks/internal/bankpb"
)

// The wirings: each function is what a program writes. The page "Other frameworks" counts
// their lines.

// An in-process gateway calls the implementation, and no interceptor.
func gatewayInProcess(g *guard.Guard, bank bankpb.BankServiceServer) (http.Handler, error) {
	locks, err := grpclock.New(g)
	if err != nil {
		return nil, err
	}
	mux := runtime.NewServeMux()
	return mux, bankpb.RegisterBankServiceHandlerServer(context.Background(), mux, bankpb.NewBankServiceServerLock(bank, locks))
}

// Kratos calls the implementation from its HTTP server and from its gRPC server.
func kratosDecorated(g *guard.Guard, bank bankpb.BankServiceServer) (*khttp.Server, *kgrpc.Server, error) {
	locks, err := grpclock.New(g)
	if err != nil {
		return nil, nil, err
	}
	locked := bankpb.NewBankServiceServerLock(bank, locks)
	overHTTP, overGRPC := khttp.NewServer(), kgrpc.NewServer()
	registerBankHTTPServer(overHTTP, locked)
	bankpb.RegisterBankServiceServer(overGRPC, locked)
	return overHTTP, overGRPC, nil
}

// kratosLock is a middleware of Kratos on the core for RPC integrations, for both of its
// transports.
func kratosLock(locks *rpcguard.Locks) kratos.Middleware {
	return func(next kratos.Handler) kratos.Handler {
		return func(ctx context.Context, req any) (any, error) {
			t, ok := transport.FromServerContext(ctx)
			if !ok {
				return nil, errors.New("kratosLock is for servers")
			}
			inside, leave, refused := locks.Enter(ctx, rpcguard.Request{
				Method: t.Operation(), Message: req,
				Metadata: func(_ context.Context, name string) []string { return t.RequestHeader().Values(name) },
			})
			if refused != nil {
				return nil, grpclock.Status(refused).Err()
			}
			defer leave() //nolint:errcheck // also if the handler panics
			reply, err := next(inside, req)
			if lost := leave(); lost != nil {
				return nil, grpclock.Status(lost).Err()
			}
			return reply, err
		}
	}
}

// connectLock is an interceptor of Connect on the core for RPC integrations.
func connectLock(locks *rpcguard.Locks) connect.UnaryInterceptorFunc {
	fail := func(r *rpcguard.Refusal) error {
		failed := connect.NewError(connect.Code(r.Code), errors.New(r.Status.Message))
		for _, d := range r.Details {
			if detail, err := connect.NewErrorDetail(d); err == nil {
				failed.AddDetail(detail)
			}
		}
		return failed
	}
	return func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
			inside, leave, refused := locks.Enter(ctx, rpcguard.Request{
				Method: req.Spec().Procedure, Message: req.Any(),
				Metadata: func(_ context.Context, name string) []string { return req.Header().Values(name) },
			})
			if refused != nil {
				return nil, fail(refused)
			}
			defer leave() //nolint:errcheck // also if the handler panics
			response, err := next(inside, req)
			if lost := leave(); lost != nil {
				return nil, fail(lost)
			}
			return response, err
		}
	}
}

// connect2Lock is an interceptor of Connect 2 on the core for RPC integrations. The lock is
// taken when the handler receives the request.
func connect2Lock(locks *rpcguard.Locks) connect2.ServerInterceptor {
	return func(next connect2.ServerFunc) connect2.ServerFunc {
		return func(ctx context.Context, spec connect2.Spec, stream connect2.ServerStream) error {
			info, _ := connect2.CallInfoForServerContext(ctx)
			request, err := firstMessage(spec, stream)
			if err != nil {
				return err
			}
			inside, leave, refused := locks.Enter(ctx, rpcguard.Request{
				Method: spec.Procedure, Message: request.message,
				Metadata: func(_ context.Context, name string) []string { return info.RequestHeader().Values(name) },
			})
			if refused != nil {
				return connect2Error(refused)
			}
			defer leave() //nolint:errcheck // also if the handler panics
			err = next(inside, spec, request)
			if lost := leave(); lost != nil {
				return connect2Error(lost)
			}
			return err
		}
	}
}

func connect2Error(r *rpcguard.Refusal) error {
	failed := connect2.NewError(connect2.Code(r.Code), r.Status.Message).WithCause(r)
	for _, d := range r.Details {
		if detail, err := connectproto.NewErrorDetail(d); err == nil {
			failed = failed.WithDetail(detail)
		}
	}
	return failed
}

// received is a stream whose first message was received for the key.
type received struct {
	connect2.ServerStream
	message proto.Message // nil once the handler has it
}

func firstMessage(spec connect2.Spec, stream connect2.ServerStream) (*received, error) {
	method, ok := spec.Schema.(protoreflect.MethodDescriptor)
	if !ok {
		return nil, connect2.NewError(connect2.CodeInternal, "the method has no descriptor")
	}
	of, err := protoregistry.GlobalTypes.FindMessageByName(method.Input().FullName())
	if err != nil {
		return nil, err
	}
	r := &received{stream, of.New().Interface()}
	return r, stream.Receive(r.message)
}

// Receive hands the first message to the handler.
func (r *received) Receive(msg any) error {
	to, ok := msg.(proto.Message)
	if r.message == nil || !ok {
		return r.ServerStream.Receive(msg)
	}
	proto.Merge(to, r.message)
	r.message = nil
	return nil
}

// Vanguard hands requests to the server of gRPC, whose interceptors lock.
func vanguardOverServer(g *guard.Guard, bank bankpb.BankServiceServer) (http.Handler, error) {
	locks, err := grpclock.New(g)
	if err != nil {
		return nil, err
	}
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(locks.UnaryServerInterceptor()), grpc.ChainStreamInterceptor(locks.StreamServerInterceptor()))
	bankpb.RegisterBankServiceServer(server, bank)
	locks.Attach(server)
	return vanguardgrpc.NewTranscoder(server)
}

// What the plugins of the frameworks generate, for one method.

func registerBankHTTPServer(s *khttp.Server, bank bankpb.BankServiceServer) {
	s.Route("/").POST(transferMethod, func(ctx khttp.Context) error {
		var in bankpb.TransferRequest
		if err := ctx.Bind(&in); err != nil {
			return err
		}
		khttp.SetOperation(ctx, transferMethod)
		h := ctx.Middleware(func(ctx context.Context, req any) (any, error) {
			return bank.Transfer(ctx, req.(*bankpb.TransferRequest))
		})
		out, err := h(ctx, &in)
		if err != nil {
			return err
		}
		return ctx.Result(http.StatusOK, out)
	})
}

func connectHandler(bank bankpb.BankServiceServer, opts ...connect.HandlerOption) http.Handler {
	return connect.NewUnaryHandler(transferMethod, func(ctx context.Context, req *connect.Request[bankpb.TransferRequest]) (*connect.Response[bankpb.TransferResponse], error) {
		out, err := bank.Transfer(ctx, req.Msg)
		if err != nil {
			return nil, err
		}
		return connect.NewResponse(out), nil
	}, opts...)
}

func connect2Handler(bank bankpb.BankServiceServer, interceptors ...connect2.ServerInterceptor) http.Handler {
	server := connect2.NewServer(interceptors...)
	server.Register(connect2.Method{
		Spec: connect2.Spec{Procedure: transferMethod, StreamType: connect2.StreamTypeUnary, Schema: bankService().Methods().ByName("Transfer")},
		Handler: func(ctx context.Context, _ connect2.Spec, stream connect2.ServerStream) error {
			var in bankpb.TransferRequest
			if err := stream.Receive(&in); err != nil {
				return err
			}
			out, err := bank.Transfer(ctx, &in)
			if err != nil {
				return err
			}
			return stream.Send(out)
		},
	})
	mux := http.NewServeMux()
	connecthttp.Mount(mux, server)
	return mux
}

const transferMethod = "/bank.v1.BankService/Transfer"

// bank is the implementation, with a referee in it.
type bank struct {
	bankpb.UnimplementedBankServiceServer
	guardtest.Accounts
}

func (b *bank) Transfer(_ context.Context, req *bankpb.TransferRequest) (*bankpb.TransferResponse, error) {
	b.Accounts.Transfer(req.GetFrom(), req.GetTo())
	return &bankpb.TransferResponse{}, nil
}

// transfer calls the method; the error says why it was refused.
type transfer = func(ctx context.Context, from, to string) error

// way is one way in which a framework calls an implementation.
type way struct {
	wiring string // the function above that a program writes
	locked func(t *testing.T, g *guard.Guard, bank bankpb.BankServiceServer) transfer
	// open is the same framework with the bare implementation; nil if there is nothing to
	// leave out.
	open func(t *testing.T, bank bankpb.BankServiceServer) transfer
}

func ways() map[string]way {
	return map[string]way{
		"grpc-gateway, in process": {
			"gatewayInProcess",
			func(t *testing.T, g *guard.Guard, bank bankpb.BankServiceServer) transfer {
				t.Helper()
				return overHTTP(must(gatewayInProcess(g, bank))(t))
			},
			func(t *testing.T, bank bankpb.BankServiceServer) transfer {
				t.Helper()
				mux := runtime.NewServeMux()
				if err := bankpb.RegisterBankServiceHandlerServer(t.Context(), mux, bank); err != nil {
					t.Fatal(err)
				}
				return overHTTP(mux)
			},
		},
		"Kratos, HTTP": {
			"kratosDecorated",
			func(t *testing.T, g *guard.Guard, bank bankpb.BankServiceServer) transfer {
				t.Helper()
				server, _, err := kratosDecorated(g, bank)
				if err != nil {
					t.Fatal(err)
				}
				return overHTTP(server)
			},
			func(t *testing.T, bank bankpb.BankServiceServer) transfer {
				t.Helper()
				server := khttp.NewServer()
				registerBankHTTPServer(server, bank)
				return overHTTP(server)
			},
		},
		"Kratos, gRPC": {
			"kratosDecorated",
			func(t *testing.T, g *guard.Guard, bank bankpb.BankServiceServer) transfer {
				t.Helper()
				_, server, err := kratosDecorated(g, bank)
				if err != nil {
					t.Fatal(err)
				}
				return overGRPC(t, server.Server)
			},
			func(t *testing.T, bank bankpb.BankServiceServer) transfer {
				t.Helper()
				server := kgrpc.NewServer()
				bankpb.RegisterBankServiceServer(server, bank)
				return overGRPC(t, server.Server)
			},
		},
		"Kratos, a middleware": {
			"kratosLock",
			func(t *testing.T, g *guard.Guard, bank bankpb.BankServiceServer) transfer {
				t.Helper()
				server := khttp.NewServer(khttp.Middleware(kratosLock(serving(t, g, "kratoslock"))))
				registerBankHTTPServer(server, bank)
				return overHTTP(server)
			}, nil,
		},
		"Connect 1": {
			"connectLock",
			func(t *testing.T, g *guard.Guard, bank bankpb.BankServiceServer) transfer {
				t.Helper()
				return overHTTP(connectHandler(bank, connect.WithInterceptors(connectLock(serving(t, g, "connectlock")))))
			},
			func(_ *testing.T, bank bankpb.BankServiceServer) transfer { return overHTTP(connectHandler(bank)) },
		},
		"Connect 2": {
			"connect2Lock",
			func(t *testing.T, g *guard.Guard, bank bankpb.BankServiceServer) transfer {
				t.Helper()
				return overHTTP(connect2Handler(bank, connect2Lock(serving(t, g, "connectlock"))))
			},
			func(_ *testing.T, bank bankpb.BankServiceServer) transfer { return overHTTP(connect2Handler(bank)) },
		},
		"go-zero, zrpc": {"zrpcOverServer", onZrpc, bareZrpc},
		"Vanguard": {
			"vanguardOverServer",
			func(t *testing.T, g *guard.Guard, bank bankpb.BankServiceServer) transfer {
				t.Helper()
				return overHTTP(must(vanguardOverServer(g, bank))(t))
			},
			func(t *testing.T, bank bankpb.BankServiceServer) transfer {
				t.Helper()
				server := grpc.NewServer()
				bankpb.RegisterBankServiceServer(server, bank)
				return overHTTP(must[http.Handler](vanguardgrpc.NewTranscoder(server))(t))
			},
		},
	}
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// serving returns the locks of an integration that serves the bank.
func serving(t testing.TB, g *guard.Guard, by string) *rpcguard.Locks {
	t.Helper()
	locks, err := rpcguard.New(g, rpcguard.Config{By: by})
	if err != nil {
		t.Fatal(err)
	}
	locks.Serve(bankService())
	return locks
}

func init() {
	encoding.RegisterCodec(vanguardgrpc.NewCodec(&vanguard.JSONCodec{})) // for requests in JSON
}

// overHTTP posts the request as JSON, as Connect, Kratos and the gateway take it.
func overHTTP(h http.Handler) transfer {
	return func(ctx context.Context, from, to string) error {
		body, err := json.Marshal(map[string]string{"from": from, "to": to})
		if err != nil {
			return err
		}
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, transferMethod, bytes.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Connect-Protocol-Version", "1") // or Vanguard takes it for REST
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != http.StatusOK {
			return &httpError{w.Code, w.Body.String()}
		}
		return nil
	}
}

type httpError struct {
	status int
	body   string
}

func (e *httpError) Error() string { return fmt.Sprintf("%d %s", e.status, e.body) }

// overGRPC serves until the test ends, and calls over a connection.
func overGRPC(t testing.TB, server *grpc.Server) transfer {
	t.Helper()
	listener := bufconn.Listen(1 << 20)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	cc, err := grpc.NewClient("passthrough:///bufconn", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cc.Close()
		server.Stop()
		if err := guardtest.Receive(t, served, "the end of Serve"); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Errorf("serve: %v", err)
		}
	})
	return called(bankpb.NewBankServiceClient(cc))
}

// called calls the method by a client.
func called(client bankpb.BankServiceClient) transfer {
	return func(ctx context.Context, from, to string) error {
		_, err := client.Transfer(ctx, &bankpb.TransferRequest{From: from, To: to})
		return err
	}
}

// Two at once are one, whichever framework calls the implementation.
func TestTransfersAreLockedWhoeverCallsTheImplementation(t *testing.T) {
	for name, way := range ways() {
		t.Run(name, func(t *testing.T) {
			g, b := guardtest.Guard(t), &bank{}
			grpclock.Require(g, &bankpb.BankService_ServiceDesc)
			transfer := way.locked(t, g, b)
			if err := g.Validate(); err != nil {
				t.Fatal(err)
			}
			b.Crossing(t, 10_000, func(from, to string) error { return transfer(t.Context(), from, to) })
		})
	}
}

// Two transports of one program call the same implementation.
func TestAGatewayBesideAServerLocksTheSameAccounts(t *testing.T) {
	g, b := guardtest.Guard(t), &bank{}
	newBank := func() *bank { return b }
	grpclock.Require(g, &bankpb.BankService_ServiceDesc)
	locks := must(grpclock.New(g))(t)
	bank := bankpb.NewBankServiceServerLock(newBank(), locks) // for the gateway, Kratos and the server of gRPC
	mux, server := runtime.NewServeMux(), grpc.NewServer()
	if err := bankpb.RegisterBankServiceHandlerServer(t.Context(), mux, bank); err != nil {
		t.Fatal(err)
	}
	bankpb.RegisterBankServiceServer(server, bank)
	if err := g.Validate(); err != nil {
		t.Fatal(err)
	}
	gateway, direct := overHTTP(mux), overGRPC(t, server)
	b.Crossing(t, 10_000, func(from, to string) error {
		if from == "a" {
			return gateway(t.Context(), from, to)
		}
		return direct(t.Context(), from, to)
	})
}

// A client learns that it may send the call again.
func TestTheAnswerOfEachFrameworkSaysThatTheLockIsContended(t *testing.T) {
	for name, way := range ways() {
		t.Run(name, func(t *testing.T) {
			g := guardtest.Guard(t, rule.Rule{Operation: transferMethod, Key: "lock:account:<from>", Name: "from"})
			transfer := way.locked(t, g, &bank{})
			guardtest.Hold(t, g, "lock:account:a")
			err := transfer(t.Context(), "a", "b")
			var answered *httpError
			switch {
			case errors.As(err, &answered):
				if answered.status != http.StatusConflict || !bytes.Contains([]byte(answered.body), []byte("another call holds the lock")) {
					t.Errorf("got %v", err)
				}
			case status.Code(err) != codes.Aborted || !grpclock.IsContended(err):
				t.Errorf("got %v", err)
			}
		})
	}
}

// Without the wiring, the option locks nothing, and Require ends the start.
func TestRequireNoticesAnImplementationThatNothingLocks(t *testing.T) {
	for name, way := range ways() {
		if way.open == nil {
			continue
		}
		t.Run(name, func(t *testing.T) {
			g := guardtest.Guard(t)
			grpclock.Require(g, &bankpb.BankService_ServiceDesc)
			transfer := way.open(t, &bank{})
			held := guardtest.Hold(t, g, "lock:account:a")
			if err := transfer(t.Context(), "a", "b"); err != nil {
				t.Errorf("the method is locked all the same: %v", err)
			}
			if err := held.Release(t.Context()); err != nil {
				t.Error(err)
			}
			if err := g.Validate(); err == nil || !bytes.Contains([]byte(err.Error()), []byte("must take its lock, and nothing serves it")) {
				t.Errorf("Validate returned %v", err)
			}
		})
	}
}
