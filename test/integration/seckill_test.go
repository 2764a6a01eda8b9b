package integration_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redlatch/redlatch/test/internal/process"
	"github.com/redlatch/redlatch/test/internal/redistest"
	"github.com/redlatch/redlatch/test/internal/sqltest"
)

// seckillBinary builds the flash sale; tags choose the variant.
func seckillBinary(t *testing.T, tags string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "seckill")
	build := exec.CommandContext(t.Context(), "go", "build", "-tags", tags, "-o", path, "./examples/seckill")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return path
}

// unguarded is the tag of programs whose guards can be taken away.
const unguarded = "seckill_unguarded"

// instance is a running `seckill serve`.
type instance struct {
	*process.Process
	url string
}

func serve(t *testing.T, binary string, args ...string) *instance {
	t.Helper()
	addr := process.LoopbackAddr(process.Port(t))
	p, err := process.Start(process.Spec{
		Path: binary, Args: append([]string{"serve", "--http", addr}, args...),
		Log: filepath.Join(t.TempDir(), "serve.log"),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("log of %s:\n%s", addr, p.Log())
		}
	})
	i := &instance{p, "http://" + addr}
	if err := p.Await(patience, func() error {
		status, _, err := i.call(http.MethodGet, "/readyz", "", "")
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("/readyz: %d", status)
		}
		return err
	}); err != nil {
		t.Fatalf("not ready: %v\n%s", err, p.Log())
	}
	return i
}

// call makes one request, as that user if one is named.
func (i *instance) call(method, path, user, body string) (status int, answer map[string]any, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, i.url+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	if user != "" {
		request.Header.Set("X-User-Id", user)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, nil, err
	}
	_ = json.Unmarshal(text, &answer) // probes answer in plain text
	return response.StatusCode, answer, nil
}

// voucher puts one on sale and returns its path.
func (i *instance) voucher(t *testing.T, stock int) string {
	t.Helper()
	now := time.Now()
	body := fmt.Sprintf(`{"title":"test","stock":%d,"beginAt":%q,"endAt":%q}`,
		stock, now.Add(-time.Hour).Format(time.RFC3339), now.Add(time.Hour).Format(time.RFC3339))
	status, answer, err := i.call(http.MethodPost, "/api/vouchers", "", body)
	if err != nil || status != http.StatusCreated {
		t.Fatalf("create voucher: %d %v %v", status, answer, err)
	}
	return fmt.Sprint("/api/vouchers/", answer["id"])
}

// crowd runs `seckill load` on the instances.
type crowd struct {
	cmd  *exec.Cmd
	out  bytes.Buffer
	done chan error
}

func letLoose(t *testing.T, binary string, targets []*instance, args ...string) *crowd {
	t.Helper()
	args = append([]string{"load"}, args...)
	for _, target := range targets {
		args = append(args, "--target", target.url)
	}
	c := &crowd{cmd: exec.CommandContext(t.Context(), binary, args...), done: make(chan error, 1)}
	c.cmd.Stdout, c.cmd.Stderr = &c.out, &c.out
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { c.done <- c.cmd.Wait() }()
	t.Cleanup(func() { _ = c.cmd.Process.Kill() })
	return c
}

// verdict waits for the end and returns the table and whether all invariants
// hold, which the exit code must say as well.
func (c *crowd) verdict(t *testing.T) (table string, holds bool) {
	t.Helper()
	err := <-c.done
	table = c.out.String()
	var exit *exec.ExitError
	switch {
	case err == nil:
	case errors.As(err, &exit) && exit.ExitCode() == 1 && strings.Contains(table, "BROKEN"):
		return table, false
	default:
		t.Fatalf("load: %v\n%s", err, table)
	}
	if strings.Contains(table, "BROKEN") {
		t.Fatalf("an invariant is broken, and the exit code is 0\n%s", table)
	}
	return table, true
}

func three(t *testing.T, binary string, args ...string) []*instance {
	t.Helper()
	var instances []*instance
	for range 3 {
		instances = append(instances, serve(t, binary, args...))
	}
	return instances
}

