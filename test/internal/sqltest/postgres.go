package sqltest

import (
	"net/url"
	"strconv"
	"syscall"
	"testing"

	"github.com/redlatch/redlatch/test/internal/process"
)

// Postgres starts a PostgreSQL server and returns the URL of its empty database,
// postgres://user:password@host:port/database?sslmode=disable. The user is a
// superuser.
func Postgres(t testing.TB) string {
	t.Helper()
	return StartPostgres(t).URL()
}

// StartPostgres is [Postgres] for tests that do more with the server than to use it. The
// settings, such as "fsync=on", override others.
func StartPostgres(t process.Host, settings ...string) *Server {
	t.Helper()
	initdb := process.Find(t, "initdb")
	binary := process.Find(t, "postgres")

	// SIGQUIT is the immediate shutdown. After a SIGKILL a segment of System V
	// shared memory would stay behind.
	s := newServer(t, "postgres", url.Values{"sslmode": {"disable"}}, syscall.SIGQUIT)
	if syscall.Geteuid() == 0 {
		s.asSystemUser("postgres", "nobody")
	}
	data := s.path("data")
	s.run("", initdb, "--pgdata="+data, "--username="+name, "--pwfile="+s.file("password", password),
		"--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-sync")
	s.run("CREATE DATABASE "+name+"\n", binary, "--single", "-D", data, "template1")

	s.servePostgres(binary, data, settings)
	return s
}

// StartStandby starts a server that follows another of [StartPostgres] under the name
// "standby", and has all that the other has when it returns. pg_promote() makes it one that
// follows nobody.
func StartStandby(t process.Host, primary *Server) *Server {
	t.Helper()
	backup := process.Find(t, "pg_basebackup")
	binary := process.Find(t, "postgres")
	s := newServer(t, "postgres", url.Values{"sslmode": {"disable"}}, syscall.SIGQUIT)
	if syscall.Geteuid() == 0 {
		s.asSystemUser("postgres", "nobody")
	}
	data := s.path("data")
	s.run("", backup, "--pgdata="+data, "--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast", "--no-sync",
		"--dbname="+primary.URL()+"&application_name=standby")
	s.servePostgres(binary, data, nil)
	return s
}

func (s *Server) servePostgres(binary, data string, settings []string) {
	s.t.Helper()
	s.serve(binary, "ready to accept", func(port int) []string {
		args := []string{
			"-D", data, "-p", strconv.Itoa(port), "-c", "listen_addresses=127.0.0.1",
			"-c", "unix_socket_directories=", "-c", "fsync=off", "-c", "max_connections=200",
		}
		for _, setting := range settings {
			args = append(args, "-c", setting)
		}
		return args
	})
}
