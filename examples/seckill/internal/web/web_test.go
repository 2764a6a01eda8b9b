package web_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/examples/seckill/internal/store"
	"github.com/redlatch/redlatch/examples/seckill/internal/voucher"
	"github.com/redlatch/redlatch/examples/seckill/internal/web"
)

// shop is one instance under test.
type shop struct {
	handler http.Handler
	locker  *lock.Locker
	health  *web.Health
	log     *bytes.Buffer // what operators see; to be read when all is answered
}

// limit is how long a call of the sale may take.
const limit = time.Minute

func openShop(t *testing.T, locks lock.Store, orders voucher.Store, probes ...web.Probe) *shop {
	t.Helper()
	return openPatientShop(t, 0, locks, orders, probes...)
}

// openPatientShop opens a shop where an order waits for its lock.
func openPatientShop(t *testing.T, wait time.Duration, locks lock.Store, orders voucher.Store, probes ...web.Probe) *shop {
	t.Helper()
	locker := lock.New(locks)
	t.Cleanup(func() {
		if err := locker.Close(context.Background()); err != nil {
			t.Errorf("close locker: %v", err)
		}
	})
	g, err := guard.New(locker, web.OrderRule(wait))
	if err != nil {
		t.Fatal(err)
	}
	health := web.NewHealth(probes...)
	log := &bytes.Buffer{}
	sale, err := voucher.NewSaleLock(voucher.NewService(orders, limit), g)
	if err != nil {
		t.Fatal(err)
	}
	return &shop{web.NewHandler(sale, web.Locked(g), health, web.NewMetrics(), slog.New(slog.NewTextHandler(log, nil)), nil), locker, health, log}
}

func sqliteStore(t *testing.T) *store.Store {
	t.Helper()
	address, err := store.ParseAddress("sqlite:" + filepath.Join(t.TempDir(), "sale.db") + "?synchronous=normal")
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// reply is an answer, decoded.
type reply struct {
	status int
	header http.Header
	text   string
	body   map[string]any
}

func (s *shop) send(t *testing.T, method, path, body string, users ...string) reply {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	for _, user := range users {
		request.Header.Add("X-User-Id", user)
	}
	recorder := httptest.NewRecorder()
	s.handler.ServeHTTP(recorder, request)
	r := reply{status: recorder.Code, header: recorder.Header(), text: recorder.Body.String()}
	if strings.Contains(r.header.Get("Content-Type"), "json") && !strings.HasPrefix(r.text, "[") {
		if err := json.Unmarshal(recorder.Body.Bytes(), &r.body); err != nil {
			t.Errorf("%s %s: body %q: %v", method, path, r.text, err)
		}
	}
	return r
}

// wantProblem checks a refusal against RFC 9457 and the contract.
func wantProblem(t *testing.T, r reply, path string, status int, code string) {
	t.Helper()
	if r.status != status || r.body["code"] != code {
		t.Errorf("%s: %d %s, want %d %s", path, r.status, r.text, status, code)
		return
	}
	if r.header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("%s: %s: content type %q", path, code, r.header.Get("Content-Type"))
	}
	if r.body["status"] != float64(status) || r.body["instance"] != path || r.body["title"] == "" || r.body["detail"] == "" {
		t.Errorf("%s: %s: incomplete: %s", path, code, r.text)
	}
	kind, _ := r.body["type"].(string)
	if !strings.HasPrefix(kind, "https://") || !strings.HasSuffix(kind, "#"+strings.ToLower(code)) {
		t.Errorf("%s: %s: type %q", path, code, kind)
	}
	if retry := r.header.Get("Retry-After"); (retry != "") != (r.body["retryable"] == true) {
		t.Errorf("%s: %s: retryable %v, Retry-After %q", path, code, r.body["retryable"], retry)
	}
}

func draft(title string, stock any, begin, end string) string {
	text, err := json.Marshal(map[string]any{"title": title, "stock": stock, "beginAt": begin, "endAt": end})
	if err != nil {
		panic(err)
	}
	return string(text)
}

func hour(d time.Duration) string { return time.Now().Add(d * time.Hour).Format(time.RFC3339) }

// onSale creates a voucher whose sale begins and ends that many hours from now.
func (s *shop) onSale(t *testing.T, stock int, begin, end time.Duration) string {
	t.Helper()
	r := s.send(t, "POST", "/api/vouchers", draft("Half price", stock, hour(begin), hour(end)))
	id, _ := r.body["id"].(string)
	if r.status != http.StatusCreated || id == "" {
		t.Fatalf("create voucher: %d %s", r.status, r.text)
	}
	return id
}

