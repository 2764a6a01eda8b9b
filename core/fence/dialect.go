package fence

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/redlatch/redlatch/core/internal/sqldialect"
	"github.com/redlatch/redlatch/core/lock"
)

// Dialect is the SQL that a database speaks: [SQLite], [MySQL] or [PostgreSQL].
type Dialect = sqldialect.Dialect

const (
	// SQLite from version 3.24.
	SQLite = sqldialect.SQLite
	// MySQL, and MariaDB.
	MySQL = sqldialect.MySQL
	// PostgreSQL, and what speaks like it.
	PostgreSQL = sqldialect.PostgreSQL
)

// Columns names the columns that the kit reads and writes. An empty name is the
// default. Names, and those of tables, are of ASCII letters, digits and
// underscores, as the database has them: in PostgreSQL, one that was created
// without quotes is in lower case.
type Columns struct {
	Key   string // what identifies a row, and is unique; default "id"
	Fence string // a 64-bit integer, not null, 0 in a new row; default "fence"
	Owner string // a string of 32 bytes, not null, empty in a new row; default "fence_owner"
}

// names are identifiers, quoted.
type names struct{ table, key, fence, owner string }

var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}$`)

func namesOf(d Dialect, table string, c Columns) (n names, err error) {
	if !d.Valid() {
		return n, fmt.Errorf("fence: %w: unknown dialect", lock.ErrInvalid)
	}
	parts := strings.Split(table, ".")
	if len(parts) > 2 {
		return n, fmt.Errorf("fence: %w: table %q: at most one schema", lock.ErrInvalid, table)
	}
	for i, part := range parts {
		if parts[i], err = quote(d, part); err != nil {
			return n, err
		}
	}
	n.table = strings.Join(parts, ".")
	var seen []string
	for _, column := range []struct {
		name string
		to   *string
	}{
		{cmp.Or(c.Key, "id"), &n.key},
		{cmp.Or(c.Fence, "fence"), &n.fence},
		{cmp.Or(c.Owner, "fence_owner"), &n.owner},
	} {
		if slices.ContainsFunc(seen, func(name string) bool { return same(d, name, column.name) }) {
			return n, fmt.Errorf("fence: %w: the column %q is named twice", lock.ErrInvalid, column.name)
		}
		seen = append(seen, column.name)
		if *column.to, err = quote(d, column.name); err != nil {
			return n, err
		}
	}
	return n, nil
}

// same reports whether two names are one column: quoted, only PostgreSQL keeps apart
// what differs in case.
func same(d Dialect, a, b string) bool {
	return a == b || d != PostgreSQL && strings.EqualFold(a, b)
}

// quote also lets SQLite complain about a column that isn't there: a name in
// double quotes it would take for a string.
func quote(d Dialect, name string) (string, error) {
	if !identifier.MatchString(name) {
		return "", fmt.Errorf("fence: %w: %q cannot be the name of a table or column", lock.ErrInvalid, name)
	}
	if d == PostgreSQL {
		return `"` + name + `"`, nil
	}
	return "`" + name + "`", nil
}

// locking ends a SELECT that must see, and keep, what is there now, not what was
// there when the transaction began. SQLite has one writer at a time.
func locking(d Dialect) string {
	if d == SQLite {
		return ""
	}
	return " FOR UPDATE"
}
