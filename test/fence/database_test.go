package fence_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/redlatch/redlatch/core/fence"
	"github.com/redlatch/redlatch/test/internal/sqltest"
)

// database is one that the promises are tried on.
type database struct {
	*sql.DB
	dialect   fence.Dialect
	immediate bool // a transaction keeps all others out from its beginning
}

func TestSQLite(t *testing.T) {
	for _, how := range []string{"immediate", "deferred"} {
		t.Run(how+" transactions", func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "fence.db")
			address := "file:" + file + "?_busy_timeout=60000&_journal_mode=wal&_txlock=" + how
			promises(t, database{open(t, "sqlite", address), fence.SQLite, how == "immediate"})
		})
	}
}

func TestMariaDB(t *testing.T) {
	u := parse(t, sqltest.MariaDB(t))
	for _, found := range []bool{false, true} {
		t.Run(fmt.Sprint("clientFoundRows=", found), func(t *testing.T) {
			config := mysql.NewConfig()
			config.User = u.User.Username()
			config.Passwd, _ = u.User.Password()
			config.Net, config.Addr, config.DBName = "tcp", u.Host, strings.Trim(u.Path, "/")
			config.ClientFoundRows = found
			promises(t, database{open(t, "mysql", config.FormatDSN()), fence.MySQL, false})
		})
	}
}

func TestPostgreSQL(t *testing.T) {
	address := sqltest.Postgres(t)
	for name, mode := range map[string]pgx.QueryExecMode{
		"prepared statements": pgx.QueryExecModeCacheStatement, "simple protocol": pgx.QueryExecModeSimpleProtocol,
	} {
		t.Run(name, func(t *testing.T) {
			config, err := pgx.ParseConfig(address)
			if err != nil {
				t.Fatal(err)
			}
			config.DefaultQueryExecMode = mode
			db := stdlib.OpenDB(*config)
			t.Cleanup(func() { _ = db.Close() })
			promises(t, database{db, fence.PostgreSQL, false})
		})
	}
}

func parse(t *testing.T, address string) *url.URL {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := net.SplitHostPort(u.Host); err != nil {
		t.Fatal(err)
	}
	return u
}

func open(t *testing.T, driver, address string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(16)
	return db
}

// number makes names of tables that no other test has.
var number atomic.Int32

func (db database) name(kind string) string { return fmt.Sprint(kind, "_", number.Add(1)) }

// exec runs a statement with question marks.
func (db database) exec(t *testing.T, on fence.Conn, statement string, args ...any) sql.Result {
	t.Helper()
	result, err := on.ExecContext(t.Context(), db.numbered(statement), args...)
	if err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	return result
}

func (db database) numbered(statement string) string {
	if db.dialect != fence.PostgreSQL {
		return statement
	}
	for n := 1; strings.Contains(statement, "?"); n++ {
		statement = strings.Replace(statement, "?", fmt.Sprint("$", n), 1)
	}
	return statement
}

// querier is what database/sql runs queries on.
type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func (db database) count(t *testing.T, on querier, statement string, args ...any) int {
	t.Helper()
	n, err := db.tryCount(t.Context(), on, statement, args...)
	if err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	return n
}

func (db database) tryCount(ctx context.Context, on querier, statement string, args ...any) (n int, err error) {
	err = on.QueryRowContext(ctx, db.numbered(statement), args...).Scan(&n)
	return n, err
}

func (db database) begin(t *testing.T) *sql.Tx {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

func commit(t *testing.T, tx *sql.Tx) {
	t.Helper()
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
}

// inTx repeats do, in a transaction, until the database has no objection.
func (db database) inTx(ctx context.Context, do func(tx *sql.Tx) error) (err error) {
	for range 200 {
		if err = db.once(ctx, do); err == nil || errors.Is(err, fence.ErrStale) {
			return err
		}
	}
	return err
}

func (db database) once(ctx context.Context, do func(tx *sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after a commit it does nothing
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// stock is a table of the user's, with a row 1 whose val is 0.
func (db database) stock(t *testing.T) (*fence.Table, string) {
	t.Helper()
	name := db.name("stock")
	db.exec(t, db, "CREATE TABLE "+name+" (id INT NOT NULL PRIMARY KEY, val INT NOT NULL, fence BIGINT NOT NULL DEFAULT 0, fence_owner VARCHAR(32) NOT NULL DEFAULT '')")
	db.exec(t, db, "INSERT INTO "+name+" (id, val) VALUES (1, 0)")
	table, err := fence.NewTable(db.dialect, name, fence.Columns{})
	if err != nil {
		t.Fatal(err)
	}
	return table, name
}

func (db database) guards(t *testing.T) *fence.Guards {
	t.Helper()
	guards, err := fence.NewGuards(db.dialect, db.name("guards"), fence.Columns{Key: "lock_key", Owner: "owner"})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second changes nothing
		db.exec(t, db, guards.Schema())
	}
	return guards
}
