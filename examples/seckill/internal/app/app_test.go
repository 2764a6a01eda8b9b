package app_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"

	"github.com/redlatch/redlatch/examples/seckill/internal/app"
	"github.com/redlatch/redlatch/examples/seckill/internal/load"
	"github.com/redlatch/redlatch/examples/seckill/internal/store"
	"github.com/redlatch/redlatch/examples/seckill/internal/voucher"
)

func config() app.Config {
	return app.Config{HTTP: "127.0.0.1:0", Log: slog.New(slog.NewTextHandler(io.Discard, nil))}
}

// start runs an instance until the test ends, unless the test stops it.
func start(t *testing.T, c app.Config) *app.App {
	t.Helper()
	a, err := app.Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func stop(t *testing.T, a *app.App) {
	t.Helper()
	if err := a.Stop(t.Context()); err != nil {
		t.Errorf("stop: %v", err)
	}
}

// status sends one request, on a new connection.
func status(t *testing.T, url string) int {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		return 0
	}
	_ = response.Body.Close()
	return response.StatusCode
}

func crowd(targets ...string) load.Config {
	return load.Config{Targets: targets, Users: 60, Clicks: 4, Concurrency: 16, Stock: 25, RetryTimeout: time.Minute}
}

func sale(t *testing.T, c load.Config) {
	t.Helper()
	r, err := load.Run(t.Context(), c, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Holds() || r.Report.Orders != 25 {
		t.Errorf("invariants %+v, report %+v", r.Invariants, r.Report)
	}
}

func TestASaleOverEitherDoorAndBothIsOneSale(t *testing.T) {
	c := config()
	c.GRPC = "127.0.0.1:0"
	a := start(t, c)
	defer stop(t, a)
	for title, targets := range map[string][]string{
		"gRPC":  {"grpc://" + a.GRPC()},
		"mixed": {a.URL(), "grpc://" + a.GRPC()},
	} {
		t.Run(title, func(t *testing.T) { sale(t, crowd(targets...)) })
	}
}

// replace writes a new version of a file, all of it at once.
func replace(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file+"~", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+"~", file); err != nil {
		t.Fatal(err)
	}
}

