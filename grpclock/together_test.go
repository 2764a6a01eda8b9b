package grpclock_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/redlatch/redlatch/annotations"
	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/grpclock"
	"github.com/redlatch/redlatch/grpclock/internal/testpb"
)

func TestTwoOptionsAreTakenTogether(t *testing.T) {
	g := guardtest.Guard(t)
	client := dial(t, &orders{transfer: func(ctx context.Context, req *testpb.TransferRequest) (*testpb.TransferResponse, error) {
		for _, key := range []string{"lock:account:" + req.GetFrom(), "lock:account:" + req.GetTo()} {
			if lease, ok := lock.LeaseOf(ctx, key); !ok || lock.AssertHeld(ctx, lease.Key()) != nil {
				t.Errorf("%s is not held", key)
			}
		}
		return &testpb.TransferResponse{}, nil
	}}, g)
	for from, to := range map[string]string{"1": "2", "2": "1", "3": "3"} {
		if _, err := client.Transfer(t.Context(), &testpb.TransferRequest{From: from, To: to}); err != nil {
			t.Errorf("from %s to %s: %v", from, to, err)
		}
	}
	guardtest.AssertFree(t, g, "lock:account:1")
	guardtest.AssertFree(t, g, "lock:account:2")
	guardtest.AssertFree(t, g, "lock:account:3")
}

// The answer names the rule whose key another owner holds.
func TestTheAnswerNamesTheRuleThatRefused(t *testing.T) {
	g := guardtest.Guard(t)
	client := dial(t, &orders{}, g, grpclock.WithRule(transfer,
		rule.Rule{Key: "lock:from:<from>", Wait: time.Millisecond}, rule.Rule{Key: "lock:to:<to>"}))
	guardtest.Hold(t, g, "lock:to:2")
	_, err := client.Transfer(t.Context(), &testpb.TransferRequest{From: "1", To: "2"})
	var named []string
	for _, d := range status.Convert(err).Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			named = append(named, d.GetMetadata()["template"])
		case *errdetails.ResourceInfo:
			named = append(named, d.GetResourceName())
		}
	}
	if want := []string{"lock:to:<to>", "lock:to:<to>"}; !slices.Equal(named, want) {
		t.Errorf("%v names %q, want %q", err, named, want)
	}
	guardtest.AssertFree(t, g, "lock:from:1")
}

func TestCrossingTransfersOverTheNetworkNeverWaitForEachOther(t *testing.T) {
	var accounts guardtest.Accounts
	client := dial(t, &orders{transfer: func(_ context.Context, req *testpb.TransferRequest) (*testpb.TransferResponse, error) {
		accounts.Transfer(req.GetFrom(), req.GetTo())
		return &testpb.TransferResponse{}, nil
	}}, guardtest.Guard(t))
	accounts.Crossing(t, 10_000, func(from, to string) error {
		_, err := client.Transfer(t.Context(), &testpb.TransferRequest{From: from, To: to})
		return err
	})
}

// Two interceptors would take their locks one after the other.
func TestTwoInterceptorsInOneChainAreRefused(t *testing.T) {
	g := guardtest.Guard(t).WithLogger(slog.New(slog.DiscardHandler))
	first, _ := grpclock.New(g)
	second, _ := grpclock.New(g)
	server := grpc.NewServer(
		grpc.ChainUnaryInterceptor(first.UnaryServerInterceptor(), second.UnaryServerInterceptor()),
		grpc.ChainStreamInterceptor(first.StreamServerInterceptor(), second.StreamServerInterceptor()),
	)
	ordersService(server)
	first.Attach(server)
	second.Attach(server)
	if err := g.Validate(); err == nil || !strings.Contains(err.Error(), "two interceptors of locks in one chain") || !strings.Contains(err.Error(), "WithRule(method, a, b)") {
		t.Errorf("got %v", err)
	}
}

// A guard's error has a way to the client, and its message hasn't.
func TestAnErrorOfAGuardBecomesAStatus(t *testing.T) {
	g := guardtest.Guard(t)
	held := guardtest.Hold(t, g, "lock:stock:9")
	method, err := annotations.Compile(g, "Stock.Take", "lock:stock:<id>")
	if err != nil {
		t.Fatal(err)
	}
	take := func(ctx context.Context) error {
		return annotations.Do(ctx, method, annotations.VarsOf(map[string]string{"id": "9"}), func(context.Context) error { return nil })
	}
	for name, test := range map[string]struct {
		answer func(error) error
		reason string
	}{
		"as it is":  {func(err error) error { return err }, ""},
		"wrapped":   {func(err error) error { return errors.Join(errors.New("secret lock:stock:9"), err) }, ""},
		"by Status": {func(err error) error { return grpclock.Status(err).Err() }, "LOCK_CONTENDED"},
	} {
		t.Run(name, func(t *testing.T) {
			client := dial(t, &orders{plain: func(ctx context.Context) error { return test.answer(take(ctx)) }}, g)
			_, err := client.Plain(t.Context(), &testpb.PlainRequest{UserId: "7"})
			if status.Code(err) != codes.Aborted || reasonOf(err) != test.reason {
				t.Errorf("got %v, reason %q", err, reasonOf(err))
			}
			for _, secret := range []string{"lock:stock:9", "secret", held.Owner(), "Stock.Take"} {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("%q is in %v", secret, err)
				}
			}
			if _, retry := grpclock.RetryDelay(err); retry != (test.reason != "") {
				t.Errorf("says when to retry: %v", retry)
			}
		})
	}
	if other := errors.New("other"); grpclock.Status(other).Code() != codes.Unknown || grpclock.Status(nil).Code() != codes.OK {
		t.Error("other errors are not those of status.Convert")
	}
	if st := grpclock.Status(&guard.Error{Kind: guard.Lost}); st.Code() != codes.Internal {
		t.Errorf("a lost lease is %v", st)
	}
}
