package load_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redlatch/redlatch/examples/seckill/internal/load"
)

// seller is a service that sells as the test says.
type seller struct {
	mu     sync.Mutex
	stock  int64
	orders []string // users, in order
	seen   map[string]int
	// sell answers a click: 0 is a sale by the book, 1 a sale whatever the
	// book says, otherwise the status and code of a refusal.
	sell func(user string, nth int) (status int, code string)
	// report may change what is reported.
	report func(*load.Report)
	// count may change what the orders are when they are counted; nil: nothing counts.
	count func(*load.Report)
	busy  int // counts to refuse first
}

func (s *seller) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case r.Method == http.MethodPost && r.URL.Path == "/api/vouchers":
		var draft struct{ Stock int64 }
		if err := json.NewDecoder(r.Body).Decode(&draft); err != nil {
			panic(err)
		}
		s.stock, s.seen = draft.Stock, make(map[string]int)
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, `{"id":"v"}`)
	case r.Method == http.MethodPost && r.URL.Path == "/api/vouchers/v/orders":
		s.click(w, r.Header.Get("X-User-Id"))
	case r.URL.Path == "/api/vouchers/v/report":
		s.tell(w, s.report)
	case r.URL.Path == "/api/vouchers/v/count" && s.count != nil:
		if s.busy--; s.busy >= 0 {
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		s.tell(w, s.count)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

func (s *seller) click(w http.ResponseWriter, user string) {
	s.seen[user]++
	status, code := 0, ""
	if s.sell != nil {
		status, code = s.sell(user, s.seen[user])
	}
	if status == 0 {
		status, code = s.byTheBook(user)
	}
	if status == 1 {
		s.orders = append(s.orders, user)
		status = http.StatusCreated
	}
	w.WriteHeader(status)
	if code != "" {
		fmt.Fprintf(w, `{"code":%q}`, code)
	}
}

func (s *seller) byTheBook(user string) (int, string) {
	for _, u := range s.orders {
		if u == user {
			return http.StatusConflict, "ALREADY_ORDERED"
		}
	}
	if int64(len(s.orders)) >= s.stock {
		return http.StatusConflict, "SOLD_OUT"
	}
	return 1, ""
}

func (s *seller) tell(w http.ResponseWriter, change func(*load.Report)) {
	users := make(map[string]bool)
	for _, u := range s.orders {
		users[u] = true
	}
	n := int64(len(s.orders))
	r := load.Report{
		Stock: s.stock, Sold: n, Orders: n, DistinctUsers: int64(len(users)),
		Oversold: n > s.stock, DuplicateOrders: n - int64(len(users)),
	}
	if change != nil {
		change(&r)
	}
	_ = json.NewEncoder(w).Encode(r)
}

func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.URL
}

func config(targets ...string) load.Config {
	return load.Config{Targets: targets, Users: 20, Clicks: 3, Concurrency: 8, Stock: 7, RetryTimeout: time.Minute}
}

// broken lists the invariants that don't hold.
func broken(r *load.Result) string {
	var names []string
	for _, i := range r.Invariants {
		if !i.Holds {
			names = append(names, i.Name)
		}
	}
	return strings.Join(names, "; ")
}

func TestASaleByTheBookHolds(t *testing.T) {
	for _, tt := range []struct {
		users, stock int
		orders       int64
		refused      string
	}{
		{20, 7, 7, "map[ALREADY_ORDERED:14 SOLD_OUT:39]"},
		{5, 7, 5, "map[ALREADY_ORDERED:10]"},
	} {
		c := config(serve(t, &seller{}))
		c.Users, c.Stock, c.Concurrency = tt.users, int64(tt.stock), 1
		clicks := 0
		r, err := load.Run(t.Context(), c, func() { clicks++ })
		if err != nil {
			t.Fatal(err)
		}
		if !r.Holds() || broken(r) != "" || r.Orders != tt.orders || r.Report.Orders != tt.orders ||
			clicks != tt.users*3 || r.Clicks != int64(clicks) || r.Requests != int64(clicks) {
			t.Errorf("%d users, stock %d: %+v", tt.users, tt.stock, r)
		}
		if got := fmt.Sprint(r.Refused); got != tt.refused || len(r.Retried) != 0 || len(r.Failures) != 0 {
			t.Errorf("refused %s, want %s; retried %v, failures %v", got, tt.refused, r.Retried, r.Failures)
		}
		if r.P50 <= 0 || r.P50 > r.P95 || r.P95 > r.P99 || r.OrdersPerSecond <= 0 {
			t.Errorf("latency %v %v %v, %v orders/s", r.P50, r.P95, r.P99, r.OrdersPerSecond)
		}
		var table strings.Builder
		if err := r.Print(&table); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"requests", "orders", "refused: ALREADY_ORDERED", "p50", "p95", "p99", "orders/s", "sold ≤ stock", "one order per user", "sold = min(stock, users)", "holds"} {
			if !strings.Contains(table.String(), want) {
				t.Errorf("no %q in the table\n%s", want, table.String())
			}
		}
	}
}

