package redistest

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/test/internal/process"
)

const (
	masters = 3
	slots   = 16384
)

// ClusterSet is a cluster of three masters with one replica each.
type ClusterSet struct {
	Masters  []*Server // at the start, a third of the slots each; a failover does not change the field
	Replicas []*Server // Replicas[i] follows Masters[i]
}

// Cluster starts a cluster and returns when all six nodes say that it is
// complete. The args are passed to every node, for instance
// "--cluster-node-timeout", "1000" for faster failovers than the 2 s that a busy
// machine can keep without false ones. With a --tls-port and --tls-cluster yes they reach
// each other there.
func Cluster(t process.Host, args ...string) *ClusterSet {
	t.Helper()
	args = append([]string{
		"--cluster-enabled", "yes", "--cluster-node-timeout", "2000",
		"--cluster-announce-ip", "127.0.0.1", "--cluster-replica-validity-factor", "0",
	}, args...)
	set := &ClusterSet{}
	for range masters {
		set.Masters = append(set.Masters, startServer(t, args...))
		set.Replicas = append(set.Replicas, startServer(t, args...))
	}
	set.form(t)
	return set
}

// form does what `redis-cli --cluster create` does, without its fixed waits.
func (set *ClusterSet) form(t process.Host) {
	t.Helper()
	ctx := t.Context()
	nodes := set.Nodes()
	clients := make([]*redis.Client, len(nodes))
	for i, node := range nodes {
		clients[i] = node.Admin(t)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("redistest: form cluster: %v", err)
		}
	}

	for i := range masters {
		first, last := i*slots/masters, (i+1)*slots/masters-1
		must(clients[i].ClusterAddSlotsRange(ctx, first, last).Err())
	}
	for i, client := range clients {
		// Distinct epochs save the nodes from having to settle conflicts.
		must(client.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err())
	}
	host, port, err := net.SplitHostPort(cmp.Or(nodes[0].TLSAddr(), nodes[0].Addr()))
	must(err)
	for _, client := range clients[1:] {
		must(client.ClusterMeet(ctx, host, port).Err())
	}
	for i, replica := range clients[masters:] {
		id, err := clients[i].ClusterMyID(ctx).Result()
		must(err)
		must(process.Poll(patience, func() error { // fails until the replica has heard of its master
			return replica.ClusterReplicate(ctx, id).Err()
		}))
	}
	for _, replica := range set.Replicas {
		awaitLink(t, replica)
	}
	must(process.Poll(patience, func() error {
		for _, client := range clients {
			if err := complete(t, client); err != nil {
				return err
			}
		}
		return nil
	}))
}

// complete reports why this node doesn't see the whole cluster yet.
func complete(t process.Host, client *redis.Client) error {
	t.Helper()
	info, err := client.ClusterInfo(t.Context()).Result()
	if err != nil {
		return err
	}
	if !strings.Contains(info, "cluster_state:ok") {
		return errors.New("a node does not say that the cluster is ok")
	}
	nodes, err := client.ClusterNodes(t.Context()).Result()
	if err != nil {
		return err
	}
	if got := strings.Count(nodes, "slave "); got != masters {
		return fmt.Errorf("a node sees %d replicas, want %d:\n%s", got, masters, nodes)
	}
	// Messages travel on these links, and are lost where there is none yet.
	if got := strings.Count(nodes, " connected"); got != 2*masters || strings.Contains(nodes, "handshake") {
		return fmt.Errorf("a node is linked to %d nodes, want %d:\n%s", got, 2*masters, nodes)
	}
	return nil
}

// Nodes are the masters, then the replicas.
func (set *ClusterSet) Nodes() []*Server { return slices.Concat(set.Masters, set.Replicas) }

// Addrs are the addresses of all nodes.
func (set *ClusterSet) Addrs() []string { return addrs(set.Nodes()) }

// URL is what redis.ParseClusterURL reads.
func (set *ClusterSet) URL() string { return withAddrs(set.Nodes(), nil) }

// Client returns a plain go-redis cluster client, closed when t ends.
func (set *ClusterSet) Client(t process.Host) *redis.ClusterClient {
	t.Helper()
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: set.Addrs(), DisableIdentity: true})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// OwnerOf is the master that serves the key now, as a node that runs says.
func (set *ClusterSet) OwnerOf(t process.Host, key string) *Server {
	t.Helper()
	owner, err := set.ownerOf(t, key)
	if err != nil {
		t.Fatalf("redistest: owner of %q: %v", key, err)
	}
	return owner
}

// Failover kills the master that serves the key and waits until all nodes that
// run agree that another one serves it. It returns the new master.
func (set *ClusterSet) Failover(t process.Host, key string) *Server {
	t.Helper()
	old := set.OwnerOf(t, key)
	old.Kill()
	var owner *Server
	err := process.Poll(patience, func() (err error) {
		if owner, err = set.ownerOf(t, key); err != nil {
			return err
		}
		if owner == old {
			return fmt.Errorf("%s is still the owner", old.Addr())
		}
		for _, node := range set.Nodes() {
			if !node.alive() {
				continue
			}
			info, err := node.once(t).ClusterInfo(t.Context()).Result()
			if err != nil {
				return err
			}
			if !strings.Contains(info, "cluster_state:ok") {
				return fmt.Errorf("%s says that the cluster is down", node.Addr())
			}
		}
		return owner.hasRole(t, "master")
	})
	if err != nil {
		t.Fatalf("redistest: failover: %v", err)
	}
	return owner
}

func (set *ClusterSet) ownerOf(t process.Host, key string) (*Server, error) {
	t.Helper()
	err := errors.New("no node runs")
	for _, node := range set.Nodes() {
		if !node.alive() {
			continue
		}
		var owner *Server
		if owner, err = set.ownerBy(t, node, key); err == nil {
			return owner, nil
		}
	}
	return nil, err
}

// ownerBy queries one node.
func (set *ClusterSet) ownerBy(t process.Host, node *Server, key string) (*Server, error) {
	t.Helper()
	client := node.once(t)
	slot, err := client.ClusterKeySlot(t.Context(), key).Result()
	if err != nil {
		return nil, err
	}
	ranges, err := client.ClusterSlots(t.Context()).Result() //nolint:staticcheck // its successor needs Redis 7
	if err != nil {
		return nil, err
	}
	for _, r := range ranges {
		if int(slot) >= r.Start && int(slot) <= r.End {
			if owner := find(set.Nodes(), r.Nodes[0].Addr); owner != nil {
				return owner, nil
			}
			return nil, fmt.Errorf("%s is not ours", r.Nodes[0].Addr)
		}
	}
	return nil, errors.New("nobody serves slot " + strconv.FormatInt(slot, 10))
}
