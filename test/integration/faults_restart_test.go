package integration_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
	"github.com/redlatch/redlatch/test/internal/redistest"
)

// losses makes a locker tell the losses of its leases.
func losses() (<-chan lock.LossEvent, lock.Option) {
	told := make(chan lock.LossEvent, 10)
	return told, lock.WithHooks(lock.Hooks{Lost: func(e lock.LossEvent) { told <- e }})
}

func wantLoss(t *testing.T, told <-chan lock.LossEvent, lease *lock.Lease, want lock.LossReason) {
	t.Helper()
	select {
	case <-lease.Context().Done():
	case <-time.After(patience):
		t.Fatal("the lease goes on")
	}
	if cause := context.Cause(lease.Context()); !errors.Is(cause, lock.ErrLost) {
		t.Errorf("the lease ended with %v, want ErrLost", cause)
	}
	if e := <-told; e.Reason != want {
		t.Errorf("lost as %v (%v), want %v", e.Reason, e.Cause, want)
	}
	if err := lease.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
		t.Errorf("its release: %v, want ErrLost", err)
	}
}

// wantSubscribed waits until somebody listens for the release of key.
func wantSubscribed(t *testing.T, rdb *redis.Client, key string) {
	t.Helper()
	channel := "redisson_lock__channel:{" + key + "}"
	eventually(t, func() error {
		if rdb.PubSubNumSub(t.Context(), channel).Val()[channel] == 0 {
			return errors.New("nobody waits for " + key)
		}
		return nil
	})
}

// A Redis that has forgotten everything: holders find out at their next
// renewal, well before their leases would end, and fences don't begin anew.
func TestARestartThatForgetsIsNoticedAtTheNextRenewal(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	told, hooks := losses()
	holder := newLocker(t, server.Client(t), hooks, lock.WithWatchdog(6*time.Second))
	lease := acquire(t, holder, "k")
	server.Restart()
	next := acquire(t, newLocker(t, server.Client(t)), "k") // two holders, for as long as it takes to notice
	if next.Fence() <= lease.Fence() {
		t.Errorf("fence %d after %d", next.Fence(), lease.Fence())
	}
	wantLoss(t, told, lease, lock.LossTaken) // an expiry would have another reason
	if fields := hash(t, server.Admin(t), "k"); fields[next.Owner()] != "1" {
		t.Errorf("the loser took the lock with it: %v", fields)
	}
	release(t, next)
}

// A Redis that keeps a log has what it has granted when it comes back.
func TestARestartWithALogKeepsLocks(t *testing.T) {
	t.Parallel()
	for _, fsync := range []string{"everysec", "always"} {
		t.Run(fsync, func(t *testing.T) {
			server := redistest.Standalone(t, "--appendonly", "yes", "--appendfsync", fsync)
			plain := server.Admin(t)
			holder := newLocker(t, server.Client(t), lock.WithWatchdog(6*time.Second))
			waiter, stranger := newLocker(t, server.Client(t)), newLocker(t, server.Client(t))
			lease := acquire(t, holder, "k")
			got := make(chan *lock.Lease, 1)
			go func() { got <- acquire(t, waiter, "k") }()
			wantSubscribed(t, plain, "k")
			server.Kill()
			server.Restart()
			if _, err := stranger.TryAcquire(t.Context(), "k"); !errors.Is(err, lock.ErrBusy) {
				t.Errorf("a stranger: %v, want ErrBusy", err)
			}
			before := lease.Deadline()
			eventually(t, func() error {
				if !lease.Deadline().After(before) && lease.Context().Err() == nil {
					return errors.New("not renewed")
				}
				return nil
			})
			release(t, lease) // it was not lost
			next := <-got
			if next.Fence() <= lease.Fence() {
				t.Errorf("fence %d after %d", next.Fence(), lease.Fence())
			}
			release(t, next)
		})
	}
}

// logOf is the file that a server with a log appends to.
func logOf(t *testing.T, server *redistest.Server) string {
	t.Helper()
	dir := server.Admin(t).ConfigGet(t.Context(), "dir").Val()["dir"]
	for _, pattern := range []string{"appendonlydir/*.incr.aof", "appendonly.aof"} { // from Redis 7 on, and before
		if files, _ := filepath.Glob(filepath.Join(dir, pattern)); len(files) == 1 {
			return files[0]
		}
	}
	t.Fatalf("no log in %s", dir)
	return ""
}

