package grpclock_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/redlatch/redlatch/annotations/lockpb"
	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/grpclock"
	"github.com/redlatch/redlatch/grpclock/internal/testpb"
)

func pass(context.Context, any) (any, error) { return nil, nil }

func TestAttachedMethodsAreServed(t *testing.T) {
	g := guardtest.Guard(t, rule.Rule{Operation: plain, Key: "lock:<tenant>:<ctx.user>:<method>"})
	tenant := grpclock.WithVar("tenant", func(context.Context, any) (string, error) { return "acme", nil })
	upload := grpclock.WithRule(upload, rule.Rule{Key: "lock:<user_id>"})
	first := grpclock.WithFirstMessage("/redlatch.test.v1.OrderService/Upload")
	if err := validate(t, g, registered(ordersService), tenant, upload, first); err != nil {
		t.Error(err)
	}
}

func TestServicesMayBeRegisteredAfterAttach(t *testing.T) {
	g := guardtest.Guard(t, rule.Rule{Operation: plain, Key: "lock:<user_id>"})
	server := grpc.NewServer()
	locksOf(t, g, server)
	ordersService(server)
	if err := g.Validate(); err != nil {
		t.Error(err)
	}
}

func TestValidateReportsEveryFaultOfGRPC(t *testing.T) {
	g := guardtest.Guard(t, rule.Rule{Operation: plain, Key: "lock:<userld>:<req.user_id.x>:<path.id>"})
	err := validate(t, g, registered(ordersService, faultyService),
		grpclock.WithRule("/redlatch.test.v1.OrderService/Plac", rule.Rule{Key: "lock:x"}),
		grpclock.WithRule(upload, rule.Rule{Key: "lock:<user_id>"}),
		grpclock.WithFirstMessage(watch, "/redlatch.test.v1.OrderService/Wach"),
	)
	for _, want := range []string{
		`grpclock: "/redlatch.test.v1.FaultyService/Grammar": wait: -1s is negative, use 0 to try once or the longest time to wait`,
		`grpclock: "/redlatch.test.v1.FaultyService/Reserved": template "lock:<service>", column 6: <service>: is the service of gRPC, and redlatch.test.v1.ReservedRequest has a field of that name as well: write <req.service> for the field, or the name of the service itself`,
		`grpclock: "/redlatch.test.v1.FaultyService/Typo": template "lock:order:<usr_id>", column 12: <usr_id>: redlatch.test.v1.TypoRequest has no field "usr_id", did you mean "user_id"?`,
		`grpclock: "/redlatch.test.v1.OrderService/Plac": is in WithRule, but there is no such method, did you mean "/redlatch.test.v1.OrderService/Place"?`,
		`grpclock: "/redlatch.test.v1.OrderService/Plain": template "lock:<userld>:<req.user_id.x>:<path.id>", column 15: <req.user_id.x>: redlatch.test.v1.PlainRequest.user_id is string, which has no fields to name`,
		`grpclock: "/redlatch.test.v1.OrderService/Plain": template "lock:<userld>:<req.user_id.x>:<path.id>", column 31: <path.id>: does not exist in gRPC, use a field of the request, <md.name>, <ctx.name> or WithVar`,
		`grpclock: "/redlatch.test.v1.OrderService/Plain": template "lock:<userld>:<req.user_id.x>:<path.id>", column 6: <userld>: redlatch.test.v1.PlainRequest has no field "userld", did you mean "userId"?`,
		`grpclock: "/redlatch.test.v1.OrderService/Upload": template "lock:<user_id>", column 6: <user_id>: is a field of a request, and there is no message before the handler runs: use <md.name>, <ctx.name>, WithVar or WithFirstMessage`,
		`grpclock: "/redlatch.test.v1.OrderService/Wach": is in WithFirstMessage, but there is no such method, did you mean "/redlatch.test.v1.OrderService/Watch"?`,
		`grpclock: "/redlatch.test.v1.OrderService/Watch": is in WithFirstMessage, but clients do not stream to it`,
	} {
		if err == nil || !strings.Contains(err.Error(), want+"\n") && !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%q is missing in\n%v", want, err)
		}
	}
}

