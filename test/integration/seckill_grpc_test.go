package integration_test

import (
	"slices"
	"testing"

	"github.com/redlatch/redlatch/test/internal/process"
	"github.com/redlatch/redlatch/test/internal/redistest"
	"github.com/redlatch/redlatch/test/internal/sqltest"
)

// One sale over any mix of HTTP and gRPC: the locks are the same.
func TestASaleOverHTTPAndGRPCSellsExactlyTheStock(t *testing.T) {
	binary := seckillBinary(t)
	server := redistest.Standalone(t)
	db := sqltest.MariaDB(t)
	var instances []*instance
	var addresses []string // of gRPC
	for range 3 {
		address := process.LoopbackAddr(process.Port(t))
		instances = append(instances, serve(t, binary, "--redis", server.URL(), "--db", db, "--grpc", address))
		addresses = append(addresses, "--grpc", address)
	}
	size := []string{"--users", "200", "--clicks", "5", "--concurrency", "48", "--stock", "90"}
	for _, tt := range []struct {
		name    string
		targets []*instance
		args    []string
	}{
		{"HTTP", instances, size},
		{"gRPC", nil, slices.Concat(size, addresses)},
		{"mixed", instances, slices.Concat(size, addresses)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			table, holds := letLoose(t, binary, tt.targets, tt.args...).verdict(t)
			if !holds {
				t.Fatalf("broken:\n%s", table)
			}
			t.Log(table)
		})
	}
	eventually(t, func() error { return onlyRegistrations(t, server.Admin(t)) })
}
