package readme_test

import (
	"context"
	"database/sql"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/sqlstore"
	"github.com/redlatch/redlatch/test/internal/sqltest"
)

// withoutRedis calls use with what docs/without-redis.md opens.
func withoutRedis(ctx context.Context, address string, use func(*sql.DB, *sqlstore.Store, *lock.Locker) error) error {
	db, err := sql.Open("pgx", address)
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(8)
	store, err := sqlstore.New(db, sqlstore.PostgreSQL)
	if err != nil {
		return err
	}
	if err := store.Check(ctx); err != nil { // says which statements are missing
		return err
	}
	locker := lock.New(store)
	defer db.Close()
	defer locker.Close(context.WithoutCancel(ctx))
	return use(db, store, locker)
}

func sellInTx(ctx context.Context, db *sql.DB, store *sqlstore.Store, locker *lock.Locker) error {
	err := store.InTx(ctx, locker, db, "stock:42", func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE stock SET n = n - 1 WHERE id = 42 AND n > 0")
		return err
	})
	return err
}

func TestLocksWithoutRedis(t *testing.T) {
	address := sqltest.Postgres(t)
	setUp, err := sql.Open("pgx", address)
	if err != nil {
		t.Fatal(err)
	}
	defer setUp.Close()
	tables, err := sqlstore.New(setUp, sqlstore.PostgreSQL)
	if err != nil {
		t.Fatal(err)
	}
	if err := tables.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{"CREATE TABLE stock (id INT, n INT)", "INSERT INTO stock VALUES (42, 3)"} {
		if _, err := setUp.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	err = withoutRedis(t.Context(), address, func(db *sql.DB, store *sqlstore.Store, locker *lock.Locker) error {
		return sellInTx(t.Context(), db, store, locker)
	})
	if err != nil {
		t.Fatal(err)
	}
	var left int
	if err := setUp.QueryRowContext(t.Context(), "SELECT n FROM stock").Scan(&left); err != nil || left != 2 {
		t.Errorf("%d are left, %v; want 2", left, err)
	}
}