// The rule of a method may stand in a file.
func TestAFaultOfAMethodHasThePlaceOfItsRule(t *testing.T) {
	set, err := rule.NewSetOf(rule.Entry{Rule: rule.Rule{Operation: plain, Key: "lock:<userld>"}, Source: "locks.yaml", Line: 7, Column: 3})
	if err != nil {
		t.Fatal(err)
	}
	err = set.Locate(nil, validate(t, guardtest.Guard(t, set.Rules()...), registered(ordersService)))
	if want := fmt.Sprintf("grpclock: locks.yaml:7:3: %q: template", plain); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}

// A method that is in the generated code exists: something else is missing.
func TestAnOptionForAMethodThatNothingHasSaysWhatIsMissing(t *testing.T) {
	option := map[string]grpclock.Option{
		"WithRule":         grpclock.WithRule(upload, rule.Rule{Key: "lock:x"}),
		"WithFirstMessage": grpclock.WithFirstMessage(upload),
	}
	for name, locks := range map[string]func(*grpclock.Locks){
		"nothing was made": func(*grpclock.Locks) {},
		"no service":       func(i *grpclock.Locks) { i.Attach(grpclock.Unseen(registered())) },
		"another server's": func(i *grpclock.Locks) {
			i.UnaryServerInterceptor()
			i.Attach(grpclock.Unseen(registered(faultyService)))
		},
		"a server that is alone": func(i *grpclock.Locks) { i.StreamServerInterceptor() },
	} {
		for by, option := range option {
			g := guard.Must(guard.New(guardtest.Locker(t, memstore.New()))).WithLogger(slog.New(slog.DiscardHandler))
			i, err := grpclock.New(g, option)
			if err != nil {
				t.Fatal(err)
			}
			locks(i)
			want := strconv.Quote(upload) + ": is in " + by + ", but nothing has the method that goes through these locks: register its service and call Attach(server)"
			if err := g.Validate(); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "no such method") {
				t.Errorf("%s: got %v, want %s", name, err, want)
			}
		}
	}
}

// The second would take the place of the first, and half of a transfer its locks.
func TestASecondWithRuleForAMethodIsAFault(t *testing.T) {
	_, err := grpclock.New(guardtest.Guard(t),
		grpclock.WithRule(transfer, rule.Rule{Key: "lock:account:<from>"}),
		grpclock.WithRule(transfer, rule.Rule{Key: "lock:account:<to>"}))
	if err == nil || !strings.Contains(err.Error(), `name all of them in one, WithRule("/redlatch.test.v1.OrderService/Transfer", a, b)`) {
		t.Errorf("got %v", err)
	}
}