func TestAFileOfRulesIsFollowed(t *testing.T) {
	text, err := os.ReadFile("../../rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "rules.yaml")
	write := func(text string) { replace(t, file, text) }
	write(string(text))
	c := config()
	c.GRPC, c.Rules = "127.0.0.1:0", file
	a := start(t, c)
	defer stop(t, a)
	sale(t, crowd(a.URL(), "grpc://"+a.GRPC()))

	// A rule that no route has changes nothing. Without its rule nothing is sold,
	// rather than without its lock.
	const route = "POST /api/vouchers/:id/orders"
	write(strings.ReplaceAll(string(text), route, "POST /elsewhere"))
	sale(t, crowd(a.URL()))
	_, others, _ := strings.Cut(string(text), "# gRPC")
	write("unlocked: ['" + route + "']\nrules:\n  # gRPC" + others)
	order := func() int {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, a.URL()+"/api/vouchers/x/orders", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("X-User-Id", "u")
		client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		return response.StatusCode
	}
	eventually(t, func() bool { return order() == http.StatusInternalServerError })
	write(string(text))
	eventually(t, func() bool { return order() == http.StatusNotFound }) // the voucher
}

// journal is what operators see.
type journal struct {
	mu    sync.Mutex
	lines strings.Builder
}

func (j *journal) Write(line []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.lines.Write(line)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.lines.String()
}

// A followed file is not followed to rules that the start refuses: an order that wasn't
// placed is never a success.
func TestAFileIsNotFollowedToRulesThatTheSaleCannotLiveWith(t *testing.T) {
	const rule = "rules:\n  - {operation: 'POST /api/vouchers/:id/orders', key: 'lock:order:<userId>'%s}\n"
	file := filepath.Join(t.TempDir(), "rules.yaml")
	write := func(field string) { replace(t, file, fmt.Sprintf(rule, field)) }
	write("")
	var log journal
	c := config()
	c.Rules, c.Log = file, slog.New(slog.NewTextHandler(&log, nil))
	a := start(t, c)
	defer stop(t, a)
	for _, field := range []string{"mode: read", "onBusy: skip", "mode: semaphore, permits: 1/3"} {
		write(", " + field)
		wrong, _, _ := strings.Cut(field, ",")
		eventually(t, func() bool { return strings.Contains(log.String(), wrong) })
		if n := strings.Count(log.String(), "are in force"); n != 1 { // those of the start
			t.Errorf("%s: rules came into force %d times:\n%s", field, n, log.String())
		}
	}
}

func TestAShortWatchdogIsEnoughOfASetting(t *testing.T) {
	c := config()
	c.Watchdog = time.Second
	a := start(t, c)
	defer stop(t, a)
	sale(t, crowd(a.URL()))
}

// eventually polls until the condition holds.
func eventually(t *testing.T, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatal("still not so after 30s")
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestWithRulesThatTheSaleCannotLiveWithItDoesNotStart(t *testing.T) {
	const (
		order  = "POST /api/vouchers/:id/orders"
		rpc    = "/seckill.v1.SeckillService/PlaceOrder"
		cancel = "Sale.Cancel"
	)
	with := func(operation, field string) string {
		text := "rules:\n"
		for _, o := range []string{order, rpc, cancel} {
			text += "  - {operation: '" + o + "', key: 'lock:order:<userId>', optional: true"
			if o == operation {
				text += ", " + field
			}
			text += "}\n"
		}
		return strings.Replace(text, cancel+"', key: 'lock:order:<userId>'", cancel+"', key: 'lock:order:<userID>', overlaps: true", 1)
	}
	apart := func(rules string) string {
		return strings.Replace(rules, "lock:order:<userID>", "lock:cancel:<userID>", 1)
	}
	file := filepath.Join(t.TempDir(), "rules.yaml")
	for _, tt := range []struct {
		rules string
		want  []string
	}{
		{"rules: []\n", []string{order}},
		{with(order, "mode: read"), []string{order, "mode: read"}},
		{with(order, "onBusy: skip"), []string{order, "onBusy: skip"}},
		{with(rpc, "mode: read"), []string{rpc, "mode: read"}},
		{with(rpc, "onBusy: skip"), []string{rpc, "onBusy: skip"}},
		{with(cancel, "mode: read"), []string{cancel, "mode: read"}},
		{apart(with(cancel, "onBusy: skip, mode: semaphore, permits: 1/3")), []string{cancel, "onBusy: skip", "mode: semaphore"}},
		{with("", ""), nil},
		{with(order, "mode: fair"), nil},
		{with(order, "mode: write"), nil},
	} {
		if err := os.WriteFile(file, []byte(tt.rules), 0o600); err != nil {
			t.Fatal(err)
		}
		c := config()
		c.Rules = file
		a, err := app.Start(t.Context(), c)
		if err == nil {
			stop(t, a)
		}
		if (err == nil) != (tt.want == nil) {
			t.Errorf("%s\ngot %v, want an error that names %q", tt.rules, err, tt.want)
			continue
		}
		for _, want := range append(tt.want, "--rules", file) {
			if err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s\ngot %v, want it to name %s", tt.rules, err, want)
			}
		}
	}
}

func TestWithoutAnythingSetItServesAndLeavesNothingBehind(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	a := start(t, config())
	for path, want := range map[string]int{"/readyz": 200, "/healthz": 200, "/metrics": 200, "/": 200, "/nothing": 404} {
		if got := status(t, a.URL()+path); got != want {
			t.Errorf("%s: %d, want %d", path, got, want)
		}
	}
	if left, _ := os.ReadDir(temp); len(left) != 1 {
		t.Errorf("temporary folders: %v, want one", left)
	}
	sale(t, crowd(a.URL()))
	stop(t, a)
	if left, _ := os.ReadDir(temp); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	if got := status(t, a.URL()+"/healthz"); got != 0 {
		t.Errorf("still answers: %d", got)
	}
}

func TestInstancesShareOneSQLiteFile(t *testing.T) {
	c := config()
	c.DB = "sqlite:" + filepath.Join(t.TempDir(), "sale.db")
	a, b := start(t, c), start(t, c)
	// Their locks are in their own memories. The database alone keeps the
	// promises, fences included: the load says whether it does.
	sale(t, crowd(a.URL(), b.URL()))
	stop(t, a)
	sale(t, crowd(b.URL()))
	stop(t, b)
}

func TestItDrainsBeforeItStops(t *testing.T) {
	c := config()
	c.DrainDelay = 4 * time.Second
	a := start(t, c)
	stopped := make(chan error, 1)
	go func() { stopped <- a.Stop(t.Context()) }()
	// It goes on serving while it says that it isn't ready.
	for status(t, a.URL()+"/readyz") != http.StatusServiceUnavailable {
		if t.Context().Err() != nil {
			t.Fatal("never drained")
		}
	}
	if got := status(t, a.URL()+"/api/vouchers"); got != http.StatusOK {
		t.Errorf("while draining: %d, want 200", got)
	}
	if err := <-stopped; err != nil {
		t.Errorf("stop: %v", err)
	}
}

// dial connects to the service over gRPC.
func dial(t *testing.T, a *app.App) *grpc.ClientConn {
	t.Helper()
	connection, err := grpc.NewClient("passthrough:///"+a.GRPC(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	return connection
}

func TestHealthOverGRPCIsThatOfReadyz(t *testing.T) {
	c := config()
	c.GRPC = "127.0.0.1:0"
	var db *store.Store
	c.Wrap(func(s *store.Store) voucher.Store {
		db = s
		return s
	})
	a := start(t, c)
	defer stop(t, a)
	health := healthpb.NewHealthClient(dial(t, a))
	for _, want := range []struct {
		status int
		health healthpb.HealthCheckResponse_ServingStatus
	}{{http.StatusOK, healthpb.HealthCheckResponse_SERVING}, {http.StatusServiceUnavailable, healthpb.HealthCheckResponse_NOT_SERVING}} {
		eventually(t, func() bool { // the probes are a second old at most
			r, err := health.Check(t.Context(), &healthpb.HealthCheckRequest{})
			return status(t, a.URL()+"/readyz") == want.status && err == nil && r.GetStatus() == want.health
		})
		_ = db.Close() // the database is away
	}
}

func TestAnOpenPageDoesNotHoldUpTheEnd(t *testing.T) {
	a := start(t, config())
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, a.URL()+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 20 * time.Second}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	stop(t, a)
	if _, err := io.ReadAll(response.Body); err != nil {
		t.Errorf("the stream was cut off: %v", err)
	}
}

func TestAnOpenWatchOfTheHealthDoesNotHoldUpTheEnd(t *testing.T) {
	c := config()
	c.GRPC = "127.0.0.1:0"
	a := start(t, c)
	stream, err := healthpb.NewHealthClient(dial(t, a)).Watch(t.Context(), &healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	stop(t, a)
}

// hanging is a database where orders end with their contexts only.
type hanging struct {
	*store.Store
	began chan struct{}
}

func (h hanging) PlaceOrder(ctx context.Context, _ voucher.Order) error {
	close(h.began)
	<-ctx.Done()
	return ctx.Err()
}

func TestAStopThatUsesUpItsTimeStopsEverything(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	c := config()
	c.GRPC = "127.0.0.1:0"
	began := make(chan struct{})
	c.Wrap(func(s *store.Store) voucher.Store { return hanging{s, began} })
	a := start(t, c)

	// A stream and a request that don't end by themselves.
	connection := dial(t, a)
	stream, err := reflectionpb.NewServerReflectionClient(connection).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}}); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	_, body := post(t, a.URL()+"/api/vouchers", offer())
	order, err := http.NewRequestWithContext(t.Context(), http.MethodPost, a.URL()+"/api/vouchers/"+idOf(body)+"/orders", nil)
	if err != nil {
		t.Fatal(err)
	}
	order.Header.Set("X-User-Id", "42")
	ordered := make(chan error, 1)
	go func() {
		client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		response, err := client.Do(order)
		if err == nil {
			_ = response.Body.Close()
		}
		ordered <- err
	}()
	<-began

	a.SetStopTimeout(4 * time.Second)
	if err := a.Stop(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("stop: %v, want it to say that something was cut off", err)
	}
	if err := <-ordered; err == nil {
		t.Error("the request that hangs was answered")
	}
	if got := status(t, a.URL()+"/healthz"); got != 0 {
		t.Errorf("HTTP still answers: %d", got)
	}
	if _, err := healthpb.NewHealthClient(connection).Check(t.Context(), &healthpb.HealthCheckRequest{}); err == nil {
		t.Error("gRPC still answers")
	}
	if left, _ := os.ReadDir(temp); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// away is a database that is gone.
type away struct{ *store.Store }

func (away) PlaceOrder(context.Context, voucher.Order) error { return voucher.ErrStoreUnavailable }

func TestAnOutageWritesALineOfAKindASecond(t *testing.T) {
	log := &journal{}
	c := config()
	c.Log = slog.New(slog.NewTextHandler(log, nil))
	c.Wrap(func(s *store.Store) voucher.Store { return away{s} })
	a := start(t, c)
	defer stop(t, a)
	if !strings.Contains(log.String(), "locker.watchdog=10s") {
		t.Errorf("a user of an instance that died is locked out for longer than an order may take:\n%s", log.String())
	}
	_, body := post(t, a.URL()+"/api/vouchers", offer())
	began := time.Now()
	var clients sync.WaitGroup
	for user := range 16 {
		clients.Go(func() {
			client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
			for range 20 {
				request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, a.URL()+"/api/vouchers/"+idOf(body)+"/orders", nil)
				if err != nil {
					t.Error(err)
					return
				}
				request.Header.Set("X-User-Id", strconv.Itoa(user))
				response, err := client.Do(request)
				if err != nil {
					t.Error(err)
					return
				}
				_ = response.Body.Close()
				if response.StatusCode != http.StatusServiceUnavailable {
					t.Errorf("status %d", response.StatusCode)
				}
			}
		})
	}
	clients.Wait()
	lines := strings.Count(log.String(), "level=WARN")
	if most := 2 * (1 + int(time.Since(began).Seconds())); lines == 0 || lines > most {
		t.Errorf("%d warnings for 320 requests in %v, want 1 to %d:\n%s", lines, time.Since(began), most, log.String())
	}
}

