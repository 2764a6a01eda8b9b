package recipes

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/redlatch/redlatch/core/fence"
	"github.com/redlatch/redlatch/core/lock"
)

// ErrSoldOut means that there are fewer pieces than were wanted.
var ErrSoldOut = errors.New("sold out")

// Reserve takes pieces of an article from the stock. The lock is held until the
// transaction has been committed.
func Reserve(ctx context.Context, locker *lock.Locker, db fence.Beginner, guards *fence.Guards, article string, pieces int) error {
	if pieces < 1 {
		return fmt.Errorf("pieces must be at least 1, is %d", pieces)
	}
	return guards.InTx(ctx, locker, db, "stock:"+article, func(ctx context.Context, tx *sql.Tx) error {
		var left int
		if err := tx.QueryRowContext(ctx, `SELECT pieces FROM stock WHERE article = ?`, article).Scan(&left); err != nil {
			return err
		}
		if left < pieces {
			return ErrSoldOut
		}
		_, err := tx.ExecContext(ctx, `UPDATE stock SET pieces = ? WHERE article = ?`, left-pieces, article)
		return err
	}, lock.WithWait(2*time.Second))
}
