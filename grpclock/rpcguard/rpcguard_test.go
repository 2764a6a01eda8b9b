package rpcguard_test

import (
	"context"
	"errors"
	"go/parser"
	"go/token"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/grpclock/internal/testpb"
	"github.com/redlatch/redlatch/grpclock/rpcguard"
)

func locksOf(t testing.TB, g *guard.Guard) *rpcguard.Locks {
	t.Helper()
	locks, err := rpcguard.New(g, rpcguard.Config{By: "testlock"})
	if err != nil {
		t.Fatal(err)
	}
	return locks
}

// An integration for another framework must not bring gRPC into its programs.
func TestTheCoreKnowsNoTransport(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range parsed.Imports {
			if strings.HasPrefix(spec.Path.Value, `"google.golang.org/grpc`) {
				t.Errorf("%s imports %s", file, spec.Path.Value)
			}
		}
	}
}

func TestEnterRunsAMethodUnderTheLocksOfItsOptions(t *testing.T) {
	g := guardtest.Guard(t)
	locks := locksOf(t, g)
	transfer := rpcguard.Request{Method: "/redlatch.test.v1.OrderService/Transfer", Message: &testpb.TransferRequest{From: "1", To: "2"}}
	inside, leave, refused := locks.Enter(t.Context(), transfer)
	if refused != nil {
		t.Fatal(refused)
	}
	guardtest.AssertHeld(t, inside, "lock:account:1")
	guardtest.AssertHeld(t, inside, "lock:account:2")
	for range 2 {
		if lost := leave(); lost != nil {
			t.Errorf("leave reports %v", lost)
		}
	}
	guardtest.AssertFree(t, g, "lock:account:1")

	inside, leave, refused = locks.Enter(t.Context(), rpcguard.Request{Method: plain, Message: &testpb.PlainRequest{}})
	if refused != nil || inside != t.Context() || leave() != nil {
		t.Errorf("a method without a rule: %v", refused)
	}
}

func TestARefusalIsAStatusAsData(t *testing.T) {
	g := guardtest.Guard(t)
	locks := locksOf(t, g)
	held := guardtest.Hold(t, g, "lock:order:7")
	_, leave, refused := locks.Enter(t.Context(), rpcguard.Request{Method: place, Message: &testpb.PlaceRequest{UserId: "7"}})
	if refused == nil || refused.Code != guard.Contended.Info().GRPC || refused.Trailer[rpcguard.PushbackTrailer] == "" || leave() != nil {
		t.Fatalf("got %+v", refused)
	}
	if !errors.Is(refused, lock.ErrBusy) || guard.KindOf(refused) != guard.Contended {
		t.Errorf("the cause is %v", refused.Cause)
	}
	if info, ok := refused.Details[0].(*errdetails.ErrorInfo); !ok || info.GetReason() != "LOCK_CONTENDED" || info.GetMetadata()["template"] != "lock:order:<user_id>" {
		t.Errorf("details are %v", refused.Details)
	}
	if strings.Contains(refused.Error(), "order:7") || strings.Contains(refused.Error(), held.Owner()) {
		t.Errorf("the message shows the lock: %v", refused)
	}
}

func TestALossIsReportedByLeave(t *testing.T) {
	g := guardtest.Guard(t)
	_, leave, refused := locksOf(t, g).Enter(t.Context(), rpcguard.Request{Method: place, Message: &testpb.PlaceRequest{UserId: "7"}})
	if refused != nil {
		t.Fatal(refused)
	}
	guardtest.Lose(t, g, "lock:order:7")
	if lost := leave(); lost == nil || lost.Cause.Kind != guard.Lost || lost.Trailer[rpcguard.PushbackTrailer] != "-1" {
		t.Errorf("got %+v", lost)
	}
}

func TestServeComparesTheServicesWithTheirRules(t *testing.T) {
	file := testpb.File_redlatch_test_v1_test_proto.Services()
	g := guard.Must(guard.New(guardtest.Locker(t, memstore.New())))
	rpcguard.Require(g, file.ByName("OrderService"))
	locks, err := rpcguard.New(g, rpcguard.Config{By: "testlock", Streams: true})
	if err != nil {
		t.Fatal(err)
	}
	locks.Serve(file.ByName("OrderService"))
	if err := g.Validate(); err != nil {
		t.Errorf("got %v", err)
	}
	locks.Serve(file.ByName("FaultyService"))
	if err := g.Validate(); err == nil || !strings.Contains(err.Error(), "testlock: /redlatch.test.v1.FaultyService/Typo: ") {
		t.Errorf("got %v", err)
	}
}

// An interceptor of many frameworks sees unary methods only: a stream would run beside it.
func TestAStreamWithARuleNeedsAnIntegrationThatLocksStreams(t *testing.T) {
	file := testpb.File_redlatch_test_v1_test_proto.Services()
	g := guard.Must(guard.New(guardtest.Locker(t, memstore.New()))).WithLogger(slog.New(slog.DiscardHandler))
	locksOf(t, g).Serve(file.ByName("OrderService"))
	err := g.Validate()
	for _, stream := range []string{"Watch", "Upload", "Chat"} {
		want := "testlock: /redlatch.test.v1.OrderService/" + stream + ": has a rule, and testlock takes no locks of streams"
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if err != nil && len(strings.Split(err.Error(), "\n")) != 3 {
		t.Errorf("got %v, want a fault for each stream", err)
	}
}

// What a plugin of protoc says of the options of a file.
func TestOptionsAreCheckedAsFarAsTheirFileShows(t *testing.T) {
	file := testpb.File_redlatch_test_v1_test_proto.Services()
	for service, want := range map[string][]string{
		"OrderService": nil,
		"FaultyService": {
			`no field "usr_id", did you mean "user_id"?`, `key: "lock:<user_id", column 6`, "wait: -1s is negative", "is the service of gRPC",
		},
	} {
		var faults []string
		methods := file.ByName(protoreflect.Name(service)).Methods()
		for i := range methods.Len() {
			for _, err := range rpcguard.CheckOptions(methods.Get(i)) {
				faults = append(faults, err.Error())
			}
		}
		if len(faults) != len(want) {
			t.Errorf("%s: got %q, want %q", service, faults, want)
		}
		for _, w := range want {
			if !slices.ContainsFunc(faults, func(f string) bool { return strings.Contains(f, w) }) {
				t.Errorf("%s: got %q, want %q", service, faults, w)
			}
		}
	}
}

func TestAnIntegrationNeedsANameAndAGuard(t *testing.T) {
	if _, err := rpcguard.New(guardtest.Guard(t), rpcguard.Config{}); err == nil {
		t.Error("an integration without a name")
	}
	if _, err := rpcguard.New(nil, rpcguard.Config{By: "x"}); err == nil {
		t.Error("an integration without a guard")
	}
	if st, ok := rpcguard.StatusOf(context.Background(), errors.New("other")); ok {
		t.Errorf("another error has the status %v", st)
	}
}
