package peer

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/redlatch/redlatch/contrib/pgxlisten"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/sqlstore"
	"github.com/redlatch/redlatch/test/internal/process"
	"github.com/redlatch/redlatch/test/internal/sqltest"
)

// Databases lists the peers whose server flushes what it commits.
var Databases = []Peer{
	{Name: OnPostgres, Server: startPostgres, prepare: migrating(onPostgres, sqlstore.PostgreSQL), Library: true, Ours: true, Open: openPostgres},
	{Name: OnNotified, Server: startPostgres, prepare: migrating(onPostgres, sqlstore.PostgreSQL), Library: true, Ours: true, Open: openNotified},
	{Name: OnMariaDB, Server: startMariaDB, prepare: migrating(mariadb, sqlstore.MySQL), Library: true, Ours: true, Open: openMariaDB},
	{Name: OnSQLite, Server: newFile, prepare: migrating(sqlite, sqlstore.SQLite), Library: true, Ours: true, Open: openSQLite},
	{Name: OnFlushed, Settings: []string{"--appendonly", "yes", "--appendfsync", "always"}, Library: true, Ours: true, Open: openRedlatch()},
	{Name: Pglock, Server: startPostgres, prepare: preparePglock, Library: true, Open: openPglock},
	{Name: Session, Server: startPostgres, Open: openSession},
	{Name: ForUpdate, Server: startPostgres, prepare: prepareRows, Open: openRows},
}

func startPostgres(h process.Host) string {
	return sqltest.StartPostgres(h, "fsync=on", "max_connections=300").URL()
}

func startMariaDB(h process.Host) string {
	return sqltest.StartMariaDB(h, "--innodb-flush-log-at-trx-commit=1").URL()
}

func newFile(h process.Host) string { return filepath.Join(h.TempDir(), "locks.db") }

// Serve starts the database with the tables of the peer, and returns its address.
func (p Peer) Serve(ctx context.Context, h process.Host) (addr string, err error) {
	addr = p.Server(h)
	if p.prepare != nil {
		err = p.prepare(ctx, addr)
	}
	return addr, err
}

// fewConnections is the pool that docs/without-redis.md advises.
const fewConnections = 8

// statements counts the statements of a pool of PostgreSQL.
type statements struct{ n atomic.Int64 }

func (s *statements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	s.n.Add(1)
	return ctx
}

func (*statements) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// Statements implements [Counting].
func (s *statements) Statements() int64 { return s.n.Load() }

// postgres opens a pool whose statements are counted.
func postgres(addr string, connections int) (*sql.DB, *statements, error) {
	config, err := pgx.ParseConfig(addr)
	if err != nil {
		return nil, nil, err
	}
	count := new(statements)
	config.Tracer = count
	return sized(stdlib.OpenDB(*config), connections), count, nil
}

func mariadb(addr string) (*sql.DB, error) {
	u, err := url.Parse(addr)
	if err != nil {
		return nil, err
	}
	config := mysql.NewConfig()
	config.User = u.User.Username()
	config.Passwd, _ = u.User.Password()
	config.Net, config.Addr, config.DBName = "tcp", u.Host, strings.Trim(u.Path, "/")
	db, err := sql.Open("mysql", config.FormatDSN())
	return sized(db, fewConnections), err
}

// sqlite opens a file with one connection, as there is one writer.
func sqlite(file string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(10000)&_pragma=journal_mode(wal)&_pragma=synchronous(normal)&_txlock=immediate")
	return sized(db, 1), err
}

func sized(db *sql.DB, connections int) *sql.DB {
	if db != nil {
		db.SetMaxOpenConns(connections)
		db.SetMaxIdleConns(connections)
	}
	return db
}

// counted is a locker on PostgreSQL.
type counted struct {
	redlatch
	*statements
}

func openPostgres(s Settings) (Locker, error) {
	db, count, err := postgres(s.Addr, fewConnections)
	if err != nil {
		return nil, err
	}
	l, err := onDatabase(s, db, sqlstore.PostgreSQL)
	return counted{l, count}, err
}

func openNotified(s Settings) (Locker, error) {
	db, count, err := postgres(s.Addr, fewConnections)
	if err != nil {
		return nil, err
	}
	config, err := pgx.ParseConfig(s.Addr)
	if err != nil {
		return nil, err
	}
	l, err := onDatabase(s, db, sqlstore.PostgreSQL, sqlstore.WithListener(pgxlisten.New(config)))
	return counted{l, count}, err
}

func openMariaDB(s Settings) (Locker, error) {
	db, err := mariadb(s.Addr)
	if err != nil {
		return nil, err
	}
	return onDatabase(s, db, sqlstore.MySQL)
}

func openSQLite(s Settings) (Locker, error) {
	db, err := sqlite(s.Addr)
	if err != nil {
		return nil, err
	}
	return onDatabase(s, db, sqlstore.SQLite)
}

