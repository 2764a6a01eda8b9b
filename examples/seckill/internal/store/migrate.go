package store

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"

	"github.com/redlatch/redlatch/core/fence"
)

//go:embed migrations
var migrations embed.FS

// dialects is what each database understands. A turn is a lock of the
// server that ends with the connection at the latest.
var dialects = [...]struct {
	folder               string
	goose                goose.Dialect
	fence                fence.Dialect
	takeTurn, returnTurn string
}{
	engineSQLite: {folder: "sqlite", goose: goose.DialectSQLite3, fence: fence.SQLite},
	engineMySQL: {
		"mysql", goose.DialectMySQL, fence.MySQL,
		"SELECT GET_LOCK(CONCAT('seckill:', MD5(DATABASE())), 3600)",
		"DO RELEASE_LOCK(CONCAT('seckill:', MD5(DATABASE())))",
	},
	enginePostgres: {
		"postgres", goose.DialectPostgres, fence.PostgreSQL,
		"SELECT 1 FROM (SELECT pg_advisory_lock(hashtext('seckill'))) AS turn",
		"SELECT pg_advisory_unlock(hashtext('seckill'))",
	},
}

// migrate brings the tables up to date, one instance at a time.
func migrate(ctx context.Context, e engine, db *sql.DB) error {
	folder, err := fs.Sub(migrations, "migrations/"+dialects[e].folder)
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(dialects[e].goose, db, folder, goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return err
	}
	up := func() error {
		_, err := provider.Up(ctx)
		return err
	}
	if dialects[e].takeTurn == "" {
		return repeat(ctx, up)
	}
	return inTurn(ctx, e, db, up)
}

// inTurn calls do while no other instance does.
func inTurn(ctx context.Context, e engine, db *sql.DB, do func() error) (err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	var got sql.NullInt64
	if err := conn.QueryRowContext(ctx, dialects[e].takeTurn).Scan(&got); err != nil {
		return fmt.Errorf("wait for another instance to migrate the database: %w", err)
	}
	if got.Int64 != 1 {
		return errors.New("migrate the database: another instance has been migrating it for too long")
	}
	defer func() {
		_, unlockErr := conn.ExecContext(context.WithoutCancel(ctx), dialects[e].returnTurn)
		err = errors.Join(err, unlockErr)
	}()
	return do()
}

// repeat is for SQLite, which has no such lock, but takes back a whole
// migration that fails because another instance was first: next time there is
// nothing left to do.
func repeat(ctx context.Context, up func() error) error {
	for attempt := 1; ; attempt++ {
		err := up()
		if err == nil || attempt == maxAttempts || pause(ctx, attempt) != nil {
			return err
		}
	}
}