func TestAVoucherIsCreatedShownSoldAndReported(t *testing.T) {
	s := openShop(t, memstore.New(), sqliteStore(t))
	created := s.send(t, "POST", "/api/vouchers",
		`{"title":"Half price","stock":2,"beginAt":"2026-01-01T00:00:00+08:00","endAt":"2999-01-01T00:00:00Z"}`)
	id, _ := created.body["id"].(string)
	if created.status != http.StatusCreated || id == "" || created.header.Get("Location") != "/api/vouchers/"+id {
		t.Fatalf("create: %d %s, Location %q", created.status, created.text, created.header.Get("Location"))
	}
	path := "/api/vouchers/" + id
	shown := s.send(t, "GET", path, "")
	want := `{"id":"` + id + `","title":"Half price","stock":2,"remaining":2,"beginAt":"2025-12-31T16:00:00Z","endAt":"2999-01-01T00:00:00Z"}`
	if shown.status != http.StatusOK || shown.text != want {
		t.Errorf("show: %d %s, want %s", shown.status, shown.text, want)
	}

	ordered := s.send(t, "POST", path+"/orders", "", "alice")
	order, _ := ordered.body["orderId"].(string)
	if ordered.status != http.StatusCreated || order == "" || ordered.body["voucherId"] != id || ordered.body["userId"] != "alice" ||
		ordered.header.Get("Location") != "/api/orders/"+order {
		t.Fatalf("order: %d %s", ordered.status, ordered.text)
	}
	if fence, _ := ordered.body["fence"].(string); !regexp.MustCompile(`^[1-9]\d{17}$`).MatchString(fence) {
		t.Errorf("fence %v, want 18 digits in a string, as the README says", ordered.body["fence"])
	}
	if r := s.send(t, "GET", "/api/orders/"+order, ""); r.status != http.StatusOK || r.text != ordered.text {
		t.Errorf("show order: %d %s, want %s", r.status, r.text, ordered.text)
	}
	wantProblem(t, s.send(t, "POST", path+"/orders", "", "alice"), path+"/orders", 409, "ALREADY_ORDERED")
	if r := s.send(t, "POST", path+"/orders", "", "bob"); r.status != http.StatusCreated {
		t.Errorf("order of another user: %d %s", r.status, r.text)
	}
	wantProblem(t, s.send(t, "POST", path+"/orders", "", "carol"), path+"/orders", 409, "SOLD_OUT")
	wantProblem(t, s.send(t, "POST", path+"/orders", "", "alice"), path+"/orders", 409, "ALREADY_ORDERED")

	var list []map[string]any
	r := s.send(t, "GET", path+"/orders?limit=1", "")
	if err := json.Unmarshal([]byte(r.text), &list); err != nil || len(list) != 1 || list[0]["userId"] != "bob" {
		t.Errorf("orders: %d %s, want the last one", r.status, r.text)
	}
	if r := s.send(t, "GET", "/api/vouchers", ""); r.status != http.StatusOK || !strings.HasPrefix(r.text, `[{"id":"`+id) {
		t.Errorf("vouchers: %d %s", r.status, r.text)
	}
	for _, by := range []string{"/report", "/count"} {
		report := s.send(t, "GET", path+by, "")
		if want := `{"stock":2,"sold":2,"orders":2,"distinctUsers":2,"oversold":false,"duplicateOrders":0}`; report.text != want {
			t.Errorf("%s: %d %s, want %s", by, report.status, report.text, want)
		}
		if age, err := time.ParseDuration(report.header.Get("X-Report-Age")); by == "/report" && (err != nil || age < 0 || age > time.Minute) {
			t.Errorf("age %q: %v", report.header.Get("X-Report-Age"), err)
		}
	}
}

// counted is a database that counts what it is asked, and takes a while to count orders.
type counted struct {
	voucher.Store
	looks, counts atomic.Int64
	counting      chan struct{}
}

func (c *counted) Voucher(ctx context.Context, id string) (voucher.Voucher, error) {
	c.looks.Add(1)
	return c.Store.Voucher(ctx, id)
}

func (c *counted) Vouchers(ctx context.Context, limit int) ([]voucher.Voucher, error) {
	c.looks.Add(1)
	return c.Store.Vouchers(ctx, limit)
}

func (c *counted) Count(ctx context.Context, id string) (voucher.Report, error) {
	c.counts.Add(1)
	<-c.counting
	return c.Store.Count(ctx, id)
}

func TestWatchingASaleCostsTheSameForEverybody(t *testing.T) {
	db := &counted{Store: sqliteStore(t), counting: make(chan struct{})}
	s := openShop(t, memstore.New(), db)
	id := s.onSale(t, 5, -1, 1)
	server := listen(t, s)
	path := "/api/vouchers/" + id
	began := time.Now()
	var pages []*stream
	for range 64 {
		pages = append(pages, watch(t, server, "?voucher="+id))
	}
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for range 5 {
				s.send(t, "GET", path+"/report", "")
			}
		})
	}
	wg.Wait()
	s.send(t, "POST", path+"/orders", "", "ann")
	for _, page := range pages {
		page.until(t, func(now shown) bool { return now.Report.Sold == 1 })
	}
	// One look at the list and one at the voucher, each at most ten times a second, and the order's.
	if most := int64(2*(1+time.Since(began)/voucher.LookEvery)) + 2; db.looks.Load() > most {
		t.Errorf("%d looks at the database in %v, want at most %d", db.looks.Load(), time.Since(began), most)
	}
	if n := db.counts.Load(); n != 0 {
		t.Errorf("the orders were counted %d times", n)
	}
}

