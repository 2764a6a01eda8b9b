package fence

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/redlatch/redlatch/core/lock"
)

// MaxGuardKey is the longest key of a row of [Guards], in bytes.
const MaxGuardKey = 1024

var errGuardKey = fmt.Errorf("%w: the key must be 1 to %d bytes of text", lock.ErrInvalid, MaxGuardKey)

// Guards is a table with one row for each lock, which holds the newest token
// shown under that lock and nothing else. A transaction that claims the row of
// its lock first may then insert, update and delete whatever that lock protects.
// It is safe for concurrent use. Use [NewGuards]: the claims of a zero Guards fail
// with [lock.ErrInvalid].
type Guards struct {
	described
	dialect       Dialect
	claim, schema string
}

// NewGuards describes the table: see [Guards.Schema]. The key is that of the lock,
// or whatever else the lock is about, as a string. NewGuards does no I/O. The error
// is like that of [NewTable].
func NewGuards(d Dialect, name string, c Columns) (*Guards, error) {
	n, err := namesOf(d, name, c)
	if err != nil {
		return nil, err
	}
	g := &Guards{described: describe(d, n), dialect: d}
	insert := fmt.Sprintf("INSERT INTO %s (%s, %s, %s) VALUES (?, ?, ?)", n.table, n.key, n.fence, n.owner)
	if d == MySQL {
		// It locks the row for writing at once, so that two claims can't
		// deadlock. The owner is first, as the fence changes what it depends on.
		g.claim = insert + fmt.Sprintf(" ON DUPLICATE KEY UPDATE %[2]s = IF(%[1]s < ?, ?, %[2]s), %[1]s = GREATEST(%[1]s, ?)", n.fence, n.owner)
	} else {
		insert = strings.Replace(insert, " (", " AS seen (", 1)
		g.claim = d.Number(insert+fmt.Sprintf(" ON CONFLICT (%[3]s) DO UPDATE SET %[1]s = excluded.%[1]s, %[2]s = excluded.%[2]s"+
			" WHERE seen.%[1]s < excluded.%[1]s OR (seen.%[1]s = excluded.%[1]s AND seen.%[2]s = excluded.%[2]s)", n.fence, n.owner, n.key), 1)
	}
	types := map[Dialect][3]string{
		SQLite: {"TEXT", "INTEGER", "TEXT"},
		// Bytes, as strings of MySQL are equal when they differ in case or in
		// spaces at the end.
		MySQL:      {fmt.Sprintf("VARBINARY(%d)", MaxGuardKey), "BIGINT", "VARCHAR(32)"},
		PostgreSQL: {"TEXT", "BIGINT", "VARCHAR(32)"},
	}[d]
	g.schema = fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s (%s %s NOT NULL PRIMARY KEY, %s %s NOT NULL, %s %s NOT NULL)",
		n.table, n.key, types[0], n.fence, types[1], n.owner, types[2])
	return g, nil
}

// Schema returns the statement that creates the table unless it exists. Put it
// among your migrations. Rows are never deleted by the kit. Where fences come from
// the clock of Redis, rows with a fence older than the longest time that a late
// write can take may go: a 64th of it is the time in microseconds since 1970.
func (g *Guards) Schema() string { return g.schema }

// Claim is [Table.Claim] for the row of key, which is inserted if it doesn't exist.
// A key that is empty, longer than [MaxGuardKey] or not UTF-8 is refused with
// [lock.ErrInvalid].
//
// In a transaction it comes first. Until that ends no other holder passes its
// own claim, so that writes need no further condition.
func (g *Guards) Claim(ctx context.Context, on Conn, key string, token Token) error {
	return wrap("claim fence", g.described, key, g.raise(ctx, on, key, token))
}

func (g *Guards) raise(ctx context.Context, on Conn, key string, token Token) error {
	if g.claim == "" { // some drivers are content with an empty statement
		return errUnnamed
	}
	if err := token.check(); err != nil {
		return err
	}
	if key == "" || len(key) > MaxGuardKey || !utf8.ValidString(key) || strings.Contains(key, "\x00") {
		return errGuardKey
	}
	fence, owner := int64(token.Fence), token.Owner
	if g.dialect == MySQL {
		// What it says of affected rows depends on how the driver is set up.
		if _, err := on.ExecContext(ctx, g.claim, key, fence, owner, fence, owner, fence); err != nil {
			return err
		}
		seen, err := look(ctx, on, g.look, key)
		if err == nil && seen != token {
			err = ErrStale
		}
		return err
	}
	rows, err := affected(on.ExecContext(ctx, g.claim, key, fence, owner))
	if err == nil && rows == 0 {
		err = ErrStale
	}
	return err
}

// On returns a [Store] for a [Gate] that claims rows of db, each claim in a
// separate statement. Several processes may share the table.
func (g *Guards) On(db *sql.DB) Store { return rows{g, db} }

type rows struct {
	guards *Guards
	db     *sql.DB
}

func (r rows) Claim(ctx context.Context, key string, token Token) error {
	return r.guards.Claim(ctx, r.db, key, token)
}
