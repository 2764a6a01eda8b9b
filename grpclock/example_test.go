package grpclock_test

import (
	"context"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/grpclock"
	"github.com/redlatch/redlatch/grpclock/internal/testpb"
)

// The lock of Place is declared in its .proto:
//
//	option (redlatch.lock.v1.lock) = {key: "lock:order:<user_id>"};
func Example() {
	ctx := context.Background()
	locker := lock.New(memstore.New()) // redisstore.New(rdb) to share locks with other processes
	defer locker.Close(ctx)
	g := guard.Must(guard.New(locker))

	locks, err := grpclock.New(g)
	if err != nil {
		fmt.Println(err)
		return
	}
	server := grpc.NewServer(
		grpc.ChainUnaryInterceptor(locks.UnaryServerInterceptor()),
		grpc.ChainStreamInterceptor(locks.StreamServerInterceptor()),
	)
	defer server.Stop()
	testpb.RegisterOrderServiceServer(server, &orders{})
	locks.Attach(server)
	if err := g.Validate(); err != nil {
		fmt.Println(err)
		return
	}
	listener, _ := net.Listen("tcp", "127.0.0.1:0")
	go func() { _ = server.Serve(listener) }()

	cc, _ := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	defer cc.Close()
	client := testpb.NewOrderServiceClient(cc)

	answer, _ := client.Place(ctx, &testpb.PlaceRequest{UserId: "42"})
	fmt.Println("ran under", answer.GetKey())

	// The same user once more, while the first order is under way.
	lease, _ := locker.TryAcquire(ctx, "lock:order:42")
	_, err = client.Place(ctx, &testpb.PlaceRequest{UserId: "42"})
	_, retry := grpclock.RetryDelay(err)
	fmt.Println(status.Code(err), grpclock.IsContended(err), retry)
	_ = lease.Release(ctx)
	// Output:
	// ran under lock:order:42
	// Aborted true true
}

// A typo is found before the first call.
func ExampleLocks_Attach() {
	locker := lock.New(memstore.New())
	defer locker.Close(context.Background())
	g := guard.Must(guard.New(locker, rule.Rule{Operation: "/redlatch.test.v1.OrderService/Place", Key: "lock:order:<userld>"}))

	locks, _ := grpclock.New(g)
	server := grpc.NewServer(
		grpc.ChainUnaryInterceptor(locks.UnaryServerInterceptor()),
		grpc.ChainStreamInterceptor(locks.StreamServerInterceptor()),
	)
	testpb.RegisterOrderServiceServer(server, &orders{})
	locks.Attach(server)
	fmt.Println(g.Validate())
	// Output:
	// grpclock: "/redlatch.test.v1.OrderService/Place": template "lock:order:<userld>", column 12: <userld>: redlatch.test.v1.PlaceRequest has no field "userld", did you mean "userId"?
}
