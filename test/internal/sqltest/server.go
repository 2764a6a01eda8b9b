// Package sqltest runs private SQL servers for tests, from the MariaDB and the
// PostgreSQL of the system: each in a temporary folder, on a free loopback port,
// with one empty database, and gone when the test ends.
//
// It speaks to no database itself, so that the library's module depends on no
// SQL driver.
package sqltest

import (
	"net/url"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redlatch/redlatch/test/internal/process"
)

const (
	name     = "redlatch" // of the user and of the database
	password = "redlatch"

	// patience is only ever spent when something is broken.
	patience = 2 * time.Minute
)

// Server is one that can be killed. Its methods may be called from any goroutine.
type Server struct {
	t          process.Host
	scheme     string
	parameters url.Values
	dir        string
	credential *syscall.Credential
	quit       os.Signal
	port       int
	binary     string
	ready      string // the line in the log after which it serves
	args       []string

	mu      sync.Mutex
	process *process.Process
}

// newServer makes the folder. It isn't t.TempDir, whose path can be too long
// for a socket and is closed to other users.
func newServer(t process.Host, scheme string, parameters url.Values, quit os.Signal) *Server {
	t.Helper()
	dir, err := os.MkdirTemp("", "redlatch-sql")
	if err != nil {
		t.Fatalf("sqltest: %v", err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("sqltest: clean up: %v", err)
		}
	})
	return &Server{t: t, scheme: scheme, parameters: parameters, dir: dir, quit: quit}
}

// asSystemUser makes the server run as the first of the users that exists, and
// gives it the folder. Servers that refuse to run as root need it.
func (s *Server) asSystemUser(names ...string) {
	s.t.Helper()
	for _, name := range names {
		account, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.ParseUint(account.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(account.Gid, 10, 32)
		if uidErr != nil || gidErr != nil {
			continue
		}
		if err := os.Chown(s.dir, int(uid), int(gid)); err != nil {
			s.t.Fatalf("sqltest: give the folder to %s: %v", name, err)
		}
		s.credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		return
	}
	s.t.Fatalf("sqltest: the server does not run as root, and none of the users %q exists", names)
}

func (s *Server) path(name string) string { return filepath.Join(s.dir, name) }

// file writes a file that the server can read.
func (s *Server) file(name, content string) string {
	s.t.Helper()
	path := s.path(name)
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		s.t.Fatalf("sqltest: %v", err)
	}
	return path
}

func (s *Server) spec(binary string, args []string) process.Spec {
	return process.Spec{
		Path: binary, Args: args, Dir: s.dir, Credential: s.credential,
		Log: s.path(filepath.Base(binary) + ".log"),
	}
}

// run runs a program to its end.
func (s *Server) run(stdin, binary string, args ...string) {
	s.t.Helper()
	spec := s.spec(binary, args)
	spec.Stdin = strings.NewReader(stdin)
	if err := process.Run(spec); err != nil {
		s.t.Fatalf("sqltest: %v", err)
	}
}

// serve starts the server on a free port.
func (s *Server) serve(binary, ready string, args func(port int) []string) {
	s.t.Helper()
	s.binary, s.ready = binary, ready
	var err error
	for range 5 { // somebody else can be faster to listen on the port
		s.port = process.Port(s.t)
		s.args = args(s.port)
		if err = s.start(); err == nil {
			s.t.Cleanup(s.end)
			return
		}
		if !strings.Contains(err.Error(), "Address already in use") {
			break
		}
	}
	s.t.Fatalf("sqltest: %v", err)
}

// start returns once the log contains the line.
func (s *Server) start() error {
	p, err := process.Start(s.spec(s.binary, s.args))
	if err != nil {
		return err
	}
	s.process = p
	if err := p.Await(patience, p.Contains(s.ready)); err != nil {
		p.Kill()
		return err
	}
	return nil
}

func (s *Server) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.signal(syscall.SIGCONT) // it may have been stopped
	s.process.Shutdown(s.quit, 30*time.Second)
	if s.t.Failed() {
		s.t.Logf("sqltest: log of the server:\n%s", s.process.Log())
	}
}

// Addr is host:port.
func (s *Server) Addr() string { return process.LoopbackAddr(s.port) }

// URL is that of the empty database: scheme://user:password@host:port/database.
func (s *Server) URL() string {
	u := url.URL{
		Scheme: s.scheme, User: url.UserPassword(name, password), Host: s.Addr(), Path: "/" + name, RawQuery: s.parameters.Encode(),
	}
	return u.String()
}

// Kill ends the server and its processes with SIGKILL, and returns when they are gone. A
// second call does nothing.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kill()
}

func (s *Server) kill() {
	if s.process.Alive() {
		_ = s.process.Signal(syscall.SIGSTOP) // so that it starts no other
		for _, pid := range s.children() {
			_ = syscall.Kill(pid, syscall.SIGKILL) // fails only if it has ended
		}
	}
	s.process.Kill()
}

// Stop freezes the server and its processes: connections stay open, and nobody answers.
// [Server.Cont] ends it.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.signal(syscall.SIGSTOP)
}

// Cont lets a stopped server continue.
func (s *Server) Cont() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.signal(syscall.SIGCONT)
}

func (s *Server) signal(signal syscall.Signal) {
	if !s.process.Alive() {
		return
	}
	_ = s.process.Signal(signal) // fails only if it has ended
	for _, pid := range s.children() {
		_ = syscall.Kill(pid, signal)
	}
}

// Pids are the processes of the server, as far as they can be told.
func (s *Server) Pids() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.process.Alive() {
		return nil
	}
	return append(s.children(), s.process.Pid())
}

// children are the processes that the server has started: PostgreSQL has one for each
// connection. Where there is no /proc, they end when they notice that it is gone.
func (s *Server) children() (pids []int) {
	pid := strconv.Itoa(s.process.Pid())
	list, err := os.ReadFile(filepath.Join("/proc", pid, "task", pid, "children"))
	if err != nil {
		return nil
	}
	for _, field := range strings.Fields(string(list)) {
		if child, err := strconv.Atoi(field); err == nil {
			pids = append(pids, child)
		}
	}
	return pids
}

// Restart kills the server if it runs, and starts it again on its port and its data. It
// returns when the server serves.
func (s *Server) Restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kill()
	err := s.start()
	for deadline := time.Now().Add(patience); err != nil && time.Now().Before(deadline); err = s.start() {
		continue // what was killed may not be gone
	}
	if err != nil {
		s.t.Errorf("sqltest: restart: %v", err) // a nemesis calls this from another goroutine
	}
}
