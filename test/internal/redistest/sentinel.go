package redistest

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/test/internal/process"
)

const sentinels, quorum = 3, 2

// SentinelSet is a master with two replicas, watched by three sentinels of which
// two must agree.
type SentinelSet struct {
	Name      string    // of the master, as sentinels know it
	Master    *Server   // at the start; a failover does not change the field
	Replicas  []*Server // of Master
	Sentinels []*Server
}

// Sentinel starts a set and returns when every sentinel knows every other one
// and both replicas, so that a failover can begin at once. The args are passed to every
// server and sentinel. With a --tls-port they reach each other there.
func Sentinel(t process.Host, args ...string) *SentinelSet {
	t.Helper()
	set := &SentinelSet{Name: "mymaster", Master: startServer(t, args...)}
	host, port, err := net.SplitHostPort(cmp.Or(set.Master.TLSAddr(), set.Master.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		set.Replicas = append(set.Replicas, startServer(t, append([]string{"--replicaof", host, port}, args...)...))
	}
	for range sentinels {
		set.Sentinels = append(set.Sentinels, startSentinel(t, set.Name, host, port, args))
	}
	for _, sentinel := range set.Sentinels {
		set.await(t, sentinel, "num-slaves", len(set.Replicas))
		set.await(t, sentinel, "num-other-sentinels", sentinels-1)
	}
	for _, replica := range set.Replicas {
		awaitLink(t, replica)
	}
	return set
}

func startSentinel(t process.Host, name, host, port string, args []string) *Server {
	t.Helper()
	// Sentinels rewrite their configuration, so each has its own file.
	write := func(dir string, ownPort int) []string {
		path := filepath.Join(dir, "sentinel.conf")
		config := strings.Join(append([]string{
			"port " + strconv.Itoa(ownPort),
			"bind 127.0.0.1",
			fmt.Sprintf("sentinel monitor %s %s %s %d", name, host, port, quorum),
			fmt.Sprintf("sentinel down-after-milliseconds %s 1000", name),
			fmt.Sprintf("sentinel failover-timeout %s 5000", name),
		}, adminConfig(name)...), "\n") + "\n"
		if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		return append([]string{path, "--sentinel"}, withPorts(t, args)...)
	}
	sentinel := start(t, "Sentinel ID is", write)

	// Sentinels greet each other every 2 s and look for replicas every 10 s;
	// asking for more saves most of the start. A pause of the machine must not
	// send them into 30 s of tilt. Servers before 7.0 have no such switch, and
	// are just slower.
	_ = sentinel.Admin(t).Do(t.Context(), "SENTINEL", "DEBUG",
		"publish-period", 200, "info-period", 200, "tilt-period", 1000).Err()
	return sentinel
}

func (set *SentinelSet) await(t process.Host, sentinel *Server, field string, want int) {
	t.Helper()
	client := set.sentinelClient(t, sentinel)
	err := process.Poll(patience, func() error {
		master, err := client.Master(t.Context(), set.Name).Result()
		if err == nil && master[field] != strconv.Itoa(want) {
			err = fmt.Errorf("%s of %s is %s, want %d", field, sentinel.Addr(), master[field], want)
		}
		return err
	})
	if err != nil {
		t.Fatalf("redistest: form sentinel set: %v", err)
	}
}

func (set *SentinelSet) sentinelClient(t process.Host, sentinel *Server) *redis.SentinelClient {
	t.Helper()
	options := sentinel.adminOptions()
	options.MaxRetries, options.DialerRetries = -1, 1
	client := redis.NewSentinelClient(options)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// Addrs are the addresses of the sentinels.
func (set *SentinelSet) Addrs() []string { return addrs(set.Sentinels) }

// URL is what redis.ParseFailoverURL reads: the sentinels and the name.
func (set *SentinelSet) URL() string {
	return withAddrs(set.Sentinels, url.Values{"master_name": {set.Name}})
}

// Client returns a plain go-redis client that follows the master, closed when t
// ends.
func (set *SentinelSet) Client(t process.Host) *redis.Client {
	t.Helper()
	client := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: set.Name, SentinelAddrs: set.Addrs(), DisableIdentity: true,
	})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// Failover kills the server that is master now and waits until all sentinels
// agree on another one that has taken the role. It returns the new master.
func (set *SentinelSet) Failover(t process.Host) *Server {
	t.Helper()
	old := set.Current(t)
	old.Kill()
	return set.AwaitMasterOtherThan(t, old)
}

// Current is the server that the first sentinel names as the master.
func (set *SentinelSet) Current(t process.Host) *Server {
	t.Helper()
	master, err := set.named(t.Context(), set.sentinelClient(t, set.Sentinels[0]))
	if err != nil {
		t.Fatalf("redistest: current master: %v", err)
	}
	return master
}

// AwaitMasterOtherThan waits until all sentinels that run agree on a master that
// isn't old and that has taken the role, and returns it.
func (set *SentinelSet) AwaitMasterOtherThan(t process.Host, old *Server) *Server {
	t.Helper()
	var clients []*redis.SentinelClient
	for _, sentinel := range set.Sentinels {
		if sentinel.alive() {
			clients = append(clients, set.sentinelClient(t, sentinel))
		}
	}
	var master *Server
	err := process.Poll(patience, func() (err error) {
		for _, client := range clients {
			if master, err = set.named(t.Context(), client); err != nil {
				return err
			}
			if master == old {
				return fmt.Errorf("%s is still the master", old.Addr())
			}
		}
		return master.hasRole(t, "master")
	})
	if err != nil {
		t.Fatalf("redistest: failover: %v", err)
	}
	return master
}

func (set *SentinelSet) named(ctx context.Context, client *redis.SentinelClient) (*Server, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	pair, err := client.GetMasterAddrByName(ctx, set.Name).Result()
	if err != nil {
		return nil, err
	}
	addr := net.JoinHostPort(pair[0], pair[1])
	if master := find(append([]*Server{set.Master}, set.Replicas...), addr); master != nil {
		return master, nil
	}
	return nil, fmt.Errorf("the sentinel names %s, which is not ours", addr)
}

// hasRole queries the server itself.
func (s *Server) hasRole(t process.Host, want string) error {
	t.Helper()
	role, err := s.once(t).Do(t.Context(), "ROLE").Slice()
	if err == nil && role[0] != want {
		err = fmt.Errorf("%s is %v, want %s", s.Addr(), role[0], want)
	}
	return err
}

// awaitLink waits until a replica streams from its master.
func awaitLink(t process.Host, replica *Server) {
	t.Helper()
	client := replica.Admin(t)
	err := process.Poll(patience, func() error {
		info, err := client.Info(t.Context(), "replication").Result()
		if err == nil && !strings.Contains(info, "master_link_status:up") {
			err = fmt.Errorf("%s is not linked to its master", replica.Addr())
		}
		return err
	})
	if err != nil {
		t.Fatalf("redistest: replicate: %v", err)
	}
}
