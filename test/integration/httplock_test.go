package integration_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/httplock"
	"github.com/redlatch/redlatch/test/internal/redistest"
)

// two servers, as two processes have them: each with its own locker and client.
func twoServers(t *testing.T, redis *redistest.Server, text string, handler http.HandlerFunc) []*httptest.Server {
	t.Helper()
	servers := make([]*httptest.Server, 2)
	for i := range servers {
		g := guard.Must(guard.New(newLocker(t, redis.Client(t), lock.WithWatchdog(3*time.Second))))
		mux := http.NewServeMux()
		mux.Handle("POST /orders/{id}", httplock.New(g, text)(handler))
		servers[i] = httptest.NewServer(mux)
		t.Cleanup(servers[i].Close)
	}
	return servers
}

// order sends a request and returns the status of its answer.
func order(ctx context.Context, server *httptest.Server, id string) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/orders/"+id, nil)
	if err != nil {
		return 0, err
	}
	response, err := server.Client().Do(request)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}

func TestHTTPRequestsToTwoServersRunOneAtATime(t *testing.T) {
	redis := redistest.Standalone(t)
	var inside, ran atomic.Int64
	var fences sync.Map
	servers := twoServers(t, redis, "lock:order:<id> wait=30s", func(w http.ResponseWriter, r *http.Request) {
		if inside.Add(1) != 1 {
			t.Error("two run at once")
		}
		lease, _ := httplock.From(r)
		if _, seen := fences.LoadOrStore(lease.Fence(), true); seen {
			t.Errorf("fence %d is there twice", lease.Fence())
		}
		ran.Add(1)
		inside.Add(-1)
		w.WriteHeader(http.StatusCreated)
	})
	const requests = 60
	var clients sync.WaitGroup
	for i := range requests {
		clients.Go(func() {
			if status, err := order(t.Context(), servers[i%2], "7"); status != http.StatusCreated || err != nil {
				t.Errorf("request %d: got %d, %v", i, status, err)
			}
		})
	}
	clients.Wait()
	if ran.Load() != requests {
		t.Errorf("%d of %d handlers ran", ran.Load(), requests)
	}
}

func TestHTTPRequestIsRefusedWhileAnotherServerHasTheLock(t *testing.T) {
	redis := redistest.Standalone(t)
	running, finish := make(chan struct{}), make(chan struct{})
	var runs atomic.Int64
	servers := twoServers(t, redis, "lock:order:<id>", func(http.ResponseWriter, *http.Request) {
		if runs.Add(1) == 1 {
			close(running)
			<-finish
		}
	})
	first := make(chan error, 1)
	go func() {
		status, err := order(t.Context(), servers[0], "7")
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("status %d", status)
		}
		first <- err
	}()
	<-running
	for id, want := range map[string]int{"7": http.StatusConflict, "8": http.StatusOK} {
		if status, err := order(t.Context(), servers[1], id); status != want || err != nil {
			t.Errorf("order %s: got %d, %v, want %d", id, status, err, want)
		}
	}
	close(finish)
	if err := <-first; err != nil {
		t.Errorf("the first one: %v", err)
	}
	if status, err := order(t.Context(), servers[1], "7"); status != http.StatusOK || err != nil {
		t.Errorf("afterwards: got %d, %v", status, err)
	}
}

// The lock of a handler that loses Redis for longer than its lease is lost; its
// client must not read a success into an empty answer.
func TestHTTPRequestThatLosesRedisIsNotASuccess(t *testing.T) {
	t.Parallel()
	redis := redistest.Standalone(t)
	servers := twoServers(t, redis, "lock:order:<id>", func(_ http.ResponseWriter, r *http.Request) {
		redis.Stop()
		<-r.Context().Done()
	})
	status, err := order(t.Context(), servers[0], "7")
	redis.Cont()
	if status != http.StatusInternalServerError || err != nil {
		t.Errorf("got %d, %v", status, err)
	}
}
