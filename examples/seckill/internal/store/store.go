// Package store keeps vouchers and orders in SQLite, MySQL (or MariaDB) or
// PostgreSQL. The truth about the sale is here: whatever the lock in front
// does, nothing is sold twice to a user, nor more than there is.
//
//	PlaceOrder, one transaction:
//
//	  claim the user's guard row ── an older fence is refused
//	  look: ordered already? any left?
//	  remaining = remaining-1 WHERE remaining > 0
//	  insert the order ── unique (user, voucher)
//
// The guard row is claimed before anything is read: what was read can't be
// changed by a newer holder of the lock until the transaction ends.
package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/mysqldialect"
	"github.com/uptrace/bun/dialect/pgdialect"
	"github.com/uptrace/bun/dialect/sqlitedialect"
	"github.com/uptrace/bun/schema"
	"modernc.org/sqlite"

	"github.com/redlatch/redlatch/core/fence"
	"github.com/redlatch/redlatch/examples/seckill/internal/voucher"
)

// Store is a [voucher.Store] on a SQL database. Instances may share it.
type Store struct {
	engine engine
	// SQLite has one writer at a time, and callers queue better for the one
	// connection of a pool than they poll for the lock of the file. Elsewhere
	// the two are the same.
	read, write *bun.DB
	// guards has the newest fence that has ordered, by user.
	guards *fence.Guards
}

var _ voucher.Store = (*Store)(nil)

// maxConns bounds the connections of one instance to a database server.
const maxConns = 24

// maxLifetime is how long a connection is used.
const maxLifetime = 5 * time.Minute

// Open connects, and brings the tables up to date; instances that start at
// once take turns. The error says what couldn't be opened, where and why,
// without the password.
func Open(ctx context.Context, at Address) (*Store, error) {
	s, err := open(ctx, at)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", at, err)
	}
	return s, nil
}

func open(ctx context.Context, at Address) (*Store, error) {
	pools, dialect, err := connect(at)
	if err != nil {
		return nil, err
	}
	closeAll := func() {
		for _, pool := range pools {
			_ = pool.Close()
		}
	}
	if err := reach(ctx, pools[0]); err != nil {
		closeAll()
		return nil, err
	}
	if err := migrate(ctx, at.engine, pools[0]); err != nil {
		closeAll()
		return nil, fmt.Errorf("migrate: %w", err)
	}
	guards, err := fence.NewGuards(dialects[at.engine].fence, "order_guards", fence.Columns{Key: "user_id", Owner: "owner"})
	if err != nil {
		closeAll()
		return nil, err
	}
	s := &Store{engine: at.engine, guards: guards}
	s.write = bun.NewDB(pools[0], dialect())
	s.read = s.write
	if len(pools) == 2 {
		s.read = bun.NewDB(pools[1], dialect())
	}
	return s, nil
}

// connect returns the pool for writing, and where they differ one for reading.
func connect(at Address) (pools []*sql.DB, dialect func() schema.Dialect, err error) {
	switch at.engine {
	case engineSQLite:
		for _, size := range []int{1, max(4, runtime.GOMAXPROCS(0))} {
			connector, err := sqlite.NewConnector(at.sqlite)
			if err != nil {
				return nil, nil, err
			}
			pools = append(pools, sized(sql.OpenDB(connector), size))
		}
		return pools, func() schema.Dialect { return sqlitedialect.New() }, nil
	case engineMySQL:
		connector, err := mysql.NewConnector(at.mysql)
		if err != nil {
			return nil, nil, err
		}
		pools = append(pools, sized(sql.OpenDB(connector), maxConns))
		return pools, func() schema.Dialect { return mysqldialect.New() }, nil
	default:
		pools = append(pools, sized(stdlib.OpenDB(*at.postgres), maxConns))
		return pools, func() schema.Dialect { return pgdialect.New() }, nil
	}
}

func sized(db *sql.DB, conns int) *sql.DB {
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	// So that a database behind a balancer, or one that failed over, is found
	// again without a restart, also by connections that are never idle.
	db.SetConnMaxLifetime(maxLifetime)
	return db
}

// reach connects once. SQLite may find the file busy while another instance
// turns it to write-ahead logging, which doesn't wait.
func reach(ctx context.Context, db *sql.DB) error {
	return retry(ctx, func() error { return db.PingContext(ctx) })
}

// Ping says whether the database answers.
func (s *Store) Ping(ctx context.Context) error { return s.read.PingContext(ctx) }

// Close closes the connections.
func (s *Store) Close() error {
	err := s.write.Close()
	if s.read != s.write {
		err = errors.Join(err, s.read.Close())
	}
	return err
}
