package integration_test

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"testing"

	"github.com/redlatch/redlatch/test/internal/process"
	"github.com/redlatch/redlatch/test/internal/redistest"
)

// fleetRow is an instance on the page of a fleet.
var fleetRow = regexp.MustCompile(`<th scope="row">(\d)</th><td>(\d+|–)</td><td>([a-z ]+)</td>`)

// Three processes share a Redis. People order while a button kills one of them, and
// another starts it again. When the command ends, or is killed, no process is left.
func TestAFleetSurvivesItsButton(t *testing.T) {
	binary := seckillBinary(t)
	server := redistest.Standalone(t)
	start := func(t *testing.T) *instance {
		t.Helper()
		addr := process.LoopbackAddr(process.Port(t))
		p, err := process.Start(process.Spec{
			Path: binary, Args: []string{"fleet", "--http", addr, "--redis", server.URL(), "--watchdog", "2s"},
			Log: filepath.Join(t.TempDir(), "fleet.log"),
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			p.Kill()
			if t.Failed() {
				t.Log(p.Log())
			}
		})
		return &instance{p, "http://" + addr}
	}
	page := func(i *instance) (pids []int, ready int, err error) {
		response, err := http.Get(i.url + "/fleet/") //nolint:noctx // it has the test's time
		if err != nil {
			return nil, 0, err
		}
		defer func() { _ = response.Body.Close() }()
		text, err := io.ReadAll(response.Body)
		for _, row := range fleetRow.FindAllStringSubmatch(string(text), -1) {
			pid, _ := strconv.Atoi(row[2]) // 0: it has ended
			if pids = append(pids, pid); row[3] == "ready" {
				ready++
			}
		}
		return pids, ready, err
	}
	allReady := func(t *testing.T, i *instance) (pids []int) {
		t.Helper()
		eventually(t, func() (err error) {
			ready := 0
			if pids, ready, err = page(i); err == nil && ready != 3 {
				err = fmt.Errorf("%d are ready of %v", ready, pids)
			}
			return err
		})
		return pids
	}
	gone := func(t *testing.T, pids []int) {
		t.Helper()
		for _, pid := range pids {
			eventually(t, func() error {
				if syscall.Kill(pid, 0) == nil {
					return fmt.Errorf("process %d lives", pid)
				}
				return nil
			})
		}
	}
	press := func(t *testing.T, i *instance, button string) {
		t.Helper()
		status, _, err := i.call(http.MethodPost, "/fleet/"+button, "", "")
		if err != nil || status != http.StatusOK {
			t.Fatalf("%s: %d %v", button, status, err)
		}
	}
	i := start(t)
	pids := allReady(t, i)
	sale := i.voucher(t, 1_000_000)
	crowd := clickOn(t, i.url+sale+"/orders")
	crowd.more(t, 20)
	press(t, i, "2/kill")
	gone(t, pids[1:2])
	crowd.more(t, 40)
	if _, ready, err := page(i); err != nil || ready == 3 {
		t.Errorf("%d are ready, %v", ready, err)
	}
	press(t, i, "2/start")
	pids = allReady(t, i)
	crowd.more(t, 20)
	agrees(t, i, sale, crowd.end())
	if status, _, err := i.call(http.MethodPost, "/fleet/4/kill", "", ""); err != nil || status != http.StatusNotFound {
		t.Errorf("instance 4: %d, %v", status, err)
	}
	i.Shutdown(syscall.SIGTERM, patience)
	gone(t, pids)

	i = start(t)
	pids = allReady(t, i)
	i.Kill()
	gone(t, pids)
}
