package store

import (
	"context"
	"time"
)

// Exec runs a statement past the store.
func (s *Store) Exec(ctx context.Context, statement string) error {
	_, err := s.write.ExecContext(ctx, statement)
	return err
}

// SetPatience makes the store give up sooner.
func (s *Store) SetPatience(d time.Duration) { s.patience = d }