func TestWhatIsNotFinalIsRepeatedAndCounted(t *testing.T) {
	refusals := []struct {
		status int
		code   string
	}{
		{409, "LOCK_CONTENDED"}, {503, "LOCK_UNAVAILABLE"}, {503, "STORE_UNAVAILABLE"}, {500, "LOCK_LOST"}, {502, ""},
	}
	s := &seller{sell: func(_ string, nth int) (int, string) {
		if nth <= len(refusals) {
			return refusals[nth-1].status, refusals[nth-1].code
		}
		return 0, ""
	}}
	c := config(serve(t, s))
	c.Users, c.Clicks, c.Concurrency = 3, 1, 3
	r, err := load.Run(t.Context(), c, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := "map[HTTP_502:3 LOCK_CONTENDED:3 LOCK_LOST:3 LOCK_UNAVAILABLE:3 STORE_UNAVAILABLE:3]"
	if got := fmt.Sprint(r.Retried); got != want || !r.Holds() || r.Orders != 3 || r.Requests != 18 || r.Clicks != 3 {
		t.Errorf("retried %s, want %s; %+v", got, want, r)
	}
}

func TestAClickGivesUpAtTheRetryTimeout(t *testing.T) {
	s := &seller{sell: func(string, int) (int, string) { return 409, "LOCK_CONTENDED" }}
	c := config(serve(t, s))
	c.Users, c.Clicks, c.RetryTimeout = 2, 1, 50*time.Millisecond
	r, err := load.Run(t.Context(), c, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r.Refused["GAVE_UP"] != 2 || broken(r) != "sold = min(stock, users)" {
		t.Errorf("refused %v, broken: %s", r.Refused, broken(r))
	}
}

func TestOtherRefusalsAreFinal(t *testing.T) {
	s := &seller{sell: func(string, int) (int, string) { return 500, "INTERNAL" }}
	r, err := load.Run(t.Context(), config(serve(t, s)), nil)
	if err != nil {
		t.Fatal(err)
	}
	if r.Refused["INTERNAL"] != 60 || r.Requests != 60 || r.Holds() {
		t.Errorf("%+v", r)
	}
}

// An order may hide behind an answer that leaves it open, and behind no other.
func TestAnAnswerThatLeavesTheOrderOpenMayHideOne(t *testing.T) {
	for _, tt := range []struct {
		status int
		code   string
		want   string // what is broken if each user's first click placed an order all the same
	}{
		{500, "INTERNAL", ""},
		{500, "LOCK_LOST", ""},
		{503, "STORE_UNAVAILABLE", ""},
		{502, "", ""},
		{500, "", ""},
		{429, "LOCK_OVERLOADED", "report = answers"},
		{409, "LOCK_CONTENDED", "report = answers"},
		{503, "LOCK_UNAVAILABLE", "report = answers"},
	} {
		s := &seller{}
		s.sell = func(user string, nth int) (int, string) {
			if nth == 1 {
				s.orders = append(s.orders, user)
				return tt.status, tt.code
			}
			return 0, ""
		}
		c := config(serve(t, s))
		c.Users, c.Stock = 7, 7
		r, err := load.Run(t.Context(), c, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := broken(r); got != tt.want {
			t.Errorf("%d %s: broken: %q, want %q", tt.status, tt.code, got, tt.want)
		}
	}
}

func TestBrokenPromisesAreFound(t *testing.T) {
	always := func(string, int) (int, string) { return 1, "" }
	once := func(_ string, nth int) (int, string) {
		if nth == 1 {
			return 1, ""
		}
		return 409, "ALREADY_ORDERED"
	}
	for _, tt := range []struct {
		name string
		s    *seller
		want string
	}{
		{"oversold", &seller{sell: once}, "sold ≤ stock; sold = min(stock, users)"},
		{"duplicates", &seller{sell: always}, "sold ≤ stock; one order per user; sold = min(stock, users)"},
		{"undersold", &seller{sell: func(string, int) (int, string) { return 409, "SOLD_OUT" }}, "sold = min(stock, users)"},
		{"sold without an order", &seller{report: func(r *load.Report) { r.Sold++ }}, "sold ≤ stock; sold = min(stock, users)"},
		{"orders without a sale", &seller{report: func(r *load.Report) { r.Sold-- }}, "sold = min(stock, users)"},
		{"lost orders", &seller{report: func(r *load.Report) { r.Sold--; r.Orders--; r.DistinctUsers-- }}, "sold = min(stock, users); report = answers"},
		{"orders of others", &seller{report: func(r *load.Report) { r.Orders, r.Sold, r.DistinctUsers = 8, 8, 8 }}, "sold ≤ stock; sold = min(stock, users); report = answers"},
		{"confirmed twice, and hidden", &seller{sell: always, report: func(r *load.Report) {
			*r = load.Report{Stock: 7, Sold: 7, Orders: 7, DistinctUsers: 7}
		}}, "one order per user; report = answers"},
		{"a counter that has lost an order", &seller{busy: 3, count: func(r *load.Report) { r.Orders++ }}, "counters = orders"},
		{"the service says so itself", &seller{report: func(r *load.Report) { r.Oversold = true; r.DuplicateOrders = 1 }}, "sold ≤ stock; one order per user"},
	} {
		r, err := load.Run(t.Context(), config(serve(t, tt.s)), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := broken(r); got != tt.want || r.Holds() {
			t.Errorf("%s: broken: %s, want %s", tt.name, got, tt.want)
		}
		var table strings.Builder
		if err := r.Print(&table); err != nil || !strings.Contains(table.String(), "BROKEN") {
			t.Errorf("%s: %v\n%s", tt.name, err, table.String())
		}
	}
}

// A server that takes the request and dies: the order may or may not be there.
func TestADeadTargetIsPassedOverAndCounted(t *testing.T) {
	s := &seller{}
	alive := serve(t, s)
	gone := httptest.NewServer(s)
	gone.Close()
	var served int
	var mu sync.Mutex
	dying := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		served++
		first := served == 1
		mu.Unlock()
		if first {
			s.ServeHTTP(httptest.NewRecorder(), r) // the order is placed, the answer is lost
		}
		panic(http.ErrAbortHandler)
	}))
	c := config(alive, gone.URL, dying)
	r, err := load.Run(t.Context(), c, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Holds() || r.Report.Orders != 7 || r.Orders < 6 || r.Failures[gone.URL] == 0 || r.Failures[dying] == 0 || r.Failures[alive] != 0 {
		t.Errorf("broken: %s; %+v", broken(r), r)
	}
}

func TestClicksAreSpreadOverTheTargets(t *testing.T) {
	s := &seller{}
	var mu sync.Mutex
	hits := make(map[int]int)
	var urls []string
	for i := range 3 {
		urls = append(urls, serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			hits[i]++
			mu.Unlock()
			s.ServeHTTP(w, r)
		})))
	}
	if r, err := load.Run(t.Context(), config(urls...), nil); err != nil || !r.Holds() {
		t.Fatalf("%+v, %v", r, err)
	}
	for i := range 3 {
		if hits[i] < 20 {
			t.Errorf("hits: %v, want 20 clicks each", hits)
		}
	}
}

