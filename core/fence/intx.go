package fence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/redlatch/redlatch/core/lock"
)

// Beginner begins transactions: a [sql.DB] or a [sql.Conn].
type Beginner interface {
	BeginTx(ctx context.Context, opts *sql.TxOptions) (*sql.Tx, error)
}

// InTx runs fn in a transaction under the lock of key, in the only order that is
// safe: it acquires the lock, begins the transaction, claims the row of key, calls
// fn, commits, and releases the lock. So the next holder sees what fn wrote, and a
// holder that was overtaken writes nothing.
//
// nil means that fn's work is committed, and that no newer holder had claimed
// before; that the lease was lost meanwhile doesn't matter then. Otherwise nothing
// was written, with one exception: an error of the commit itself leaves that open,
// as it does without a lock. Errors are those of [lock.Locker.Acquire], of
// [sql.DB.BeginTx], of [Guards.Claim] ([ErrStale]), of fn, and of the commit. If
// the lease ended before, they also wrap its cause, such as [lock.ErrLost]. The
// caller repeats a transaction that deadlocked or couldn't be serialized.
//
// fn's context is that of the lease, and the transaction is rolled back when it
// ends. fn must neither commit nor roll back. If fn panics, the transaction is
// rolled back, the lock is released, and the panic goes on.
//
// The options are those of the lock. A context that holds key already is refused
// with [lock.ErrOwnHold], as two transactions would wait for each other; modes that
// several share are refused with [lock.ErrUnsupported].
func (g *Guards) InTx(ctx context.Context, locker *lock.Locker, db Beginner, key string, fn func(ctx context.Context, tx *sql.Tx) error, opts ...lock.Option) error {
	claim := func(ctx context.Context, tx *sql.Tx, token Token) error { return g.Claim(ctx, tx, key, token) }
	return inTx(ctx, locker, db, key, claim, fn, opts)
}

// InTx is [Guards.InTx] with the row of that id, which must be there.
func (t *Table) InTx(ctx context.Context, locker *lock.Locker, db Beginner, key string, id any, fn func(ctx context.Context, tx *sql.Tx) error, opts ...lock.Option) error {
	claim := func(ctx context.Context, tx *sql.Tx, token Token) error { return t.Claim(ctx, tx, id, token) }
	return inTx(ctx, locker, db, key, claim, fn, opts)
}

// InTxAll is [Guards.InTx] for work that needs several keys, such as a transfer between two
// accounts: it acquires all locks or none ([lock.AcquireAll]) and claims their rows in the
// order of the keys, so that callers whose keys overlap wait for each other neither for
// locks nor for rows. A key that is there twice counts once. fn gets the context of all
// leases; [lock.LeaseOf] finds one.
func (g *Guards) InTxAll(ctx context.Context, locker *lock.Locker, db Beginner, keys []string, fn func(ctx context.Context, tx *sql.Tx) error, opts ...lock.Option) error {
	claim := func(ctx context.Context, tx *sql.Tx, key string, token Token) error {
		return g.Claim(ctx, tx, key, token)
	}
	return inTxAll(ctx, locker, db, keys, claim, fn, opts)
}

// InTxAll is [Guards.InTxAll] with the rows of these ids by their keys, which must be
// there.
func (t *Table) InTxAll(ctx context.Context, locker *lock.Locker, db Beginner, ids map[string]any, fn func(ctx context.Context, tx *sql.Tx) error, opts ...lock.Option) error {
	claim := func(ctx context.Context, tx *sql.Tx, key string, token Token) error {
		return t.Claim(ctx, tx, ids[key], token)
	}
	return inTxAll(ctx, locker, db, slices.Collect(maps.Keys(ids)), claim, fn, opts)
}

var errIncomplete = fmt.Errorf("fence: %w: InTx needs a locker, a database and a func", lock.ErrInvalid)

func inTxAll(
	ctx context.Context, locker *lock.Locker, db Beginner, keys []string,
	claim func(context.Context, *sql.Tx, string, Token) error, fn func(context.Context, *sql.Tx) error, opts []lock.Option,
) error {
	if locker == nil || db == nil || fn == nil {
		return errIncomplete
	}
	keys = slices.Compact(slices.Sorted(slices.Values(keys)))
	requests := make([]lock.Request, len(keys))
	for i, key := range keys {
		requests[i] = locker.Request(key, append(opts[:len(opts):len(opts)], lock.WithoutReentry())...)
	}
	leases, err := lock.AcquireAll(ctx, requests...)
	if err != nil {
		return err
	}
	defer leases.Release(ctx) //nolint:errcheck // what is committed stands, whatever became of the leases
	err = transact(leases.Context(), db, func(ctx context.Context, tx *sql.Tx) error {
		for _, lease := range leases.Each() {
			token, err := Of(lease)
			if err == nil {
				err = claim(ctx, tx, lease.Key(), token)
			}
			if err != nil {
				return err
			}
		}
		return fn(ctx, tx)
	})
	return withCause(leases.Context(), err)
}

// withCause adds to an error why the context has ended, if it has.
func withCause(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

func inTx(
	ctx context.Context, locker *lock.Locker, db Beginner, key string,
	claim func(context.Context, *sql.Tx, Token) error, fn func(context.Context, *sql.Tx) error, opts []lock.Option,
) error {
	if locker == nil || db == nil || fn == nil {
		return errIncomplete
	}
	lease, err := locker.Acquire(ctx, key, append(opts[:len(opts):len(opts)], lock.WithoutReentry())...)
	if err != nil {
		return err
	}
	defer lease.Release(ctx) //nolint:errcheck // what is committed stands, whatever became of the lease
	token, err := Of(lease)
	if err != nil {
		return err
	}
	err = transact(lease.Context(), db, func(ctx context.Context, tx *sql.Tx) error {
		if err := claim(ctx, tx, token); err != nil {
			return err
		}
		return fn(ctx, tx)
	})
	return withCause(lease.Context(), err)
}

// transact commits what do did, unless it failed.
func transact(ctx context.Context, db Beginner, do func(context.Context, *sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after a commit it does nothing
	if err := do(ctx, tx); err != nil {
		return err
	}
	if err = tx.Commit(); errors.Is(err, sql.ErrTxDone) && ctx.Err() == nil {
		err = fmt.Errorf("%w: the func has ended it: InTx commits when the func returns nil, and rolls back when it returns an error", err)
	}
	return err
}
