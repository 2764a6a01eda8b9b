package integration_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
	"github.com/redlatch/redlatch/core/storetest"
	"github.com/redlatch/redlatch/test/internal/faultproxy"
	"github.com/redlatch/redlatch/test/internal/redistest"
)

// follow makes a replica of server behind a proxy, which holds the link of the
// replication when a test wants it.
func follow(t *testing.T, server *redistest.Server) (link *faultproxy.Proxy, replica *redistest.Server) {
	t.Helper()
	link = faultproxy.New(t, server.Addr())
	host, port := splitAddr(t, link.Addr())
	replica = redistest.Standalone(t, "--replicaof", host, port)
	master := server.Admin(t)
	eventually(t, func() error { return counted(master) })
	return link, replica
}

// counted says whether the master has a replica that WAIT counts. It begins to send to one
// when that has acknowledged its copy, which itself says earlier that it is connected.
func counted(master *redis.Client) error {
	n, err := master.Wait(context.Background(), 1, 100*time.Millisecond).Result()
	if err == nil && n < 1 {
		err = errors.New("the master does not count the replica")
	}
	return err
}

const waitTime = 300 * time.Millisecond

func replicated(rdb redis.UniversalClient, atLeast int) *redisstore.Store {
	return redisstore.New(rdb, redisstore.WithReplicas(atLeast, waitTime))
}

func TestAStoreWithReplicasKeepsTheContract(t *testing.T) {
	server := redistest.Standalone(t)
	_, _ = follow(t, server)
	storetest.Run(t, func(t *testing.T) lock.Store {
		return redisstore.New(server.Client(t), redisstore.WithReplicas(1, 2*time.Second))
	})
}

func TestAGrantIsOnTheReplicaWhenItIsReported(t *testing.T) {
	server := redistest.Standalone(t)
	_, replica := follow(t, server)
	l := lockerOn(t, replicated(server.Client(t), 1))
	copied := replica.Admin(t)
	for i := range 50 {
		key := fmt.Sprint("k", i)
		lease := acquire(t, l, key)
		if fields := hash(t, copied, key); fields[lease.Owner()] != "1" {
			t.Fatalf("granted, and the replica has %v", fields)
		}
		release(t, lease)
	}
}

func TestWithoutEnoughReplicasNothingIsGranted(t *testing.T) {
	for name, cut := range map[string]func(*faultproxy.Proxy, *redistest.Server){
		"the replica is stopped": func(_ *faultproxy.Proxy, replica *redistest.Server) { replica.Stop() },
		"the replica is killed":  func(_ *faultproxy.Proxy, replica *redistest.Server) { replica.Kill() },
		"the link is held":       func(link *faultproxy.Proxy, _ *redistest.Server) { link.HoldDown() },
		"two are asked for":      nil,
	} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Standalone(t)
			link, replica := follow(t, server)
			t.Cleanup(func() { replica.Cont(); link.Resume() })
			atLeast := 1
			if cut == nil {
				atLeast = 2
			}
			l := lockerOn(t, replicated(server.Client(t), atLeast))
			if cut != nil {
				release(t, acquire(t, l, "k"))
				cut(link, replica)
			}
			if _, err := l.Acquire(t.Context(), "k"); !errors.Is(err, lock.ErrUnavailable) || errors.Is(err, lock.ErrBusy) {
				t.Errorf("got %v, want ErrUnavailable", err)
			}
			plain := server.Admin(t)
			eventually(t, func() error {
				if fields := hash(t, plain, "k"); len(fields) != 0 {
					return fmt.Errorf("left behind: %v", fields)
				}
				return nil
			})
			release(t, acquire(t, newLocker(t, server.Client(t)), "k")) // for others it is free
			if cut == nil || name == "the replica is killed" {
				return
			}
			replica.Cont()
			link.Resume()
			eventually(t, func() error { return linked(replica.Admin(t)) })
			release(t, acquire(t, l, "k"))
		})
	}
}

