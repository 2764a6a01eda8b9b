package fence_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jmoiron/sqlx"
	gormmysql "gorm.io/driver/mysql"
	gormpostgres "gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/callbacks"
	"gorm.io/gorm/logger"

	"github.com/redlatch/redlatch/core/fence"
	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/test/internal/sqltest"
)

// Stock is the row as docs/fencing.md shows it: GORM reads the fence, and never writes it.
type Stock struct {
	ID         int64
	N          int64
	Fence      int64  `gorm:"->"`
	FenceOwner string `gorm:"->"`
}

// careless is the same row with columns that GORM writes.
type careless struct {
	ID, N      int64
	Fence      int64
	FenceOwner string
}

// saveUnderLock is what docs/fencing.md shows for GORM.
func saveUnderLock(ctx context.Context, locker *lock.Locker, db *gorm.DB, table *fence.Table, id int64, change func(*Stock)) error {
	return locker.Do(ctx, "stock", func(ctx context.Context) error {
		lease, _ := lock.FromContext(ctx)
		token, err := fence.Of(lease)
		if err != nil {
			return err
		}
		return db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
			if err := table.Claim(ctx, tx.Statement.ConnPool, id, token); err != nil {
				return err // fence.ErrStale: a newer holder was here
			}
			var row Stock
			if err := tx.First(&row, id).Error; err != nil {
				return err
			}
			change(&row)
			return tx.Save(&row).Error
		})
	})
}

// gormSQLite is GORM's dialect of SQLite without its driver, which needs a compiler of C: it
// quotes as MySQL does, and has no clauses of its own.
type gormSQLite struct{ *gormmysql.Dialector }

func (gormSQLite) Name() string { return "sqlite" }

func (d gormSQLite) Initialize(db *gorm.DB) error {
	callbacks.RegisterDefaultCallbacks(db, &callbacks.Config{})
	db.ConnPool = d.Conn
	return nil
}

// gormOn opens GORM on a database of the tests, with a table of rows that have a fence.
func gormOn(t *testing.T, name string) (*gorm.DB, database) {
	t.Helper()
	var db database
	var dialector gorm.Dialector
	switch name {
	case "MariaDB":
		db = database{openMariaDB(t), fence.MySQL, false}
		dialector = gormmysql.New(gormmysql.Config{Conn: db.DB})
	case "PostgreSQL":
		db = database{open(t, "pgx", sqltest.Postgres(t)), fence.PostgreSQL, false}
		dialector = gormpostgres.New(gormpostgres.Config{Conn: db.DB})
	case "SQLite":
		db = openSQLite(t)
		dialector = gormSQLite{&gormmysql.Dialector{Config: &gormmysql.Config{Conn: db.DB}}}
	}
	orm, err := gorm.Open(dialector, &gorm.Config{Logger: logger.Discard})
	if err != nil {
		t.Fatal(err)
	}
	return orm, db
}

func openSQLite(t *testing.T) database {
	t.Helper()
	return database{open(t, "sqlite", "file:"+t.TempDir()+"/x.db?_busy_timeout=60000&_journal_mode=wal&_txlock=immediate"), fence.SQLite, true}
}

func openMariaDB(t *testing.T) *sql.DB {
	t.Helper()
	u := parse(t, sqltest.MariaDB(t))
	password, _ := u.User.Password()
	return open(t, "mysql", u.User.Username()+":"+password+"@tcp("+u.Host+")/"+strings.Trim(u.Path, "/"))
}

// shelf makes a table with one row, and what fences it.
func (db database) shelf(t *testing.T) (name string, table *fence.Table) {
	t.Helper()
	name = db.name("stock")
	db.exec(t, db, "CREATE TABLE "+name+" (id BIGINT PRIMARY KEY, n BIGINT NOT NULL, fence BIGINT NOT NULL DEFAULT 0, fence_owner VARCHAR(32) NOT NULL DEFAULT '')")
	db.exec(t, db, "INSERT INTO "+name+" (id, n) VALUES (1, 0)")
	table, err := fence.NewTable(db.dialect, name, fence.Columns{})
	if err != nil {
		t.Fatal(err)
	}
	return name, table
}