func TestThreeInstancesSellExactlyTheStock(t *testing.T) {
	binary := seckillBinary(t, "")
	server := redistest.Standalone(t)
	instances := three(t, binary, "--redis", server.URL(), "--db", sqltest.MariaDB(t))
	table, holds := letLoose(t, binary, instances,
		"--users", "400", "--clicks", "5", "--concurrency", "48", "--stock", "150").verdict(t)
	if !holds {
		t.Fatalf("broken:\n%s", table)
	}
	t.Log(table)
	eventually(t, func() error {
		if n := server.Admin(t).DBSize(t.Context()).Val(); n != 0 {
			return fmt.Errorf("%d keys left in Redis", n)
		}
		return nil
	})
}

// The lock matters: without it and without the database's guard, the same
// load breaks what holds with either of them.
func TestTheLockMatters(t *testing.T) {
	binary := seckillBinary(t, unguarded)
	server := redistest.Standalone(t)
	tests := []struct {
		name  string
		flags []string
		holds bool
	}{
		{"both guards", nil, true},
		{"the lock alone", []string{"--no-db-guard"}, true},
		{"the database alone", []string{"--no-lock"}, true},
		{"neither", []string{"--no-lock", "--no-db-guard"}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			flags := append([]string{"--redis", server.URL(), "--db", sqltest.MariaDB(t), "--pause", "5ms"}, tt.flags...)
			instances := three(t, binary, flags...)
			// More vouchers than users: what is at stake is one order per user.
			table, _ := letLoose(t, binary, instances,
				"--users", "60", "--clicks", "6", "--concurrency", "24", "--stock", "1000").verdict(t)
			if holds := invariant(t, table, "one order per user"); holds != tt.holds {
				t.Errorf("one order per user holds: %v, want %v\n%s", holds, tt.holds, table)
			}
		})
	}
}

// Cancellations take their lock, whose fence orders without a lock are compared with.
func TestWithoutTheLockAUserOrdersAgainAfterCanceling(t *testing.T) {
	shop := serve(t, seckillBinary(t, unguarded), "--no-lock")
	orders := shop.voucher(t, 10) + "/orders"
	for range 2 {
		status, order, err := shop.call(http.MethodPost, orders, "alice", "")
		if err != nil || status != http.StatusCreated {
			t.Fatalf("order: %d %v %v", status, order, err)
		}
		status, answer, err := shop.call(http.MethodDelete, fmt.Sprint("/api/orders/", order["orderId"]), "alice", "")
		if err != nil || status != http.StatusNoContent {
			t.Fatalf("cancel: %d %v %v", status, answer, err)
		}
	}
}

// invariant reads one verdict of the table.
func invariant(t *testing.T, table, name string) bool {
	t.Helper()
	for line := range strings.Lines(table) {
		if strings.Contains(line, name) {
			return strings.Contains(line, "holds")
		}
	}
	t.Fatalf("no %q in\n%s", name, table)
	return false
}

func TestOneOfThreeInstancesIsKilled(t *testing.T) {
	binary := seckillBinary(t, "")
	server := redistest.Standalone(t)
	instances := three(t, binary, "--redis", server.URL(), "--db", sqltest.MariaDB(t), "--watchdog", "1s")
	load := letLoose(t, binary, instances,
		"--users", "800", "--clicks", "5", "--concurrency", "48", "--stock", "300", "--retry-timeout", "2m")
	eventually(t, func() error { // it is at work
		select {
		case err := <-load.done:
			t.Fatalf("the load ended early: %v\n%s", err, load.out.String())
		default:
		}
		if n := server.Admin(t).DBSize(t.Context()).Val(); n == 0 {
			return errors.New("no lock was taken yet")
		}
		return nil
	})
	instances[1].Kill()
	table, holds := load.verdict(t)
	if !holds {
		t.Fatalf("broken:\n%s", table)
	}
	if !strings.Contains(table, "no answer: "+instances[1].url) {
		t.Errorf("nobody noticed that %s was killed:\n%s", instances[1].url, table)
	}
}

