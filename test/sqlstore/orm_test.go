package sqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	gormpostgres "gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/redlatch/redlatch/contrib/pgxlisten"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/sqlstore"
)

var errWrong = errors.New("wrong")

// others are transactions of other libraries, which count up and release the lock.
func TestTransactionsOfOthersReleaseTheLock(t *testing.T) {
	t.Parallel()
	address := sharedPostgres.database(t)
	w := newWorld(t, sqlstore.PostgreSQL, func() *sql.DB { return postgres(t, address, nil) })
	s, l := w.locker(t)
	for name, count := range map[string]func(ctx context.Context, lease *lock.Lease, failed error) error{
		"pgx":               countInPgx(t, address, s),
		"GORM":              countInGORM(t, w.data, s, false),
		"GORM, PrepareStmt": countInGORM(t, w.data, s, true),
	} {
		t.Run(name, func(t *testing.T) {
			before := w.count(t)
			for _, failed := range []error{errWrong, nil} {
				lease, err := l.Acquire(t.Context(), stock)
				if err != nil {
					t.Fatal(err)
				}
				if err := count(t.Context(), lease, failed); !errors.Is(err, failed) {
					t.Fatal(err)
				}
				state, err := l.Inspect(t.Context(), stock)
				if err != nil || state.Held != (failed != nil) {
					t.Errorf("behind %v: held %v, %v", failed, state.Held, err)
				}
				if err := lease.Release(t.Context()); err != nil {
					t.Error(err)
				}
			}
			if got := w.count(t); got != before+1 {
				t.Errorf("counted %d, want one", got-before)
			}
		})
	}
}

func countInPgx(t *testing.T, address string, s *sqlstore.Store) func(context.Context, *lock.Lease, error) error {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return func(ctx context.Context, lease *lock.Lease, failed error) error {
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "UPDATE counter SET n = n + 1"); err != nil {
				return err
			}
			if err := s.ReleaseTx(ctx, pgxlisten.Tx{Tx: tx}, lease); err != nil {
				return err
			}
			return failed
		})
	}
}

func countInGORM(t *testing.T, data *sql.DB, s *sqlstore.Store, prepare bool) func(context.Context, *lock.Lease, error) error {
	t.Helper()
	db, err := gorm.Open(gormpostgres.New(gormpostgres.Config{Conn: data}), &gorm.Config{PrepareStmt: prepare, Logger: logger.Discard})
	if err != nil {
		t.Fatal(err)
	}
	return func(ctx context.Context, lease *lock.Lease, failed error) error {
		return db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
			if err := tx.Exec("UPDATE counter SET n = n + 1").Error; err != nil {
				return err
			}
			if err := s.ReleaseTx(ctx, tx.Statement.ConnPool, lease); err != nil {
				return err
			}
			return failed
		})
	}
}
