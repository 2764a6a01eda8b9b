package fence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/redlatch/redlatch/core/lock"
)

// Conn runs statements: a [sql.Tx], a [sql.Conn] or a [sql.DB], one of sqlx, or the ConnPool
// of a statement of GORM. These have QueryRowContext, which returns a [sql.Row], as well. Any
// other one is a [RowScanner].
type Conn interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// RowScanner is a [Conn] without [sql.Row], for example one that is made of a transaction
// of pgx.
type RowScanner interface {
	Conn
	// ScanRow scans the first row of a query. If there is none, the error wraps
	// [sql.ErrNoRows].
	ScanRow(ctx context.Context, query string, args []any, dest ...any) error
}

var (
	errRows     = fmt.Errorf("%w: the connection has neither QueryRowContext of database/sql nor ScanRow of fence.RowScanner", lock.ErrInvalid)
	errNull     = fmt.Errorf("%w: a column of the fence is NULL: make them NOT NULL, with 0 and '' as defaults", lock.ErrInvalid)
	errRestless = errors.New("the row is written past the fence")
	errUnnamed  = fmt.Errorf("%w: there is no table: use NewTable or NewGuards", lock.ErrInvalid)
)

// Table fences the rows of a table. It is safe for concurrent use. Use [NewTable]:
// the claims of a zero Table fail with [lock.ErrInvalid].
type Table struct {
	described
	dialect      Dialect
	claim, where string
}

// described is a table as messages name it, and the statement that looks at the token of a row.
type described struct{ table, columns, look string }

func describe(d Dialect, n names) described {
	return described{n.table, fmt.Sprintf("%s, %s and %s", n.key, n.fence, n.owner), lookFor(d, n)}
}

// Check reports whether the table is there and has its columns, so that a mistake ends the
// start of a program instead of its first claim. It reads, and changes nothing. The error
// wraps that of the database.
func (t described) Check(ctx context.Context, on Conn) error {
	if t.look == "" {
		return wrap("check", t, "", errUnnamed)
	}
	_, err := look(ctx, on, t.look, nil)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		err = fmt.Errorf("%w (it needs the columns %s, and the database the dialect that the table was made with)", err, t.columns)
	}
	return wrap("check", t, "", err)
}

// NewTable describes a table whose rows have two columns for the fence:
//
//	ALTER TABLE stock ADD COLUMN fence BIGINT NOT NULL DEFAULT 0;
//	ALTER TABLE stock ADD COLUMN fence_owner VARCHAR(32) NOT NULL DEFAULT '';
//
// A name may have a schema in front, with a dot. NewTable does no I/O. The error,
// which wraps [lock.ErrInvalid], names the identifier that isn't valid or is there
// twice.
func NewTable(d Dialect, name string, c Columns) (*Table, error) {
	n, err := namesOf(d, name, c)
	if err != nil {
		return nil, err
	}
	t := &Table{described: describe(d, n), dialect: d}
	t.claim = d.Number(fmt.Sprintf("UPDATE %s SET %[2]s = ?, %[3]s = ? WHERE %[4]s = ? AND (%[2]s < ? OR (%[2]s = ? AND %[3]s = ?))",
		n.table, n.fence, n.owner, n.key), 1)
	t.where = fmt.Sprintf("%s = ? AND %s = ?", n.fence, n.owner)
	return t, nil
}

func lookFor(d Dialect, n names) string {
	return d.Number(fmt.Sprintf("SELECT %s, %s FROM %s WHERE %s = ?", n.fence, n.owner, n.table, n.key), 1) + locking(d)
}

