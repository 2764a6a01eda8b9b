package app_test

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// writing is the file that this process, a copy of the test, keeps a transaction
// open on.
const writing = "SECKILL_TEST_WRITING"

func init() {
	file := os.Getenv(writing)
	if file == "" {
		return
	}
	if err := write(file); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(0)
}

// write stays in a write until its input ends.
func write(file string) error {
	db, err := sql.Open("sqlite", "file:"+file+"?_txlock=immediate&_busy_timeout=20000")
	if err != nil {
		return err
	}
	defer db.Close()
	tx, err := db.BeginTx(context.Background(), nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // nothing was written
	fmt.Println("in a write")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// An instance that is stopped (SIGSTOP) in a write of a shared SQLite file is in the
// way of all others. Each of their requests still has its answer in time, and they
// go on when it does.
func TestAStoppedWriterOfASharedFileBoundsTheOthers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "sale.db")
	c := config()
	c.DB = "sqlite:" + file
	a := start(t, c)
	defer stop(t, a)
	code, body := post(t, a.URL()+"/api/vouchers", offer())
	id := idOf(body)
	if code != http.StatusCreated || id == "" {
		t.Fatalf("got %d %s", code, body)
	}

	other := exec.Command(os.Args[0])
	other.Env = append(os.Environ(), writing+"="+file)
	input, err := other.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Process.Kill(); _ = other.Wait() }()
	if line, err := bufio.NewReader(output).ReadString('\n'); err != nil || line != "in a write\n" {
		t.Fatalf("the writer says %q, %v", line, err)
	}
	if err := other.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}

	const bound = 10 * time.Second // of the service, without a wait for the lock
	asked := time.Now()
	code, body = post(t, a.URL()+"/api/vouchers/"+id+"/orders", "")
	if took := time.Since(asked); code != http.StatusServiceUnavailable || !strings.Contains(body, "STORE_UNAVAILABLE") || took > 2*bound {
		t.Errorf("got %d %s after %v, want 503 within %v", code, body, took, bound)
	}
	if got := status(t, a.URL()+"/api/vouchers/"+id); got != http.StatusOK {
		t.Errorf("a reader, which needs no writer: got %d", got)
	}

	if err := other.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	_ = input.Close()
	if code, body = post(t, a.URL()+"/api/vouchers/"+id+"/orders", ""); code != http.StatusCreated {
		t.Errorf("when it goes on: got %d %s", code, body)
	}
}

// offer is a voucher that is on sale.
func offer() string {
	return fmt.Sprintf(`{"title":"x","stock":5,"beginAt":%q,"endAt":%q}`,
		time.Now().Add(-time.Hour).Format(time.RFC3339), time.Now().Add(time.Hour).Format(time.RFC3339))
}

// idOf is the id of a voucher that was created.
func idOf(body string) string {
	_, id, _ := strings.Cut(body, `"id":"`)
	id, _, _ = strings.Cut(id, `"`)
	return id
}

// post sends a request of user 42.
func post(t *testing.T, url, body string) (code int, answer string) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("X-User-Id", "42")
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}
