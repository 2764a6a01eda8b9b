// Package redistest runs real Redis topologies for tests, from the
// `redis-server` of the system, in seconds and without any set-up: one server,
// a master with replicas and sentinels, a cluster, or independent masters.
//
// Everything a topology consists of is gone when the test ends. The logs of all
// its servers are printed if the test has failed.
package redistest

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/test/internal/process"
)

// BinaryEnv names a variable with the path of the server to use instead of the
// one in PATH, to run the same tests on several versions of Redis or on Valkey.
const BinaryEnv = "REDLATCH_REDIS_SERVER"

// patience is how long a server or a topology may take to become ready. It is
// only ever spent when something is broken.
const patience = 60 * time.Second

// Server is one Redis process. Its methods may be called from any goroutine.
type Server struct {
	t      process.Host
	binary string
	port   int
	dir    string
	args   []string
	ready  string // the line in the log after which it serves

	asking sync.Once
	asker  *redis.Client // of once

	mu      sync.Mutex
	process *process.Process
}

// Standalone starts a server without persistence. The args are appended to the
// command line, so they override, for instance "--maxmemory", "10mb".
func Standalone(t process.Host, args ...string) *Server {
	t.Helper()
	return startServer(t, args...)
}

// Independent starts n servers that know nothing of each other, the ground for
// quorum locks.
func Independent(t process.Host, n int, args ...string) []*Server {
	t.Helper()
	servers := make([]*Server, n)
	for i := range servers {
		servers[i] = Standalone(t, args...)
	}
	return servers
}

func startServer(t process.Host, args ...string) *Server {
	t.Helper()
	return start(t, "Ready to accept connections", func(_ string, port int) []string {
		return slices.Concat(commonArgs(port), adminArgs(), withPorts(t, args))
	})
}

// FreePort, as an argument of a server, is a port that nobody else has:
// "--tls-port", FreePort.
const FreePort = "a free port"

func withPorts(t process.Host, args []string) []string {
	t.Helper()
	args = slices.Clone(args)
	for i := range args {
		if args[i] == FreePort {
			args[i] = strconv.Itoa(process.Port(t))
		}
	}
	return args
}

// TLSAddr is where a server with a --tls-port listens for TLS; empty for any other.
func (s *Server) TLSAddr() string {
	i := slices.Index(s.args, "--tls-port")
	if i < 0 {
		return ""
	}
	port, _ := strconv.Atoi(s.args[i+1])
	return process.LoopbackAddr(port)
}

// TLSAddrs are those of some servers.
func TLSAddrs(servers []*Server) []string {
	list := make([]string, len(servers))
	for i, s := range servers {
		list[i] = s.TLSAddr()
	}
	return list
}

func commonArgs(port int) []string {
	return []string{
		"--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--protected-mode", "no",
		"--save", "", "--appendonly", "no", "--daemonize", "no",
		"--repl-diskless-sync-delay", "0",
	}
}

func binary(t process.Host) string {
	t.Helper()
	if path := os.Getenv(BinaryEnv); path != "" {
		return process.Find(t, path)
	}
	return process.Find(t, "redis-server", "valkey-server")
}

// start runs a server on a free port, and on another one if somebody else was
// faster to listen there.
func start(t process.Host, ready string, args func(dir string, port int) []string) *Server {
	t.Helper()
	s := &Server{t: t, binary: binary(t), ready: ready, dir: t.TempDir()}
	t.Cleanup(s.cleanup) // after TempDir, so that it runs while the log still exists

	var err error
	for range 5 {
		s.port = process.Port(t)
		s.args = args(s.dir, s.port)
		if err = s.run(); err == nil {
			return s
		}
		if !strings.Contains(err.Error(), "Address already in use") {
			break
		}
	}
	t.Fatalf("redistest: %v", err)
	return nil
}

// run starts the process and waits until it serves. The readiness is read from
// the server's own log: an answer on the port could come from somebody else,
// and could ask for a password.
func (s *Server) run() error {
	p, err := process.Start(process.Spec{
		Path: s.binary, Args: s.args, Dir: s.dir, Log: filepath.Join(s.dir, "server.log"),
	})
	if err != nil {
		return err
	}
	s.process = p
	if err := p.Await(patience, p.Contains(s.ready)); err != nil {
		p.Kill()
		return err
	}
	return s.restrict()
}

func (s *Server) cleanup() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		return
	}
	if s.process.Alive() {
		_ = s.process.Signal(syscall.SIGCONT) // it may have been stopped
		if err := s.audit(); err != nil {
			s.t.Errorf("redistest: %v", err)
		}
	}
	s.process.Kill()
	if s.t.Failed() {
		s.t.Logf("redistest: log of %s (%s):\n%s", s.Addr(), strings.Join(s.args, " "), s.process.Log())
	}
}

// Addr is host:port.
func (s *Server) Addr() string { return process.LoopbackAddr(s.port) }

// URL is redis://host:port/0.
func (s *Server) URL() string { return "redis://" + s.Addr() + "/0" }

// Client returns a plain go-redis client of this server, closed when t ends.
func (s *Server) Client(t process.Host) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: s.Addr(), DisableIdentity: true})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// once returns a client for questions while things break: it waits for nobody
// and never tries twice.
func (s *Server) once(t process.Host) *redis.Client {
	t.Helper()
	s.asking.Do(func() {
		options := s.adminOptions()
		options.MaxRetries, options.DialerRetries = -1, 1
		options.DialTimeout, options.ReadTimeout = time.Second, 2*time.Second
		s.asker = redis.NewClient(options)
		s.t.Cleanup(func() { _ = s.asker.Close() })
	})
	return s.asker
}

// Kill ends the server with SIGKILL and returns when it is gone. What it held
// in memory is lost. A second call does nothing.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.process.Kill()
}

// Stop freezes the server with SIGSTOP: its connections stay open and nobody
// answers, as in a long pause of the machine. [Server.Cont] ends it.
func (s *Server) Stop() { s.signal(syscall.SIGSTOP) }

// Cont lets a stopped server continue.
func (s *Server) Cont() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(signal os.Signal) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		s.t.Errorf("redistest: send %v to %s: %v", signal, s.Addr(), err)
	}
}

// Restart kills the server if it runs, and starts it again with the same port,
// folder and arguments. It returns when the server serves. Data survives only if
// the arguments asked for persistence.
func (s *Server) Restart() {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.process.Kill()
	if err := s.run(); err != nil {
		// Errorf, as a nemesis may call this from another goroutine.
		s.t.Errorf("redistest: restart %s: %v", s.Addr(), err)
	}
}

// find returns the server that listens on addr, or nil.
func find(servers []*Server, addr string) *Server {
	for _, s := range servers {
		if s.Addr() == addr {
			return s
		}
	}
	return nil
}

func addrs(servers []*Server) []string {
	all := make([]string, len(servers))
	for i, s := range servers {
		all[i] = s.Addr()
	}
	return all
}

// withAddrs is a URL in the form that go-redis parses: the first address is the
// host, the others are parameters.
func withAddrs(servers []*Server, parameters url.Values) string {
	if parameters == nil {
		parameters = url.Values{}
	}
	for _, s := range servers[1:] {
		parameters.Add("addr", s.Addr())
	}
	u := url.URL{Scheme: "redis", Host: servers[0].Addr(), RawQuery: parameters.Encode()}
	return u.String()
}

// alive reports whether the process exists. A stopped one does.
func (s *Server) alive() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process.Alive()
}

// Log is what the server has written since its last start.
func (s *Server) Log() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process.Log()
}