// All users would share one lock.
func TestAFieldWithoutItsBracketsIsAFault(t *testing.T) {
	for _, name := range []string{"user_id", "userId"} {
		err := validate(t, guardtest.Guard(t, rule.Rule{Operation: plain, Key: "lock:order:" + name}), registered(ordersService))
		if want := strconv.Quote(name) + " is not a variable but a literal"; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// A rule that is nearly one for a method must not leave the method open.
func TestARuleThatNoMethodHasLetsNobodyIn(t *testing.T) {
	for operation, cure := range map[string]string{
		"/redlatch.test.v1.OrderService/Plian":      "/redlatch.test.v1.OrderService/Plain",
		"/redlatch.test.v1.OrderService/plain":      "/redlatch.test.v1.OrderService/Plain",
		"/redlatch.test.v1.OrderServise/Plain":      "/redlatch.test.v1.OrderService/Plain",
		"/redlatch.test.v2.OrderService/Plain":      "/redlatch.test.v1.OrderService/Plain",
		"/OrderService/Plain":                       "/OrderService/Plain",
		"redlatch.test.v1.OrderService/Plain":       "/redlatch.test.v1.OrderService/Plain",
		"redlatch.test.v1.OrderService.Plain":       "redlatch.test.v1.OrderService.Plain",
		"OrderService.Plain":                        "OrderService.Plain",
		"Plain":                                     "Plain",
		"/redlatch.test.v1.OrderService/Plain/":     "/shop.v1.Orders/Place",
		"/redlatch.test.v1.OrderService/*":          "POST /redlatch.test.v1.OrderService/*",
		"/redlatch.test.v1.OrderService.Plain":      "/shop.v1.Orders/Place",
		"//redlatch.test.v1.OrderService/Plain":     "POST //redlatch.test.v1.OrderService/Plain",
		"POST /redlatch.test.v1.OrderService/Plain": "POST /redlatch.test.v1.OrderService/Plain",
	} {
		t.Run(operation, func(t *testing.T) {
			g, err := guard.New(guardtest.Locker(t, memstore.New()), rule.Rule{Operation: operation, Key: "lock:<user_id>"})
			if err == nil {
				_, err = dial(t, &orders{place: func(context.Context, *testpb.PlaceRequest) (*testpb.PlaceResponse, error) {
					t.Error("a handler ran")
					return nil, status.Error(codes.Unknown, "ran")
				}}, g).Place(t.Context(), &testpb.PlaceRequest{UserId: "7"})
				if reasonOf(err) != "LOCK_RULE_INVALID" {
					t.Errorf("the call: %v", err)
				}
				err = g.Validate()
			}
			if err == nil || !strings.Contains(err.Error(), strconv.Quote(cure)) {
				t.Errorf("got %v, want the cure %q", err, cure)
			}
		})
	}
}

// A server whose interceptors aren't all there, or of which nobody knows, must
// not leave its methods open either.
func TestAServerWithoutItsInterceptorsIsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		rules []rule.Rule
		set   func(*grpclock.Locks)
		want  string
	}{
		"no interceptor for streams": {nil, func(i *grpclock.Locks) {
			i.UnaryServerInterceptor()
			i.Attach(registered(ordersService))
		}, "has no interceptor for streams: make it with grpc.ChainStreamInterceptor(locks.StreamServerInterceptor())"},
		"none for unary methods": {nil, func(i *grpclock.Locks) {
			i.StreamServerInterceptor()
			i.Attach(registered(ordersService))
		}, "has no interceptor for unary methods: make it with grpc.ChainUnaryInterceptor(locks.UnaryServerInterceptor())"},
		"none at all": {nil, func(i *grpclock.Locks) {
			i.Attach(registered(ordersService))
		}, "a server is attached that has no interceptor"},
		"no server": {nil, func(i *grpclock.Locks) {
			i.UnaryServerInterceptor()
		}, "call Attach(server)"},
		"no server for streams": {nil, func(i *grpclock.Locks) {
			i.StreamServerInterceptor()
		}, "call Attach(server)"},
		"a server that is nil": {nil, func(i *grpclock.Locks) {
			i.UnaryServerInterceptor()
			i.Attach(nil)
		}, "Attach(nil)"},
		"rules, and interceptors that nobody uses": {
			[]rule.Rule{{Operation: plain, Key: "lock:x"}}, func(*grpclock.Locks) {}, plain,
		},
		"a client that has no interceptor for streams": {
			[]rule.Rule{{Operation: watch, Key: "lock:x"}}, func(i *grpclock.Locks) { i.UnaryClientInterceptor() }, watch,
		},
		"a client, and a rule for a method that is not in the files": {
			[]rule.Rule{{Operation: "/shop.v1.Orders/Place", Key: "lock:x"}}, func(i *grpclock.Locks) { i.UnaryClientInterceptor() }, "/shop.v1.Orders/Place",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := guard.Must(guard.New(guardtest.Locker(t, memstore.New()), test.rules...))
			locks, err := grpclock.New(g)
			if err != nil {
				t.Fatal(err)
			}
			test.set(locks)
			if err := g.Validate(); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
			if name == "none for unary methods" || name == "none at all" {
				return // to make one is the cure
			}
			_, err = locks.UnaryServerInterceptor()(t.Context(), &testpb.PlaceRequest{UserId: "7"}, &grpc.UnaryServerInfo{FullMethod: place},
				func(context.Context, any) (any, error) { t.Error("the handler ran"); return nil, nil })
			if reasonOf(err) != "LOCK_RULE_INVALID" {
				t.Errorf("the call: %v", err)
			}
		})
	}
}

