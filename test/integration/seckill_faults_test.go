package integration_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/test/internal/redistest"
	"github.com/redlatch/redlatch/test/internal/sqltest"
)

// deployment is a sale as people deploy it: three instances behind a balancer, a Redis for the
// locks and a PostgreSQL for the orders.
type deployment struct {
	whole     *testing.T // what is started lasts as long as it
	redis     *redistest.Server
	admin     *redis.Client
	db        *sqltest.Server
	sql       *sql.DB
	instances []*instance
	binary    string
	args      []string
	url       string // of the balancer
}

// faultTime is how long something is away or stands still: longer than a lease.
const faultTime = 2500 * time.Millisecond

// saleFaults are what happens to a sale while people order.
var saleFaults = []struct {
	name   string
	happen func(ctx context.Context, s *deployment)
}{
	{"an instance is killed", func(_ context.Context, s *deployment) { s.instances[1].Kill(); s.restart(1) }},
	{"an instance stands still for longer than its lease", func(_ context.Context, s *deployment) {
		_ = s.instances[0].Signal(syscall.SIGSTOP)
		time.Sleep(faultTime)
		_ = s.instances[0].Signal(syscall.SIGCONT)
	}},
	{"an instance is restarted", func(_ context.Context, s *deployment) { s.restart(2) }},
	{"all instances are killed", func(_ context.Context, s *deployment) {
		for _, i := range s.instances {
			i.Kill()
		}
		for n := range s.instances {
			s.restart(n)
		}
	}},
	{"Redis is killed, and forgets", func(_ context.Context, s *deployment) { s.redis.Restart() }},
	{"Redis is away for a while", func(_ context.Context, s *deployment) { s.redis.Kill(); time.Sleep(faultTime); s.redis.Restart() }},
	{"Redis stands still", func(_ context.Context, s *deployment) { s.redis.Stop(); time.Sleep(faultTime); s.redis.Cont() }},
	{"Redis is busy with a script", func(ctx context.Context, s *deployment) {
		s.admin.Eval(ctx, "local t = redis.call('time') repeat local n = redis.call('time') until (n[1] - t[1]) * 1000000 + n[2] - t[2] > 1500000", nil)
	}},
	{"Redis is flushed again and again", repeated(func(ctx context.Context, s *deployment) { s.admin.FlushAll(ctx) })},
	{"locks are deleted by hand", repeated(func(ctx context.Context, s *deployment) {
		for _, key := range s.admin.Keys(ctx, "lock:order:*").Val() {
			s.admin.Del(ctx, key)
		}
	})},
	{"connections to Redis are cut", repeated(func(ctx context.Context, s *deployment) {
		s.admin.ClientKillByFilter(ctx, "TYPE", "normal", "SKIPME", "yes")
		s.admin.ClientKillByFilter(ctx, "TYPE", "pubsub")
	})},
	{"Redis forgets the scripts", repeated(func(ctx context.Context, s *deployment) { s.admin.ScriptFlush(ctx) })},
	{"Redis is full", func(ctx context.Context, s *deployment) {
		s.admin.ConfigSet(ctx, "maxmemory", "1")
		time.Sleep(faultTime)
		s.admin.ConfigSet(ctx, "maxmemory", "0")
	}},
	{"connections to the database are cut", repeated(func(ctx context.Context, s *deployment) {
		_, _ = s.sql.ExecContext(ctx, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = current_database()")
	})},
	{"the database is killed", func(_ context.Context, s *deployment) { s.db.Restart() }},
	{"the database stands still", func(_ context.Context, s *deployment) { s.db.Stop(); time.Sleep(faultTime); s.db.Cont() }},
}

// repeated is a fault that comes back for a while.
func repeated(do func(context.Context, *deployment)) func(context.Context, *deployment) {
	return func(ctx context.Context, s *deployment) {
		for end := time.Now().Add(faultTime / 2); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			do(ctx, s)
		}
	}
}

func (s *deployment) restart(n int) { s.instances[n].restart(s.whole, s.binary, s.args...) }

