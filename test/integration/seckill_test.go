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
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/test/internal/process"
	"github.com/redlatch/redlatch/test/internal/redistest"
)

// seckillBinary builds the flash sale.
func seckillBinary(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "seckill")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", path, "./examples/seckill")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return path
}

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

// onlyRegistrations is an error if anything is left in Redis but who the lockers are.
func onlyRegistrations(t *testing.T, rdb *redis.Client) error {
	t.Helper()
	keys, err := rdb.Keys(t.Context(), "*").Result()
	keys = slices.DeleteFunc(keys, func(key string) bool { return strings.HasPrefix(key, "redlatch:client:") })
	if err == nil && len(keys) > 0 {
		err = fmt.Errorf("left in Redis: %q", keys)
	}
	return err
}

func TestThreeInstancesSellExactlyTheStock(t *testing.T) {
	inEachPlace(t, func(t *testing.T, p place) {
		t.Helper()
		binary := seckillBinary(t)
		instances := three(t, binary, p.flags...)
		table, holds := letLoose(t, binary, instances,
			"--users", "400", "--clicks", "5", "--concurrency", "48", "--stock", "150").verdict(t)
		if !holds {
			t.Fatalf("broken:\n%s", table)
		}
		t.Log(table)
		eventually(t, func() error {
			keys, err := p.held()
			if len(keys) > 0 {
				err = fmt.Errorf("left: %q", keys)
			}
			return err
		})
	})
}

func TestOneOfThreeInstancesIsKilled(t *testing.T) {
	inEachPlace(t, oneOfThreeIsKilled)
}

func oneOfThreeIsKilled(t *testing.T, p place) {
	t.Helper()
	binary := seckillBinary(t)
	instances := three(t, binary, append(p.flags, "--watchdog", "1s")...)
	load := letLoose(t, binary, instances,
		"--users", "800", "--clicks", "5", "--concurrency", "48", "--stock", "300", "--retry-timeout", "2m")
	eventually(t, func() error { // it is at work
		select {
		case err := <-load.done:
			t.Fatalf("the load ended early: %v\n%s", err, load.out.String())
		default:
		}
		keys, err := p.held()
		if err == nil && len(keys) == 0 {
			err = errors.New("no lock was taken yet")
		}
		return err
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
	inEachPlace(t, theLockOfAKilledInstance)
}

func theLockOfAKilledInstance(t *testing.T, p place) {
	t.Helper()
	const watchdog = 2 * time.Second
	binary := seckillBinary(t)
	slow := serve(t, binary, append(p.flags, "--watchdog", watchdog.String())...)
	other := serve(t, binary, p.flags...)
	voucher := other.voucher(t, 10)
	letGo := holdOrders(t, p.orders, "alice")

	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { // is killed while it holds the lock
		_, _, _ = slow.call(http.MethodPost, voucher+"/orders", "alice", "")
	})
	eventually(t, func() error {
		keys, err := p.held()
		if err == nil && !slices.Contains(keys, "lock:order:alice") {
			err = errors.New("the lock is not held")
		}
		return err
	})
	status, answer, err := other.call(http.MethodPost, voucher+"/orders", "alice", "")
	if err != nil || status != http.StatusConflict || answer["code"] != "LOCK_CONTENDED" {
		t.Fatalf("while held: %d %v %v, want 409 LOCK_CONTENDED", status, answer, err)
	}
	operator := lock.New(p.store, lock.WithIdentity(lock.Identity{Service: "operator"}))
	defer func() { _ = operator.Close(context.Background()) }()
	eventually(t, func() error { // operators see which process has it
		state, err := operator.Inspect(t.Context(), "lock:order:alice")
		if err == nil && len(state.Owners) == 1 {
			if who, _ := state.Holder(state.Owners[0].Owner); who.Service == "seckill" && who.PID == slow.Pid() {
				return nil
			}
		}
		return fmt.Errorf("pid %d is not named: %+v, %w", slow.Pid(), state, err)
	})
	slow.Kill()
	letGo()
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
	binary := seckillBinary(t)
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
	binary := seckillBinary(t)
	server := redistest.Standalone(t)
	server.Kill()
	out, err := exec.CommandContext(t.Context(), binary, "serve", "--http", "127.0.0.1:0",
		"--redis", "redis://:s3cret@"+server.Addr()).CombinedOutput()
	if err == nil || !bytes.Contains(out, []byte(server.Addr())) || bytes.Contains(out, []byte("s3cret")) {
		t.Errorf("got %v, want an error that names %s and no password:\n%s", err, server.Addr(), out)
	}
}

func TestARuleForALockThatTheSettingsRuleOutStopsTheStart(t *testing.T) {
	binary := seckillBinary(t)
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
