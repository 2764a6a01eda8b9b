package interop_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
	"github.com/redlatch/redlatch/test/internal/process"
)

// world is what a promise is tested in. The Redis, and the Redisson that is
// connected to it, are shared with other promises.
type world struct {
	*testing.T
	*site
	redisson string // its version
	only     string
	kind     string    // of the locks in Java
	mode     lock.Mode // of those in Go
	store    []redisstore.Option
	java     *agent
	command  string // the path of cmd/redlatch
	start    func(t *testing.T, options ...string) *agent
}

// key is a name that no other test uses.
func (w world) key() string { return strings.ReplaceAll(w.Name(), " ", "_") }

// fields is what is in the hash of a lock with one owner.
func (w world) fields(owner string, holds int) string {
	switch w.mode {
	case lock.Read:
		return fmt.Sprintf("%s=%d mode=read", owner, holds)
	case lock.Write:
		return fmt.Sprintf("%s:write=%d mode=write", owner, holds)
	default:
		return fmt.Sprintf("%s=%d", owner, holds)
	}
}

// thread is a thread of the shared Redisson.
func (w world) thread(name string) thread { return w.java.thread(w.T, name) }

// newAgent starts a Redisson of the test's own, in another process.
func (w world) newAgent(options ...string) *agent {
	w.Helper()
	return w.start(w.T, options...)
}

func (w world) release(lease *lock.Lease) {
	w.Helper()
	if err := lease.Release(context.Background()); err != nil {
		w.Fatalf("Release: %v", err)
	}
}

// eventually waits for what must happen.
func (w world) eventually(what string, happened func() bool) {
	w.Helper()
	err := process.Poll(patience, func() error {
		if !happened() {
			return errors.New("not yet")
		}
		return nil
	})
	if err != nil {
		w.Fatalf("%s: %v", what, err)
	}
}

// throughout checks again and again until the time has passed.
func (w world) throughout(d time.Duration, check func()) {
	w.Helper()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(d); time.Now().Before(end) && !w.Failed(); <-tick.C {
		check()
	}
}
