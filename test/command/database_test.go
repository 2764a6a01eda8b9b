package command_test

import (
	"context"
	"database/sql"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	_ "modernc.org/sqlite"             // the driver "sqlite"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/sqlstore"
	"github.com/redlatch/redlatch/test/internal/sqltest"
)

// database is one that the command is given by its URL.
type database struct {
	url     string
	dialect sqlstore.Dialect
	pool    *sql.DB
}

func databases() map[string]func(t *testing.T) database {
	return map[string]func(t *testing.T) database{
		"PostgreSQL": func(t *testing.T) database {
			t.Helper()
			address := sqltest.Postgres(t)
			return database{address, sqlstore.PostgreSQL, pool(t, "pgx", address)}
		},
		"MariaDB": func(t *testing.T) database {
			t.Helper()
			address := sqltest.MariaDB(t)
			u := parsed(t, address)
			config := mysql.NewConfig()
			config.User = u.User.Username()
			config.Passwd, _ = u.User.Password()
			config.Net, config.Addr, config.DBName = "tcp", u.Host, strings.Trim(u.Path, "/")
			return database{address, sqlstore.MySQL, pool(t, "mysql", config.FormatDSN())}
		},
		"SQLite": func(t *testing.T) database {
			t.Helper()
			file := filepath.Join(t.TempDir(), "locks of 100%.db")
			db := pool(t, "sqlite", "file:"+(&url.URL{Path: file}).EscapedPath()+"?_pragma=busy_timeout(10000)&_pragma=journal_mode(wal)&_txlock=immediate")
			db.SetMaxOpenConns(1)
			if err := db.PingContext(t.Context()); err != nil { // the file is there
				t.Fatal(err)
			}
			return database{"sqlite:" + (&url.URL{Path: file}).EscapedPath(), sqlstore.SQLite, db}
		},
	}
}

