// Package world is where a run takes place: real servers, a proxy for each pair
// of worker and server, and the processes of the workers.
package world

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/test/chaos/internal/worker"
	"github.com/redlatch/redlatch/test/internal/faultproxy"
	"github.com/redlatch/redlatch/test/internal/process"
	"github.com/redlatch/redlatch/test/internal/redistest"
)

// World is all that can break.
type World struct {
	*process.Program
	Topology string
	Durable  bool     // servers keep their data when they are killed
	Servers  []Server // that keep data
	Sentinel *redistest.SentinelSet
	Cluster  *redistest.ClusterSet
	Links    [][]*faultproxy.Proxy // by worker and server
	Workers  []*Worker
	// Plain are clients of Redis around the proxies, by server, and Database is one of
	// the database where the locks are in one.
	Plain    []*redis.Client
	Database *Database
}

// Server is a process that keeps data.
type Server interface {
	Addr() string
	Kill()
	Restart()
	Stop()
	Cont()
}

// Start starts the servers and the proxies, and no workers yet.
func Start(p *process.Program, topology string, workers int, durable bool) (*World, error) {
	w := &World{Program: p, Topology: topology, Durable: durable}
	var args []string
	if durable {
		args = []string{"--appendonly", "yes", "--appendfsync", "always"}
	}
	switch topology {
	case worker.Standalone:
		w.redis(redistest.Standalone(p, args...))
	case worker.Sentinel:
		w.Sentinel = redistest.Sentinel(p)
		w.redis(append([]*redistest.Server{w.Sentinel.Master}, w.Sentinel.Replicas...)...)
	case worker.Cluster:
		w.Cluster = redistest.Cluster(p, "--cluster-node-timeout", "1000")
		w.redis(w.Cluster.Nodes()...)
	case worker.Quorum:
		w.redis(redistest.Independent(p, 5, args...)...)
	case worker.PostgreSQL, worker.MariaDB:
		if err := w.database(); err != nil {
			return nil, err
		}
	default:
		return nil, errors.New("there is no topology " + topology)
	}
	for range workers {
		var links []*faultproxy.Proxy
		for _, server := range w.Servers {
			links = append(links, faultproxy.New(p, server.Addr()))
		}
		w.Links = append(w.Links, links)
	}
	return w, nil
}

// redis adds servers of Redis.
func (w *World) redis(servers ...*redistest.Server) {
	for _, server := range servers {
		w.Servers, w.Plain = append(w.Servers, server), append(w.Plain, server.Client(w.Program))
	}
}

// Pace lets one request of each worker pass in each such time, as if Redis were
// slow.
func (w *World) Pace(d time.Duration) {
	for _, links := range w.Links {
		for _, link := range links {
			link.Pace(d)
		}
	}
}

// Redis is how a worker reaches the servers.
func (w *World) Redis(number int) worker.Redis {
	r := worker.Redis{Topology: w.Topology, Via: make(map[string]string)}
	for i, server := range w.Servers {
		r.Addrs = append(r.Addrs, server.Addr())
		r.Via[server.Addr()] = w.Links[number][i].Addr()
	}
	if w.Database != nil {
		r.Database, r.Listens = w.Database.URL, number%2 == 1
	}
	if w.Sentinel != nil {
		r.Addrs, r.Master = w.Sentinel.Addrs(), w.Sentinel.Name
	}
	return r
}

// Worker is a process that is started again when it is killed.
type Worker struct {
	number  int
	command func(life int) (process.Spec, error)
	life    atomic.Int32

	mu      sync.Mutex
	process *process.Process
}

// Employ starts a worker.
func (w *World) Employ(number int, dir string, command func(life int) (process.Spec, error)) error {
	employed := &Worker{number: number, command: func(life int) (process.Spec, error) {
		spec, err := command(life)
		spec.Dir, spec.Log = dir, filepath.Join(dir, "worker-"+strconv.Itoa(number)+".log")
		return spec, err
	}}
	w.Workers = append(w.Workers, employed)
	w.Cleanup(func() { employed.Current().Kill() })
	return employed.start()
}

func (e *Worker) start() error {
	spec, err := e.command(int(e.life.Load()))
	if err != nil {
		return err
	}
	p, err := process.Start(spec)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.process = p
	return nil
}

// Current is the process of now.
func (e *Worker) Current() *process.Process {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.process
}

// Lives is how many processes there were. All but the last were killed.
func (e *Worker) Lives() int { return int(e.life.Load()) + 1 }

// Replace starts the next process after the current one was killed.
func (e *Worker) Replace() error {
	e.life.Add(1)
	if err := e.start(); err != nil {
		return fmt.Errorf("worker %d, life %d: %w", e.number, e.life.Load(), err)
	}
	return nil
}
