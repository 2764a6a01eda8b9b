package sqlstore_test

import (
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/sqlstore"
	"github.com/redlatch/redlatch/test/internal/process"
)

// pgBouncer starts a pooler in transaction mode in front of a server, and returns its
// address.
func pgBouncer(t *testing.T, address string) string {
	t.Helper()
	binary := process.Find(t, "pgbouncer")
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "redlatch-pooler") //nolint:usetesting // another user must read it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	spec := process.Spec{Path: binary, Dir: dir, Log: filepath.Join(dir, "log")}
	if os.Geteuid() == 0 { // it refuses to run as root
		nobody, err := user.Lookup("nobody")
		if err != nil {
			t.Fatal(err)
		}
		uid, _ := strconv.ParseUint(nobody.Uid, 10, 32)
		gid, _ := strconv.ParseUint(nobody.Gid, 10, 32)
		spec.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		if err := os.Chown(dir, int(uid), int(gid)); err != nil {
			t.Fatal(err)
		}
	}
	port := process.Port(t)
	password, _ := u.User.Password()
	ini := fmt.Sprintf(`[databases]
* = host=%s port=%s user=%s password=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 6
max_client_conn = 200
ignore_startup_parameters = extra_float_digits
`, u.Hostname(), u.Port(), u.User.Username(), password, port)
	if err := os.WriteFile(filepath.Join(dir, "ini"), []byte(ini), 0o644); err != nil {
		t.Fatal(err)
	}
	spec.Args = []string{filepath.Join(dir, "ini")}
	p, err := process.Start(spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	if err := p.Await(time.Minute, p.Contains("process up")); err != nil {
		t.Fatalf("%v\n%s", err, p.Log())
	}
	u.Host = process.LoopbackAddr(port)
	return u.String()
}

// No call has state in its session, so that any connection of a pooler does, and
// notifications come around it.
func TestContractBehindPgBouncer(t *testing.T) {
	t.Parallel()
	address := sharedPostgres.database(t)
	pooler := pgBouncer(t, address)
	unprepared := func(c *pgx.ConnConfig) { c.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol }
	alone(t, sqlstore.PostgreSQL, func() *sql.DB { return postgres(t, pooler, unprepared) }, sqlstore.WithListener(listener(t, address)))
}

// A pooler that doesn't know prepared statements refuses them in the end: Check says so,
// or all is well, with one that does (from 1.21).
func TestPreparedStatementsBehindPgBouncer(t *testing.T) {
	t.Parallel()
	address := sharedPostgres.database(t)
	pooler := pgBouncer(t, address)
	store(t, postgres(t, address, nil), sqlstore.PostgreSQL)
	s, err := sqlstore.New(postgres(t, pooler, nil), sqlstore.PostgreSQL)
	if err != nil {
		t.Fatal(err)
	}
	for range 50 {
		if err = s.Check(t.Context()); err != nil {
			break
		}
	}
	if err != nil && lock.ClassOf(err) != "prepared statements behind a pooler" {
		t.Errorf("got %v of class %q", err, lock.ClassOf(err))
	}
}