// In each fault a sale goes on to its end, and is what its orders say: nothing oversold,
// one order each, and no confirmed order lost.
func TestASaleKeepsItsPromisesInEachFault(t *testing.T) {
	t.Parallel() // most of the time something is away
	s := &deployment{whole: t, redis: redistest.Standalone(t), db: sqltest.StartPostgres(t), binary: seckillBinary(t)}
	s.admin = s.redis.Admin(t)
	db, err := sql.Open("pgx", s.db.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	s.sql = db
	s.args = []string{"--redis", s.redis.URL(), "--db", s.db.URL(), "--watchdog", "2s"}
	s.instances = three(t, s.binary, s.args...)
	_, s.url = balance(t, s.instances)
	violations := 0
	for _, fault := range saleFaults {
		t.Run(fault.name, func(t *testing.T) {
			const stock = 250
			sale := s.instances[2].voucher(t, stock)
			crowd := hurry(t, s.url+sale+"/orders", stock/10)
			<-crowd.begun
			fault.happen(t.Context(), s)
			close(crowd.over)
			placed := crowd.soldOut(t)
			violations += s.judge(t, sale, stock, placed)
		})
	}
	t.Logf("%d faults, %d violations", len(saleFaults), violations)
}

// judge returns how many promises of a sale are broken.
func (s *deployment) judge(t *testing.T, sale string, stock int, placed map[string][]string) (broken int) {
	t.Helper()
	breaks := func(format string, args ...any) { t.Errorf(format, args...); broken++ }
	for user, orders := range placed {
		if len(orders) > 1 {
			breaks("%s has the orders %q", user, orders)
		}
	}
	var report, counted map[string]any
	kept := make(map[string]bool)
	eventually(t, func() error { // an instance may have no connection yet
		var err error
		var status int
		if _, report, err = s.instances[2].call(http.MethodGet, sale+"/report", "", ""); err != nil {
			return err
		}
		if status, counted, err = s.instances[2].call(http.MethodGet, sale+"/count", "", ""); err != nil {
			return err
		}
		if status != http.StatusOK {
			return fmt.Errorf("count: %d", status)
		}
		clear(kept)
		return s.listed(sale, kept)
	})
	if fmt.Sprint(report) != fmt.Sprint(counted) {
		breaks("counters %v, orders %v", report, counted)
	}
	if counted["orders"] != float64(stock) || counted["oversold"] != false || counted["duplicateOrders"] != 0.0 {
		breaks("of %d were sold: %v", stock, counted)
	}
	for user, orders := range placed {
		for _, order := range orders {
			if !kept[order] {
				breaks("order %s of %s was confirmed, and is lost", order, user)
			}
		}
	}
	t.Logf("%d confirmed, %v", len(placed), counted)
	return broken
}

// listed adds the orders that a sale has.
func (s *deployment) listed(sale string, kept map[string]bool) error {
	response, err := http.Get(s.instances[2].url + sale + "/orders?limit=1000") //nolint:noctx // it has the test's time
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	var orders []struct{ OrderID string }
	if err := json.NewDecoder(response.Body).Decode(&orders); err != nil {
		return err
	}
	for _, o := range orders {
		kept[o.OrderID] = true
	}
	return nil
}

// rush are people who click twice at once, until they have an order or all is sold.
type rush struct {
	begun   chan struct{} // some have ordered
	over    chan struct{} // the fault: until then people take their time, so that the sale outlasts it
	ended   chan struct{} // all is sold
	running sync.WaitGroup
	stop    context.CancelFunc

	mu     sync.Mutex
	placed map[string][]string
	sold   bool
}

func hurry(t *testing.T, url string, some int) *rush {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	r := &rush{begun: make(chan struct{}), over: make(chan struct{}), ended: make(chan struct{}), stop: stop, placed: make(map[string][]string)}
	t.Cleanup(func() { stop(); r.running.Wait() })
	begun := sync.OnceFunc(func() { close(r.begun) })
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 32}, Timeout: patience}
	t.Cleanup(client.CloseIdleConnections)
	for n := range 6 {
		r.running.Go(func() {
			for k := 0; ctx.Err() == nil && !r.isSold(); k++ {
				user := fmt.Sprintf("u%d-%d", n, k)
				var clicks sync.WaitGroup
				for range 2 {
					clicks.Go(func() { r.click(ctx, client, url, user) })
				}
				clicks.Wait()
				if r.confirmed() >= some {
					begun()
				}
				select {
				case <-time.After(60 * time.Millisecond):
				case <-r.over:
				case <-ctx.Done():
				}
			}
			begun()
		})
	}
	go func() { r.running.Wait(); close(r.ended) }()
	return r
}

// click tries until there is an answer that is final.
func (r *rush) click(ctx context.Context, client *http.Client, url, user string) {
	for ; ctx.Err() == nil; time.Sleep(20 * time.Millisecond) { // as a browser that tries again
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, nil)
		if err != nil {
			panic(err)
		}
		request.Header.Set("X-User-Id", user)
		response, err := client.Do(request)
		if err != nil {
			continue
		}
		var answer struct{ Code, OrderID string }
		_ = json.NewDecoder(response.Body).Decode(&answer)
		_ = response.Body.Close()
		switch {
		case response.StatusCode == http.StatusCreated:
			r.mu.Lock()
			r.placed[user] = append(r.placed[user], answer.OrderID)
			r.mu.Unlock()
			return
		case answer.Code == "SOLD_OUT":
			r.mu.Lock()
			r.sold = true
			r.mu.Unlock()
			return
		case answer.Code == "ALREADY_ORDERED":
			return
		}
	}
}

func (r *rush) isSold() bool { r.mu.Lock(); defer r.mu.Unlock(); return r.sold }

func (r *rush) confirmed() int { r.mu.Lock(); defer r.mu.Unlock(); return len(r.placed) }

// soldOut waits for the end, and returns the confirmed orders by user.
func (r *rush) soldOut(t *testing.T) map[string][]string {
	t.Helper()
	select {
	case <-r.ended:
	case <-time.After(2 * patience):
		r.stop()
		<-r.ended
		t.Errorf("the sale does not end: %d orders are confirmed, sold out: %v", len(r.placed), r.sold)
	}
	return r.placed
}
