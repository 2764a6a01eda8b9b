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
	"syscall"
	"testing"
	"time"

	"github.com/redlatch/redlatch/test/internal/process"
)

const (
	name     = "redlatch" // of the user and of the database
	password = "redlatch"

	// patience is only ever spent when something is broken.
	patience = 2 * time.Minute
)

// server is what both kinds have in common.
type server struct {
	t          testing.TB
	dir        string
	credential *syscall.Credential
	quit       os.Signal
}

// newServer makes the folder. It isn't t.TempDir, whose path can be too long
// for a socket and is closed to other users.
func newServer(t testing.TB, quit os.Signal) *server {
	t.Helper()
	dir, err := os.MkdirTemp("", "redlatch-sql") //nolint:usetesting // see above
	if err != nil {
		t.Fatalf("sqltest: %v", err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("sqltest: clean up: %v", err)
		}
	})
	return &server{t: t, dir: dir, quit: quit}
}

// asSystemUser makes the server run as the first of the users that exists, and
// gives it the folder. Servers that refuse to run as root need it.
func (s *server) asSystemUser(names ...string) {
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

func (s *server) path(name string) string { return filepath.Join(s.dir, name) }

// file writes a file that the server can read.
func (s *server) file(name, content string) string {
	s.t.Helper()
	path := s.path(name)
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		s.t.Fatalf("sqltest: %v", err)
	}
	return path
}

func (s *server) spec(binary string, args []string) process.Spec {
	return process.Spec{
		Path: binary, Args: args, Dir: s.dir, Credential: s.credential,
		Log: s.path(filepath.Base(binary) + ".log"),
	}
}

// run runs a program to its end.
func (s *server) run(stdin, binary string, args ...string) {
	s.t.Helper()
	spec := s.spec(binary, args)
	spec.Stdin = strings.NewReader(stdin)
	if err := process.Run(spec); err != nil {
		s.t.Fatalf("sqltest: %v", err)
	}
}

// serve starts the server and returns its port once the log contains ready.
func (s *server) serve(binary, ready string, args func(port int) []string) int {
	s.t.Helper()
	var err error
	for range 5 { // somebody else can be faster to listen on the port
		port := process.Port(s.t)
		var p *process.Process
		if p, err = process.Start(s.spec(binary, args(port))); err != nil {
			break
		}
		if err = p.Await(patience, p.Contains(ready)); err == nil {
			s.t.Cleanup(func() { s.end(p) })
			return port
		}
		p.Kill()
		if !strings.Contains(err.Error(), "Address already in use") {
			break
		}
	}
	s.t.Fatalf("sqltest: %v", err)
	return 0
}

func (s *server) end(p *process.Process) {
	p.Shutdown(s.quit, 30*time.Second)
	if s.t.Failed() {
		s.t.Logf("sqltest: log of the server:\n%s", p.Log())
	}
}

func dsn(scheme string, port int, parameters url.Values) string {
	u := url.URL{
		Scheme: scheme, User: url.UserPassword(name, password),
		Host: process.LoopbackAddr(port), Path: "/" + name, RawQuery: parameters.Encode(),
	}
	return u.String()
}