func TestTheTimeToStopIsThatOfItsSettingsAndMore(t *testing.T) {
	c := config()
	c.DrainDelay, c.LockWait = 10*time.Millisecond, time.Hour
	a := start(t, c)
	defer stop(t, a)
	if got, want := a.StopTimeout(), 10*time.Millisecond+time.Hour+30*time.Second; got != want {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestStartSaysWhatIsMissingAndWhere(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	for _, tt := range []struct {
		name   string
		change func(*app.Config)
		want   []string
	}{
		{"database address", func(c *app.Config) { c.DB = "oracle://sys:s3cret@db/sale" }, []string{"--db: ", `"oracle"`}},
		{"database", func(c *app.Config) { c.DB = "mysql://root:s3cret@127.0.0.1:1/sale" }, []string{"--db: ", "127.0.0.1:1", "refused"}},
		{"Redis address", func(c *app.Config) { c.Redis = "http://me:s3cret@h" }, []string{"--redis: ", `"http"`}},
		{"Redis", func(c *app.Config) { c.Redis = "redis://me:s3cret@127.0.0.1:1/0" }, []string{"--redis: ", "Redis at 127.0.0.1:1", "refused"}},
		{"sentinels", func(c *app.Config) { c.Redis = "redis+sentinel://me:s3cret@127.0.0.1:1,127.0.0.1:2/m" }, []string{"--redis: ", `master "m"`, "127.0.0.1:1, 127.0.0.1:2"}},
		{"cluster", func(c *app.Config) { c.Redis = "redis+cluster://me:s3cret@127.0.0.1:1" }, []string{"--redis: ", "cluster at 127.0.0.1:1", "refused"}},
		{"port", func(c *app.Config) { c.HTTP = taken.Addr().String() }, []string{taken.Addr().String(), "in use"}},
		{"address", func(c *app.Config) { c.HTTP = "nonsense" }, []string{"nonsense"}},
		{"watchdog", func(c *app.Config) { c.Watchdog = time.Millisecond }, []string{"watchdog"}},
	} {
		c := config()
		tt.change(&c)
		a, err := app.Start(t.Context(), c)
		if err == nil {
			t.Errorf("%s: it started", tt.name)
			stop(t, a)
			continue
		}
		for _, want := range tt.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q does not say %q", tt.name, err, want)
			}
		}
		if strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %q shows the password", tt.name, err)
		}
	}
	if left, _ := os.ReadDir(temp); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestStartEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := app.Start(ctx, config()); err == nil {
		t.Error("it started")
	}
}