func TestOrdersAreCountedForOneAtATime(t *testing.T) {
	db := &counted{Store: sqliteStore(t), counting: make(chan struct{})}
	s := openShop(t, memstore.New(), db)
	path := "/api/vouchers/" + s.onSale(t, 5, -1, 1) + "/count"
	var wg sync.WaitGroup
	wg.Go(func() {
		if r := s.send(t, "GET", path, ""); r.status != 200 {
			t.Errorf("%d %s", r.status, r.text)
		}
	})
	for db.counts.Load() == 0 {
		runtime.Gosched()
	}
	wantProblem(t, s.send(t, "GET", path, ""), path, 429, "COUNTING")
	close(db.counting)
	wg.Wait()
}

// A client that announces a body and sends half of it.
func TestABodyThatDoesNotComeTakesNoLock(t *testing.T) {
	s := openShop(t, memstore.New(), sqliteStore(t))
	id := s.onSale(t, 5, -1, 1)
	server := httptest.NewUnstartedServer(s.handler)
	server.Config.ReadTimeout = 100 * time.Millisecond
	server.Start()
	defer server.Close()
	for _, path := range []string{"/api/vouchers", "/api/vouchers/" + id + "/orders"} {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nX-User-Id: ann\r\nContent-Length: 100\r\n\r\n{", path)
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(response.Body)
		r := reply{status: response.StatusCode, header: response.Header, text: string(text)}
		_ = json.Unmarshal(text, &r.body)
		wantProblem(t, r, path, 408, "REQUEST_TIMEOUT")
		if strings.Contains(r.text, "127.0.0.1") {
			t.Errorf("it has the addresses behind the gateway: %s", r.text)
		}
		_ = conn.Close()
	}
	if r := s.send(t, "GET", "/metrics", ""); strings.Contains(r.text, `status="5`) {
		t.Error("it counts as the service's failure")
	}
}

func TestEveryRefusalIsAProblemDocument(t *testing.T) {
	s := openShop(t, memstore.New(), sqliteStore(t))
	open := s.onSale(t, 5, -1, 1)
	unknown := "01890a5d-ac96-774b-bcce-b302099a8057"
	for _, tt := range []struct {
		method, path, body, user string
		status                   int
		code                     string
	}{
		{"POST", "/api/vouchers/" + open + "/orders", "", "", 401, "UNAUTHENTICATED"},
		{"POST", "/api/vouchers/" + unknown + "/orders", "", "alice", 404, "VOUCHER_NOT_FOUND"},
		{"POST", "/api/vouchers/nonsense/orders", "", "alice", 404, "VOUCHER_NOT_FOUND"},
		{"POST", "/api/vouchers/" + s.onSale(t, 5, 1, 2) + "/orders", "", "alice", 403, "NOT_STARTED"},
		{"POST", "/api/vouchers/" + s.onSale(t, 5, -2, -1) + "/orders", "", "alice", 403, "ENDED"},
		{"GET", "/api/vouchers/" + unknown, "", "", 404, "VOUCHER_NOT_FOUND"},
		{"GET", "/api/vouchers/" + unknown + "/orders", "", "", 404, "VOUCHER_NOT_FOUND"},
		{"GET", "/api/vouchers/" + unknown + "/report", "", "", 404, "VOUCHER_NOT_FOUND"},
		{"GET", "/api/vouchers/%00%F0", "", "", 404, "VOUCHER_NOT_FOUND"},
		{"GET", "/api/orders/" + unknown, "", "", 404, "ORDER_NOT_FOUND"},
		{"GET", "/api/nothing", "", "", 404, "NOT_FOUND"},
		{"GET", "/api/vouchers/", "", "", 404, "NOT_FOUND"},
		{"GET", "/", "", "", 200, ""},
		{"PUT", "/api/vouchers", "", "", 405, "METHOD_NOT_ALLOWED"},
		{"DELETE", "/api/vouchers/" + open, "", "", 405, "METHOD_NOT_ALLOWED"},
	} {
		var users []string
		if tt.user != "" {
			users = []string{tt.user}
		}
		r := s.send(t, tt.method, tt.path, tt.body, users...)
		if tt.code == "" {
			if r.status != tt.status {
				t.Errorf("%s %s: %d", tt.method, tt.path, r.status)
			}
			continue
		}
		wantProblem(t, r, tt.path, tt.status, tt.code)
	}
	if r := s.send(t, "PUT", "/api/vouchers", ""); !strings.Contains(r.header.Get("Allow"), "POST") {
		t.Errorf("Allow: %q", r.header.Get("Allow"))
	}
}

func TestAVoucherThatCannotBeIsRefusedByField(t *testing.T) {
	s := openShop(t, memstore.New(), sqliteStore(t))
	good := func() (string, string) { return hour(1), hour(2) }
	begin, end := good()
	for _, tt := range []struct {
		name, body string
		fields     string
	}{
		{"no body", "", "body"},
		{"no JSON", "title=x", "body"},
		{"cut short", `{"title":"x"`, "body"},
		{"a list", `[]`, "body"},
		{"a text", `"x"`, "body"},
		{"two values", draft("x", 1, begin, end) + "{}", "body"},
		{"an empty object", `{}`, "title stock beginAt endAt"},
		{"null", `null`, "title stock beginAt endAt"},
		{"empty title", draft("", 1, begin, end), "title"},
		{"title of a wrong type", `{"title":7}`, "title"},
		{"no stock", draft("x", 0, begin, end), "stock"},
		{"negative stock", draft("x", -5, begin, end), "stock"},
		{"half a voucher", draft("x", 1.5, begin, end), "stock"},
		{"stock in a text", draft("x", "10", begin, end), "stock"},
		{"stock beyond int64", `{"stock":99999999999999999999}`, "stock"},
		{"time without a zone", draft("x", 1, "2026-01-01T00:00:00", end), "beginAt"},
		{"date only", draft("x", 1, begin, "2026-01-01"), "endAt"},
		{"31 February", draft("x", 1, "2026-02-31T00:00:00Z", end), "beginAt"},
		{"ends before it begins", draft("x", 1, end, begin), "endAt"},
		{"ends as it begins", draft("x", 1, begin, begin), "endAt"},
	} {
		r := s.send(t, "POST", "/api/vouchers", tt.body)
		wantProblem(t, r, "/api/vouchers", 400, "BAD_REQUEST")
		var fields []string
		faults, _ := r.body["errors"].([]any)
		for _, f := range faults {
			field, _ := f.(map[string]any)["field"].(string)
			fields = append(fields, field)
			if detail, _ := r.body["detail"].(string); !strings.Contains(detail, field) {
				t.Errorf("%s: detail %q does not name %s", tt.name, detail, field)
			}
		}
		if strings.Join(fields, " ") != tt.fields {
			t.Errorf("%s: %s, want faults in %s", tt.name, r.text, tt.fields)
		}
	}
	wantProblem(t, s.send(t, "POST", "/api/vouchers", `{"title":"`+strings.Repeat("x", 70_000)+`"}`), "/api/vouchers", 413, "BODY_TOO_LARGE")
	for _, path := range []string{"/api/vouchers", "/api/vouchers/" + s.onSale(t, 1, -1, 1) + "/orders"} {
		for _, limit := range []string{"0", "-1", "1001", "x", "", "1.5"} {
			wantProblem(t, s.send(t, "GET", path+"?limit="+limit, ""), path, 400, "BAD_REQUEST")
		}
	}
}

func TestABodyHasASizeWhetherOrNotSomebodyReadsIt(t *testing.T) {
	s := openShop(t, memstore.New(), sqliteStore(t))
	id := s.onSale(t, 5, -1, 1)
	for _, path := range []string{"/api/vouchers", "/api/vouchers/" + id + "/orders"} {
		for _, size := range []int{64<<10 + 1, 2 << 20} {
			for _, length := range []int64{int64(size), -1} { // -1: chunked
				request := httptest.NewRequestWithContext(t.Context(), "POST", path, strings.NewReader(`"`+strings.Repeat("x", size-1)))
				request.ContentLength = length
				request.Header.Set("X-User-Id", "ann")
				request.Header.Set("Content-Type", "application/json")
				recorder := httptest.NewRecorder()
				s.handler.ServeHTTP(recorder, request)
				r := reply{status: recorder.Code, header: recorder.Header(), text: recorder.Body.String()}
				_ = json.Unmarshal(recorder.Body.Bytes(), &r.body)
				wantProblem(t, r, path, 413, "BODY_TOO_LARGE")
			}
		}
	}
	wantProblem(t, s.send(t, "DELETE", "/api/orders/"+id, strings.Repeat("x", 64<<10+1), "ann"), "/api/orders/"+id, 413, "BODY_TOO_LARGE")
	path := "/api/vouchers/" + id + "/orders"
	if r := s.send(t, "POST", path, strings.Repeat("x", 64<<10), "ann"); r.status != http.StatusCreated {
		t.Errorf("64 KiB: %d %s", r.status, r.text)
	}
	if r := s.send(t, "GET", "/metrics", ""); !strings.Contains(r.text, `seckill_order_requests_total{outcome="BODY_TOO_LARGE"} 4`) {
		t.Error("the metrics don't count orders that are too large")
	}
}

func TestTheUserIsOneSaneHeader(t *testing.T) {
	s := openShop(t, memstore.New(), sqliteStore(t))
	path := "/api/vouchers/" + s.onSale(t, 50, -1, 1) + "/orders"
	for _, users := range [][]string{
		{}, {""}, {" "}, {"a b"}, {"a\tb"}, {"半"}, {strings.Repeat("x", 65)}, {"alice", "bob"}, {"alice", "alice"}, {"a\x7f"},
	} {
		wantProblem(t, s.send(t, "POST", path, "", users...), path, 401, "UNAUTHENTICATED")
	}
	for _, user := range []string{"1", strings.Repeat("x", 64), "a:b", "{a}", "a%b", "Alice", "alice", "<userId>"} {
		if r := s.send(t, "POST", path, "", user); r.status != http.StatusCreated || r.body["userId"] != user {
			t.Errorf("user %q: %d %s", user, r.status, r.text)
		}
	}
}

func TestAUserWhoseLockIsHeldIsRefusedAndOthersAreNot(t *testing.T) {
	s := openShop(t, memstore.New(), sqliteStore(t))
	path := "/api/vouchers/" + s.onSale(t, 5, -1, 1) + "/orders"
	lease, err := s.locker.TryAcquire(t.Context(), "lock:order:alice")
	if err != nil {
		t.Fatal(err)
	}
	wantProblem(t, s.send(t, "POST", path, "", "alice"), path, 409, "LOCK_CONTENDED")
	if r := s.send(t, "POST", path, "", "bob"); r.status != http.StatusCreated {
		t.Errorf("another user: %d %s", r.status, r.text)
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r := s.send(t, "POST", path, "", "alice"); r.status != http.StatusCreated {
		t.Errorf("after the release: %d %s", r.status, r.text)
	}
}

// unreachable is a lock store without a network.
type unreachable struct{ lock.Store }

func (unreachable) Acquire(_ context.Context, _ lock.Claim, _ time.Time, answer lock.Answer) {
	answer.Answered(0, &lock.StoreError{Outcome: lock.OutcomeRefused, Err: errors.New("dial tcp 10.0.0.7:6379: secret detail")})
}

// scripted is a voucher store whose PlaceOrder is the test's.
type scripted struct {
	voucher.Store
	place func(context.Context, voucher.Order) error
}

func (s scripted) PlaceOrder(ctx context.Context, o voucher.Order) error { return s.place(ctx, o) }

func TestAnOrderIsGivenBackUnderTheLockOfItsUser(t *testing.T) {
	s := openShop(t, memstore.New(), sqliteStore(t))
	path := "/api/vouchers/" + s.onSale(t, 1, -1, 1)
	placed := s.send(t, http.MethodPost, path+"/orders", "", "ann")
	if placed.status != http.StatusCreated {
		t.Fatal(placed.text)
	}
	order := fmt.Sprint("/api/orders/", placed.body["orderId"])
	wantProblem(t, s.send(t, http.MethodDelete, order, ""), order, http.StatusUnauthorized, "UNAUTHENTICATED")
	wantProblem(t, s.send(t, http.MethodDelete, order, "", "bob"), order, http.StatusNotFound, "ORDER_NOT_FOUND")

	lease, err := s.locker.TryAcquire(t.Context(), "lock:order:ann")
	if err != nil {
		t.Fatal(err)
	}
	wantProblem(t, s.send(t, http.MethodDelete, order, "", "ann"), order, http.StatusConflict, "LOCK_CONTENDED")
	if err := lease.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r := s.send(t, http.MethodDelete, order, "", "ann"); r.status != http.StatusNoContent || r.text != "" {
		t.Errorf("%d %s", r.status, r.text)
	}
	wantProblem(t, s.send(t, http.MethodDelete, order, "", "ann"), order, http.StatusNotFound, "ORDER_NOT_FOUND")
	if r := s.send(t, http.MethodPost, path+"/orders", "", "bob"); r.status != http.StatusCreated {
		t.Errorf("a canceled order is not on sale: %s", r.text)
	}
}

// keyed is a database that remembers under which keys it wrote.
type keyed struct {
	voucher.Store
	keys []string
}

func (k *keyed) note(ctx context.Context) {
	lease, _ := lock.FromContext(ctx)
	k.keys = append(k.keys, lease.Key())
}

func (k *keyed) PlaceOrder(ctx context.Context, o voucher.Order) error {
	k.note(ctx)
	return k.Store.PlaceOrder(ctx, o)
}

func (k *keyed) CancelOrder(ctx context.Context, orderID, userID string, fence voucher.Fence) error {
	k.note(ctx)
	return k.Store.CancelOrder(ctx, orderID, userID, fence)
}

func TestAUserOrdersAndCancelsUnderOneKey(t *testing.T) {
	db := &keyed{Store: sqliteStore(t)}
	s := openShop(t, memstore.New(), db)
	path := "/api/vouchers/" + s.onSale(t, 50, -1, 1) + "/orders"
	known := make(map[string]string)
	for _, user := range []string{"7", "007", "7.0", "a", "A", "a:b", "a%3Ab", "{a}", "<userId>", "*", `"'\`, strings.Repeat("x", 64)} {
		db.keys = nil
		placed := s.send(t, "POST", path, "", user)
		if r := s.send(t, "DELETE", fmt.Sprint("/api/orders/", placed.body["orderId"]), "", user); r.status != http.StatusNoContent {
			t.Errorf("%s: %s %s", user, placed.text, r.text)
		}
		if len(db.keys) != 2 || db.keys[0] != db.keys[1] {
			t.Errorf("%s: keys %q, want one for both", user, db.keys)
			continue
		}
		if other, taken := known[db.keys[0]]; taken {
			t.Errorf("%s and %s have the key %s", user, other, db.keys[0])
		}
		known[db.keys[0]] = user
	}
}

func TestWithoutTheLockStoreNothingIsSold(t *testing.T) {
	sold := false
	s := openShop(t, unreachable{memstore.New()}, scripted{sqliteStore(t), func(context.Context, voucher.Order) error {
		sold = true
		return nil
	}})
	path := "/api/vouchers/" + s.onSale(t, 5, -1, 1) + "/orders"
	r := s.send(t, "POST", path, "", "alice")
	wantProblem(t, r, path, 503, "LOCK_UNAVAILABLE")
	if sold || strings.Contains(r.text, "secret detail") {
		t.Errorf("sold %v, answer %s", sold, r.text)
	}
}

func TestALostLockIsNoSuccess(t *testing.T) {
	placing := make(chan struct{})
	s := openShop(t, memstore.New(), scripted{sqliteStore(t), func(ctx context.Context, _ voucher.Order) error {
		close(placing)
		<-ctx.Done()
		return context.Cause(ctx)
	}})
	path := "/api/vouchers/" + s.onSale(t, 5, -1, 1) + "/orders"
	var wg sync.WaitGroup
	wg.Go(func() {
		r := s.send(t, "POST", path, "", "alice")
		wantProblem(t, r, path, 500, "LOCK_LOST")
	})
	<-placing
	if freed, err := s.locker.ForceRelease(t.Context(), "lock:order:alice"); err != nil || !freed {
		t.Errorf("force release: %v, %v", freed, err)
	}
	wg.Wait()
}

// shelf is a database with one voucher, which answers after a while.
type shelf struct {
	voucher.Store
	after time.Duration
}

func (s shelf) Voucher(ctx context.Context, id string) (voucher.Voucher, error) {
	select {
	case <-time.After(s.after):
		return voucher.Voucher{ID: id, Stock: 1, Remaining: 1, EndAt: time.Now().Add(time.Hour)}, nil
	case <-ctx.Done():
		return voucher.Voucher{}, ctx.Err()
	}
}

func (shelf) PlaceOrder(context.Context, voucher.Order) error { return nil }

func TestARequestHasAnAnswerWhateverHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openShop(t, memstore.New(), shelf{after: 2 * limit})
		r := s.send(t, "GET", "/api/vouchers/7", "")
		wantProblem(t, r, "/api/vouchers/7", 503, "STORE_UNAVAILABLE")
		if got := r.header.Get("X-Content-Type-Options"); got != "nosniff" {
			t.Errorf("browsers may guess: %q", got)
		}
	})
}

func TestTheWaitForALockTakesNothingOfTheTimeOfARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openPatientShop(t, 5*limit, memstore.New(), shelf{after: limit - 1})
		lease, err := s.locker.TryAcquire(t.Context(), "lock:order:alice")
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(3*limit, func() { _ = lease.Release(context.Background()) })
		if r := s.send(t, "POST", "/api/vouchers/7/orders", "", "alice"); r.status != http.StatusCreated {
			t.Errorf("%d %s", r.status, r.text)
		}
	})
}

func TestARequestThatWaitedLongerThanAnAnswerMayTakeIsAnswered(t *testing.T) {
	const writeTimeout = 100 * time.Millisecond
	s := openPatientShop(t, limit, memstore.New(), sqliteStore(t))
	server := httptest.NewUnstartedServer(s.handler)
	server.Config.WriteTimeout = writeTimeout
	server.Start()
	defer server.Close()
	send := func(method, path string) (status int, id string) {
		lease, err := s.locker.TryAcquire(t.Context(), "lock:order:alice")
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(4*writeTimeout, func() { _ = lease.Release(context.Background()) })
		request, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("X-User-Id", "alice")
		response, err := server.Client().Do(request)
		if err != nil {
			t.Fatalf("%s: %v", method, err)
		}
		defer response.Body.Close()
		var order struct{ OrderID string }
		_ = json.NewDecoder(response.Body).Decode(&order)
		return response.StatusCode, order.OrderID
	}
	status, id := send(http.MethodPost, "/api/vouchers/"+s.onSale(t, 5, -1, 1)+"/orders")
	if status != http.StatusCreated {
		t.Fatalf("the order: %d", status)
	}
	if status, _ := send(http.MethodDelete, "/api/orders/"+id); status != http.StatusNoContent {
		t.Errorf("its cancellation: %d", status)
	}
}

func TestWhatTheStoreRefusesIsAnsweredByCode(t *testing.T) {
	var answer error
	s := openShop(t, memstore.New(), scripted{sqliteStore(t), func(context.Context, voucher.Order) error { return answer }})
	path := "/api/vouchers/" + s.onSale(t, 5, -1, 1) + "/orders"
	for _, tt := range []struct {
		err    error
		status int
		code   string
	}{
		{voucher.ErrStaleFence, 409, "LOCK_CONTENDED"},
		{voucher.ErrNoLock, 500, "LOCK_RULE_INVALID"},
		{voucher.ErrStoreUnavailable, 503, "STORE_UNAVAILABLE"},
		{errors.Join(voucher.ErrStoreUnavailable, errors.New("secret detail")), 503, "STORE_UNAVAILABLE"},
		{errors.New("secret detail"), 500, "INTERNAL"},
	} {
		answer = tt.err
		r := s.send(t, "POST", path, "", "alice")
		wantProblem(t, r, path, tt.status, tt.code)
		if strings.Contains(r.text, "secret detail") {
			t.Errorf("%v: %s", tt.err, r.text)
		}
		if text, _, _ := strings.Cut(tt.err.Error(), "\n"); !strings.Contains(s.log.String(), text) {
			t.Errorf("operators don't see %v: %q", tt.err, s.log)
		}
		s.log.Reset()
	}
}

// lossy is a database whose answer to each new voucher is lost.
type lossy struct{ *store.Store }

func (l lossy) CreateVoucher(ctx context.Context, v voucher.Voucher) error {
	return errors.Join(l.Store.CreateVoucher(ctx, v), voucher.ErrStoreUnavailable)
}

func TestAVoucherThatMayBeOnSaleIsNotOfferedToBeCreatedAgain(t *testing.T) {
	s := openShop(t, memstore.New(), lossy{sqliteStore(t)})
	r := s.send(t, "POST", "/api/vouchers", draft("Half price", 1, hour(-1), hour(1)))
	wantProblem(t, r, "/api/vouchers", 500, "INTERNAL")
	if r.body["retryable"] != false {
		t.Errorf("it is safe to send again: %s", r.text)
	}
	if !strings.Contains(s.log.String(), "may be on sale") {
		t.Errorf("operators see %q", s.log)
	}
}

func TestAPanicIsAnsweredAndGivesTheLockBack(t *testing.T) {
	calls := 0
	s := openShop(t, memstore.New(), scripted{sqliteStore(t), func(context.Context, voucher.Order) error {
		if calls++; calls == 1 {
			panic("secret detail")
		}
		return nil
	}})
	path := "/api/vouchers/" + s.onSale(t, 5, -1, 1) + "/orders"
	r := s.send(t, "POST", path, "", "alice")
	wantProblem(t, r, path, 500, "INTERNAL")
	if strings.Contains(r.text, "secret detail") {
		t.Error(r.text)
	}
	if r := s.send(t, "POST", path, "", "alice"); r.status != http.StatusCreated {
		t.Errorf("after the panic: %d %s", r.status, r.text)
	}
	if r := s.send(t, "GET", "/metrics", ""); !strings.Contains(r.text, `seckill_order_requests_total{outcome="INTERNAL"} 1`) {
		t.Error("the metrics don't count the order that panicked")
	}
}

func TestAClientThatLeftGetsNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := openShop(t, memstore.New(), scripted{sqliteStore(t), func(ctx context.Context, _ voucher.Order) error {
		cancel()
		<-ctx.Done()
		return ctx.Err()
	}})
	path := "/api/vouchers/" + s.onSale(t, 5, -1, 1) + "/orders"
	request := httptest.NewRequestWithContext(ctx, "POST", path, nil)
	request.Header.Set("X-User-Id", "alice")
	recorder := httptest.NewRecorder()
	s.handler.ServeHTTP(recorder, request)
	if recorder.Code != 499 || recorder.Body.Len() != 0 {
		t.Errorf("%d %s, want 499 (for logs) and no body", recorder.Code, recorder.Body)
	}
	if state, err := s.locker.Inspect(t.Context(), "lock:order:alice"); err != nil || state.Held {
		t.Errorf("lock: %+v, %v, want free", state, err)
	}
}

func TestReadinessFollowsItsProbesAndTheDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down error
		calls := 0
		s := openShop(t, memstore.New(), shelf{},
			web.Probe{Name: "database", Check: func(context.Context) error { return nil }},
			web.Probe{Name: "lock store", Check: func(context.Context) error { calls++; return down }})
		for range 1000 {
			if r := s.send(t, "GET", "/readyz", ""); r.status != 200 {
				t.Fatalf("ready: %d %s", r.status, r.text)
			}
		}
		if calls != 1 {
			t.Errorf("a thousand looks in a second probe %d times", calls)
		}
		time.Sleep(time.Second + 1)
		down = errors.New("secret detail")
		r := s.send(t, "GET", "/readyz", "")
		wantProblem(t, r, "/readyz", 503, "NOT_READY")
		if !strings.Contains(r.text, "lock store") || strings.Contains(r.text, "database") || strings.Contains(r.text, "secret") {
			t.Errorf("not ready: %s", r.text)
		}
		s.health.Drain()
		wantProblem(t, s.send(t, "GET", "/readyz", ""), "/readyz", 503, "DRAINING")
		if r := s.send(t, "GET", "/healthz", ""); r.status != 200 {
			t.Errorf("live while draining: %d", r.status)
		}
	})
}

func TestAProbeThatHangsIsTheOnlyOneBlamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openShop(t, memstore.New(), shelf{},
			web.Probe{Name: "database", Check: func(ctx context.Context) error {
				<-ctx.Done()
				return ctx.Err()
			}},
			web.Probe{Name: "lock store", Check: func(ctx context.Context) error { return ctx.Err() }})
		if r := s.send(t, "GET", "/readyz", ""); r.status != 503 || r.body["detail"] != "No answer from: database." {
			t.Errorf("%d %s", r.status, r.text)
		}
	})
}

func TestMetricsCountOrdersByOutcome(t *testing.T) {
	s := openShop(t, memstore.New(), sqliteStore(t))
	path := "/api/vouchers/" + s.onSale(t, 1, -1, 1) + "/orders"
	s.send(t, "POST", path, "", "alice")
	s.send(t, "POST", path, "", "alice")
	s.send(t, "POST", path, "", "bob")
	s.send(t, "POST", path, "")
	lease, err := s.locker.TryAcquire(t.Context(), "lock:order:carol")
	if err != nil {
		t.Fatal(err)
	}
	s.send(t, "POST", path, "", "carol")
	if err := lease.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.send(t, "BREW", "/made-up/by-a-client", "")
	r := s.send(t, "GET", "/metrics", "")
	for _, want := range []string{
		`seckill_order_requests_total{outcome="placed"} 1`,
		`seckill_order_requests_total{outcome="ALREADY_ORDERED"} 1`,
		`seckill_order_requests_total{outcome="SOLD_OUT"} 1`,
		`seckill_order_requests_total{outcome="UNAUTHENTICATED"} 1`,
		`seckill_order_requests_total{outcome="LOCK_CONTENDED"} 1`,
		`seckill_http_request_duration_seconds_count{method="POST",route="/api/vouchers/:id/orders",status="201"} 1`,
		"go_goroutines",
	} {
		if !strings.Contains(r.text, want) {
			t.Errorf("no %s in the metrics", want)
		}
	}
	if strings.Contains(r.text, "made-up") || strings.Contains(r.text, "BREW") {
		t.Error("clients can make up labels")
	}
}

// Two instances, a lock store and a database: many users, many clicks.
func TestTwoInstancesKeepTheInvariants(t *testing.T) {
	const stock, users, clicks = 20, 40, 6
	locks, orders := memstore.New(), sqliteStore(t)
	shops := []*shop{openShop(t, locks, orders), openShop(t, locks, orders)}
	id := shops[0].onSale(t, stock, -1, 1)
	path := "/api/vouchers/" + id + "/orders"
	var (
		wg      sync.WaitGroup
		mu      sync.Mutex
		answers = make(map[any]int)
	)
	for n := range users * clicks {
		wg.Go(func() {
			for {
				r := shops[n%2].send(t, "POST", path, "", "user-"+string(rune('A'+n/clicks)))
				if r.body["code"] == "LOCK_CONTENDED" {
					time.Sleep(time.Millisecond) // the client's back-off
					continue
				}
				mu.Lock()
				answers[r.body["code"]]++
				mu.Unlock()
				return
			}
		})
	}
	wg.Wait()
	if answers[nil] != stock {
		t.Errorf("answers: %v, want %d orders", answers, stock)
	}
	want := `{"stock":20,"sold":20,"orders":20,"distinctUsers":20,"oversold":false,"duplicateOrders":0}`
	if r := shops[1].send(t, "GET", "/api/vouchers/"+id+"/report", ""); r.text != want {
		t.Errorf("report: %s, want %s", r.text, want)
	}
}
