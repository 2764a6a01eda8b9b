package recipes

import (
	"context"
	"database/sql"

	"github.com/redlatch/redlatch/core/fence"
	"github.com/redlatch/redlatch/core/lock"
)

// Reindex goes through a table page by page, under one lock, however many hours that
// takes. page works on what comes after an id, and returns the last id that it did:
// the same one when nothing is left. After an error call Reindex again, in any
// process: it goes on behind the last page that was committed.
func Reindex(
	ctx context.Context, locker *lock.Locker, db *sql.DB, guards *fence.Guards,
	page func(ctx context.Context, tx *sql.Tx, after int64) (last int64, err error),
) error {
	const key = "job:reindex"
	return locker.Do(ctx, key, func(ctx context.Context) error { // the watchdog renews the lock
		lease, _ := lock.FromContext(ctx)
		token, err := fence.Of(lease)
		for more := true; more && err == nil; {
			err = transact(ctx, db, guards, key, token, func(ctx context.Context, tx *sql.Tx) (err error) {
				more, err = nextPage(ctx, tx, page)
				return err
			})
		}
		return err
	})
}

// nextPage does a page and its checkpoint in one transaction.
func nextPage(
	ctx context.Context, tx *sql.Tx,
	page func(ctx context.Context, tx *sql.Tx, after int64) (last int64, err error),
) (more bool, err error) {
	var after int64
	if err := tx.QueryRowContext(ctx, `SELECT done FROM checkpoints WHERE job = 'reindex'`).Scan(&after); err != nil {
		return false, err
	}
	last, err := page(ctx, tx, after)
	if err != nil || last == after {
		return false, err
	}
	_, err = tx.ExecContext(ctx, `UPDATE checkpoints SET done = ? WHERE job = 'reindex'`, last)
	return true, err
}
