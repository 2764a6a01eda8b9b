package integration_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/test/internal/redistest"
)

// A master that hangs answers nothing at all, and here the calls to it outlive
// the test: that they have no answer is what makes the client look again. The
// lease that was held is renewed at the new master, in time.
func TestAClusterFailoverOfAMasterThatHangsIsFollowed(t *testing.T) {
	t.Parallel()
	set := redistest.Cluster(t, "--cluster-node-timeout", "1000")
	frozen := set.OwnerOf(t, "k")
	l := newLocker(t, patientClient(t, set, frozen), lock.WithWatchdog(15*time.Second))
	lease := acquire(t, l, "k")
	before := lease.Deadline()
	frozen.Stop()
	t.Cleanup(frozen.Cont) // before the locker waits for its calls
	eventually(t, func() error {
		if lease.Deadline().After(before) || lease.Context().Err() != nil {
			return nil
		}
		return errors.New("not renewed")
	})
	if lease.Context().Err() != nil {
		t.Errorf("it was lost before it was renewed: %v", context.Cause(lease.Context()))
	}
}

// The master dies, with a lock that is held and one that waits for it. Both go
// on at the new master, and so does everybody else.
func TestASentinelFailoverIsRiddenOut(t *testing.T) {
	t.Parallel()
	for name, failover := range map[string]func(t *testing.T, set *redistest.SentinelSet){
		"killed": func(t *testing.T, set *redistest.SentinelSet) { t.Helper(); set.Failover(t) },
		// The old master stays, and says READONLY to whoever still asks it.
		"planned": func(t *testing.T, set *redistest.SentinelSet) {
			t.Helper()
			if err := set.Sentinels[0].Admin(t).Do(t.Context(), "SENTINEL", "FAILOVER", set.Name).Err(); err != nil {
				t.Fatal(err)
			}
			set.AwaitMasterOtherThan(t, set.Master)
		},
	} {
		t.Run(name, func(t *testing.T) {
			set := redistest.Sentinel(t)
			for _, replica := range set.Replicas {
				eventually(t, func() error { return linked(replica.Admin(t)) })
			}
			holder := newLocker(t, set.Client(t), lock.WithWatchdog(15*time.Second))
			waiter, stranger := newLocker(t, set.Client(t)), newLocker(t, set.Client(t))
			lease := acquire(t, holder, "k")
			got := make(chan *lock.Lease, 1)
			go func() { got <- acquire(t, waiter, "k") }()
			wantSubscribed(t, set.Master.Admin(t), "k")
			for _, replica := range set.Replicas { // or it would be lost, as nothing waited for them
				eventually(t, func() error {
					if len(hash(t, replica.Admin(t), "k")) == 0 {
						return errors.New("not replicated yet")
					}
					return nil
				})
			}
			failover(t, set)
			eventually(t, func() error {
				_, err := stranger.TryAcquire(t.Context(), "k")
				if errors.Is(err, lock.ErrBusy) {
					return nil
				}
				return fmt.Errorf("a stranger: %w, want ErrBusy", err)
			})
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

// A master that was only frozen comes back and does not know that it is none
// any more. With min-replicas it grants nothing until it does; without, it
// grants locks that nobody else knows of.
func TestAMasterThatComesBackGrantsNothing(t *testing.T) {
	t.Parallel()
	for name, safe := range map[string]bool{"with min-replicas": true, "without, as a control": false} {
		t.Run(name, func(t *testing.T) {
			set := redistest.Sentinel(t)
			if safe {
				for _, server := range append(set.Replicas, set.Master) {
					rdb := server.Admin(t)
					rdb.ConfigSet(t.Context(), "min-replicas-to-write", "1")
					rdb.ConfigSet(t.Context(), "min-replicas-max-lag", "1")
				}
			}
			everybody := newLocker(t, set.Client(t))
			eventually(t, func() error { return hold(t, everybody) }) // replicas count once they have reported
			old := set.Master
			old.Stop()
			t.Cleanup(old.Cont)
			successor := set.AwaitMasterOtherThan(t, old)
			eventually(t, func() error { return hold(t, everybody) }) // at the new master
			for _, replica := range set.Replicas {
				// One that Sentinel has not told yet would come back to its old
				// master, and count for it.
				if replica != successor {
					eventually(t, func() error { return follows(t, replica, successor) })
				}
			}
			old.Cont()

			rdb := newClient(t, &redis.Options{Addr: old.Addr(), MaxRetries: -1})
			misled := newLocker(t, rdb, lock.WithLease(time.Second))
			granted, refused := 0, 0
			for end := time.Now().Add(3 * time.Second); time.Now().Before(end) && granted == 0; {
				switch _, err := misled.TryAcquire(t.Context(), "k"); {
				case err == nil && safe && set.Current(t) == old:
					// On a machine too busy for Sentinel's second, it has failed
					// over again, and made the old master the new one.
					t.Log("the old master was elected again")
					end = time.Now()
				case err == nil:
					granted++
				case errors.Is(err, lock.ErrUnavailable):
					refused++
				default:
					t.Errorf("got %v", err)
				}
			}
			t.Logf("granted %d, refused %d", granted, refused)
			if safe && (granted > 0 || refused == 0) || !safe && granted == 0 {
				t.Errorf("it granted %d times and refused %d times", granted, refused)
			}
			// Who follows the sentinels never meets it.
			eventually(t, func() error { return hold(t, everybody) })
		})
	}
}

func follows(t *testing.T, replica, master *redistest.Server) error {
	t.Helper()
	_, port := splitAddr(t, master.Addr())
	role, err := replica.Admin(t).Do(t.Context(), "ROLE").Slice()
	if err == nil && (len(role) < 4 || fmt.Sprint(role[2]) != port || role[3] != "connected") {
		err = fmt.Errorf("%s is %v, and follows somebody else", replica.Addr(), role)
	}
	return err
}

// hold takes and releases a lock.
func hold(t *testing.T, l *lock.Locker) error {
	t.Helper()
	return l.Do(t.Context(), "everybody's", func(context.Context) error { return nil })
}

// patientClient waits for replies for longer than any test does. It asks
// another node than the given one where the slots are, as go-redis, which asks
// any of them, could be stuck there as long.
func patientClient(t *testing.T, set *redistest.ClusterSet, other *redistest.Server) *redis.ClusterClient {
	t.Helper()
	var asked *redis.Client
	for _, master := range set.Masters {
		if master != other {
			asked = master.Client(t)
		}
	}
	rdb := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: set.Addrs(), DisableIdentity: true, ReadTimeout: 2 * patience,
		ClusterSlots: func(ctx context.Context) ([]redis.ClusterSlot, error) {
			return asked.ClusterSlots(ctx).Result() //nolint:staticcheck // its successor needs Redis 7
		},
	})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}