func TestNoTargetAtAllIsAnError(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close()
	if _, err := load.Run(t.Context(), config(gone.URL), nil); err == nil || !strings.Contains(err.Error(), gone.URL) {
		t.Errorf("error %v, want one that names %s", err, gone.URL)
	}
	other := serve(t, http.NotFoundHandler())
	if _, err := load.Run(t.Context(), config(other), nil); err == nil || !strings.Contains(err.Error(), "HTTP 404") {
		t.Errorf("error %v, want one with HTTP 404", err)
	}
}

func TestASaleWithoutAReportIsAnError(t *testing.T) {
	s := &seller{}
	target := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/report") {
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprint(w, `{"code":"STORE_UNAVAILABLE"}`)
			return
		}
		s.ServeHTTP(w, r)
	}))
	if _, err := load.Run(t.Context(), config(target+"/"), nil); err == nil || !strings.Contains(err.Error(), "report: "+target+": HTTP 503 STORE_UNAVAILABLE") {
		t.Errorf("error %v, want one that says what the report was answered with", err)
	}
}

func TestTheRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := &seller{sell: func(string, int) (int, string) {
		cancel()
		return 409, "LOCK_CONTENDED"
	}}
	if _, err := load.Run(ctx, config(serve(t, s)), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want the context's", err)
	}
}

func TestEveryWrongSettingIsNamed(t *testing.T) {
	_, err := load.Run(t.Context(), load.Config{Targets: []string{"localhost:8080", "ftp://x", "http://", "http://x/#", "http://x?"}}, nil)
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"--users", "--clicks", "--concurrency", "--stock", "--retry-timeout", `"localhost:8080"`, `"ftp://x"`, `"http://"`, `"http://x/#"`, `"http://x?"`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v: does not name %s", err, want)
		}
	}
	if _, err := load.Run(t.Context(), load.Config{Users: 1, Clicks: 1, Concurrency: 1, Stock: 1, RetryTimeout: 1}, nil); err == nil || !strings.Contains(err.Error(), "--target") {
		t.Errorf("no target: %v", err)
	}
}

func TestACrowdHasASize(t *testing.T) {
	for want, change := range map[string]func(*load.Config){
		"--concurrency": func(c *load.Config) { c.Concurrency = 1_000_000_000 },
		"--users":       func(c *load.Config) { c.Users = math.MaxInt },
		"--clicks":      func(c *load.Config) { c.Users, c.Clicks = 1<<(bits.UintSize/2), 1<<(bits.UintSize/2) },
		"--target":      func(c *load.Config) { c.Targets[0] += "#sale" },
	} {
		c := config("http://127.0.0.1:1")
		change(&c)
		if _, err := load.Run(t.Context(), c, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one that names %s", err, want)
		}
	}
}
