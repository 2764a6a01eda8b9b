package integration_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/redlatch/redlatch/test/internal/faultproxy"
	"github.com/redlatch/redlatch/test/internal/process"
	"github.com/redlatch/redlatch/test/internal/redistest"
	"github.com/redlatch/redlatch/test/internal/sqltest"
)

// Each stream used to ask Redis and the database twice a second, and to write a line each
// time that they didn't answer.
func TestThousandsWhoWatchTheHealthCostNothing(t *testing.T) {
	const connections, streams = 20, 200
	server := redistest.Standalone(t)
	address := process.LoopbackAddr(process.Port(t))
	shop := serve(t, seckillBinary(t), "--redis", server.URL(), "--grpc", address)

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var (
		mu                sync.Mutex
		watching, refused int
		opening, open     sync.WaitGroup
	)
	for range connections {
		connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = connection.Close() })
		for range streams {
			opening.Add(1)
			open.Go(func() {
				stream, err := healthpb.NewHealthClient(connection).Watch(ctx, &healthpb.HealthCheckRequest{})
				if err == nil {
					_, err = stream.Recv()
				}
				mu.Lock()
				if status.Code(err) == codes.ResourceExhausted {
					refused++
				} else if err == nil {
					watching++
				}
				mu.Unlock()
				opening.Done()
				for err == nil {
					_, err = stream.Recv()
				}
			})
		}
	}
	opening.Wait()
	if watching == 0 || watching+refused != connections*streams {
		t.Errorf("%d watch, %d are refused, of %d", watching, refused, connections*streams)
	}
	before, began := commands(t, server), time.Now()
	time.Sleep(3 * time.Second)
	rate := float64(commands(t, server)-before) / time.Since(began).Seconds()
	t.Logf("%d watch, %d were refused: %.1f commands a second", watching, refused, rate)
	if rate > 50 {
		t.Errorf("an idle service sends %.0f commands a second", rate)
	}

	server.Kill()
	lines, began := strings.Count(shop.Log(), "\n"), time.Now()
	time.Sleep(4 * time.Second)
	written := strings.Count(shop.Log(), "\n") - lines
	t.Logf("%d lines in %v of an outage", written, time.Since(began))
	if most := int(4 * (1 + time.Since(began).Seconds())); written > most {
		t.Errorf("%d lines in %v of an outage, want at most %d:\n%s", written, time.Since(began), most, shop.Log())
	}
	cancel()
	open.Wait()
}

// An outage of the database used to write a line for each request.
func TestAnOutageOfTheDatabaseLeavesTheLogReadable(t *testing.T) {
	u, err := url.Parse(sqltest.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	proxy := faultproxy.New(t, u.Host)
	u.Host = proxy.Addr()
	shop := serve(t, seckillBinary(t), "--db", u.String())
	orders := shop.voucher(t, 1000) + "/orders"
	proxy.Refuse()
	proxy.CutAll()
	lines, began := strings.Count(shop.Log(), "\n"), time.Now()
	var (
		clients  sync.WaitGroup
		requests atomic.Int64
	)
	for n := range 16 {
		clients.Go(func() {
			for k := 0; time.Since(began) < 4*time.Second; k++ {
				status, answer, err := shop.call(http.MethodPost, orders, fmt.Sprintf("u%d-%d", n, k), "")
				if err != nil || status != http.StatusServiceUnavailable {
					t.Errorf("%d %v %v, want 503", status, answer, err)
				}
				requests.Add(1)
			}
		})
	}
	clients.Wait()
	written, took := strings.Count(shop.Log(), "\n")-lines, time.Since(began)
	t.Logf("%d lines for %d requests in %v", written, requests.Load(), took)
	if most := int(2 * (1 + took.Seconds())); written == 0 || written > most {
		t.Errorf("%d lines for %d requests in %v, want 1 to %d:\n%s", written, requests.Load(), took, most, shop.Log())
	}
}

var processed = regexp.MustCompile(`total_commands_processed:(\d+)`)

// commands is how many a server has carried out.
func commands(t *testing.T, server *redistest.Server) int {
	t.Helper()
	stats := server.Admin(t).Info(t.Context(), "stats").Val()
	match := processed.FindStringSubmatch(stats)
	if match == nil {
		t.Fatal(fmt.Errorf("no count in %s", stats))
	}
	n, err := strconv.Atoi(match[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}
