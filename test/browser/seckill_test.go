package browser_test

import (
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redlatch/redlatch/test/internal/process"
)

// patience is how long anything may take that the tests wait for.
const patience = 2 * time.Minute

// build compiles the service and returns its path.
func build(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "seckill")
	command := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "./examples/seckill")
	command.Dir = "../.."
	if says, err := command.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, says)
	}
	return binary
}

// service is a running instance, which keeps its address and its database when
// it is restarted.
type service struct {
	binary, folder, address string
	flags                   []string
	running                 *process.Process
}

// serve starts an instance that ends with the test.
func serve(t *testing.T, binary string, flags ...string) *service {
	t.Helper()
	s := &service{binary: binary, folder: t.TempDir(), address: process.LoopbackAddr(process.Port(t)), flags: flags}
	s.start(t)
	t.Cleanup(func() { s.running.Shutdown(syscall.SIGTERM, patience) })
	return s
}

func (s *service) start(t *testing.T) {
	t.Helper()
	var err error
	s.running, err = process.Start(process.Spec{
		Path: s.binary,
		Args: append([]string{
			"serve", "--http", s.address, "--drain-delay=0s",
			"--db", "sqlite:" + filepath.Join(s.folder, "sale.db") + "?synchronous=normal",
		}, s.flags...),
		Log: filepath.Join(s.folder, "log"),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.running.Await(patience, func() error {
		connection, err := net.Dial("tcp", s.address)
		if err != nil {
			return err
		}
		return connection.Close()
	}); err != nil {
		t.Fatal(err)
	}
}

func (s *service) url() string { return "http://" + s.address + "/" }

// open puts a voucher on sale.
func (s *service) open(t *testing.T, title string, stock int) {
	t.Helper()
	now := time.Now()
	body := fmt.Sprintf(`{"title":%s,"stock":%d,"beginAt":%q,"endAt":%q}`, strconv.Quote(title), stock,
		now.Add(-time.Second).Format(time.RFC3339), now.Add(time.Hour).Format(time.RFC3339))
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url()+"api/vouchers", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusCreated {
		t.Fatalf("create voucher: %s", response.Status)
	}
}
