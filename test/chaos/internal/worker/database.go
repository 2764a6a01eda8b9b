package worker

import (
	"context"
	"database/sql"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/redlatch/redlatch/contrib/pgxlisten"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/sqlstore"
	"github.com/redlatch/redlatch/test/chaos/internal/bug"
)

// dialer connects to an address, or around it.
type dialer func(ctx context.Context, network, addr string) (net.Conn, error)

// postgres is how to connect to PostgreSQL. Requests have the text of their statement, so
// that a proxy finds it.
func postgres(address string, dial dialer) (*pgx.ConnConfig, error) {
	config, err := pgx.ParseConfig(address)
	if err != nil {
		return nil, err
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	if dial != nil {
		config.DialFunc = pgconn.DialFunc(dial)
	}
	return config, nil
}

// OpenDatabase opens a pool for a URL; dial may be nil.
func OpenDatabase(address string, dial dialer) (*sql.DB, error) {
	if strings.HasPrefix(address, "postgres") {
		config, err := postgres(address, dial)
		if err != nil {
			return nil, err
		}
		return pool(stdlib.OpenDB(*config)), nil
	}
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	config := mysql.NewConfig()
	config.User = u.User.Username()
	config.Passwd, _ = u.User.Password()
	config.Net, config.Addr, config.DBName = "tcp", u.Host, strings.Trim(u.Path, "/")
	config.InterpolateParams, config.Logger = true, quiet{}
	if dial != nil {
		config.DialFunc = dial
	}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, err
	}
	return pool(sql.OpenDB(connector)), nil
}

// quiet logs nothing: connections are cut all the time.
type quiet struct{}

func (quiet) Print(...any) {}

func pool(db *sql.DB) *sql.DB {
	db.SetMaxOpenConns(poolSize / 2)
	db.SetMaxIdleConns(poolSize / 2)
	return db
}

// warm makes the connections of a pool, unless the server is down. The first call on a new
// one takes as long as many later ones.
func warm(db *sql.DB) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	var made [poolSize / 2]*sql.Conn
	var making sync.WaitGroup
	for i := range made {
		making.Go(func() {
			var n int
			if conn, err := db.Conn(ctx); err == nil {
				_ = conn.QueryRowContext(ctx, "SELECT COUNT(*) FROM redlatch_locks").Scan(&n)
				made[i] = conn
			}
		})
	}
	making.Wait()
	for _, conn := range made {
		if conn != nil {
			_ = conn.Close()
		}
	}
}

// database is a store in tables. Every second worker of PostgreSQL listens, and the others
// poll.
func (r Redis) database(planted *bug.Bug) (lock.Store, func() error, error) {
	address := r.Database
	if !planted.Flushes() {
		address += "&synchronous_commit=off"
	}
	db, err := OpenDatabase(address, r.dial)
	if err != nil {
		return nil, nil, err
	}
	warm(db)
	opts := []sqlstore.Option{sqlstore.WithLogger(slog.New(slog.DiscardHandler))}
	dialect := sqlstore.MySQL
	if r.Topology == PostgreSQL {
		dialect = sqlstore.PostgreSQL
		config, err := postgres(r.Database, r.dial)
		if err != nil {
			return nil, nil, err
		}
		if r.Listens {
			opts = append(opts, sqlstore.WithListener(pgxlisten.New(config)))
		}
	}
	store, err := sqlstore.New(db, dialect, opts...)
	if err != nil {
		return nil, nil, err
	}
	return planted.In(store, nil), db.Close, nil
}