// Claim raises the fence of the row with that id to the token, unless the row
// has seen a newer one ([ErrStale]). It comes before any read: what the
// transaction reads after it, no other holder changes until it ends. A second
// claim with the same token does nothing.
//
// If there is no such row the error wraps [sql.ErrNoRows]. Any other error wraps
// that of the database. The caller repeats a transaction that deadlocked or
// couldn't be serialized. In MySQL it doesn't matter whether the driver counts
// found or changed rows (clientFoundRows).
//
// Outside a transaction the claim stands at once, and the write must have the
// condition of [Table.Where].
func (t *Table) Claim(ctx context.Context, on Conn, id any, token Token) error {
	return wrap("claim fence", t.described, id, t.raise(ctx, on, id, token))
}

func (t *Table) raise(ctx context.Context, on Conn, id any, token Token) error {
	if err := t.check(token); err != nil {
		return err
	}
	fence, owner := int64(token.Fence), token.Owner
	for range 2 {
		rows, err := affected(on.ExecContext(ctx, t.claim, fence, owner, id, fence, fence, owner))
		if err != nil || rows == 1 {
			return err
		}
		if rows > 1 {
			return fmt.Errorf("%w: the key of the table is not unique: %d rows", lock.ErrInvalid, rows)
		}
		// Stale, or no such row, or MySQL says that nothing had to be changed.
		seen, err := look(ctx, on, t.look, id)
		switch {
		case err != nil:
			return err
		case seen == token:
			return nil
		case !token.after(seen):
			return ErrStale
		}
		// The row came in between.
	}
	return errRestless
}

// check refuses a zero Table, too: some drivers are content with an empty statement.
func (t *Table) check(token Token) error {
	if t.claim == "" {
		return errUnnamed
	}
	return token.check()
}

// Where returns the condition for a write after a claim, to be joined to the
// statement with AND, and its arguments. It is needed when the claim was made in
// another transaction. n is the number that its first placeholder has in the
// statement ($4 is 4), and matters to PostgreSQL only. No row meets the condition of
// a token that is malformed, such as the zero value.
func (t *Table) Where(token Token, n int) (condition string, args []any) {
	fence := int64(token.Fence)
	if token.check() != nil {
		fence = -1 // a row that nobody has claimed has 0
	}
	return t.dialect.Number(t.where, n), []any{fence, token.Owner}
}

// Confirm checks the result of a write that had the condition of [Table.Where]. It
// returns nil if the token is still the newest, and [ErrStale] if it isn't: then
// nothing was written. Call it in the transaction of the write: if no row is
// affected, it reads the row, because MySQL doesn't count rows whose values didn't
// change.
func (t *Table) Confirm(ctx context.Context, on Conn, id any, token Token, result sql.Result) error {
	return wrap("write with fence", t.described, id, t.confirm(ctx, on, id, token, result))
}

func (t *Table) confirm(ctx context.Context, on Conn, id any, token Token, result sql.Result) error {
	if err := t.check(token); err != nil {
		return err
	}
	rows, err := result.RowsAffected()
	if err == nil && rows == 0 {
		var seen Token
		if seen, err = look(ctx, on, t.look, id); err == nil && seen != token {
			err = ErrStale
		}
	}
	return err
}

// look returns the token of the last claim.
func look(ctx context.Context, on Conn, statement string, key any) (Token, error) {
	var (
		fence sql.Null[int64]
		owner sql.Null[string]
	)
	err := errRows
	switch on := on.(type) {
	case RowScanner:
		err = on.ScanRow(ctx, statement, []any{key}, &fence, &owner)
	case interface {
		QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	}:
		err = on.QueryRowContext(ctx, statement, key).Scan(&fence, &owner)
	}
	if err == nil && (!fence.Valid || !owner.Valid) {
		err = errNull
	}
	return Token{Fence: uint64(max(0, fence.V)), Owner: owner.V}, err
}

func affected(result sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

func wrap(op string, of described, key any, err error) error {
	switch {
	case err == nil:
		return nil
	case of.table != "":
		err = fmt.Errorf("table %s: %w", of.table, err)
	}
	return &lock.Error{Op: op, Key: fmt.Sprint(key), Err: err}
}
