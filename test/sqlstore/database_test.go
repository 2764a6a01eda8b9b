package sqlstore_test

import (
	"context"
	"database/sql"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/sqlstore"
	"github.com/redlatch/redlatch/core/storetest"
)

// everyMode is what a store in a database has.
var everyMode = storetest.Require(lock.Exclusive, lock.Fair, lock.Read, lock.Write, lock.Semaphore)

// postgres opens a pool as the store should have it.
func postgres(t testing.TB, address string, change func(*pgx.ConnConfig)) *sql.DB {
	t.Helper()
	config, err := pgx.ParseConfig(address)
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(config)
	}
	return pool(t, planted(stdlib.OpenDB(*config), stdlib.GetConnector(*config)), 8)
}

// mariadb opens a pool as the store should have it.
func mariadb(t testing.TB, address string, change func(*mysql.Config)) *sql.DB {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	config := mysql.NewConfig()
	config.User = u.User.Username()
	config.Passwd, _ = u.User.Password()
	config.Net, config.Addr, config.DBName = "tcp", u.Host, strings.Trim(u.Path, "/")
	if change != nil {
		change(config)
	}
	return open(t, "mysql", config.FormatDSN(), 8)
}

// sqlite opens a pool as the store should have it: with one connection, as there is one
// writer.
func sqlite(t testing.TB, file string) *sql.DB {
	t.Helper()
	return open(t, "sqlite", "file:"+file+"?_pragma=busy_timeout(10000)&_pragma=journal_mode(wal)&_pragma=synchronous(normal)&_txlock=immediate", 1)
}

func open(t testing.TB, driver, address string, connections int) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, address)
	if err != nil {
		t.Fatal(err)
	}
	return pool(t, planted(db, dsn{db.Driver(), address}), connections)
}

func pool(t testing.TB, db *sql.DB, connections int) *sql.DB {
	t.Helper()
	t.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	return db
}

// store returns a store whose tables are there.
func store(t testing.TB, db *sql.DB, d sqlstore.Dialect, opts ...sqlstore.Option) *sqlstore.Store {
	t.Helper()
	s, err := sqlstore.New(db, d, opts...)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// crossed is two stores as two processes have them: all that one hears of the other comes
// through the database.
type crossed struct {
	*sqlstore.Store
	other *sqlstore.Store
}

func (c crossed) Watch(ctx context.Context, claim lock.Claim, wake func()) (func(), error) {
	return c.other.Watch(ctx, claim, wake)
}

// otherSettings skips a run of the suite that differs by settings of the database only.
func otherSettings(t *testing.T) {
	t.Helper()
	if os.Getenv("REDLATCH_DATABASE_SETTINGS") == "" {
		t.Skip("takes minutes: run make test-databases")
	}
}

// contract runs the suite on two stores that share the tables. The suite mostly waits, so
// all runs are parallel.
func contract(t *testing.T, d sqlstore.Dialect, open func() *sql.DB, opts ...sqlstore.Option) {
	t.Helper()
	s, other := store(t, open(), d, opts...), store(t, open(), d, opts...)
	t.Run("two processes", func(t *testing.T) {
		t.Parallel()
		storetest.Run(t, func(*testing.T) lock.Store { return crossed{s, other} }, everyMode)
	})
}

// alone runs the suite on a store.
func alone(t *testing.T, d sqlstore.Dialect, open func() *sql.DB, opts ...sqlstore.Option) {
	t.Helper()
	s := store(t, open(), d, opts...)
	t.Run("one process", func(t *testing.T) {
		t.Parallel()
		storetest.Run(t, func(*testing.T) lock.Store { return s }, everyMode)
	})
}

func TestContractOnPostgreSQL(t *testing.T) {
	t.Parallel()
	address := sharedPostgres.database(t)
	contract(t, sqlstore.PostgreSQL, func() *sql.DB { return postgres(t, address, nil) })
	t.Run("serializable by default, without prepared statements", func(t *testing.T) {
		otherSettings(t)
		alone(t, sqlstore.PostgreSQL, func() *sql.DB {
			return postgres(t, address, func(c *pgx.ConnConfig) {
				c.DefaultQueryExecMode = pgx.QueryExecModeExec
				c.RuntimeParams["default_transaction_isolation"] = "serializable"
			})
		})
	})
}

func TestContractOnMariaDB(t *testing.T) {
	t.Parallel()
	address := sharedMariaDB.database(t)
	contract(t, sqlstore.MySQL, func() *sql.DB { return mariadb(t, address, nil) })
	t.Run("read committed, found rows, no prepared statements", func(t *testing.T) {
		otherSettings(t)
		alone(t, sqlstore.MySQL, func() *sql.DB {
			return mariadb(t, address, func(c *mysql.Config) {
				c.Params = map[string]string{"tx_isolation": "'READ-COMMITTED'"}
				c.ClientFoundRows, c.InterpolateParams = true, true
			})
		})
	})
}

func TestContractOnSQLite(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "locks.db")
	contract(t, sqlstore.SQLite, func() *sql.DB { return sqlite(t, file) })
	t.Run("alone", func(t *testing.T) {
		otherSettings(t) // behind PgBouncer it runs all the time
		alone(t, sqlstore.SQLite, func() *sql.DB { return sqlite(t, file) })
	})
}