// A server is believed only if its own chain has the interceptors.
func TestAttachLooksAtTheServer(t *testing.T) {
	logging := func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		return handler(ctx, req)
	}
	const noUnary, noStream = "a server is attached that has no interceptor for unary methods", "a server is attached that has no interceptor for streams"
	for name, test := range map[string]struct {
		server func(i *grpclock.Locks) grpclock.Registry
		want   []string
	}{
		"both, among others": {func(i *grpclock.Locks) grpclock.Registry {
			return grpc.NewServer(grpc.UnaryInterceptor(logging), grpc.ChainUnaryInterceptor(logging, i.UnaryServerInterceptor()), grpc.ChainStreamInterceptor(i.StreamServerInterceptor()))
		}, nil},
		"both, given alone": {func(i *grpclock.Locks) grpclock.Registry {
			return grpc.NewServer(grpc.UnaryInterceptor(i.UnaryServerInterceptor()), grpc.StreamInterceptor(i.StreamServerInterceptor()))
		}, nil},
		"both, in a server that embeds one": {func(i *grpclock.Locks) grpclock.Registry {
			return &wrapped{grpc.NewServer(grpc.ChainUnaryInterceptor(i.UnaryServerInterceptor()), grpc.ChainStreamInterceptor(i.StreamServerInterceptor()))}
		}, nil},
		"made, and not installed": {func(i *grpclock.Locks) grpclock.Registry {
			i.UnaryServerInterceptor()
			i.StreamServerInterceptor()
			return grpc.NewServer(grpc.ChainUnaryInterceptor(logging))
		}, []string{noUnary, noStream, "grpclock.Unseen(server)"}},
		"those of other locks": {func(*grpclock.Locks) grpclock.Registry {
			others, _ := grpclock.New(guardtest.Guard(t))
			return grpc.NewServer(grpc.ChainUnaryInterceptor(others.UnaryServerInterceptor()), grpc.ChainStreamInterceptor(others.StreamServerInterceptor()))
		}, []string{noUnary, noStream}},
		"unary alone, before a service of streams": {func(i *grpclock.Locks) grpclock.Registry {
			return grpc.NewServer(grpc.ChainUnaryInterceptor(i.UnaryServerInterceptor()))
		}, []string{noStream}},
		"called by another interceptor": {func(i *grpclock.Locks) grpclock.Registry {
			ours := i.UnaryServerInterceptor()
			wraps := func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
				return ours(ctx, req, info, handler)
			}
			return grpc.NewServer(grpc.ChainUnaryInterceptor(wraps), grpc.ChainStreamInterceptor(i.StreamServerInterceptor()))
		}, []string{noUnary, "grpclock.Unseen(server)"}},
		"a type that shows nothing": {func(i *grpclock.Locks) grpclock.Registry {
			i.UnaryServerInterceptor()
			return registry{{Name: "Place"}}
		}, []string{"the interceptors of a server cannot be seen", "is no *grpc.Server", "grpclock.Unseen(server)"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := guardtest.Guard(t).WithLogger(slog.New(slog.DiscardHandler))
			locks, err := grpclock.New(g)
			if err != nil {
				t.Fatal(err)
			}
			locks.Attach(test.server(locks))
			err = g.Validate()
			if (err == nil) != (test.want == nil) {
				t.Errorf("got %v", err)
			}
			for _, want := range test.want {
				if err != nil && !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %q", err, want)
				}
			}
		})
	}
}

// wrapped is the server of a framework.
type wrapped struct{ *grpc.Server }

// Of two servers, one has the interceptors.
func TestAServerBesideALockedOneIsRefused(t *testing.T) {
	g := guardtest.Guard(t).WithLogger(slog.New(slog.DiscardHandler))
	locks, err := grpclock.New(g)
	if err != nil {
		t.Fatal(err)
	}
	locks.Attach(grpc.NewServer(grpc.ChainUnaryInterceptor(locks.UnaryServerInterceptor()), grpc.ChainStreamInterceptor(locks.StreamServerInterceptor())))
	if err := g.Validate(); err != nil {
		t.Fatal(err)
	}
	locks.Attach(grpc.NewServer())
	if err := g.Validate(); err == nil || !strings.Contains(err.Error(), "no interceptor for streams") {
		t.Errorf("got %v", err)
	}
}

