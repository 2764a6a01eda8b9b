package redistest_test

import (
	"context"
	"errors"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/test/internal/redistest"
)

func TestStandaloneServesOnItsURL(t *testing.T) {
	server := redistest.Standalone(t, "--maxmemory", "20mb")
	options, err := redis.ParseURL(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(options)
	defer client.Close()

	config, err := client.ConfigGet(t.Context(), "maxmemory").Result()
	if err != nil {
		t.Fatal(err)
	}
	if got := config["maxmemory"]; got != "20971520" {
		t.Errorf("maxmemory = %s, want the argument's 20971520", got)
	}
}

func TestIndependentServersShareNothing(t *testing.T) {
	servers := redistest.Independent(t, 3)
	for _, server := range servers {
		fresh, err := server.Client(t).SetNX(t.Context(), "k", server.Addr(), 0).Result()
		if err != nil {
			t.Fatal(err)
		}
		if !fresh {
			t.Errorf("%s already knew the key", server.Addr())
		}
	}
}

func TestKilledServerRefusesAndRestartsEmptyOnTheSameAddress(t *testing.T) {
	server := redistest.Standalone(t)
	client := server.Client(t)
	if err := client.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}

	server.Kill()
	server.Kill() // does nothing
	if _, err := net.Dial("tcp", server.Addr()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Fatalf("dial a killed server: %v, want connection refused", err)
	}

	server.Restart()
	if err := client.Get(t.Context(), "k").Err(); !errors.Is(err, redis.Nil) {
		t.Errorf("GET after a restart without persistence: %v, want redis.Nil", err)
	}
}

func TestRestartKeepsDataWithPersistence(t *testing.T) {
	server := redistest.Standalone(t, "--appendonly", "yes", "--appendfsync", "always")
	client := server.Client(t)
	if err := client.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	server.Restart()
	if got, err := client.Get(t.Context(), "k").Result(); err != nil || got != "v" {
		t.Errorf("GET after a restart = %q, %v, want v", got, err)
	}
}

func TestStoppedServerIsSilentUntilContinued(t *testing.T) {
	server := redistest.Standalone(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), ContextTimeoutEnabled: true, MaxRetries: -1})
	defer client.Close()
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}

	server.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := client.Ping(ctx).Err(); err == nil {
		t.Error("a stopped server answered")
	}

	server.Cont()
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Errorf("PING after Cont: %v", err)
	}
}

func TestStoppedServerIsGoneAfterItsTest(t *testing.T) {
	var addr string
	t.Run("inner", func(t *testing.T) {
		server := redistest.Standalone(t)
		addr = server.Addr()
		server.Stop()
	})
	if addr == "" {
		t.Skip("the inner test was skipped")
	}
	if conn, err := net.Dial("tcp", addr); err == nil {
		conn.Close()
		t.Errorf("%s still listens after its test", addr)
	}
}
