package integration_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/test/internal/process"
	"github.com/redlatch/redlatch/test/internal/redistest"
)

// A master that hangs answers nothing at all, and here the calls to it outlive
// the test: that they have no answer is what makes the client look again, and
// at other nodes than that one. The lease that was held is renewed at the new
// master, in time.
func TestAClusterFailoverOfAMasterThatHangsIsFollowed(t *testing.T) {
	t.Parallel()
	set := redistest.Cluster(t, "--cluster-node-timeout", "1000")
	frozen := set.OwnerOf(t, "k")
	l := newLocker(t, patientClient(t, set), lock.WithWatchdog(15*time.Second))
	lease := acquire(t, l, "k")
	before := lease.Deadline()
	wantReplicated(t, frozen.Admin(t), "{k}")
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

// wantReplicated waits until a replica has all that the master has: a write that comes
// behind it has arrived.
func wantReplicated(t *testing.T, master *redis.Client, key string) {
	t.Helper()
	conn := master.Conn()
	defer func() { _ = conn.Close() }()
	if err := conn.Set(t.Context(), key+"marker", "", time.Minute).Err(); err != nil {
		t.Fatal(err)
	}
	if n, err := conn.Wait(t.Context(), 1, 20*time.Second).Result(); err != nil || n < 1 {
		t.Fatalf("%d replicas have it: %v", n, err)
	}
}

// The master dies, with a lock that is held and one that waits for it. Both go
// on at the new master, and so does everybody else.
func TestASentinelFailoverIsRiddenOut(t *testing.T) {
	t.Parallel()
	for name, failover := range map[string]func(t *testing.T, set *redistest.SentinelSet){
		"killed": func(t *testing.T, set *redistest.SentinelSet) { t.Helper(); set.Failover(t) },
		// The old master stays, and says READONLY to every client that still calls it.
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

// A master that was only frozen comes back and doesn't know that it no longer is
// one. With min-replicas it grants nothing until it does; without, it
// grants locks that nobody else knows of.
func TestAMasterThatComesBackGrantsNothing(t *testing.T) {
	t.Parallel()
	t.Run("with min-replicas", func(t *testing.T) {
		granted, refused := afterMasterReturns(t, func(server *redistest.Server) { stopWithoutReplicas(t, server) })
		if granted > 0 || refused == 0 {
			t.Errorf("it granted %d times and refused %d times", granted, refused)
		}
	})
	t.Run("without, as a control", func(t *testing.T) {
		granted, refused := afterMasterReturns(t, func(*redistest.Server) {})
		if granted == 0 {
			t.Errorf("it granted %d times and refused %d times", granted, refused)
		}
	})
}

// afterMasterReturns counts how often a master that was frozen during a failover
// grants and refuses a lock before it is demoted.
func afterMasterReturns(t *testing.T, configure func(*redistest.Server)) (granted, refused int) {
	t.Helper()
	const fresh = 5
	for range fresh {
		granted, refused, again := afterOneMasterReturns(t, configure)
		t.Logf("granted %d, refused %d", granted, refused)
		if !again {
			return granted, refused
		}
		// On a machine too busy for Sentinel's second, it has failed over once
		// more and made the old master the new one, whose grants are right.
		t.Log("the old master was elected again, which shows nothing; once more with other servers")
	}
	t.Fatalf("the old master was elected again %d times", fresh)
	return 0, 0
}

func afterOneMasterReturns(t *testing.T, configure func(*redistest.Server)) (granted, refused int, again bool) {
	t.Helper()
	set := redistest.Sentinel(t)
	for _, server := range append(set.Replicas, set.Master) {
		configure(server)
	}
	everybody := newLocker(t, set.Client(t))
	eventually(t, func() error { return hold(t, everybody) }) // replicas count once they have reported
	old := set.Master
	old.Stop()
	t.Cleanup(old.Cont)
	set.AwaitMasterOtherThan(t, old)
	eventually(t, func() error { return hold(t, everybody) }) // at the new master
	// What if they don't, is TestAMasterThatComesBackCountsReplicasThatStillFollowIt.
	for _, replica := range set.Replicas {
		eventually(t, func() error { return settled(t, set, replica) })
	}
	old.Cont()

	misled := newLocker(t, newClient(t, &redis.Options{Addr: old.Addr(), MaxRetries: -1}), lock.WithLease(time.Second))
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end) && granted == 0; {
		switch _, err := misled.TryAcquire(t.Context(), "k"); {
		case err == nil && electedSoon(t, set, old):
			return granted, refused, true
		case err == nil:
			granted++
		case errors.Is(err, lock.ErrUnavailable):
			refused++
		default:
			t.Errorf("got %v", err)
		}
	}
	// Who follows the sentinels never meets it.
	eventually(t, func() error { return hold(t, everybody) })
	return granted, refused, false
}

// electedSoon reports whether the sentinels name the server as the master. They
// do so seconds after they have made it one.
func electedSoon(t *testing.T, set *redistest.SentinelSet, server *redistest.Server) bool {
	t.Helper()
	return process.Poll(3*time.Second, func() error {
		if set.Current(t) != server {
			return errors.New("another one is the master")
		}
		return nil
	}) == nil
}

// stopWithoutReplicas makes the server refuse writes about a second after the
// last replica was heard of.
func stopWithoutReplicas(t *testing.T, server *redistest.Server) {
	t.Helper()
	for _, setting := range []string{"min-replicas-to-write", "min-replicas-max-lag"} {
		if err := server.Admin(t).ConfigSet(t.Context(), setting, "1").Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// min-replicas counts replicas, whichever the master is: one that doesn't know
// the new master vouches for the old one when that comes back. Once it follows
// the new one, the old one grants nothing.
func TestAMasterThatComesBackCountsReplicasThatStillFollowIt(t *testing.T) {
	t.Parallel()
	old := redistest.Standalone(t)
	_, successor := follow(t, old)
	_, late := follow(t, old)
	stopWithoutReplicas(t, old)
	misled := newLocker(t, newClient(t, &redis.Options{Addr: old.Addr(), MaxRetries: -1}), lock.WithLease(time.Second))
	eventually(t, func() error { return hold(t, misled) })
	replicaOf := func(server *redistest.Server, host, port string) {
		if err := server.Admin(t).Do(t.Context(), "REPLICAOF", host, port).Err(); err != nil {
			t.Fatal(err)
		}
	}
	old.Stop()
	t.Cleanup(old.Cont)
	replicaOf(successor, "NO", "ONE")
	old.Cont()
	eventually(t, func() error { return hold(t, newLocker(t, successor.Client(t))) }) // it is the master now
	eventually(t, func() error { return hold(t, misled) })                            // and so is the old one, it thinks

	host, port := splitAddr(t, successor.Addr())
	replicaOf(late, host, port)
	eventually(t, func() error {
		switch err := hold(t, misled); {
		case errors.Is(err, lock.ErrUnavailable):
			return nil
		case err == nil:
			return errors.New("it still grants")
		default:
			return err
		}
	})
	if err := hold(t, misled); !errors.Is(err, lock.ErrUnavailable) {
		t.Errorf("it grants again: %v", err)
	}
}

// settled returns nil when the server is the master that the sentinels name now, or
// follows it. A machine that is too busy for Sentinel's second may see more
// failovers than a test has caused.
func settled(t *testing.T, set *redistest.SentinelSet, replica *redistest.Server) error {
	t.Helper()
	master := set.Current(t)
	if replica == master {
		return nil
	}
	_, port := splitAddr(t, master.Addr())
	role, err := replica.Admin(t).Do(t.Context(), "ROLE").Slice()
	if err == nil && (len(role) < 4 || fmt.Sprint(role[2]) != port || role[3] != "connected") {
		err = fmt.Errorf("%s is %v, and doesn't follow %s", replica.Addr(), role, master.Addr())
	}
	return err
}

// hold takes and releases a lock.
func hold(t *testing.T, l *lock.Locker) error {
	t.Helper()
	return l.Do(t.Context(), "everybody's", func(context.Context) error { return nil })
}

// patientClient waits for replies for longer than any test does.
func patientClient(t *testing.T, set *redistest.ClusterSet) *redis.ClusterClient {
	t.Helper()
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: set.Addrs(), DisableIdentity: true, ReadTimeout: 2 * patience})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}