// Generated code names a unary method by its first name, and a stream by the second.
func TestAServiceUnderASecondNameIsRefused(t *testing.T) {
	legacy := testpb.OrderService_ServiceDesc
	legacy.ServiceName = "legacy.OrderService"
	for name, test := range map[string]struct {
		rules []rule.Rule
		impl  func(*grpclock.Locks) testpb.OrderServiceServer
		want  string
	}{
		"whose .proto has locks":   {nil, nil, `/legacy.OrderService/Watch": is a second name of /redlatch.test.v1.OrderService/Watch, whose lock it would not take`},
		"whose methods have rules": {legacyRules("Place", "Refill", "Transfer", "Watch", "Upload", "Chat"), nil, ""},
		"that is a decorator's": {nil, func(locks *grpclock.Locks) testpb.OrderServiceServer {
			return testpb.NewOrderServiceServerLock(&orders{}, locks)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := guard.Must(guard.New(guardtest.Locker(t, memstore.New()), test.rules...)).WithLogger(slog.New(slog.DiscardHandler))
			locks, err := grpclock.New(g)
			if err != nil {
				t.Fatal(err)
			}
			server := grpc.NewServer(grpc.ChainUnaryInterceptor(locks.UnaryServerInterceptor()), grpc.ChainStreamInterceptor(locks.StreamServerInterceptor()))
			locks.Attach(server)
			if err := g.Validate(); err != nil && test.rules == nil {
				t.Fatal(err)
			}
			var impl testpb.OrderServiceServer = &orders{}
			if test.impl != nil {
				impl = test.impl(locks)
			}
			server.RegisterService(&legacy, impl) // after the guard was found good
			for _, err := range []error{firstCall(t, server), g.Validate()} {
				if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want) && reasonOf(err) != "LOCK_RULE_INVALID") {
					t.Errorf("got %v, want %q", err, test.want)
				}
			}
		})
	}
}

func legacyRules(methods ...string) []rule.Rule {
	var rules []rule.Rule
	for _, m := range methods {
		rules = append(rules, rule.Rule{Operation: "/legacy.OrderService/" + m, Key: "lock:legacy"})
	}
	return rules
}

// firstCall opens a stream of the second name, as the first call of a server.
func firstCall(t *testing.T, server *grpc.Server) error {
	t.Helper()
	stream, err := serve(t, server).NewStream(t.Context(), &testpb.OrderService_ServiceDesc.Streams[0], "/legacy.OrderService/Watch")
	if err == nil {
		err = stream.SendMsg(&testpb.WatchRequest{UserId: "7"})
	}
	if err == nil {
		err = stream.CloseSend()
	}
	if err == nil {
		err = stream.RecvMsg(&testpb.WatchResponse{})
	}
	return err
}

// An option that nobody reads locks nothing: the start fails.
func TestRequireEndsTheStartWhereNothingServesAnOption(t *testing.T) {
	for name, test := range map[string]struct {
		serve func(t *testing.T, g *guard.Guard)
		want  []string
	}{
		"nothing": {nil, []string{place, transfer, refill, watch, upload, chat}},
		"a decorator": {func(t *testing.T, g *guard.Guard) {
			t.Helper()
			decorate(t, &orders{}, g)
		}, nil},
		"interceptors": {func(t *testing.T, g *guard.Guard) {
			t.Helper()
			locksOf(t, g, registered(ordersService))
		}, nil},
		"another integration": {func(_ *testing.T, g *guard.Guard) {
			g.Serve("connectlock", place, transfer, refill, watch, upload)
		}, []string{chat}},
	} {
		t.Run(name, func(t *testing.T) {
			g := guard.Must(guard.New(guardtest.Locker(t, memstore.New()))).WithLogger(slog.New(slog.DiscardHandler))
			grpclock.Require(g, &testpb.OrderService_ServiceDesc)
			if test.serve != nil {
				test.serve(t, g)
			}
			err := g.Validate()
			var lines []string
			if err != nil {
				lines = strings.Split(err.Error(), "\n")
			}
			if len(lines) != len(test.want) {
				t.Errorf("got %v, want a fault of %q", err, test.want)
			}
			for _, method := range test.want {
				want := strconv.Quote(method) + ": must take its lock, and nothing serves it; register the service"
				if !slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, want) }) {
					t.Errorf("got %v, want %q", err, want)
				}
			}
			if _, entered := g.RulesOf(plain); (entered == nil) != (test.want == nil) {
				t.Errorf("the guard lets calls in: %v", entered)
			}
		})
	}
	g := guard.Must(guard.New(guardtest.Locker(t, memstore.New()))).WithLogger(slog.New(slog.DiscardHandler))
	grpclock.Require(g, nil, &grpc.ServiceDesc{ServiceName: "shop.v1.Unknown"})
	if err := g.Validate(); err == nil || !strings.Contains(err.Error(), "a service without a descriptor") {
		t.Errorf("a service that isn't known: %v", err)
	}
}

