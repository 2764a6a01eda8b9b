package grpclock_test

import (
	"context"
	"testing"

	"google.golang.org/grpc"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/grpclock/internal/testpb"
)

// BenchmarkUnary is what the interceptor costs besides the handler alone, on a
// store that costs nothing: without a network, and over one in memory. "lock"
// is the handler under a lock that it takes itself: nothing can cost less.
func BenchmarkUnary(b *testing.B) {
	req := &testpb.PlaceRequest{UserId: "42"}
	ofGuard := guardtest.Guard(b, rule.Rule{Operation: place, Key: "lock:order:<user_id>"})
	ofOption := guardtest.Guard(b)
	unaryOf := func(g *guard.Guard) grpc.UnaryServerInterceptor {
		unary, _ := locksOf(b, g, registered(ordersService))
		return unary
	}
	for _, way := range []struct {
		name   string
		server []grpc.ServerOption
		call   grpc.UnaryServerInterceptor
	}{
		{"bare", nil, nil},
		{"lock", nil, byHand(guardtest.Guard(b).Locker())},
		{"option", guarded(b, ofOption), unaryOf(ofOption)},
		{"rule", guarded(b, ofGuard), unaryOf(ofGuard)},
	} {
		b.Run("handler/"+way.name, func(b *testing.B) {
			o := &orders{}
			handler := func(ctx context.Context, req any) (any, error) { return o.Place(ctx, req.(*testpb.PlaceRequest)) }
			call := func() (any, error) { return handler(b.Context(), req) }
			if way.call != nil {
				info := &grpc.UnaryServerInfo{FullMethod: place}
				call = func() (any, error) { return way.call(b.Context(), req, info, handler) }
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := call(); err != nil {
					b.Fatal(err)
				}
			}
		})
		if way.server == nil && way.call != nil {
			continue
		}
		b.Run("network/"+way.name, func(b *testing.B) {
			client := testpb.NewOrderServiceClient(connect(b, &orders{}, way.server))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := client.Place(b.Context(), req); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// byHand locks without a way.
func byHand(locker *lock.Locker) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		lease, err := locker.TryAcquire(ctx, "lock:order:42")
		if err != nil {
			return nil, err
		}
		defer lease.Release(ctx) //nolint:errcheck // as a lease that is lost later
		return handler(lease.Context(), req)
	}
}

func BenchmarkPassThrough(b *testing.B) {
	intercept, _ := locksOf(b, guardtest.Guard(b), registered(ordersService))
	info := &grpc.UnaryServerInfo{FullMethod: plain}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := intercept(b.Context(), nil, info, pass); err != nil {
			b.Fatal(err)
		}
	}
}
