package sqlstore

import (
	"context"
	"database/sql"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

// query runs a statement and calls scan for each row of its result.
func (k *keys) query(ctx context.Context, s *statement, args []any, scan func(*sql.Rows) error) error {
	return k.call(ctx, func(ctx context.Context, conn *sql.Conn) error {
		rows, err := conn.QueryContext(ctx, s.text, s.bind(args)...)
		if err != nil {
			return err
		}
		defer rows.Close() //nolint:errcheck // Err has what matters
		for rows.Next() {
			if err := scan(rows); err != nil {
				return err
			}
		}
		return rows.Err()
	})
}

// exec runs a statement without a result but what the driver says of it.
func (k *keys) exec(ctx context.Context, s *statement, args []any, use func(sql.Result) error) error {
	return k.call(ctx, func(ctx context.Context, conn *sql.Conn) error {
		result, err := conn.ExecContext(ctx, s.text, s.bind(args)...)
		if err != nil {
			return err
		}
		return use(result)
	})
}

// affected runs a statement and returns how many rows it changed.
func (k *keys) affected(ctx context.Context, s *statement, args []any) (n int64, err error) {
	err = k.exec(ctx, s, args, func(result sql.Result) (err error) {
		n, err = result.RowsAffected()
		return err
	})
	return n, err
}

// call makes one call on a connection. It repeats a transaction that the database has
// rolled back because of others, such as in a deadlock. Its error is classified.
func (k *keys) call(ctx context.Context, do func(context.Context, *sql.Conn) error) error {
	for try := 1; ; try++ {
		err := k.once(ctx, do)
		if err == nil || !k.isRolledBack(err) {
			return err
		}
		if waited := pause(ctx, try); waited != nil {
			return err
		}
	}
}

// once makes one try. A caller who has left when the connection is there returns it to the
// pool: on a busy server, callers who each begin to make one, and leave, would never have any.
func (k *keys) once(ctx context.Context, do func(context.Context, *sql.Conn) error) error {
	longer, cancel := k.lingering(ctx)
	defer cancel()
	conn, err := k.db.Conn(longer)
	if err == nil {
		defer conn.Close() //nolint:errcheck // gives it back to the pool
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return k.unsent(err)
	}
	if err := do(longer, conn); err != nil {
		return k.failure(err)
	}
	if ctx.Err() != nil {
		// A cancel that came while PostgreSQL waited for its replica makes it answer as
		// if the replica had it.
		return &lock.StoreError{Outcome: lock.OutcomeUnknown, Err: context.Cause(ctx)}
	}
	return nil
}

// linger is for how long a server may still answer when a caller has left.
const linger = time.Second

// lingering returns a context that ends a while after ctx. Drivers close a connection
// whose answer they don't wait for, and a new one costs a server more than the answer
// does. SQLite has no server.
func (k *keys) lingering(ctx context.Context) (context.Context, context.CancelFunc) {
	if k.dialect == SQLite {
		return context.WithCancel(ctx)
	}
	longer, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(linger):
		case <-longer.Done():
		}
		cancel(context.Cause(ctx))
	})
	return longer, func() {
		stop()
		cancel(nil)
	}
}
