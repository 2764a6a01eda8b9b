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
	initdb := process.Find(t, "initdb")
	binary := process.Find(t, "postgres")

	// SIGQUIT is the immediate shutdown. After a SIGKILL a segment of System V
	// shared memory would stay behind.
	s := newServer(t, syscall.SIGQUIT)
	if syscall.Geteuid() == 0 {
		s.asSystemUser("postgres", "nobody")
	}
	data := s.path("data")
	s.run("", initdb, "--pgdata="+data, "--username="+name, "--pwfile="+s.file("password", password),
		"--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-sync")
	s.run("CREATE DATABASE "+name+"\n", binary, "--single", "-D", data, "template1")

	port := s.serve(binary, "database system is ready to accept connections", func(port int) []string {
		return []string{
			"-D", data, "-p", strconv.Itoa(port), "-c", "listen_addresses=127.0.0.1",
			"-c", "unix_socket_directories=", "-c", "fsync=off", "-c", "max_connections=200",
		}
	})
	return dsn("postgres", port, url.Values{"sslmode": {"disable"}})
}