// tokens are those of two holders, the first of which is late.
func tokens(t *testing.T) (late, newer fence.Token) {
	t.Helper()
	return fence.New(64, "late"), fence.New(128, "newer")
}

// A Save of GORM writes all columns of the row, the fence as it was read among them: a late
// holder is let in afterwards.
func TestASaveOfGORMPutsNoOldFenceBack(t *testing.T) {
	for _, name := range []string{"MariaDB", "PostgreSQL", "SQLite"} {
		t.Run(name, func(t *testing.T) {
			orm, db := gormOn(t, name)
			for kind, test := range map[string]struct {
				read func(*gorm.DB) any // the row, before the newer holder's claim
				want error              // what the late holder gets behind the Save
			}{
				"as the manual shows": {func(tx *gorm.DB) any { row := &Stock{}; tx.First(row, 1); row.N = 7; return row }, fence.ErrStale},
				"carelessly":          {func(tx *gorm.DB) any { row := &careless{}; tx.First(row, 1); row.N = 7; return row }, nil},
			} {
				t.Run(kind, func(t *testing.T) {
					table, fenced := db.shelf(t)
					late, newer := tokens(t)
					rows := orm.Table(table).Session(&gorm.Session{Context: t.Context()})
					row := test.read(rows)
					err := rows.Transaction(func(tx *gorm.DB) error {
						if err := fenced.Claim(t.Context(), tx.Statement.ConnPool, 1, newer); err != nil {
							return err
						}
						return tx.Save(row).Error
					})
					if err != nil {
						t.Fatal(err)
					}
					if n := db.count(t, db, "SELECT n FROM "+table); n != 7 {
						t.Errorf("n is %d", n)
					}
					if err := fenced.Claim(t.Context(), db, 1, late); !errors.Is(err, test.want) {
						t.Errorf("the late holder got %v, want %v", err, test.want)
					}
				})
			}
		})
	}
}

func TestGORMKeepsTheLockUntilTheCommit(t *testing.T) {
	for _, name := range []string{"MariaDB", "PostgreSQL", "SQLite"} {
		t.Run(name, func(t *testing.T) {
			orm, db := gormOn(t, name)
			table, fenced := db.shelf(t)
			locker := guardtest.Locker(t, memstore.New())
			counted(t, func() error {
				return saveUnderLock(t.Context(), locker, orm.Table(table), fenced, 1, func(row *Stock) { row.N++ })
			})
			if n := db.count(t, db, "SELECT n FROM "+table); n != callers {
				t.Errorf("counted %d of %d", n, callers)
			}
		})
	}
}

const callers = 20

// counted calls f by many at once, each of which must succeed.
func counted(t *testing.T, f func() error) {
	t.Helper()
	failed := make(chan error, callers)
	for range callers {
		go func() { failed <- f() }()
	}
	for range callers {
		if err := guardtest.Receive(t, failed, "the end of a call"); err != nil {
			t.Error(err)
		}
	}
}

// A transaction of sqlx is one of database/sql.
func TestSQLXKeepsTheLockUntilTheCommit(t *testing.T) {
	for name, newDB := range map[string]func(t *testing.T) database{
		"SQLite":  openSQLite,
		"MariaDB": func(t *testing.T) database { t.Helper(); return database{openMariaDB(t), fence.MySQL, false} },
		"PostgreSQL": func(t *testing.T) database {
			t.Helper()
			return database{open(t, "pgx", sqltest.Postgres(t)), fence.PostgreSQL, false}
		},
	} {
		t.Run(name, func(t *testing.T) {
			db := newDB(t)
			table, fenced := db.shelf(t)
			locker := guardtest.Locker(t, memstore.New())
			x := sqlx.NewDb(db.DB, map[string]string{"SQLite": "sqlite3", "MariaDB": "mysql", "PostgreSQL": "pgx"}[name])
			counted(t, func() error {
				return fenced.InTx(t.Context(), locker, x, "stock", 1, func(ctx context.Context, tx *sql.Tx) error {
					inside := sqlx.Tx{Tx: tx, Mapper: x.Mapper}
					var row struct{ N int }
					if err := inside.GetContext(ctx, &row, "SELECT n FROM "+table+" WHERE id = 1"); err != nil {
						return err
					}
					_, err := inside.ExecContext(ctx, db.numbered("UPDATE "+table+" SET n = ? WHERE id = 1"), row.N+1)
					return err
				})
			})
			if n := db.count(t, db, "SELECT n FROM "+table); n != callers {
				t.Errorf("counted %d of %d", n, callers)
			}
		})
	}
}

