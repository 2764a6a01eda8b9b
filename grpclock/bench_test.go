package grpclock_test

import (
	"context"
	"testing"

	"google.golang.org/grpc"

	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/grpclock"
	"github.com/redlatch/redlatch/grpclock/internal/testpb"
)

// BenchmarkUnary is what the interceptor costs beside the handler alone, on a
// store that costs nothing: without a network, and over one in memory. "lock"
// is the handler under a lock that it takes itself: no door can cost less.
func BenchmarkUnary(b *testing.B) {
	req := &testpb.PlaceRequest{UserId: "42"}
	ofGuard := guardtest.Guard(b, rule.Rule{Operation: place, Key: "lock:order:<user_id>"})
	for _, door := range []struct {
		name   string
		server []grpc.ServerOption
		call   grpc.UnaryServerInterceptor
	}{
		{"bare", nil, nil},
		{"lock", nil, byHand(guardtest.Guard(b).Locker())},
		{"option", guarded(b, guardtest.Guard(b)), grpclock.UnaryServerInterceptor(guardtest.Guard(b))},
		{"rule", guarded(b, ofGuard), grpclock.UnaryServerInterceptor(ofGuard)},
	} {
		b.Run("handler/"+door.name, func(b *testing.B) {
			o := &orders{}
			handler := func(ctx context.Context, req any) (any, error) { return o.Place(ctx, req.(*testpb.PlaceRequest)) }
			call := func() (any, error) { return handler(b.Context(), req) }
			if door.call != nil {
				info := &grpc.UnaryServerInfo{FullMethod: place}
				call = func() (any, error) { return door.call(b.Context(), req, info, handler) }
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := call(); err != nil {
					b.Fatal(err)
				}
			}
		})
		if door.server == nil && door.call != nil {
			continue
		}
		b.Run("network/"+door.name, func(b *testing.B) {
			client := testpb.NewOrderServiceClient(connect(b, &orders{}, door.server))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := client.Place(b.Context(), req); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// byHand locks without a door.
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
	intercept := grpclock.UnaryServerInterceptor(guardtest.Guard(b))
	info := &grpc.UnaryServerInfo{FullMethod: plain}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := intercept(b.Context(), nil, info, pass); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPath(b *testing.B) {
	message := everything()
	for _, path := range []string{"text", "buyer.sponsor.sponsor.address.zip", "int64"} {
		b.Run(path, func(b *testing.B) {
			p, err := grpclock.CompilePath(message.ProtoReflect().Descriptor(), path)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := p.Read(message.ProtoReflect(), false); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
