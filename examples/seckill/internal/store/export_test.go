package store

import (
	"context"
	"database/sql"

	"github.com/uptrace/bun"
)

// Exec runs a statement past the store.
func (s *Store) Exec(ctx context.Context, statement string) error {
	_, err := s.write.ExecContext(ctx, statement)
	return err
}

// MaxLifetime is how long a connection is used.
const MaxLifetime = maxLifetime

// Sized is a pool as the store has it.
var Sized = sized

// Through returns the store with another pool for its writes.
func (s *Store) Through(pool *sql.DB) *Store {
	through := *s
	through.write = bun.NewDB(pool, s.write.Dialect())
	return &through
}

// SQLite is what the driver of SQLite opens.
func (a Address) SQLite() string { return a.sqlite }