func TestALockOfAKilledInstanceFreesItself(t *testing.T) {
	const watchdog = 2 * time.Second
	server := redistest.Standalone(t)
	db := sqltest.MariaDB(t)
	binary := seckillBinary(t, unguarded)
	slow := serve(t, binary, "--redis", server.URL(), "--db", db, "--watchdog", watchdog.String(), "--pause", "10m")
	other := serve(t, binary, "--redis", server.URL(), "--db", db)
	voucher := other.voucher(t, 10)

	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { // is killed while it holds the lock
		_, _, _ = slow.call(http.MethodPost, voucher+"/orders", "alice", "")
	})
	eventually(t, func() error {
		if n := server.Admin(t).Exists(t.Context(), "lock:order:alice").Val(); n != 1 {
			return errors.New("the lock is not held")
		}
		return nil
	})
	status, answer, err := other.call(http.MethodPost, voucher+"/orders", "alice", "")
	if err != nil || status != http.StatusConflict || answer["code"] != "LOCK_CONTENDED" {
		t.Fatalf("while held: %d %v %v, want 409 LOCK_CONTENDED", status, answer, err)
	}
	slow.Kill()
	killed := time.Now()
	eventually(t, func() error {
		status, answer, err := other.call(http.MethodPost, voucher+"/orders", "alice", "")
		if err == nil && status != http.StatusCreated {
			err = fmt.Errorf("%d %v", status, answer)
		}
		return err
	})
	t.Logf("the lock was free %v after its holder's death, its lease was %v", time.Since(killed), watchdog)
}

func TestRedisGoneAndTheHandlerDoesNotRun(t *testing.T) {
	binary := seckillBinary(t, "")
	server := redistest.Standalone(t)
	shop := serve(t, binary, "--redis", server.URL())
	voucher := shop.voucher(t, 10)
	server.Kill()
	status, answer, err := shop.call(http.MethodPost, voucher+"/orders", "alice", "")
	if err != nil || status != http.StatusServiceUnavailable || answer["code"] != "LOCK_UNAVAILABLE" {
		t.Errorf("got %d %v %v, want 503 LOCK_UNAVAILABLE", status, answer, err)
	}
	if text := fmt.Sprint(answer); strings.Contains(text, server.Addr()) || strings.Contains(text, "refused") {
		t.Errorf("the answer leaks: %s", text)
	}
	_, report, err := shop.call(http.MethodGet, voucher+"/report", "", "")
	if err != nil || report["orders"] != 0.0 {
		t.Errorf("report %v %v, want no orders", report, err)
	}
	server.Restart()
	eventually(t, func() error {
		status, answer, err := shop.call(http.MethodPost, voucher+"/orders", "alice", "")
		if err == nil && status != http.StatusCreated {
			err = fmt.Errorf("%d %v", status, answer)
		}
		return err
	})
}

func TestAnUnreachableRedisStopsTheStart(t *testing.T) {
	binary := seckillBinary(t, "")
	server := redistest.Standalone(t)
	server.Kill()
	out, err := exec.CommandContext(t.Context(), binary, "serve", "--http", "127.0.0.1:0",
		"--redis", "redis://:s3cret@"+server.Addr()).CombinedOutput()
	if err == nil || !bytes.Contains(out, []byte(server.Addr())) || bytes.Contains(out, []byte("s3cret")) {
		t.Errorf("got %v, want an error that names %s and no password:\n%s", err, server.Addr(), out)
	}
}

func TestARuleForALockThatTheSettingsRuleOutStopsTheStart(t *testing.T) {
	binary := seckillBinary(t, "")
	server := redistest.Standalone(t)
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(rules, []byte("rules:\n- operation: POST /api/vouchers/:id/orders\n  key: lock:order:<userId>\n  mode: fair\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for flag, setting := range map[string]string{
		"--setnx": "redis.setnx", "--without-script-publish": "redis.withoutScriptPublish", "--without-script-time": "redis.withoutScriptTime",
	} {
		out, err := exec.CommandContext(t.Context(), binary, "serve", "--http", "127.0.0.1:0", "--redis", server.URL(), "--rules", rules, flag).CombinedOutput()
		if want := rules + `:2:14: "POST /api/vouchers/:id/orders": mode: fair: ` + setting + " has "; err == nil || !bytes.Contains(out, []byte(want)) {
			t.Errorf("%s: got %v, want %q:\n%s", flag, err, want, out)
		}
	}
}