// registry is a server that has these methods of the orders.
type registry []grpc.MethodInfo

func (r registry) GetServiceInfo() map[string]grpc.ServiceInfo {
	return map[string]grpc.ServiceInfo{"redlatch.test.v1.OrderService": {Methods: r}}
}

var watches = registry{{Name: "Watch", IsServerStream: true}}

// A server that can't be seen and has methods of one kind alone needs no interceptor for the other.
func TestInterceptorsOfOneKindServeTheRulesOfThatKind(t *testing.T) {
	for name, test := range map[string]struct {
		method string
		set    func(*grpclock.Locks)
	}{
		"a server of unary methods": {place, func(i *grpclock.Locks) {
			i.UnaryServerInterceptor()
			i.Attach(grpclock.Unseen(registry{{Name: "Place"}}))
		}},
		"a server of streams":    {watch, func(i *grpclock.Locks) { i.StreamServerInterceptor(); i.Attach(grpclock.Unseen(watches)) }},
		"a client's unary calls": {place, func(i *grpclock.Locks) { i.UnaryClientInterceptor() }},
		"a client's streams":     {watch, func(i *grpclock.Locks) { i.StreamClientInterceptor() }},
	} {
		g := guard.Must(guard.New(guardtest.Locker(t, memstore.New()), rule.Rule{Operation: test.method, Key: "lock:<user_id>"}))
		locks, err := grpclock.New(g)
		if err != nil {
			t.Fatal(err)
		}
		test.set(locks)
		if err := g.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An option that is no rule is one that nobody could read, not one that asks for nothing.
func TestAnOptionThatIsNoRuleNeedsItsInterceptorToo(t *testing.T) {
	g := guardtest.Guard(t)
	files := filesWith(t, "Watch", wireOf(t, &lockpb.LockRule{}), protoregistry.GlobalTypes)
	locks, err := grpclock.New(g, grpclock.WithFiles(files))
	if err != nil {
		t.Fatal(err)
	}
	locks.UnaryServerInterceptor()
	locks.Attach(grpclock.Unseen(watches))
	if err := g.Validate(); err == nil || !strings.Contains(err.Error(), strconv.Quote(watch)+": has a rule, but the server has no interceptor for streams") {
		t.Errorf("got %v", err)
	}
}

// What a server has that nobody attached is refused by the call at the latest.
func TestAMethodOfAnotherServerDoesNotRunWithoutTheLockOfItsOption(t *testing.T) {
	g := guardtest.Guard(t)
	unary, _ := locksOf(t, g, registered(ordersService))
	if err := g.Validate(); err != nil {
		t.Fatal(err)
	}
	const faulty = "/redlatch.test.v1.FaultyService/"
	for method, req := range map[string]any{
		faulty + "Grammar":  &testpb.GrammarRequest{},
		faulty + "Typo":     &testpb.TypoRequest{},
		faulty + "Reserved": &testpb.ReservedRequest{Service: "mine"},
	} {
		_, err := unary(t.Context(), req, &grpc.UnaryServerInfo{FullMethod: method},
			func(context.Context, any) (any, error) { t.Errorf("%s ran", method); return nil, nil })
		if reasonOf(err) != "LOCK_RULE_INVALID" {
			t.Errorf("%s: %v", method, err)
		}
	}
}

// Nor does a server that is attached twice report all twice.
func TestEachFaultIsReportedOnce(t *testing.T) {
	g := guardtest.Guard(t)
	locks, err := grpclock.New(g)
	if err != nil {
		t.Fatal(err)
	}
	locks.UnaryServerInterceptor()
	locks.StreamServerInterceptor()
	server := grpclock.Unseen(registered(ordersService, faultyService))
	locks.Attach(server)
	locks.Attach(server)
	if err := g.Validate(); err == nil {
		t.Error("nothing is wrong")
	} else if faults := strings.Split(err.Error(), "\n"); len(faults) != 4 || len(slices.Compact(slices.Sorted(slices.Values(faults)))) != 4 {
		t.Errorf("got %v, want four faults", err)
	}
}

// Another integration, or another server, may have used the guard already.
func TestWhatIsMadeLateIsComparedWithTheRulesToo(t *testing.T) {
	typo := grpclock.WithRule("/redlatch.test.v1.OrderService/Plian", rule.Rule{Key: "lock:plain"})
	for name, test := range map[string]struct {
		opts []grpclock.Option
		soon func(*grpclock.Locks) // before the guard is used
		late func(*grpclock.Locks)
		want string
	}{
		"interceptors": {
			nil, func(*grpclock.Locks) {},
			func(i *grpclock.Locks) { i.UnaryServerInterceptor() }, "call Attach(server)",
		},
		"a server": {
			nil, func(i *grpclock.Locks) { i.UnaryServerInterceptor(); i.Attach(grpclock.Unseen(registered())) },
			func(i *grpclock.Locks) { i.Attach(grpclock.Unseen(registered(ordersService))) }, watch + `": has a rule, but the server has no interceptor for streams`,
		},
		"all": {[]grpclock.Option{typo}, nil, func(i *grpclock.Locks) {
			i.UnaryServerInterceptor()
			i.StreamServerInterceptor()
			i.Attach(grpclock.Unseen(registered(ordersService)))
		}, "Plian\": is in WithRule, but there is no such method"},
	} {
		t.Run(name, func(t *testing.T) {
			g := guard.Must(guard.New(guardtest.Locker(t, memstore.New())))
			var locks *grpclock.Locks
			create := func() {
				var err error
				if locks, err = grpclock.New(g, test.opts...); err != nil {
					t.Fatal(err)
				}
			}
			if test.soon != nil {
				create()
				test.soon(locks)
			}
			if _, err := g.RulesOf("POST /orders"); err != nil {
				t.Fatal(err)
			}
			if locks == nil {
				create()
			}
			test.late(locks)
			if _, err := g.RulesOf("POST /orders"); err == nil || !strings.Contains(err.Error(), test.want) || strings.Count(err.Error(), test.want) > 1 {
				t.Errorf("got %v, want once %q", err, test.want)
			}
		})
	}
}

func TestValidateNeedsDescriptors(t *testing.T) {
	unknown := grpclock.WithFiles(new(protoregistry.Files))
	for name, test := range map[string]struct {
		method string
		rule   rule.Rule
		want   string
	}{
		"for fields":                      {place, rule.Rule{Key: "lock:<user_id>"}, "names fields of its requests, which are not known"},
		"to skip":                         {place, rule.Rule{Key: "lock:x", OnBusy: rule.Skip}, "says skip, but its answers are not known"},
		"to skip a stream of one answer":  {upload, rule.Rule{Key: "lock:x", OnBusy: rule.Skip}, "says skip, but its answers are not known"},
		"not to skip a stream of answers": {watch, rule.Rule{Key: "lock:x", OnBusy: rule.Skip}, ""},
		"not for rest":                    {place, rule.Rule{Key: "lock:<md.x>:<ctx.y>:<service>"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := validate(t, guardtest.Guard(t), registered(ordersService), unknown, grpclock.WithRule(test.method, test.rule))
			if (err != nil) != (test.want != "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// WithVar of a misspelled name would leave the variable to the client's request.
func TestNamesOfOptionsThatAreMisspelledAreReported(t *testing.T) {
	bound := func(context.Context, any) (string, error) { return "u", nil }
	mine := rule.Rule{Operation: plain, Key: "lock:<userId>:<md.user-id>"}
	for name, test := range map[string]struct {
		option grpclock.Option
		want   string
	}{
		"a variable":             {grpclock.WithVar("usrId", bound), `grpclock: WithVar("usrId"): no template has <usrId>, did you mean "userId"?`},
		"an identity":            {grpclock.WithIdentity("md.user-id", "md.user_id"), `grpclock: WithIdentity("md.user_id"): no template has <md.user_id>, did you mean "md.user-id"?`},
		"one of another rule":    {grpclock.WithVar("user_id", bound), ""}, // the .proto of Place has it
		"one of no rule yet":     {grpclock.WithVar("tenant", bound), ""},
		"an identity of no rule": {grpclock.WithIdentity("ctx.tenant"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := validate(t, guardtest.Guard(t, mine), registered(ordersService), test.option)
			if (err != nil) != (test.want != "") || err != nil && err.Error() != test.want {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// Each call would be refused, and nobody would know before the first.
func TestARuleOfAnOptionThatTheLockerRulesOutIsAFault(t *testing.T) {
	long := rule.Rule{Key: "lock:x", MinHold: 50 * time.Second}
	for name, use := range map[string]func(*guard.Guard){
		"of a server": func(g *guard.Guard) { guarded(t, g, grpclock.WithRule(plain, long)) },
		"of a client": func(g *guard.Guard) { calling(t, g, grpclock.WithRule(plain, long)) },
		"of a .proto": func(g *guard.Guard) {
			wire := wireOf(t, &lockpb.LockRule{Key: &long.Key, MinHold: durationpb.New(long.MinHold)})
			guarded(t, g, grpclock.WithFiles(filesWith(t, "Plain", wire, protoregistry.GlobalTypes)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := guard.Must(guard.New(guardtest.Locker(t, memstore.New(), lock.WithMaxHold(30*time.Second))))
			use(g)
			const want = `grpclock: "` + plain + `": doesn't fit the settings of the locker: invalid argument: WithMinHold(50s): WithMaxHold(30s) ends earlier`
			if err := g.Validate(); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %s", err, want)
			}
		})
	}
}

func TestProgrammersErrorsAreReportedTogether(t *testing.T) {
	bound := func(context.Context, any) (string, error) { return "", nil }
	_, err := grpclock.New(guardtest.Guard(t),
		nil,
		grpclock.WithRule("Place", rule.Rule{Key: "lock:x"}),
		grpclock.WithRule(plain, rule.Rule{Key: "lock:x", Operation: place}),
		grpclock.WithRule(plain, rule.Rule{Key: "lock:<", Wait: -1}),
		grpclock.WithVar("x", nil),
		grpclock.WithVar("method", bound),
		grpclock.WithVar("usr id", bound),
		grpclock.WithVar("md.user", bound),
		grpclock.WithIdentity("<user>", "", "user|int", "a>:<b", "query.user", "md.user"),
		grpclock.WithFirstMessage("x", "shop.v1.Orders/Place", "//Place", "/shop.v1.Orders/", "/shop/v1/Place", "/shop v1/Place", "/shop.v1.Orders/Pl ace"),
		grpclock.WithErrorMapper(nil),
		grpclock.WithRetryDelay(time.Microsecond),
		grpclock.WithRetryDelay(lock.MaxDuration+1),
		grpclock.WithContentionCode(codes.Internal),
		grpclock.WithFiles(nil),
	)
	for _, want := range []string{
		"an option is nil",
		`WithRule("Place"): a full method looks like "/shop.v1.Orders/Place"`,
		`the rule is for another operation, "` + place + `"`,
		`key: "lock:<", column 6`, "wait: -1ns is negative",
		`WithVar("x"): the source is nil`, `WithVar("method"): the name is reserved`,
		`WithVar("usr id"): no template can have`, `WithVar("md.user"): no template can have`,
		`WithIdentity("<user>"): no template can have`, `WithIdentity("")`, `WithIdentity("user|int")`, `WithIdentity("a>:<b")`, `WithIdentity("query.user")`,
		`WithFirstMessage("x")`, `WithFirstMessage("shop.v1.Orders/Place")`, `WithFirstMessage("//Place")`, `WithFirstMessage("/shop.v1.Orders/")`,
		`WithFirstMessage("/shop/v1/Place")`, `WithFirstMessage("/shop v1/Place")`, `WithFirstMessage("/shop.v1.Orders/Pl ace")`, "WithErrorMapper: the func is nil", "WithRetryDelay(1µs)", "WithRetryDelay(8760h0m0.000000001s)",
		"WithContentionCode(Internal)", "WithFiles: the files are nil",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in\n%v", want, err)
		}
	}
	if strings.Contains(err.Error(), `WithIdentity("md.user")`) {
		t.Errorf("md.user is a variable, and refused in\n%v", err)
	}
	if _, err := grpclock.New(nil); err == nil || !strings.Contains(err.Error(), "guard is nil") {
		t.Errorf("without a guard: %v", err)
	}
}
