package frameworks_test

import (
	"net"
	"testing"

	"github.com/zeromicro/go-zero/core/logx"
	"github.com/zeromicro/go-zero/core/proc"
	"github.com/zeromicro/go-zero/core/service"
	"github.com/zeromicro/go-zero/zrpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/grpclock"
	"github.com/redlatch/redlatch/test/frameworks/internal/bankpb"
)

// zrpcOverServer makes a server of go-zero, whose interceptors lock. The server of gRPC is
// made when it starts, and ready is called with it.
func zrpcOverServer(c zrpc.RpcServerConf, g *guard.Guard, bank bankpb.BankServiceServer, ready func(*grpc.Server)) (*zrpc.RpcServer, error) {
	locks, err := grpclock.New(g)
	if err != nil {
		return nil, err
	}
	server, err := zrpc.NewServer(c, func(server *grpc.Server) {
		bankpb.RegisterBankServiceServer(server, bank)
		locks.Attach(server)
		ready(server)
	})
	if err == nil {
		server.AddUnaryInterceptors(locks.UnaryServerInterceptor())
		server.AddStreamInterceptors(locks.StreamServerInterceptor())
	}
	return server, err
}

func init() { logx.Disable() }

func onZrpc(t *testing.T, g *guard.Guard, bank bankpb.BankServiceServer) transfer {
	t.Helper()
	c := zrpc.RpcServerConf{ServiceConf: service.ServiceConf{Name: "bank", Mode: service.TestMode}, ListenOn: freeAddress(t)}
	started := make(chan *grpc.Server, 1)
	server, err := zrpcOverServer(c, g, bank, func(s *grpc.Server) { started <- s })
	if err != nil {
		t.Fatal(err)
	}
	return startZrpc(t, c, server, started)
}

func bareZrpc(t *testing.T, bank bankpb.BankServiceServer) transfer {
	t.Helper()
	c := zrpc.RpcServerConf{ServiceConf: service.ServiceConf{Name: "bank", Mode: service.TestMode}, ListenOn: freeAddress(t)}
	started := make(chan *grpc.Server, 1)
	server, err := zrpc.NewServer(c, func(s *grpc.Server) {
		bankpb.RegisterBankServiceServer(s, bank)
		started <- s
	})
	if err != nil {
		t.Fatal(err)
	}
	return startZrpc(t, c, server, started)
}

// startZrpc serves until the test ends.
func startZrpc(t *testing.T, c zrpc.RpcServerConf, server *zrpc.RpcServer, started <-chan *grpc.Server) transfer {
	t.Helper()
	ended := make(chan struct{})
	go func() { defer close(ended); server.Start() }()
	<-started
	cc, err := grpc.NewClient(c.ListenOn, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true))) // it listens a moment later
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cc.Close()
		proc.Shutdown() // as a signal does
		<-ended
	})
	return called(bankpb.NewBankServiceClient(cc))
}

// freeAddress is one that nobody listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}