// The power fails before the log is on the disk: grants that were reported are
// forgotten, and what was synced isn't. The fence of the second holder is
// larger all the same, so that the resource can tell the two apart.
func TestAPowerCutForgetsOnlyWhatWasNotOnTheDisk(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, "--appendonly", "yes", "--appendfsync", "everysec")
	told, hooks := losses()
	holder := newLocker(t, server.Client(t), hooks, lock.WithWatchdog(6*time.Second))
	synced := acquire(t, holder, "synced")
	log := logOf(t, server)
	info, err := os.Stat(log)
	if err != nil {
		t.Fatal(err)
	}
	forgotten := acquire(t, holder, "forgotten")
	server.Kill()
	if err := os.Truncate(log, info.Size()); err != nil {
		t.Fatal(err)
	}
	server.Restart()

	other := newLocker(t, server.Client(t))
	if _, err := other.TryAcquire(t.Context(), "synced"); !errors.Is(err, lock.ErrBusy) {
		t.Errorf("what was on the disk: %v, want ErrBusy", err)
	}
	next := acquire(t, other, "forgotten")
	var resource register
	if !resource.write(next.Fence(), "new holder") || resource.write(forgotten.Fence(), "old holder") {
		t.Errorf("fence %d after %d", next.Fence(), forgotten.Fence())
	}
	wantLoss(t, told, forgotten, lock.LossTaken)
	release(t, next)
	release(t, synced)
}

// A Redis that hangs grants nothing and renews nothing: callers notice when
// their call takes too long, holders when their trust ends, and neither
// needs an answer for that.
func TestAHangingRedisNeitherGrantsNorKeeps(t *testing.T) {
	const watchdog, callTimeout = time.Second, 500 * time.Millisecond
	server := redistest.Standalone(t)
	told, hooks := losses()
	holder := newLocker(t, server.Client(t), hooks, lock.WithWatchdog(watchdog))
	other := newLocker(t, server.Client(t), lock.WithCallTimeout(callTimeout))
	release(t, acquire(t, other, "warm-up"))
	lease := acquire(t, holder, "k")
	server.Stop()
	t.Cleanup(server.Cont) // before the lockers wait for their calls
	stopped := time.Now()
	_, err := other.TryAcquire(t.Context(), "free")
	if !errors.Is(err, lock.ErrUnavailable) {
		t.Errorf("got %v, want ErrUnavailable", err)
	}
	if took := time.Since(stopped); took > callTimeout+slack(stopped) {
		t.Errorf("a call took %v", took)
	}
	wantLostInTime(t, lease, stopped, watchdog)
	server.Cont()
	wantLoss(t, told, lease, lock.LossNotRenewed)
	next := acquire(t, other, "k")
	if next.Fence() <= lease.Fence() {
		t.Errorf("fence %d after %d", next.Fence(), lease.Fence())
	}
	release(t, next)
	// What was sent to the server while it hung, and did when it went on, is
	// undone.
	eventually(t, func() error {
		if n := server.Admin(t).DBSize(context.Background()).Val(); n != 0 {
			return fmt.Errorf("%d keys are left", n)
		}
		return nil
	})
}

// wantLostInTime waits for the end of a lease whose renewals fail from then on.
func wantLostInTime(t *testing.T, lease *lock.Lease, since time.Time, watchdog time.Duration) {
	t.Helper()
	select {
	case <-lease.Context().Done():
	case <-time.After(patience):
		t.Fatal("the lease goes on")
	}
	if took := time.Since(since); took > watchdog+slack(since) {
		t.Errorf("it was trusted for %v, and lasts %v", took, watchdog)
	}
}

// What can't be done while the data set is read into memory is done after it,
// and nothing is taken for done that wasn't.
func TestALoadingRedisIsNotReadyYet(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, "--key-load-delay", "200", "--loading-process-events-interval-bytes", "1024")
	admin := server.Admin(t)
	ctx := t.Context()
	if err := admin.Eval(ctx, "for i = 1, 10000 do redis.call('set', 'k' .. i, i) end return 1", nil).Err(); err != nil {
		t.Fatal(err)
	}
	if err := admin.Save(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	server.Kill()
	restarted := make(chan struct{})
	go func() { defer close(restarted); server.Restart() }()
	eventually(t, func() error {
		if err := server.Admin(t).Ping(ctx).Err(); !redis.HasErrorPrefix(err, "LOADING") {
			return fmt.Errorf("it does not load: %w", err)
		}
		return nil
	})
	// Its own connection, as go-redis closes the ones that say LOADING.
	store := redisstore.New(newClient(t, &redis.Options{Addr: server.Addr(), Protocol: 2, MaxRetries: -1}))
	_, err := lock.Blocking(store).Acquire(ctx, claimOf(ownerA, "lock"))
	wantOutcome(t, "acquire", err, lock.OutcomeNotExecuted)
	if !redis.HasErrorPrefix(err, "LOADING") {
		t.Errorf("got %v, want LOADING", err)
	}
	_, err = newLocker(t, server.Client(t)).TryAcquire(ctx, "lock")
	if !errors.Is(err, lock.ErrUnavailable) {
		t.Errorf("got %v, want ErrUnavailable", err)
	}
	<-restarted
	wantLock(t, admin, "lock", nil)
	release(t, acquire(t, newLocker(t, server.Client(t)), "lock"))
}
