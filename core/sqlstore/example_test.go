package sqlstore_test

import (
	"context"
	"database/sql"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/sqlstore"
)

// Locks in PostgreSQL, in a pool of their own. The driver is the program's: here pgx, with
// github.com/jackc/pgx/v5/stdlib imported for it.
func ExampleNew() {
	open := func(ctx context.Context, address string) (*lock.Locker, error) {
		db, err := sql.Open("pgx", address)
		if err != nil {
			return nil, err
		}
		db.SetMaxOpenConns(8)
		store, err := sqlstore.New(db, sqlstore.PostgreSQL)
		if err != nil {
			return nil, err
		}
		if err := store.Check(ctx); err != nil { // says which statements are missing
			return nil, err
		}
		return lock.New(store), nil
	}
	_ = open
}

// A stock that is sold under a lock: the sale is committed together with the release.
func ExampleStore_InTx() {
	sell := func(ctx context.Context, store *sqlstore.Store, locker *lock.Locker, db *sql.DB, item string) error {
		return store.InTx(ctx, locker, db, "stock:"+item, func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "UPDATE stock SET n = n - 1 WHERE item = $1 AND n > 0", item)
			return err
		})
	}
	_ = sell
}
