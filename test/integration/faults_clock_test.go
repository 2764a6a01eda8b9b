package integration_test

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/quorum"
	"github.com/redlatch/redlatch/core/redisstore"
	"github.com/redlatch/redlatch/test/internal/process"
	"github.com/redlatch/redlatch/test/internal/redistest"
)

// clock is the wall clock of one server.
type clock struct {
	*testing.T
	path string
}

// step sets the clock apart from the true time.
func (c clock) step(apart time.Duration) {
	c.Helper()
	// In place: the server has mapped the file.
	file, err := os.OpenFile(c.path, os.O_WRONLY, 0)
	if err == nil {
		_, err = file.Write(binary.NativeEndian.AppendUint64(nil, uint64(apart.Microseconds())))
	}
	if err == nil {
		err = file.Close()
	}
	if err != nil {
		c.Fatal(err)
	}
}

// withClocks starts servers whose clocks can be set.
func withClocks(t *testing.T, n int) ([]*redistest.Server, []clock) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("\n\n*** SKIPPED, NOT TESTED: clocks are set by preloading, which is done on Linux only ***\n\n")
	}
	library := filepath.Join(t.TempDir(), "skew.so")
	compiler := process.Find(t, "cc", "gcc", "clang")
	if out, err := exec.CommandContext(t.Context(), compiler, "-shared", "-fPIC", "-o", library, "testdata/skew.c").CombinedOutput(); err != nil {
		t.Fatalf("compile: %v\n%s", err, out)
	}
	var servers []*redistest.Server
	var clocks []clock
	for range n {
		c := clock{t, filepath.Join(t.TempDir(), "skew")}
		if err := os.WriteFile(c.path, make([]byte, 8), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Setenv("LD_PRELOAD", library)
		t.Setenv("REDLATCH_TEST_SKEW", c.path)
		servers, clocks = append(servers, redistest.Standalone(t)), append(clocks, c)
	}
	t.Setenv("LD_PRELOAD", "")
	before := servers[0].Admin(t).Time(t.Context()).Val()
	clocks[0].step(time.Hour)
	if after := servers[0].Admin(t).Time(t.Context()).Val(); after.Sub(before) < time.Hour {
		t.Fatalf("the clock of the server cannot be set: %v, then %v", before, after)
	}
	clocks[0].step(0)
	return servers, clocks
}

// A clock that jumps forward expires leases early: there are two holders, which
// nothing on one Redis can prevent. The second has the larger fence, the first
// notices at its next renewal, and its trust never moves.
func TestAClockThatJumpsForwardIsCaughtByTheFence(t *testing.T) {
	servers, clocks := withClocks(t, 1)
	server := servers[0]
	told, hooks := losses()
	l := newLocker(t, server.Client(t), hooks, lock.WithWatchdog(6*time.Second))
	lease := acquire(t, l, "k")
	before := lease.Deadline()
	clocks[0].step(time.Minute)
	next := acquire(t, newLocker(t, server.Client(t)), "k")
	if !lease.Deadline().Equal(before) {
		t.Errorf("its trust moved from %v to %v", before, lease.Deadline())
	}
	var resource register
	if !resource.write(next.Fence(), "new holder") || resource.write(lease.Fence(), "old holder") {
		t.Errorf("fence %d after %d", next.Fence(), lease.Fence())
	}
	wantLoss(t, told, lease, lock.LossTaken)
	release(t, next)
}

// A clock that jumps back lengthens what is left of a lease by the jump. No
// renewal shortens it, as one that is late could take away what was promised
// since. The holder isn't disturbed, and its release frees the lock at once.
func TestAClockThatJumpsBackKeepsTheLockForLonger(t *testing.T) {
	const watchdog = 3 * time.Second
	servers, clocks := withClocks(t, 1)
	rdb := servers[0].Admin(t)
	renewals := make(chan error, 100)
	hooks := lock.WithHooks(lock.Hooks{Renewed: func(e lock.RenewEvent) { renewals <- e.Err }})
	l := newLocker(t, servers[0].Client(t), hooks, lock.WithWatchdog(watchdog))
	lease := acquire(t, l, "k")
	clocks[0].step(-time.Minute)
	if ttl := rdb.PTTL(t.Context(), "k").Val(); ttl < time.Minute {
		t.Fatalf("the lock lasts %v: the clock did not jump", ttl)
	}
	for range 2 {
		if err := <-renewals; err != nil {
			t.Error(err)
		}
	}
	if ttl := rdb.PTTL(t.Context(), "k").Val(); ttl < 50*time.Second {
		t.Errorf("a renewal shortened it to %v", ttl)
	}
	if lease.Context().Err() != nil {
		t.Errorf("it was lost: %v", context.Cause(lease.Context()))
	}
	release(t, lease)
	release(t, acquire(t, newLocker(t, servers[0].Client(t)), "k", lock.WithWait(0)))
}

// One clock of five is no majority: nobody gets the lock a second time.
func TestOneOfFiveClocksJumps(t *testing.T) {
	servers, clocks := withClocks(t, 5)
	var lockers []*lock.Locker
	for range 2 {
		stores := make([]lock.Store, len(servers))
		for i, server := range servers {
			stores[i] = redisstore.New(server.Client(t))
		}
		q, err := quorum.New(stores...)
		if err != nil {
			t.Fatal(err)
		}
		q.SetNodeTimeout(nodeTimeout)
		t.Cleanup(func() { _ = q.Close(context.Background()) })
		lockers = append(lockers, lockerOn(t, q, lock.WithWatchdog(6*time.Second)))
	}
	lease := acquire(t, lockers[0], "k")
	eventually(t, func() error { // its last votes may still be on their way
		for _, server := range servers {
			if len(hash(t, server.Admin(t), "k")) == 0 {
				return errors.New("not all nodes have it yet")
			}
		}
		return nil
	})
	for _, apart := range []time.Duration{time.Minute, -time.Minute} {
		clocks[2].step(apart)
		if _, err := lockers[1].TryAcquire(t.Context(), "k"); !errors.Is(err, lock.ErrBusy) {
			t.Errorf("with a clock %v apart: %v, want ErrBusy", apart, err)
		}
		before := lease.Deadline()
		eventually(t, func() error {
			if !lease.Deadline().After(before) && lease.Context().Err() == nil {
				return errors.New("not renewed")
			}
			return nil
		})
	}
	release(t, lease) // it was not lost
	release(t, acquire(t, lockers[1], "k"))
}
