package integration_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/test/internal/redistest"
)

// recoveryRunsEnv says how often each outage is measured; once unless set.
const recoveryRunsEnv = "REDLATCH_RECOVERY_RUNS"

func recoveryRuns(t *testing.T) int {
	t.Helper()
	text := os.Getenv(recoveryRunsEnv)
	if text == "" {
		return 1
	}
	runs, err := strconv.Atoi(text)
	if err != nil || runs < 1 {
		t.Fatalf("%s=%q: want a number of runs", recoveryRunsEnv, text)
	}
	return runs
}

// distribution prints what was measured, as make recovery shows it.
func distribution(t *testing.T, what string, took []time.Duration) {
	t.Helper()
	if len(took) == 0 {
		t.Fatalf("%s: nothing was measured", what)
	}
	slices.Sort(took)
	at := func(percent int) time.Duration {
		return took[min(len(took)*percent/100, len(took)-1)].Round(time.Millisecond)
	}
	t.Logf("%s: runs %d, p50 %v, p90 %v, p99 %v, max %v", what, len(took), at(50), at(90), at(99), at(100))
}

// Redis goes away in the three ways in which it comes back, under somebody who
// takes and releases a lock all the time with a client as go-redis makes it.
// Locks are granted again, long before a client would look for a dead master
// by itself; how long that took is printed.
func TestRecovery(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		outage func(t *testing.T) time.Duration
	}{
		{"restart", func(t *testing.T) time.Duration {
			t.Helper()
			server := redistest.Standalone(t)
			worker := startWorker(t, server.Client(t))
			return worker.outage(t, server.Kill, server.Restart)
		}},
		{"sentinel, the master is killed", func(t *testing.T) time.Duration {
			t.Helper()
			set := redistest.Sentinel(t)
			worker := startWorker(t, set.Client(t))
			return worker.outage(t, set.Master.Kill, nil)
		}},
		{"sentinel, the master hangs", func(t *testing.T) time.Duration {
			t.Helper()
			set := redistest.Sentinel(t)
			worker := startWorker(t, set.Client(t))
			return worker.outage(t, set.Master.Stop, nil)
		}},
		{"cluster, the master is killed", func(t *testing.T) time.Duration {
			t.Helper()
			set := redistest.Cluster(t, "--cluster-node-timeout", "1000")
			worker := startWorker(t, set.Client(t))
			return worker.outage(t, set.OwnerOf(t, workedOn).Kill, nil)
		}},
		{"cluster, the master hangs", func(t *testing.T) time.Duration {
			t.Helper()
			set := redistest.Cluster(t, "--cluster-node-timeout", "1000")
			worker := startWorker(t, set.Client(t))
			return worker.outage(t, set.OwnerOf(t, workedOn).Stop, nil)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var took []time.Duration
			for run := range recoveryRuns(t) {
				t.Run(fmt.Sprint(run+1), func(t *testing.T) { took = append(took, tt.outage(t)) })
			}
			distribution(t, "outage", took)
		})
	}
}

// workedOn is the key of the worker.
const workedOn = "worked on"

// worker takes and releases one lock over and over.
type worker struct {
	grants chan time.Time // when the call was made; unbuffered: who wants to know, listens
}

// startWorker returns when the worker has had its first grant.
func startWorker(t *testing.T, rdb redis.UniversalClient) *worker {
	t.Helper()
	// The keys of what is lost with a master expire soon; nobody else has them.
	l := newLocker(t, rdb, lock.WithLease(time.Second))
	w := &worker{grants: make(chan time.Time)}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			w.turn(ctx, t, l)
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	select {
	case <-w.grants:
	case <-time.After(patience):
		t.Fatal("nothing was granted before the fault")
	}
	return w
}

func (w *worker) turn(ctx context.Context, t *testing.T, l *lock.Locker) {
	t.Helper()
	asked := time.Now()
	lease, err := l.Acquire(ctx, workedOn)
	switch {
	case err == nil:
		select {
		case w.grants <- asked:
		default:
		}
		_ = lease.Release(context.Background()) // it may be lost in the fault, and expires then
	case ctx.Err() != nil:
	case errors.Is(err, lock.ErrUnavailable):
		// As a caller would that has to get through.
		timer := time.NewTimer(10 * time.Millisecond)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	default:
		t.Errorf("the worker: %v", err)
	}
}

// outage takes the server down, and up again unless something else takes its
// place, and returns how long after the beginning a lock is granted to a call
// that was made when it was down.
func (w *worker) outage(t *testing.T, down, up func()) time.Duration {
	t.Helper()
	began := time.Now()
	down()
	gone := time.Now()
	if up != nil {
		up()
	}
	limit := time.After(patience)
	for {
		select {
		case asked := <-w.grants:
			if asked.After(gone) {
				return time.Since(began)
			}
		case <-limit:
			t.Fatalf("nothing is granted %v after the fault", patience)
		}
	}
}