func parsed(t *testing.T, address string) *url.URL {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func pool(t *testing.T, driver, address string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func (d database) store(t *testing.T) *sqlstore.Store {
	t.Helper()
	s, err := sqlstore.New(d.pool, d.dialect)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestLocksInADatabase(t *testing.T) {
	for name, start := range databases() {
		t.Run(name, func(t *testing.T) {
			d := start(t)
			s := newShell(t, "REDLATCH_DB="+d.url)

			out, stderr, code := s.run("doctor")
			if code != 69 || !strings.Contains(out, "CREATE TABLE") {
				t.Errorf("doctor without tables: %d\n%s%s", code, out, stderr)
			}
			store := d.store(t)
			if err := store.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			if out, stderr, code := s.run("doctor"); code != 0 || strings.Count(out, "ok ") != 8 {
				t.Errorf("doctor: %d\n%s%s", code, out, stderr)
			}
			if _, stderr, code := s.run("ls"); code != 75 || !strings.Contains(stderr, name[:5]) && name != "MariaDB" || strings.Contains(stderr, "redlatch:redlatch@") {
				t.Errorf("ls of nothing: %d, %s", code, stderr)
			}

			holder := lock.New(store, lock.WithIdentity(lock.Identity{Service: "checkout", Host: "web-3", PID: 812}), lock.WithWatchdog(time.Second))
			t.Cleanup(func() { _ = holder.Close(context.Background()) })
			lease, err := holder.Acquire(t.Context(), "order:1")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := holder.Acquire(t.Context(), "order:api", lock.WithPermits(2, 3)); err != nil {
				t.Fatal(err)
			}
			s.eventually("names and fences", func() bool {
				out, _, _ = s.run("ls", "order:*")
				for _, held := range []string{"order:1 +exclusive", "order:api +semaphore"} {
					if !regexp.MustCompile(held + ` +checkout@web-3 pid 812 +\S+ +\S+ +\d{15,} `).MatchString(out) {
						return false
					}
				}
				return true
			})
			if out, _, code := s.run("show", "order:1"); code != 0 || !strings.Contains(out, "by     checkout@web-3 pid 812") {
				t.Errorf("show: %d\n%s", code, out)
			}
			if out, _, _ := s.run("__complete", "show", "order:a"); !strings.HasPrefix(out, "order:api\n") {
				t.Errorf("completes %q", out)
			}

			if _, _, code := s.run("run", "order:1", "--", "true"); code != 75 {
				t.Errorf("run of a busy lock: %d, want 75", code)
			}
			waiter := s.file("waiter")
			_, waited := s.background("run", "order:1", "--wait", "30s", "--", "sh", "-c", "echo $REDLATCH_FENCE > "+waiter+"; exit 3")
			if _, stderr, code := s.run("release", "order:1", "--yes", "--reason", "a test"); code != 0 || !strings.Contains(stderr, `"reason":"a test"`) {
				t.Errorf("release: %d, %s", code, stderr)
			}
			<-lease.Context().Done()
			s.code("who waited", waited, 3)
			if fence := strings.TrimSpace(s.read(waiter)); len(fence) < 15 {
				t.Errorf("fence %q", fence)
			}

			if _, _, code := s.run("lead", "scheduler", "--", "sh", "-c", "exit 4"); code != 4 {
				t.Errorf("lead: %d, want 4", code)
			}
		})
	}
}

func TestTheURLOfADatabase(t *testing.T) {
	address := sqltest.Postgres(t)
	u := parsed(t, address)
	secret, _ := u.User.Password()
	u.User = url.User(u.User.Username())
	s := newShell(t)
	for name, tt := range map[string]struct {
		env  []string
		args []string
		code int
		says string
	}{
		"a password in argv":         {nil, []string{"--db", address}, 64, "everybody"},
		"a password as a parameter":  {nil, []string{"--db", u.String() + "&password=" + secret}, 64, "everybody"},
		"a password in a variable":   {[]string{"REDLATCH_PASSWORD=" + secret}, []string{"--db", u.String()}, 69, "redlatch_locks"},
		"a wrong password":           {[]string{"REDLATCH_PASSWORD=wrong"}, []string{"--db", u.String()}, 69, "authentication"},
		"no server":                  {nil, []string{"--db", "postgres://127.0.0.1:1/app"}, 69, "refused"},
		"no MySQL":                   {nil, []string{"--db", "mysql://locks@127.0.0.1:1/app"}, 69, "refused"},
		"no file":                    {nil, []string{"--db", "sqlite:" + filepath.Join(t.TempDir(), "none.db")}, 69, "open"},
		"another scheme":             {nil, []string{"--db", "oracle://db/app"}, 64, "postgres://"},
		"MySQL without a database":   {nil, []string{"--db", "mysql://locks@127.0.0.1"}, 64, "mysql://"},
		"a CA that isn't there":      {nil, []string{"--db", u.String(), "--tls-ca", "none.pem"}, 64, "none.pem"},
		"Redis as well":              {nil, []string{"--db", u.String(), "--redis", "redis://127.0.0.1"}, 64, "exclude"},
		"Redis in the environment":   {[]string{"REDLATCH_REDIS=redis://127.0.0.1:1", "REDLATCH_DB=" + address}, nil, 64, "both"},
		"Redis by flag":              {[]string{"REDLATCH_DB=" + address}, []string{"--redis", "redis://127.0.0.1:1"}, 69, "127.0.0.1:1"},
		"a flag for Redis":           {nil, []string{"--db", u.String(), "--setnx"}, 64, "--setnx"},
		"a database by flag, though": {[]string{"REDLATCH_REDIS=redis://127.0.0.1:1", "REDLATCH_PASSWORD=" + secret}, []string{"--db", u.String()}, 69, "redlatch_locks"},
	} {
		s.env = append(newShell(t).env, tt.env...)
		out, stderr, code := s.run(append([]string{"ls"}, tt.args...)...)
		if code != tt.code || !strings.Contains(stderr, tt.says) {
			t.Errorf("%s: exit code %d, want %d with %q: %s%s", name, code, tt.code, tt.says, out, stderr)
		}
		if strings.Contains(stderr, ":"+secret+"@") || strings.Contains(stderr, "password="+secret) {
			t.Errorf("%s: the password is shown: %s", name, stderr)
		}
	}
}
