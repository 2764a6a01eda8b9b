package recipes_test

import (
	"context"
	"database/sql"
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/redlatch/redlatch/core/fence"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/core/redisstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for something. It is only spent when
// something is broken.
const patience = time.Minute

// stores are what each test runs on.
var stores = map[string]func(t *testing.T) lock.Store{
	"memory": func(*testing.T) lock.Store { return memstore.New() },
	"redis": func(t *testing.T) lock.Store {
		t.Helper()
		return redisstore.New(startRedis(t))
	},
}

// startRedis starts a server that listens on a socket in a folder, so that it needs
// no port.
func startRedis(t *testing.T) *redis.Client {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil && os.Getenv("REDLATCH_REQUIRE_SERVERS") == "1" {
		t.Fatalf("%v: run scripts/install-servers.sh (make test does)", err)
	}
	if err != nil {
		t.Skipf("\n\n*** SKIPPED, NOT TESTED: %v ***\n\n", err)
	}
	dir, err := os.MkdirTemp("", "redis") //nolint:usetesting // that of the test is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "socket")
	server := exec.Command(path, "--port", "0", "--unixsocket", socket, "--save", "", "--dir", dir)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = server.Process.Kill(), server.Wait() })
	client := redis.NewClient(&redis.Options{Network: "unix", Addr: socket})
	t.Cleanup(func() { _ = client.Close() })
	eventually(t, "Redis answers", func() bool { return client.Ping(t.Context()).Err() == nil })
	return client
}

// process is one of a fleet: its locker shares the store with the others.
func process(t *testing.T, store lock.Store) *lock.Locker {
	t.Helper()
	locker := lock.New(store)
	t.Cleanup(func() { _ = locker.Close(context.Background()) })
	return locker
}

//go:embed schema.sql
var schema string

// database returns an empty database with the tables of schema.sql and one of guards.
func database(t *testing.T) (*sql.DB, *fence.Guards) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "test.db")+"?_busy_timeout=60000&_journal_mode=wal&_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	guards, err := fence.NewGuards(fence.SQLite, "guards", fence.Columns{})
	if err != nil {
		t.Fatal(err)
	}
	run(t, db, schema)
	run(t, db, guards.Schema())
	return db, guards
}

func run(t *testing.T, db *sql.DB, statement string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// query returns the first column of all rows.
func query[T any](t *testing.T, db *sql.DB, statement string, args ...any) (all []T) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), statement, args...)
	if err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var one T
		if err := rows.Scan(&one); err != nil {
			t.Fatal(err)
		}
		all = append(all, one)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// force takes a lock away from its holder, which doesn't notice before it renews.
func force(t *testing.T, store lock.Store, key string) {
	t.Helper()
	if freed, err := process(t, store).ForceRelease(t.Context(), key); err != nil || !freed {
		t.Errorf("%s: freed %v, %v", key, freed, err)
	}
}

func await[T any](t *testing.T, what string, from <-chan T) (got T) {
	t.Helper()
	select {
	case got = <-from:
	case <-time.After(patience):
		t.Fatalf("%s: nothing after %v", what, patience)
	}
	return got
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !is(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not after %v", what, patience)
		}
	}
}