// pgxConn is a transaction of pgx as package fence needs it. docs/fencing.md shows it.
type pgxConn struct{ pgx.Tx }

func (c pgxConn) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	tag, err := c.Exec(ctx, query, args...)
	return pgxResult{tag}, err
}

func (c pgxConn) ScanRow(ctx context.Context, query string, args []any, dest ...any) error {
	return c.QueryRow(ctx, query, args...).Scan(dest...)
}

type pgxResult struct{ pgconn.CommandTag }

func (r pgxResult) RowsAffected() (int64, error) { return r.CommandTag.RowsAffected(), nil }
func (r pgxResult) LastInsertId() (int64, error) { return 0, errors.New("PostgreSQL has none") }

// pgxUnderLock is what docs/fencing.md shows for pgx.
func pgxUnderLock(ctx context.Context, locker *lock.Locker, db *pgx.Conn, guards *fence.Guards, key string, work func(context.Context, pgx.Tx) error) error {
	return locker.Do(ctx, key, func(ctx context.Context) error {
		lease, _ := lock.FromContext(ctx)
		token, err := fence.Of(lease)
		if err != nil {
			return err
		}
		return pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
			if err := guards.Claim(ctx, pgxConn{tx}, key, token); err != nil {
				return err // fence.ErrStale: a newer holder was here
			}
			return work(ctx, tx)
		})
	})
}

func TestPGXKeepsTheLockUntilTheCommit(t *testing.T) {
	address := sqltest.Postgres(t)
	db := database{open(t, "pgx", address), fence.PostgreSQL, false}
	table, fenced := db.shelf(t)
	guards, err := fence.NewGuards(fence.PostgreSQL, db.name("guards"), fence.Columns{})
	if err != nil {
		t.Fatal(err)
	}
	db.exec(t, db, guards.Schema())
	locker := guardtest.Locker(t, memstore.New())
	counted(t, func() error {
		conn, err := pgx.Connect(t.Context(), address)
		if err != nil {
			return err
		}
		defer conn.Close(context.WithoutCancel(t.Context()))
		return pgxUnderLock(t.Context(), locker, conn, guards, "stock", func(ctx context.Context, tx pgx.Tx) error {
			var n int
			if err := tx.QueryRow(ctx, "SELECT n FROM "+table+" WHERE id = 1").Scan(&n); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, "UPDATE "+table+" SET n = $1 WHERE id = 1", n+1)
			return err
		})
	})
	if n := db.count(t, db, "SELECT n FROM "+table); n != callers {
		t.Errorf("counted %d of %d", n, callers)
	}

	conn, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	late, newer := tokens(t)
	claim := func(id int, token fence.Token) error {
		return pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error { return fenced.Claim(t.Context(), pgxConn{tx}, id, token) })
	}
	for name, test := range map[string]struct{ got, want error }{
		"the newer":  {claim(1, newer), nil},
		"the late":   {claim(1, late), fence.ErrStale},
		"again":      {claim(1, newer), nil},
		"of no row":  {claim(2, newer), sql.ErrNoRows},
		"of no rows": {fenced.Claim(t.Context(), execOnly{db}, 2, newer), lock.ErrInvalid},
	} {
		if !errors.Is(test.got, test.want) {
			t.Errorf("%s: got %v, want %v", name, test.got, test.want)
		}
	}
}

// execOnly is a connection that reads nothing.
type execOnly struct{ fence.Conn }
