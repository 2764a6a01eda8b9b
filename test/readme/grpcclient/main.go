// Program is the client of docs/grpc.md.
package main

import (
	"context"
	"log"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/grpclock"
)

func main() {
	locker := lock.New(memstore.New())       // for a fleet: redisstore.New(redisClient)
	defer locker.Close(context.Background()) //nolint:errcheck // the program ends
	if err := call(context.Background(), locker, "localhost:50051"); err != nil {
		log.Println("failed:", err)
	}
}

func call(ctx context.Context, locker *lock.Locker, address string) error {
	g, err := guard.New(locker, rule.Rule{ // a guard of the client's own
		Operation: healthpb.Health_Check_FullMethodName, Key: "lock:check:<req.service>", Wait: time.Second,
	})
	if err != nil {
		return err
	}
	locks, err := grpclock.New(g)
	if err != nil {
		return err
	}
	conn, err := grpc.NewClient(address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithChainUnaryInterceptor(locks.UnaryClientInterceptor()),
		grpc.WithChainStreamInterceptor(locks.StreamClientInterceptor()),
	)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := g.Validate(); err != nil { // such as a method that doesn't exist
		return err
	}
	request := &healthpb.HealthCheckRequest{Service: "shop"}
	for {
		answer, err := healthpb.NewHealthClient(conn).Check(ctx, request)
		delay, retry := grpclock.RetryDelay(err) // nobody ran: another holds the lock, here or in the server
		if !retry {
			log.Println(answer.GetStatus(), err)
			return err
		}
		time.Sleep(delay)
	}
}
