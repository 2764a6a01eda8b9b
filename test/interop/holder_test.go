package interop_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
)

// The variables that make this test binary a process that holds a lock, or
// waits for it.
const (
	holderAddrs  = "REDLATCH_TEST_HOLDER_ADDRS"  // of the Redis, comma separated
	holderMaster = "REDLATCH_TEST_HOLDER_MASTER" // its name, if the addresses are those of sentinels
	holderKey    = "REDLATCH_TEST_HOLDER_KEY"
	holderMode   = "REDLATCH_TEST_HOLDER_MODE"
	holderReads  = "REDLATCH_TEST_HOLDER_READS" // "true": the writer goes on as a reader
)

// TestHolderProcess is that process. It says when it holds the lock or has to
// wait, and then waits for its end.
func TestHolderProcess(t *testing.T) {
	addrs := os.Getenv(holderAddrs)
	if addrs == "" {
		t.Skip("only runs as a child of the tests that kill it")
	}
	mode, err := lock.ParseMode(os.Getenv(holderMode))
	if err != nil {
		t.Fatal(err)
	}
	rdb := redis.NewUniversalClient(&redis.UniversalOptions{
		Addrs: strings.Split(addrs, ","), MasterName: os.Getenv(holderMaster),
	})
	waits := lock.Hooks{Waiting: func(context.Context, lock.Event) func() {
		fmt.Println("waits")
		return nil
	}}
	locker := lock.New(redisstore.New(rdb), withMode(mode), lock.WithWatchdog(watchdog), lock.WithHooks(waits))
	lease, err := locker.Acquire(context.Background(), os.Getenv(holderKey), lock.WithWait(watchdog))
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv(holderReads) == "true" {
		if _, err := locker.Acquire(context.WithoutCancel(lease.Context()), lease.Key(), lock.WithMode(lock.Read)); err != nil {
			t.Fatal(err)
		}
		if err := lease.Release(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	fmt.Println("holds")
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n') // also ends when the parent does
}

type holder struct {
	cmd  *exec.Cmd
	once sync.Once
}

// startHolder starts a Go process that holds the key and renews it.
func (w world) startHolder(key string) *holder {
	w.Helper()
	return w.startProcess(key, "holds")
}

// startLowered starts a Go process that takes the key as a writer, goes on as a reader,
// and renews it.
func (w world) startLowered(key string) *holder {
	w.Helper()
	return w.startProcess(key, "holds", holderReads+"=true")
}

// startWaiter starts a Go process that waits for the key, as long as the
// watchdog's lease is.
func (w world) startWaiter(key string) *holder {
	w.Helper()
	return w.startProcess(key, "waits")
}

func (w world) startProcess(key, want string, env ...string) *holder {
	w.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestHolderProcess$", "-test.timeout=5m")
	cmd.Env = append(os.Environ(), holderAddrs+"="+strings.Join(w.addrs, ","), holderMaster+"="+w.master, holderKey+"="+key, holderMode+"="+w.mode.String())
	cmd.Env = append(cmd.Env, env...)
	cmd.Stderr = os.Stderr
	if _, err := cmd.StdinPipe(); err != nil {
		w.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		w.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		w.Fatal(err)
	}
	h := &holder{cmd: cmd}
	w.Cleanup(h.kill)
	says, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil || says != want+"\n" {
		w.Fatalf("the process says %q (%v), want that it %s", says, err, want)
	}
	return h
}

// kill ends the process with SIGKILL, and waits until it is gone. A second
// call does nothing.
func (h *holder) kill() {
	h.once.Do(func() {
		_ = h.cmd.Process.Kill()
		_ = h.cmd.Wait()
	})
}
