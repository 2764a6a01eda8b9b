package integration_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	neturl "net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redlatch/redlatch/test/internal/process"
	"github.com/redlatch/redlatch/test/internal/redistest"
	"github.com/redlatch/redlatch/test/internal/sqltest"
)

// balancer sends requests to the instances whose /readyz says yes, in turn, and repeats none.
type balancer struct {
	backends []*backend
	next     atomic.Uint64
	failed   atomic.Int64 // requests without an answer
}

type backend struct {
	url   string
	proxy *httputil.ReverseProxy
	ready atomic.Bool
}

// probeEvery is how often a balancer looks: often enough to see the drain.
const probeEvery = 50 * time.Millisecond

func balance(t *testing.T, instances []*instance) (*balancer, string) {
	t.Helper()
	b := new(balancer)
	ctx, cancel := context.WithCancel(t.Context())
	var probes sync.WaitGroup
	t.Cleanup(probes.Wait)
	t.Cleanup(cancel)
	for _, i := range instances {
		target, err := neturl.Parse(i.url)
		if err != nil {
			t.Fatal(err)
		}
		transport := &http.Transport{MaxIdleConnsPerHost: 32}
		t.Cleanup(transport.CloseIdleConnections)
		one := &backend{url: i.url, proxy: &httputil.ReverseProxy{
			Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
			Transport: transport,
			ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
				b.failed.Add(1)
				http.Error(w, err.Error(), http.StatusBadGateway)
			},
		}}
		b.backends = append(b.backends, one)
		one.probe(ctx)
		probes.Go(func() {
			for ctx.Err() == nil {
				one.probe(ctx)
				select {
				case <-time.After(probeEvery):
				case <-ctx.Done():
				}
			}
		})
	}
	server := httptest.NewServer(b)
	t.Cleanup(server.Close)
	return b, server.URL
}

func (b *backend) probe(ctx context.Context) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 2 * time.Second}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, b.url+"/readyz", nil)
	if err != nil {
		return
	}
	response, err := client.Do(request)
	b.ready.Store(err == nil && response.StatusCode == http.StatusOK)
	if err == nil {
		_ = response.Body.Close()
	}
}

func (b *balancer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for range b.backends {
		one := b.backends[b.next.Add(1)%uint64(len(b.backends))]
		if one.ready.Load() {
			one.proxy.ServeHTTP(w, r)
			return
		}
	}
	b.failed.Add(1)
	http.Error(w, "nobody is ready", http.StatusBadGateway)
}

// asLocks gives a user of the locks to servers: what docs/security.md says, for the names
// of the sale's locks and for the kit's own.
func asLocks(t *testing.T, servers []*redistest.Server, blocks ...string) {
	t.Helper()
	documented, err := redistest.ReadACL("../../docs/security.md", blocks...)
	if err != nil {
		t.Fatal(err)
	}
	rules := []any{"ACL", "SETUSER", lockUser}
	for _, rule := range documented {
		rules = append(rules, strings.ReplaceAll(rule, "lk:", "lock:"))
		if strings.Contains(rule, "lk:") {
			rules = append(rules, strings.ReplaceAll(rule, "lk:", "redlatch:"))
		}
	}
	for _, server := range servers {
		if err := server.Admin(t).Do(t.Context(), rules...).Err(); err != nil {
			t.Fatalf("the rules: %v", err)
		}
	}
}

// withTLS are arguments of servers, whose certificates the instances trust.
func withTLS(t *testing.T) []string {
	t.Helper()
	ca := newAuthority(t)
	t.Setenv("SSL_CERT_FILE", ca.file)
	return ca.args(t, "127.0.0.1", time.Now().Add(time.Hour))
}

// login is the user of the locks in a URL.
const login = lockUser + ":" + lockSecret

