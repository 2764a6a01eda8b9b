package recipes

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/redlatch/redlatch/core/fence"
	"github.com/redlatch/redlatch/core/lock"
)

// ErrTooLittle means that an account has less than the amount.
var ErrTooLittle = errors.New("the account has too little")

// Transfer moves an amount from one account to another. Both locks are held until the
// transaction has been committed.
func Transfer(ctx context.Context, locker *lock.Locker, db fence.Beginner, guards *fence.Guards, from, to string, amount int) error {
	keys := []string{"account:" + from, "account:" + to}
	return guards.InTxAll(ctx, locker, db, keys, func(ctx context.Context, tx *sql.Tx) error {
		var balance int
		if err := tx.QueryRowContext(ctx, `SELECT balance FROM accounts WHERE id = ?`, from).Scan(&balance); err != nil {
			return err
		}
		if amount < 1 || balance < amount {
			return ErrTooLittle
		}
		_, err := tx.ExecContext(ctx, `UPDATE accounts SET balance = balance - ? WHERE id = ?`, amount, from)
		if err == nil {
			_, err = tx.ExecContext(ctx, `UPDATE accounts SET balance = balance + ? WHERE id = ?`, amount, to)
		}
		return err
	}, lock.WithWait(2*time.Second))
}
