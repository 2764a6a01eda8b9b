package recipes

import (
	"context"
	"database/sql"
	"log/slog"
	"time"

	"github.com/redlatch/redlatch/core/fence"
	"github.com/redlatch/redlatch/core/leader"
	"github.com/redlatch/redlatch/core/lock"
)

// Bill runs bill again and again, each time in a transaction, in one process of a
// fleet: the leader. Call it in every process. It returns when ctx ends. After an
// error of bill, another process may take over.
func Bill(
	ctx context.Context, locker *lock.Locker, db *sql.DB, guards *fence.Guards, every time.Duration,
	bill func(ctx context.Context, tx *sql.Tx) error,
) error {
	const key = "leader:billing"
	return leader.Run(ctx, locker, key, func(ctx context.Context, _ uint64) error {
		lease, _ := lock.FromContext(ctx) // the leader's
		token, err := fence.Of(lease)
		for err == nil {
			if err = transact(ctx, db, guards, key, token, bill); err == nil {
				err = sleep(ctx, every)
			}
		}
		return err
	}, leader.WithName("billing"), leader.WithRepeat(), logged)
}

// transact commits what work did, unless the lock of key has a newer holder.
func transact(
	ctx context.Context, db *sql.DB, guards *fence.Guards, key string, token fence.Token,
	work func(ctx context.Context, tx *sql.Tx) error,
) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after a commit it does nothing
	if err := guards.Claim(ctx, tx, key, token); err != nil {
		return err // fence.ErrStale: there is a newer holder
	}
	if err := work(ctx, tx); err != nil {
		return err
	}
	return tx.Commit()
}

// logged are the errors that Run goes on after.
var logged = leader.WithHooks(leader.Hooks{
	Resigned: func(name string, term uint64, err error) {
		slog.Warn("resigned", "name", name, "term", term, "error", err)
	},
	Lost: func(name string, term uint64, cause error) {
		slog.Warn("lost", "name", name, "term", term, "error", cause)
	},
	Failed: func(name string, err error) { slog.Warn("not elected", "name", name, "error", err) },
})