// restart ends an instance as an orchestrator does, and starts the next version at its address.
func (i *instance) restart(t *testing.T, binary string, args ...string) {
	t.Helper()
	i.Shutdown(syscall.SIGTERM, patience)
	p, err := process.Start(process.Spec{
		Path: binary, Args: append([]string{"serve", "--http", strings.TrimPrefix(i.url, "http://")}, args...),
		Log: filepath.Join(t.TempDir(), "serve.log"),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	i.Process = p
	if err := p.Await(patience, func() error {
		status, _, err := i.call(http.MethodGet, "/readyz", "", "")
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("/readyz: %d", status)
		}
		return err
	}); err != nil {
		t.Fatalf("not ready: %v\n%s", err, p.Log())
	}
}

// Three instances behind a balancer that follows /readyz are restarted one after the other,
// while people order. No request fails. Then one is killed, and the sale goes on.
func TestARollingRestartLosesNoRequest(t *testing.T) {
	binary := seckillBinary(t)
	for name, deploy := range map[string]func(*testing.T) (redis, db string){
		"Sentinel with TLS and an ACL, PostgreSQL": func(t *testing.T) (string, string) { //nolint:thelper // a deployment is a part of the test
			set := redistest.Sentinel(t, append(withTLS(t), "--tls-replication", "yes")...)
			asLocks(t, append([]*redistest.Server{set.Master}, set.Replicas...), "acl")
			return "rediss+sentinel://" + login + "@" + strings.Join(redistest.TLSAddrs(set.Sentinels), ",") + "/" + set.Name + "/0", sqltest.Postgres(t)
		},
		"Cluster with TLS and an ACL, MariaDB": func(t *testing.T) (string, string) { //nolint:thelper // a deployment is a part of the test
			set := redistest.Cluster(t, append(withTLS(t), "--tls-replication", "yes", "--tls-cluster", "yes")...)
			asLocks(t, set.Nodes(), "acl", "acl-cluster")
			return "rediss+cluster://" + login + "@" + strings.Join(redistest.TLSAddrs(set.Nodes()), ","), sqltest.MariaDB(t)
		},
		"one server with TLS and an ACL, PostgreSQL": func(t *testing.T) (string, string) { //nolint:thelper // a deployment is a part of the test
			server := redistest.Standalone(t, withTLS(t)...)
			asLocks(t, []*redistest.Server{server}, "acl")
			return "rediss://" + login + "@" + server.TLSAddr() + "/0", sqltest.Postgres(t)
		},
	} {
		t.Run(name, func(t *testing.T) {
			redis, db := deploy(t)
			args := []string{"--redis", redis, "--db", db, "--watchdog", "3s"}
			instances := three(t, binary, args...)
			b, url := balance(t, instances)
			voucher := instances[0].voucher(t, 1_000_000)
			crowd := clickOn(t, url+voucher+"/orders")
			for _, i := range instances {
				crowd.more(t, 20)
				i.restart(t, binary, args...)
			}
			crowd.more(t, 20)
			if wrong := crowd.wrong(); wrong != "" || b.failed.Load() != 0 {
				t.Errorf("%d requests got no answer, and there were other answers: %s", b.failed.Load(), wrong)
			}
			instances[1].Kill()
			crowd.more(t, 50)
			placed := crowd.end()
			agrees(t, instances[0], voucher, placed)
		})
	}
}

// clicks are people who order one after the other, each once.
type clicks struct {
	stop    context.CancelFunc
	running sync.WaitGroup
	placed  atomic.Int64

	mu     sync.Mutex
	others map[string]int // answers that aren't orders
}

func clickOn(t *testing.T, url string) *clicks {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	c := &clicks{stop: stop, others: make(map[string]int)}
	t.Cleanup(func() { _ = c.end() })
	transport := &http.Transport{MaxIdleConnsPerHost: 8}
	t.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Transport: transport}
	for n := range 8 {
		c.running.Go(func() {
			for k := 0; ctx.Err() == nil; k++ {
				c.click(client, url, fmt.Sprintf("u%d-%d", n, k))
			}
		})
	}
	return c
}

// click isn't cut off: what it leads to is counted.
func (c *clicks) click(client *http.Client, url, user string) {
	request, err := http.NewRequestWithContext(context.Background(), http.MethodPost, url, nil)
	if err != nil {
		panic(err)
	}
	request.Header.Set("X-User-Id", user)
	response, err := client.Do(request)
	if err != nil {
		c.other(err.Error())
		return
	}
	text, _ := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if response.StatusCode == http.StatusCreated {
		c.placed.Add(1)
		return
	}
	c.other(fmt.Sprintf("%d %s", response.StatusCode, text))
}

func (c *clicks) other(answer string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.others[answer]++
}

// more waits for so many more orders.
func (c *clicks) more(t *testing.T, orders int64) {
	t.Helper()
	want := c.placed.Load() + orders
	eventually(t, func() error {
		if c.placed.Load() < want {
			return errors.New("people can't order: " + c.wrong())
		}
		return nil
	})
}

func (c *clicks) wrong() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.others) == 0 {
		return ""
	}
	return fmt.Sprint(c.others)
}

// end returns how many orders were confirmed.
func (c *clicks) end() int64 {
	c.stop()
	c.running.Wait()
	return c.placed.Load()
}

// agrees checks that the counters of a sale are what its orders add up to, and that no
// confirmed order is lost.
func agrees(t *testing.T, i *instance, voucher string, placed int64) {
	t.Helper()
	_, report, err := i.call(http.MethodGet, voucher+"/report", "", "")
	if err != nil {
		t.Fatal(err)
	}
	_, counted, err := i.call(http.MethodGet, voucher+"/count", "", "")
	if err != nil || fmt.Sprint(report) != fmt.Sprint(counted) {
		t.Errorf("counters %v, orders %v, %v", report, counted, err)
	}
	if orders, _ := report["orders"].(float64); int64(orders) < placed || report["duplicateOrders"] != 0.0 {
		t.Errorf("%d orders were confirmed: %v", placed, report)
	}
}
