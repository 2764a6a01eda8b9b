package sqlstore_test

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redlatch/redlatch/test/internal/process"
	"github.com/redlatch/redlatch/test/internal/sqltest"
)

// shared is a server for all tests of the package. It starts with the first of them, and
// each has a database of its own.
type shared struct {
	needs [][]string // programs, with their other names
	start func(process.Host) *sqltest.Server
	open  func(t testing.TB, address string) *sql.DB

	once      sync.Once
	server    *sqltest.Server
	databases atomic.Int64
}

var (
	sharedPostgres = &shared{
		needs: [][]string{{"initdb"}, {"postgres"}},
		start: func(h process.Host) *sqltest.Server { return sqltest.StartPostgres(h, "max_connections=900") },
		open:  func(t testing.TB, address string) *sql.DB { t.Helper(); return postgres(t, address, nil) },
	}
	sharedMariaDB = &shared{
		needs: [][]string{{"mariadb-install-db", "mysql_install_db"}, {"mariadbd", "mysqld"}},
		start: func(h process.Host) *sqltest.Server { return sqltest.StartMariaDB(h, "--max-connections=900") },
		open:  func(t testing.TB, address string) *sql.DB { t.Helper(); return mariadb(t, address, nil) },
	}
)

// database returns the URL of a new database.
func (s *shared) database(t testing.TB) string {
	t.Helper()
	u, err := url.Parse(s.running(t))
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("redlatch_%d_%d", os.Getpid(), s.databases.Add(1))
	if _, err := s.open(t, u.String()).ExecContext(t.Context(), "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + name
	return u.String()
}

// running returns the URL of the server, which may be that of the process that has started
// this one.
func (s *shared) running(t testing.TB) string {
	t.Helper()
	if server := os.Getenv(plantedServer); server != "" {
		return server
	}
	for _, names := range s.needs {
		process.Find(t, names...)
	}
	s.once.Do(func() { tests.Go(func() { s.server = s.start(tests) })() })
	if s.server == nil {
		t.Fatal("the server did not start")
	}
	return s.server.URL()
}

// tests is the run, which the shared servers end with.
var tests *process.Program

// withServers runs the tests, and then ends the servers.
type withServers struct{ *testing.M }

func (m withServers) Run() (code int) {
	broken := process.RunProgram(context.Background(), os.TempDir(), func(line string) { fmt.Fprintln(os.Stderr, line) }, func(p *process.Program) {
		tests, code = p, 1
		code = m.M.Run()
	})
	if broken != nil {
		fmt.Fprintln(os.Stderr, broken)
		return 1
	}
	return code
}
