package store

import "context"

// Exec runs a statement past the store.
func (s *Store) Exec(ctx context.Context, statement string) error {
	_, err := s.write.ExecContext(ctx, statement)
	return err
}

// MaxLifetime is how long a connection is used.
const MaxLifetime = maxLifetime

// Sized is a pool as the store has it.
var Sized = sized
