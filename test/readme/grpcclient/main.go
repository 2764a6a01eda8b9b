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
	conn, err := dial(locker, "localhost:50051")
	if err == nil {
		err = call(context.Background(), conn)
	}
	log.Println("done, error:", err)
}

func dial(locker *lock.Locker, address string) (*grpc.ClientConn, error) {
	g, err := guard.New(locker, rule.Rule{ // a guard of the client's own
		Operation: healthpb.Health_Check_FullMethodName, Key: "lock:check:<req.service>", Wait: time.Second,
	})
	if err != nil {
		return nil, err
	}
	locks, err := grpclock.New(g)
	if err != nil {
		return nil, err
	}
	conn, err := grpc.NewClient(address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithChainUnaryInterceptor(locks.UnaryClientInterceptor()),
		grpc.WithChainStreamInterceptor(locks.StreamClientInterceptor()),
	)
	if err != nil {
		return nil, err
	}
	return conn, g.Validate() // an error if a rule is for a method that doesn't exist
}

func call(ctx context.Context, conn *grpc.ClientConn) error {
	for {
		answer, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{Service: "shop"})
		delay, retry := grpclock.RetryDelay(err) // nobody ran: another holds the lock, here or in the server
		if !retry {
			log.Println(answer.GetStatus())
			return err
		}
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
