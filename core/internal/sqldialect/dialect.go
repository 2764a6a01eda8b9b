// Package sqldialect names the databases that the core speaks to.
package sqldialect

import (
	"strconv"
	"strings"
)

// Dialect is the SQL that a database speaks.
type Dialect uint8

const (
	// SQLite from version 3.24; for core/sqlstore from 3.41.
	SQLite Dialect = iota + 1
	// MySQL, and MariaDB.
	MySQL
	// PostgreSQL, and what speaks like it.
	PostgreSQL
)

// Valid reports whether d is one of the above.
func (d Dialect) Valid() bool { return d >= SQLite && d <= PostgreSQL }

// Number replaces question marks with placeholders of the dialect, numbered from n.
func (d Dialect) Number(statement string, n int) string {
	if d != PostgreSQL {
		return statement
	}
	var text strings.Builder
	for part := range strings.SplitSeq(statement, "?") {
		if text.Len() > 0 {
			text.WriteString("$" + strconv.Itoa(n))
			n++
		}
		text.WriteString(part)
	}
	return text.String()
}
