package integration_test

import (
	"context"
	"errors"
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
