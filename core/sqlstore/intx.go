package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"

	"github.com/redlatch/redlatch/core/internal/entry"
	"github.com/redlatch/redlatch/core/lock"
)

// Beginner begins transactions: a [sql.DB] or a [sql.Conn].
type Beginner interface {
	BeginTx(ctx context.Context, opts *sql.TxOptions) (*sql.Tx, error)
}

// Execer runs statements in a transaction: a [sql.Tx], or the tx.Statement.ConnPool of
// GORM. For a pgx.Tx there is pgxlisten.Tx in contrib.
type Execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// InTx runs fn in a transaction of db under the lock of key, and releases the lock in that
// transaction: what fn wrote and the release are committed together, or neither is. So a
// holder that was overtaken writes nothing, and needs no fence for that.
//
// The locker must be one over this store, and db the same database; it may be another
// pool. InTx acquires the lock, begins the transaction, calls fn, releases the lock in the
// transaction and commits.
//
// nil means that fn's work is committed, and that nobody else had the lock before. Otherwise
// nothing was written, with one exception: an error of the commit itself leaves that open,
// as it does without a lock. Errors are those of [lock.Locker.Acquire], of
// [sql.DB.BeginTx], of fn, of [Store.ReleaseTx] ([lock.ErrTaken]), and of the commit. If the
// lease ended before, they also wrap its cause, such as [lock.ErrLost]. The caller repeats a
// transaction that deadlocked or couldn't be serialized.
//
// fn's context is that of the lease, and the transaction is rolled back when it ends. fn
// must neither commit nor roll back. If fn panics, the transaction is rolled back, the lock
// is released, and the panic goes on.
//
// The options are those of the lock. A context that holds key already is refused with
// [lock.ErrOwnHold]. Modes that several share, and [lock.WithMinHold], are refused with
// [lock.ErrUnsupported].
func (s *Store) InTx(
	ctx context.Context, locker *lock.Locker, db Beginner, key string, fn func(ctx context.Context, tx *sql.Tx) error, opts ...lock.Option,
) error {
	lease, err := locker.Acquire(ctx, key, append(opts[:len(opts):len(opts)], lock.WithoutReentry())...)
	if err != nil {
		return err
	}
	defer lease.Release(ctx)                                                      //nolint:errcheck // what is committed stands, whatever became of the lease
	return withCause(lease.Context(), s.transact(lease.Context(), lease, db, fn)) //nolint:contextcheck // that of the lease is made of ctx
}

// withCause adds to an error why the context has ended, if it has.
func withCause(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

// transact begins after the acquire, or the transaction might see what was there before.
func (s *Store) transact(ctx context.Context, lease *lock.Lease, db Beginner, fn func(context.Context, *sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after a commit it does nothing
	if err := fn(ctx, tx); err != nil {
		return err
	}
	if err := s.ReleaseTx(ctx, tx, lease); err != nil {
		return err
	}
	return tx.Commit()
}

// ReleaseTx releases the lock of the lease in a transaction of the caller's, which must
// have begun after the lease was acquired. Call it last, and commit if it returns nil: then
// nobody else had the lock before the commit. Roll back on any error:
//
//   - [lock.ErrTaken]: somebody else has the lock, or had it.
//   - [lock.ErrUnsupported]: other leases share the hold, or may.
//   - [lock.ErrReleased], [lock.ErrLost], [lock.ErrClosed] or [lock.ErrNotHeld]: the lease
//     has ended.
//   - any other: of the database. The caller repeats a transaction that deadlocked or
//     couldn't be serialized; one with a snapshot (REPEATABLE READ of PostgreSQL) can't,
//     if the lock was renewed since.
//
// From now on the lock is not renewed: commit within what is left of the lease. Then call
// [lock.Lease.Release], which returns nil and lets the next caller of this process go on.
// If the transaction isn't committed, Release releases the lock as ever.
func (s *Store) ReleaseTx(ctx context.Context, tx Execer, lease *lock.Lease) error {
	if err := lease.Conclude(); err != nil { //nolint:contextcheck // what it makes the locker do is not for this context
		return err
	}
	if err := s.keys.releaseTx(ctx, tx, lease); err != nil {
		return &lock.Error{Op: "release in transaction", Key: lease.Key(), Err: err}
	}
	return nil
}

// triesTx is how often ReleaseTx looks for a hold that moves.
const triesTx = 10

func (k *keys) releaseTx(ctx context.Context, tx Execer, lease *lock.Lease) (err error) {
	k.parting.begin(lease.Owner())
	defer func() {
		if err != nil {
			k.parting.end(lease.Owner())
		}
	}()
	c := lock.Claim{Key: lease.Key(), Owner: lease.Owner(), Mode: lease.Mode()}
	args := []any{id(c.Key), c.Owner, int64(c.Mode), int64(twin(c.Mode))}
	if k.dialect == PostgreSQL {
		args = append(args, payload(c.Key, entry.Wake{All: true}))
	}
	for range triesTx {
		n, err := affectedBy(tx.ExecContext(ctx, k.sql.releaseTx.text, k.sql.releaseTx.bind(args)...))
		if err != nil || n > 0 {
			return err
		}
		if n, err = k.releaseMoved(ctx, tx, &c); err != nil || n > 0 {
			return err
		}
	}
	return errMoving
}

// releaseMoved releases a hold that a queue has moved into a document. It is decided
// outside of the transaction, and written only if the row is still the same.
func (k *keys) releaseMoved(ctx context.Context, tx Execer, c *lock.Claim) (written int64, err error) {
	r, err := k.read(ctx, c.Key)
	if err != nil {
		return 0, err
	}
	if r.more == nil && r.owner == c.Owner && r.mode < kept {
		return 0, nil // it has moved back
	}
	e, err := r.entry()
	if err != nil {
		return 0, err
	}
	if !e.Take(c) {
		return 0, fmt.Errorf("%w: %w", lock.ErrTaken, lock.ErrNotHeld)
	}
	e.Settle(at(r.now))
	next, err := r.with(e)
	if err != nil {
		return 0, err
	}
	update := k.updateOf(c.Key, r, &next, entry.Wake{All: true, First: e.Wake.First}, writing{})
	return affectedBy(tx.ExecContext(ctx, k.sql.update.text, k.sql.update.bind(update)...))
}

func affectedBy(result sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

var (
	errMoving = &lock.StoreError{Outcome: lock.OutcomeNotExecuted, Class: "conflict", Err: errors.New("the row of the key is written by others all the time")}
	// errParting holds renewals back: they would wait for the transaction.
	errParting = &lock.StoreError{Outcome: lock.OutcomeNotExecuted, Class: "released in a transaction", Err: errors.New("a transaction releases the lock")}
)

// parting are the owners whose holds a transaction releases, until the engine releases
// them, too.
type parting struct {
	mu     sync.Mutex
	owners map[string]struct{}
}

func (p *parting) begin(owner string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.owners == nil {
		p.owners = make(map[string]struct{})
	}
	p.owners[owner] = struct{}{}
}

func (p *parting) has(owner string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.owners[owner]
	return ok
}

// end reports whether the owner was among them.
func (p *parting) end(owner string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.owners[owner]
	delete(p.owners, owner)
	return ok
}