// Several instances share a database, which has the orders and the locks.
func TestASaleWithLocksInTheDatabaseIsOneSale(t *testing.T) {
	addresses := map[string]string{"SQLite": "sqlite:" + filepath.Join(t.TempDir(), "sale.db") + "?synchronous=normal"}
	for name, env := range map[string]string{"PostgreSQL": "SECKILL_TEST_POSTGRES", "MySQL": "SECKILL_TEST_MYSQL"} {
		if address := os.Getenv(env); address != "" {
			addresses[name] = address
		}
	}
	for name, address := range addresses {
		t.Run(name, func(t *testing.T) {
			c := config()
			c.DB, c.LocksInDB = address, true
			var urls []string
			for range 2 {
				a := start(t, c)
				defer stop(t, a)
				if got := status(t, a.URL()+"/readyz"); got != http.StatusOK {
					t.Errorf("readyz: %d", got)
				}
				urls = append(urls, a.URL())
			}
			sale(t, crowd(urls...))
		})
	}
}

// Operators see the locks on a private address, and nobody else does.
func TestTheConsoleIsOnAPrivateAddress(t *testing.T) {
	for address, private := range map[string]bool{
		"127.0.0.1:8421": true, "localhost:8421": true, "[::1]:8421": true, "10.1.2.3:8421": true,
		":8421": false, "0.0.0.0:8421": false, "8.8.8.8:8421": false, "example.com:8421": false, "8421": false,
	} {
		if err := app.PrivateAddress(address); (err == nil) != private {
			t.Errorf("%s: %v", address, err)
		}
	}
	c := config()
	c.Console = "127.0.0.1:" + freePort(t)
	a, err := app.Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := a.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	for host, want := range map[string]int{"": http.StatusOK, "evil.example:80": http.StatusForbidden} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+c.Console+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Host = host
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("host %q: %d, want %d", host, response.StatusCode, want)
		}
	}
}

func freePort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	return port
}
