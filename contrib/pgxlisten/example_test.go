package pgxlisten_test

import (
	"database/sql"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/redlatch/redlatch/contrib/pgxlisten"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/sqlstore"
)

// A pool for the locks, and a listener that connects to the same server.
func Example() {
	open := func(address string) (*lock.Locker, *sql.DB, error) {
		config, err := pgx.ParseConfig(address)
		if err != nil {
			return nil, nil, err
		}
		db := stdlib.OpenDB(*config)
		db.SetMaxOpenConns(8)
		store, err := sqlstore.New(db, sqlstore.PostgreSQL, sqlstore.WithListener(pgxlisten.New(config)))
		if err != nil {
			return nil, nil, err
		}
		return lock.New(store), db, nil
	}
	_ = open
}
