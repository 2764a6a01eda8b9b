package world

import (
	"context"
	"database/sql"

	"github.com/redlatch/redlatch/core/sqlstore"
	"github.com/redlatch/redlatch/test/chaos/internal/worker"
	"github.com/redlatch/redlatch/test/internal/sqltest"
)

// Database is where locks are in tables.
type Database struct {
	URL  string
	pool *sql.DB // around the proxies
}

// database starts a server that forgets nothing when it is killed, and makes the tables. It
// needs no fsync for that, as the machine stays.
func (w *World) database() error {
	var server *sqltest.Server
	dialect := sqlstore.PostgreSQL
	if w.Topology == worker.PostgreSQL {
		server = sqltest.StartPostgres(w.Program, "max_connections=500")
	} else {
		server = sqltest.StartMariaDB(w.Program, "--innodb-flush-log-at-trx-commit=2")
		dialect = sqlstore.MySQL
	}
	w.Servers = []Server{server}
	pool, err := worker.OpenDatabase(server.URL(), nil)
	if err != nil {
		return err
	}
	w.Cleanup(func() { _ = pool.Close() })
	w.Database = &Database{server.URL(), pool}
	store, err := sqlstore.New(pool, dialect)
	if err != nil {
		return err
	}
	return store.Migrate(w.Context())
}

// Ping returns when the database has answered.
func (d *Database) Ping(ctx context.Context) error {
	_, err := d.pool.ExecContext(ctx, "SELECT 1")
	return err
}

// rows calls f for every key that somebody holds or queues for.
func (d *Database) rows(ctx context.Context, f func(key string, names []string) error) error {
	now := "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
	if d.URL[:5] == "mysql" {
		now = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"
	}
	rows, err := d.pool.QueryContext(ctx, "SELECT name, owner, more, expires - "+now+" FROM redlatch_locks WHERE expires > "+now)
	if err != nil {
		return err
	}
	defer rows.Close() //nolint:errcheck // Err has what matters
	for rows.Next() {
		var name, more []byte
		var owner string
		var left int64
		if err := rows.Scan(&name, &owner, &more, &left); err != nil {
			return err
		}
		var found []string
		for _, match := range owners.FindAllStringSubmatch(owner+string(more), -1) {
			found = append(found, match[1])
		}
		if err := f(string(name), found); err != nil {
			return err
		}
	}
	return rows.Err()
}

// leftRows is what is left in a database: at once that of lockers that were killed or that
// kept it, and nothing when all has expired.
func (w *World) leftRows(ctx context.Context, crew *Crew) error {
	return w.Database.rows(ctx, func(key string, names []string) error {
		if crew == nil {
			return left(key, "when all has expired")
		}
		if crew.Forgetful {
			return nil
		}
		return crew.excuses(key, names)
	})
}
