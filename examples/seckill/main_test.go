package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	redis.SetLogger(silent{})
	goleak.VerifyTestMain(m)
}

// seckill runs a command line.
func seckill(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = run(t.Context(), args, &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

func TestDemoSellsExactlyWhatThereIs(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	code, out, errs := seckill(t, "demo", "--users=200", "--clicks=5", "--stock=50", "--concurrency=32")
	if code != 0 {
		t.Fatalf("exit code %d\n%s%s", code, out, errs)
	}
	for _, want := range []string{
		`clicks +│ +1000 `, `requests +│ +\d+ `, `orders +│ +50 `,
		`refused: ALREADY_ORDERED +│ +200 `, `refused: SOLD_OUT +│ +750 `,
		`latency p50`, `latency p95`, `latency p99`, `orders/s`,
		`report: orders +│ +50 `, `report: distinct users +│ +50 `, `report: oversold +│ +false `, `report: duplicate orders +│ +0 `,
		`sold ≤ stock +│ +holds`, `one order per user +│ +holds`, `sold = min\(stock, users\) +│ +holds`, `counters = orders +│ +holds`, `open http://127.0.0.1:8080/`,
	} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("no %s in\n%s", want, out)
		}
	}
	if !strings.Contains(errs, "1000/1000") {
		t.Errorf("no finished progress bar: %q", errs)
	}
	if left, _ := os.ReadDir(temp); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// watched is a writer that reports when a string appears.
type watched struct {
	mu    sync.Mutex
	text  strings.Builder
	want  *regexp.Regexp
	found chan string
}

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text.Write(p)
	if match := w.want.FindStringSubmatch(w.text.String()); match != nil && w.found != nil {
		w.found <- match[1]
		w.found = nil
	}
	return len(p), nil
}

func TestServeServesUntilItIsToldToStop(t *testing.T) {
	t.Setenv("SECKILL_HTTP", "127.0.0.1:0")
	t.Setenv("SECKILL_DB", "sqlite:"+filepath.Join(t.TempDir(), "sale.db"))
	t.Setenv("SECKILL_DRAIN_DELAY", "0s")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	log := &watched{want: regexp.MustCompile(`url=(http://\S+)`), found: make(chan string, 1)}
	url, ended := log.found, make(chan int, 1)
	go func() { ended <- run(ctx, []string{"serve"}, io.Discard, log) }()
	select {
	case target := <-url:
		code, out, errs := seckill(t, "load", "--target", target, "--users=20", "--clicks=2", "--stock=30", "--concurrency=4")
		if code != 0 || !strings.Contains(out, "holds") {
			t.Errorf("load: exit code %d\n%s%s", code, out, errs)
		}
	case code := <-ended:
		t.Fatalf("serve ended with %d: %s", code, log.text.String())
	}
	cancel()
	if code := <-ended; code != 0 {
		t.Errorf("serve ended with %d: %s", code, log.text.String())
	}
}

func TestLoadFailsWhenAnInvariantIsBroken(t *testing.T) {
	greedy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			w.WriteHeader(http.StatusCreated)
		}
		_ = json.NewEncoder(w).Encode(map[string]any{
			"id": "v", "stock": 5, "sold": 5, "orders": 9, "distinctUsers": 6, "oversold": true, "duplicateOrders": 3,
		})
	}))
	defer greedy.Close()
	code, out, errs := seckill(t, "load", "--target="+greedy.URL, "--users=3", "--clicks=3", "--stock=5", "--concurrency=2")
	if code != exitFailed || !strings.Contains(out, "BROKEN: 9 of 5") || !strings.Contains(errs, "an invariant is broken") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
}

func TestWhatIsWrongIsSaidAndExitsByKind(t *testing.T) {
	for _, tt := range []struct {
		args []string
		code int
		want string
	}{
		{nil, exitUsage, "expected one of"},
		{[]string{"sell"}, exitUsage, "unexpected argument sell"},
		{[]string{"serve", "--nonsense"}, exitUsage, "--nonsense"},
		{[]string{"serve", "--lock-wait=-1s"}, exitUsage, "--lock-wait: must not be negative"},
		{[]string{"serve", "--http="}, exitUsage, "--http: must not be empty"},
		{[]string{"serve", "--drain-delay=2562047h"}, exitUsage, "--drain-delay: must be at most"},
		{[]string{"serve", "--watchdog=soon"}, exitUsage, "--watchdog"},
		{[]string{"serve", "--no-lock"}, exitUsage, "--no-lock"}, // not in this build
		{[]string{"load", "--users=many"}, exitUsage, "--users"},
		{[]string{"load", "--users=0"}, exitFailed, "--users: must be positive"},
		{[]string{"load", "--target=localhost"}, exitFailed, `"localhost" is not a base URL`},
		{[]string{"load", "--target=http://127.0.0.1:1"}, exitFailed, "http://127.0.0.1:1"},
		{[]string{"demo", "--stock=-1"}, exitFailed, "--stock: must be positive"},
		{[]string{"serve", "--http=127.0.0.1:0", "--db=oracle://sys:s3cret@db/sale"}, exitFailed, `--db: unknown database "oracle"`},
		{[]string{"serve", "--http=127.0.0.1:0", "--redis=redis://:s3cret@127.0.0.1:1"}, exitFailed, "--redis: Redis at 127.0.0.1:1: "},
		{[]string{"serve", "--http=127.0.0.1:0", "--redis=redis+sentinel://:s3cret@127.0.0.1:1,127.0.0.1:2/m"}, exitFailed, `--redis: Redis master "m" of the sentinels at `},
		{[]string{"serve", "--http=127.0.0.1:0", "--db=postgres://pg:s3cret@127.0.0.1:1/sale"}, exitFailed, `--db: PostgreSQL database "sale" at 127.0.0.1:1: `},
	} {
		code, out, errs := seckill(t, tt.args...)
		if code != tt.code || !strings.Contains(errs, tt.want) {
			t.Errorf("%v: exit code %d, want %d with %q\n%s", tt.args, code, tt.code, tt.want, errs)
		}
		if tt.code == exitFailed && !strings.HasPrefix(lastLine(errs), "seckill: ") {
			t.Errorf("%v: the last line is not the error\n%s", tt.args, errs)
		}
		if strings.Contains(out+errs, "s3cret") {
			t.Errorf("%v: shows the password\n%s%s", tt.args, out, errs)
		}
	}
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return lines[len(lines)-1]
}

func TestHelpNamesFlagsAndEnvironment(t *testing.T) {
	for command, want := range map[string][]string{
		"":      {"serve", "load", "demo"},
		"serve": {"--http", "SECKILL_HTTP", "127.0.0.1:8080", "--redis", "redis+sentinel://", "redis+cluster://", "--db", "sqlite:PATH", "mysql://", "postgres://"},
		"load":  {"--target", "--users", "2000", "--clicks", "--concurrency", "--stock", "500", "SECKILL_STOCK"},
		"demo":  {"--users", "--stock"},
	} {
		code, out, errs := seckill(t, append(strings.Fields(command), "--help")...)
		if code != 0 || errs != "" {
			t.Errorf("%s --help: exit code %d, %s", command, code, errs)
		}
		for _, text := range want {
			if !strings.Contains(out, text) {
				t.Errorf("%s --help does not tell %q\n%s", command, text, out)
			}
		}
	}
}
