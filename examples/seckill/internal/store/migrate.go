package store

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

//go:embed migrations
var migrations embed.FS

var dialects = [...]struct {
	folder string
	goose  goose.Dialect
}{
	engineSQLite:   {"sqlite", goose.DialectSQLite3},
	engineMySQL:    {"mysql", goose.DialectMySQL},
	enginePostgres: {"postgres", goose.DialectPostgres},
}

// migrate brings the tables up to date, one instance at a time.
func migrate(ctx context.Context, e engine, db *sql.DB) error {
	folder, err := fs.Sub(migrations, "migrations/"+dialects[e].folder)
	if err != nil {
		return err
	}
	options := []goose.ProviderOption{goose.WithDisableGlobalRegistry(true)}
	switch e {
	case engineMySQL:
		options = append(options, goose.WithSessionLocker(namedLock{}))
	case enginePostgres:
		locker, err := lock.NewPostgresSessionLocker()
		if err != nil {
			return err
		}
		options = append(options, goose.WithSessionLocker(locker))
	}
	provider, err := goose.NewProvider(dialects[e].goose, db, folder, options...)
	if err != nil {
		return err
	}
	if e != engineSQLite {
		_, err := provider.Up(ctx)
		return err
	}
	return migrateSQLite(ctx, provider)
}

// migrateSQLite goes without a lock: SQLite takes back a whole migration that
// fails because another instance was first, and then there is nothing left to
// do.
func migrateSQLite(ctx context.Context, provider *goose.Provider) error {
	for attempt := 1; ; attempt++ {
		_, err := provider.Up(ctx)
		if err == nil || attempt == maxAttempts {
			return err
		}
		if pause(ctx, attempt) != nil {
			return err
		}
	}
}

// namedLock is MySQL's GET_LOCK, which ends with the connection.
type namedLock struct{}

const (
	lockName = "CONCAT('seckill:', MD5(DATABASE()))"
	lockWait = 60 * time.Second
)

// SessionLock implements [lock.SessionLocker].
func (namedLock) SessionLock(ctx context.Context, conn *sql.Conn) error {
	var got sql.NullInt64
	query := fmt.Sprintf("SELECT GET_LOCK(%s, %d)", lockName, int(lockWait.Seconds()))
	if err := conn.QueryRowContext(ctx, query).Scan(&got); err != nil {
		return fmt.Errorf("lock the migration: %w", err)
	}
	if got.Int64 != 1 {
		return errors.New("lock the migration: another instance has been migrating for too long")
	}
	return nil
}

// SessionUnlock implements [lock.SessionLocker].
func (namedLock) SessionUnlock(ctx context.Context, conn *sql.Conn) error {
	_, err := conn.ExecContext(ctx, "DO RELEASE_LOCK("+lockName+")")
	return err
}