// A renewal that a failover would lose is none: on the replica the lock ends
// when its first TTL does, and that is when the lease ends here.
func TestARenewalWithoutReplicasIsNotTrusted(t *testing.T) {
	const watchdog = 2 * time.Second
	server := redistest.Standalone(t)
	link, _ := follow(t, server)
	t.Cleanup(link.Resume)
	l := lockerOn(t, replicated(server.Client(t), 1), lock.WithWatchdog(watchdog))
	lease := acquire(t, l, "k")
	before := lease.Deadline()
	eventually(t, func() error {
		if !lease.Deadline().After(before) {
			return errors.New("not renewed")
		}
		return nil
	})
	link.HoldDown()
	held := time.Now()
	<-lease.Context().Done()
	if cause := context.Cause(lease.Context()); !errors.Is(cause, lock.ErrLost) {
		t.Errorf("the lease ended with %v", cause)
	}
	if took := time.Since(held); took > watchdog+slack(held) {
		t.Errorf("it was trusted for %v without the replica", took)
	}
	_ = lease.Release(t.Context())
}

// The double grant that asynchronous replication allows, and that WAIT
// prevents: the link is held, somebody gets the lock, the master dies, and the
// replica is promoted.
func TestAFailoverLosesNoGrantThatWasReported(t *testing.T) {
	for name, safe := range map[string]bool{"with WAIT": true, "without, as a control": false} {
		t.Run(name, func(t *testing.T) {
			master := redistest.Standalone(t)
			link, replica := follow(t, master)
			t.Cleanup(link.Resume)
			store := redisstore.New(master.Client(t))
			if safe {
				store = replicated(master.Client(t), 1)
			}
			old := lockerOn(t, store)
			link.HoldDown()
			_, err := old.Acquire(t.Context(), "k")
			if granted := err == nil; granted == safe {
				t.Fatalf("with the link held: %v", err)
			}
			master.Stop()
			t.Cleanup(master.Cont)
			if err := replica.Admin(t).Do(t.Context(), "REPLICAOF", "NO", "ONE").Err(); err != nil {
				t.Fatal(err)
			}
			// Somebody gets it at once: a second holder without WAIT.
			release(t, acquire(t, newLocker(t, replica.Client(t)), "k"))
			master.Cont()
		})
	}
}

func TestReplicasOfACluster(t *testing.T) {
	set := redistest.Cluster(t)
	l := lockerOn(t, replicated(set.Client(t), 1), lock.WithWatchdog(3*time.Second))
	const keys = 20
	var leases []*lock.Lease
	for i := range keys {
		leases = append(leases, acquire(t, l, fmt.Sprint("k", i)))
	}
	before := make([]time.Time, keys)
	for i, lease := range leases {
		before[i] = lease.Deadline()
	}
	eventually(t, func() error {
		for i, lease := range leases {
			if !lease.Deadline().After(before[i]) {
				return fmt.Errorf("%s is not renewed", lease.Key())
			}
		}
		return nil
	})
	for _, lease := range leases {
		release(t, lease)
	}

	// The replica of one master stops: its keys have no grants, others do.
	lame := set.OwnerOf(t, "k0")
	for i, master := range set.Masters {
		if master == lame {
			set.Replicas[i].Stop()
			t.Cleanup(set.Replicas[i].Cont)
		}
	}
	if _, err := l.Acquire(t.Context(), "k0"); !errors.Is(err, lock.ErrUnavailable) {
		t.Errorf("got %v, want ErrUnavailable", err)
	}
	for i := range keys {
		key := fmt.Sprint("k", i)
		if set.OwnerOf(t, key) != lame {
			release(t, acquire(t, l, key))
			return
		}
	}
}

// While a slot migrates, its keys are in two places; the script and its WAIT
// follow the redirection together.
func TestReplicasOfASlotThatMigrates(t *testing.T) {
	set := redistest.Cluster(t)
	l := lockerOn(t, replicated(set.Client(t), 1), lock.WithWatchdog(3*time.Second))
	held := acquire(t, l, "{k}held")
	m := beginMigration(t, set, "{k}")
	release(t, acquire(t, l, "{k}new")) // by ASK on the target
	m.finish(t)
	before := held.Deadline()
	eventually(t, func() error { // by MOVED
		if !held.Deadline().After(before.Add(time.Second)) {
			return errors.New("not renewed")
		}
		return nil
	})
	release(t, acquire(t, l, "{k}new"))
	release(t, held)
}
