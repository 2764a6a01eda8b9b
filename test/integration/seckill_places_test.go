package integration_test

import (
	"database/sql"
	"errors"
	neturl "net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
	"github.com/redlatch/redlatch/core/sqlstore"
	"github.com/redlatch/redlatch/test/internal/redistest"
	"github.com/redlatch/redlatch/test/internal/sqltest"
)

// place is where the sale keeps its locks and its orders.
type place struct {
	flags  []string
	orders string // URL of the database with the orders
	store  lock.Store
	held   func() ([]string, error) // the keys that are held
}

// inEachPlace runs a test with locks in Redis and orders in MariaDB, and with both in
// PostgreSQL.
func inEachPlace(t *testing.T, run func(t *testing.T, p place)) {
	t.Helper()
	t.Run("Redis", func(t *testing.T) {
		t.Parallel()
		server, orders := redistest.Standalone(t), sqltest.MariaDB(t)
		run(t, place{[]string{"--redis", server.URL(), "--db", orders}, orders, redisstore.New(server.Client(t)), func() ([]string, error) {
			keys, err := server.Admin(t).Keys(t.Context(), "*").Result()
			return slices.DeleteFunc(keys, func(key string) bool { return strings.HasPrefix(key, "redlatch:client:") }), err
		}})
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		run(t, inPostgres(t, sqltest.Postgres(t)))
	})
}

// inPostgres is one database for both.
func inPostgres(t *testing.T, url string) place {
	t.Helper()
	db := openOrders(t, url)
	store, err := sqlstore.New(db, sqlstore.PostgreSQL)
	if err != nil {
		t.Fatal(err)
	}
	return place{[]string{"--locks", "database", "--db", url}, url, store, func() (keys []string, err error) {
		rows, err := db.QueryContext(t.Context(), "SELECT name FROM redlatch_locks WHERE expires > extract(epoch FROM clock_timestamp()) * 1000000")
		if err != nil {
			return nil, err
		}
		defer rows.Close()
		for rows.Next() {
			var key []byte
			if err := rows.Scan(&key); err != nil {
				return nil, err
			}
			keys = append(keys, string(key))
		}
		return keys, rows.Err()
	}}
}

// openOrders opens a database by its URL.
func openOrders(t *testing.T, url string) (db *sql.DB) {
	t.Helper()
	u, err := neturl.Parse(url)
	if err != nil {
		t.Fatal(err)
	}
	if u.Scheme == "postgres" {
		config, err := pgx.ParseConfig(url)
		if err != nil {
			t.Fatal(err)
		}
		db = stdlib.OpenDB(*config)
	} else {
		config := mysql.NewConfig()
		config.User, config.DBName = u.User.Username(), strings.Trim(u.Path, "/")
		config.Passwd, _ = u.User.Password()
		config.Net, config.Addr = "tcp", u.Host
		connector, err := mysql.NewConnector(config)
		if err != nil {
			t.Fatal(err)
		}
		db = sql.OpenDB(connector)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// holdOrders keeps the orders of a user from being placed, until letGo is called.
func holdOrders(t *testing.T, url, user string) (letGo func()) {
	t.Helper()
	tx, err := openOrders(t, url).BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(t.Context(), "INSERT INTO order_guards (user_id, fence, owner) VALUES ('"+user+"', 0, '')"); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
	}
}

// The database with the locks and the orders is killed, twice, under a crowd.
func TestTheDatabaseWithLocksAndOrdersIsKilled(t *testing.T) {
	binary := seckillBinary(t)
	server := sqltest.StartPostgres(t)
	p := inPostgres(t, server.URL())
	instances := three(t, binary, append(p.flags, "--watchdog", "1s")...)
	load := letLoose(t, binary, instances,
		"--users", "800", "--clicks", "5", "--concurrency", "48", "--stock", "300", "--retry-timeout", "2m")
	for range 2 {
		eventually(t, func() error { // it is at work
			keys, err := p.held() // the pool may have connections of before the fault
			if err == nil && len(keys) == 0 {
				err = errors.New("no lock is held")
			}
			return err
		})
		server.Kill()
		<-time.After(200 * time.Millisecond) // for requests to find nothing
		server.Restart()
		eventually(t, func() error { return openOrders(t, server.URL()).PingContext(t.Context()) })
	}
	if table, holds := load.verdict(t); !holds {
		t.Fatalf("broken:\n%s", table)
	}
}
