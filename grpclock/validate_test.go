package grpclock_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/grpclock"
	"github.com/redlatch/redlatch/grpclock/internal/testpb"
)

func pass(context.Context, any) (any, error) { return nil, nil }

// registered returns a server that was never started.
func registered(services ...func(*grpc.Server)) *grpc.Server {
	s := grpc.NewServer()
	for _, register := range services {
		register(s)
	}
	return s
}

func ordersService(s *grpc.Server) { testpb.RegisterOrderServiceServer(s, &orders{}) }
func faultyService(s *grpc.Server) { testpb.RegisterFaultyServiceServer(s, &orders{}) }

func TestValidateAcceptsWhatCanBeServed(t *testing.T) {
	g := guardtest.Guard(t,
		rule.Rule{Operation: "POST /orders/:id", Key: "lock:<path.id>"}, // another door's
		rule.Rule{Operation: "OrderService.Place", Key: "lock:<id>"},
		rule.Rule{Operation: plain, Key: "lock:<tenant>:<ctx.user>:<method>"})
	tenant := grpclock.WithVar("tenant", func(context.Context, any) (string, error) { return "acme", nil })
	upload := grpclock.WithRule(upload, rule.Rule{Key: "lock:<user_id>"})
	first := grpclock.WithFirstMessage("/redlatch.test.v1.OrderService/Upload")
	if err := grpclock.Validate(registered(ordersService), g, tenant, upload, first); err != nil {
		t.Error(err)
	}
}

func TestValidateReportsEveryFault(t *testing.T) {
	g := guardtest.Guard(t,
		rule.Rule{Operation: "/redlatch.test.v1.OrderService/Plaice", Key: "lock:x"},
		rule.Rule{Operation: "POST /orders", Key: "lock:x"},
		rule.Rule{Operation: plain, Key: "lock:<userld>:<req.user_id.x>"})
	err := grpclock.Validate(registered(ordersService, faultyService), g,
		grpclock.WithRule("/redlatch.test.v1.Nobody/Place", rule.Rule{Key: "lock:x"}),
		grpclock.WithRule(upload, rule.Rule{Key: "lock:<user_id>"}),
		grpclock.WithFirstMessage(watch, "/redlatch.test.v1.OrderService/Wash"),
	)
	want := []string{
		`grpclock: /redlatch.test.v1.FaultyService/Grammar: key: "lock:<user_id", column 6: the variable is not closed, add ">"`,
		`grpclock: /redlatch.test.v1.FaultyService/Grammar: wait: -1s is negative, use 0 to try once or the longest time to wait`,
		`grpclock: /redlatch.test.v1.FaultyService/Typo: template "lock:order:<usr_id>", column 12: <usr_id>: redlatch.test.v1.TypoRequest has no field "usr_id"`,
		`grpclock: /redlatch.test.v1.Nobody/Place: has a rule, but the server has no such method`,
		`grpclock: /redlatch.test.v1.OrderService/Plaice: has a rule, but the server has no such method`,
		`grpclock: /redlatch.test.v1.OrderService/Plain: template "lock:<userld>:<req.user_id.x>", column 15: <req.user_id.x>: redlatch.test.v1.PlainRequest.user_id is string, which has no fields to name`,
		`grpclock: /redlatch.test.v1.OrderService/Plain: template "lock:<userld>:<req.user_id.x>", column 6: <userld>: redlatch.test.v1.PlainRequest has no field "userld"`,
		`grpclock: /redlatch.test.v1.OrderService/Upload: template "lock:<user_id>", column 6: <user_id>: is a field of a request, and there is no message before the handler runs: use <md.name>, <ctx.name>, WithVar or WithFirstMessage`,
		`grpclock: /redlatch.test.v1.OrderService/Wash: is in WithFirstMessage, but the server has no such method`,
		`grpclock: /redlatch.test.v1.OrderService/Watch: is in WithFirstMessage, but clients do not stream to it`,
	}
	if err == nil || err.Error() != strings.Join(want, "\n") {
		t.Errorf("got\n%v\nwant\n%s", err, strings.Join(want, "\n"))
	}
}

func TestValidateNeedsDescriptors(t *testing.T) {
	unknown := grpclock.WithFiles(new(protoregistry.Files))
	for name, test := range map[string]struct {
		rule rule.Rule
		want string
	}{
		"for fields":   {rule.Rule{Key: "lock:<user_id>"}, "names fields of its requests, which are not known"},
		"to skip":      {rule.Rule{Key: "lock:x", OnBusy: rule.Skip}, "says skip, but its answers are not known"},
		"not for rest": {rule.Rule{Key: "lock:<md.x>:<ctx.y>:<service>"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := grpclock.Validate(registered(ordersService), guardtest.Guard(t), unknown, grpclock.WithRule(place, test.rule))
			if (err != nil) != (test.want != "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestProgrammersErrorsAreReportedTogether(t *testing.T) {
	g := guardtest.Guard(t, rule.Rule{Operation: place, Key: "lock:<path.id>:<ip>"})
	_, err := grpclock.Build(g,
		nil,
		grpclock.WithRule("Place", rule.Rule{Key: "lock:x"}),
		grpclock.WithRule(plain, rule.Rule{Key: "lock:x", Operation: place}),
		grpclock.WithRule(plain, rule.Rule{Key: "lock:<", Wait: -1}),
		grpclock.WithRule(watch, rule.Rule{Key: "lock:<query.id>"}),
		grpclock.WithVar("x", nil),
		grpclock.WithVar("method", func(context.Context, any) (string, error) { return "", nil }),
		grpclock.WithFirstMessage("x"),
		grpclock.WithErrorMapper(nil),
		grpclock.WithRetryDelay(time.Microsecond),
		grpclock.WithContentionCode(codes.Internal),
		grpclock.WithFiles(nil),
	)
	for _, want := range []string{
		"an option is nil",
		`WithRule("Place"): a full method looks like "/shop.v1.Orders/Place"`,
		`the rule is for another operation, "` + place + `"`,
		`key: "lock:<", column 6`, "wait: -1ns is negative",
		`<path.id>: does not exist in gRPC`, `<ip>: does not exist in gRPC`, `<query.id>: does not exist in gRPC`,
		`WithVar("x"): the source is nil`, `WithVar("method"): the name is reserved`,
		`WithFirstMessage("x")`, "WithErrorMapper: the func is nil", "WithRetryDelay(1µs)",
		"WithContentionCode(Internal)", "WithFiles: the files are nil",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in\n%v", want, err)
		}
	}
	if _, err := grpclock.Build(nil); err == nil || !strings.Contains(err.Error(), "guard is nil") {
		t.Errorf("without a guard: %v", err)
	}
	if err := grpclock.Validate(registered(), nil); err == nil {
		t.Error("Validate without a guard")
	}
}

func TestConstructorsPanicOnWhatBuildReturns(t *testing.T) {
	for name, construct := range map[string]func(){
		"unary server":  func() { grpclock.UnaryServerInterceptor(nil) },
		"stream server": func() { grpclock.StreamServerInterceptor(nil) },
		"unary client":  func() { grpclock.UnaryClientInterceptor(nil) },
		"stream client": func() { grpclock.StreamClientInterceptor(nil) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			construct()
		})
	}
}
