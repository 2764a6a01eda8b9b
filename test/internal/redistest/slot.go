package redistest

import (
	"net"
	"time"

	"github.com/redlatch/redlatch/test/internal/process"
)

// MoveSlot moves the slot of a key to another node, as resharding does: while it
// is under way, which it stays for the given time at least, keys that exist are
// served by the old node and others by the new one. It returns false, and the
// slot is where it was, if the node can't take it: it is no master.
func (set *ClusterSet) MoveSlot(t process.Host, key string, to *Server, under time.Duration) bool {
	t.Helper()
	ctx := t.Context()
	from := set.OwnerOf(t, key)
	if from == to || to.hasRole(t, "master") != nil {
		return false
	}
	source, target := from.once(t), to.once(t)
	slot := source.ClusterKeySlot(ctx, key).Val()
	sourceID, targetID := source.ClusterMyID(ctx).Val(), target.ClusterMyID(ctx).Val()
	if target.Do(ctx, "CLUSTER", "SETSLOT", slot, "IMPORTING", sourceID).Err() != nil {
		return false
	}
	if source.Do(ctx, "CLUSTER", "SETSLOT", slot, "MIGRATING", targetID).Err() != nil {
		_ = target.Do(ctx, "CLUSTER", "SETSLOT", slot, "STABLE").Err()
		return false
	}
	timer := time.NewTimer(under)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	host, port, err := net.SplitHostPort(to.Addr())
	if err != nil {
		t.Fatalf("redistest: move slot: %v", err)
	}
	for {
		keys, err := source.ClusterGetKeysInSlot(ctx, int(slot), 10).Result()
		if err != nil {
			t.Fatalf("redistest: move slot: %v", err)
		}
		if len(keys) == 0 {
			break
		}
		for _, k := range keys {
			if err := source.Do(ctx, "MIGRATE", host, port, k, 0, 5000).Err(); err != nil {
				t.Fatalf("redistest: move slot: %v", err)
			}
		}
	}
	// The target first, or both would send clients to each other.
	for _, node := range append([]*Server{to, from}, set.Nodes()...) {
		if node.alive() {
			_ = node.once(t).Do(ctx, "CLUSTER", "SETSLOT", slot, "NODE", targetID).Err() // replicas refuse
		}
	}
	return true
}