func onDatabase(s Settings, db *sql.DB, d sqlstore.Dialect, opts ...sqlstore.Option) (redlatch, error) {
	store, err := sqlstore.New(db, d, opts...)
	if err != nil {
		return redlatch{}, err
	}
	return redlatch{rdb: db, locker: lock.New(store, lock.WithWatchdog(s.Lease))}, nil
}

// migrating makes the tables of a dialect.
func migrating(open func(addr string) (*sql.DB, error), d sqlstore.Dialect) func(context.Context, string) error {
	return func(ctx context.Context, addr string) error {
		db, err := open(addr)
		if err != nil {
			return err
		}
		defer db.Close() //nolint:errcheck // the table is there
		store, err := sqlstore.New(db, d)
		if err != nil {
			return err
		}
		return store.Migrate(ctx)
	}
}

func onPostgres(addr string) (*sql.DB, error) {
	db, _, err := postgres(addr, 1)
	return db, err
}

// errNoLock is what an unlock of a lock that wasn't held returns.
var errNoLock = errors.New("peer: not locked")

// session is advisory locks of a session: each caller that has one, or waits for one, has a
// connection.
type session struct {
	db *sql.DB
	*statements
}

type sessionLock struct {
	conn *sql.Conn
	key  string
}

func openSession(s Settings) (Locker, error) {
	db, count, err := postgres(s.Addr, 0)
	if err != nil {
		return nil, err
	}
	db.SetMaxIdleConns(manyConnections)
	return session{db, count}, nil
}

// manyConnections are as many as one process has callers, where each needs one.
const manyConnections = 64

func (l session) Lock(ctx context.Context, key string) (Held, error) {
	conn, err := l.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := conn.ExecContext(ctx, "SELECT pg_advisory_lock(hashtextextended($1, 0))", key); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return sessionLock{conn, key}, nil
}

func (l session) TryLock(ctx context.Context, key string) (Held, error) {
	conn, err := l.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	granted := false
	err = conn.QueryRowContext(ctx, "SELECT pg_try_advisory_lock(hashtextextended($1, 0))", key).Scan(&granted)
	if err == nil && !granted {
		err = ErrBusy
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return sessionLock{conn, key}, nil
}

func (l session) Keep(ctx context.Context, key string) (Held, error) { return l.Lock(ctx, key) }
func (l session) Close() error                                       { return l.db.Close() }

func (l sessionLock) Unlock(ctx context.Context) error {
	had := false
	err := l.conn.QueryRowContext(ctx, "SELECT pg_advisory_unlock(hashtextextended($1, 0))", l.key).Scan(&had)
	if err == nil && !had {
		err = errNoLock
	}
	return errors.Join(err, l.conn.Close())
}

// rows is SELECT FOR UPDATE: the lock is a transaction.
type rows struct {
	db *sql.DB
	*statements
}

type rowLock struct{ tx *sql.Tx }

func prepareRows(ctx context.Context, addr string) error {
	db, err := onPostgres(addr)
	if err != nil {
		return err
	}
	defer db.Close() //nolint:errcheck // the table is there
	_, err = db.ExecContext(ctx, "CREATE TABLE peer_rows (key text PRIMARY KEY)")
	return err
}

func openRows(s Settings) (Locker, error) {
	db, count, err := postgres(s.Addr, 0)
	if err != nil {
		return nil, err
	}
	db.SetMaxIdleConns(manyConnections)
	return rows{db, count}, nil
}

func (l rows) Lock(ctx context.Context, key string) (Held, error) {
	return l.lock(ctx, "SELECT key FROM peer_rows WHERE key = $1 FOR UPDATE", key)
}

func (l rows) TryLock(ctx context.Context, key string) (Held, error) {
	held, err := l.lock(ctx, "SELECT key FROM peer_rows WHERE key = $1 FOR UPDATE SKIP LOCKED", key)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, ErrBusy
	}
	return held, err
}

func (l rows) Keep(ctx context.Context, key string) (Held, error) { return l.Lock(ctx, key) }
func (l rows) Close() error                                       { return l.db.Close() }

// lock begins a transaction that has the row. A row that isn't there is made first.
func (l rows) lock(ctx context.Context, query, key string) (Held, error) {
	held, err := l.begin(ctx, query, key)
	if !errors.Is(err, sql.ErrNoRows) {
		return held, err
	}
	if _, err := l.db.ExecContext(ctx, "INSERT INTO peer_rows VALUES ($1) ON CONFLICT DO NOTHING", key); err != nil {
		return nil, err
	}
	return l.begin(ctx, query, key)
}

func (l rows) begin(ctx context.Context, query, key string) (Held, error) {
	tx, err := l.db.BeginTx(context.WithoutCancel(ctx), nil) // it outlives the context of the call
	if err != nil {
		return nil, err
	}
	var found string
	if err := tx.QueryRowContext(ctx, query, key).Scan(&found); err != nil {
		_ = tx.Rollback()
		return nil, err
	}
	return rowLock{tx}, nil
}

func (l rowLock) Unlock(context.Context) error { return l.tx.Commit() }
