package redistest_test

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/test/internal/process"
	"github.com/redlatch/redlatch/test/internal/redistest"
)

func TestSentinelURLLeadsToTheMaster(t *testing.T) {
	set := redistest.Sentinel(t)
	options, err := redis.ParseFailoverURL(set.URL())
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewFailoverClient(options)
	defer client.Close()
	if err := client.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if got, err := set.Master.Client(t).Get(t.Context(), "k").Result(); err != nil || got != "v" {
		t.Errorf("the master holds %q, %v, want v", got, err)
	}
	if n, err := set.Master.Client(t).Wait(t.Context(), len(set.Replicas), 10*time.Second).Result(); err != nil || n != int64(len(set.Replicas)) {
		t.Errorf("WAIT = %d, %v, want every replica", n, err)
	}
}

func TestSentinelFailoverPromotesAReplicaThatHasTheData(t *testing.T) {
	set := redistest.Sentinel(t)
	ctx, client := t.Context(), set.Client(t)
	conn := client.Conn() // WAIT counts the writes of the same connection
	defer conn.Close()
	if err := conn.Set(ctx, "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if n, err := conn.Wait(ctx, 2, 10*time.Second).Result(); err != nil || n != 2 {
		t.Fatalf("WAIT = %d, %v, want 2", n, err)
	}

	promoted := set.Failover(t)
	if promoted == set.Master {
		t.Fatal("the killed master is the master")
	}
	if set.Current(t) != promoted {
		t.Error("Current does not name the promoted server")
	}
	err := process.Poll(30*time.Second, func() error { // the client has to find it too
		got, err := client.Get(ctx, "k").Result()
		if err == nil && got != "v" {
			t.Fatalf("the promoted server holds %q, want v", got)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestClusterServesEverySlot(t *testing.T) {
	set := redistest.Cluster(t)
	options, err := redis.ParseClusterURL(set.URL())
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClusterClient(options)
	defer client.Close()

	owners := make(map[*redistest.Server]bool)
	for _, key := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		if err := client.Set(t.Context(), key, key, 0).Err(); err != nil {
			t.Fatalf("SET %s: %v", key, err)
		}
		owner := set.OwnerOf(t, key)
		owners[owner] = true
		if got, err := owner.Client(t).Get(t.Context(), key).Result(); err != nil || got != key {
			t.Errorf("the owner of %s holds %q, %v", key, got, err)
		}
	}
	if len(owners) != len(set.Masters) {
		t.Errorf("eight keys live on %d masters, want %d", len(owners), len(set.Masters))
	}
}

func TestClusterFailoverGivesTheKeyToTheReplica(t *testing.T) {
	set := redistest.Cluster(t, "--cluster-node-timeout", "1000")
	old := set.OwnerOf(t, "k")
	promoted := set.Failover(t, "k")
	for i, master := range set.Masters {
		if master == old && set.Replicas[i] != promoted {
			t.Errorf("%s was promoted, want %s, the replica of %s", promoted.Addr(), set.Replicas[i].Addr(), old.Addr())
		}
	}
	client := set.Client(t)
	if err := client.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Errorf("SET after the failover: %v", err)
	}

	old.Restart() // comes back as a replica
	err := process.Poll(30*time.Second, func() error {
		role, err := old.Client(t).Do(t.Context(), "ROLE").Slice()
		if err == nil && role[0] != "slave" {
			err = errors.New("the old master has not found its place yet")
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
