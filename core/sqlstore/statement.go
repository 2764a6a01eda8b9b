package sqlstore

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

// statement is one for a database. Its text is written with the placeholders $1, $2, …
// and {now}, the time in microseconds since 1970.
type statement struct {
	text string
	args []int // the argument of each placeholder, from 1; 0: the time of this machine
}

var placeholder = regexp.MustCompile(`\$(\d+)|\{now\}`)

// clocks are the expressions for {now}. now() of PostgreSQL is the beginning of the
// transaction, and NOW(6) of MySQL is in the zone of the session. The clock of SQLite is
// that of the machine, but in whole milliseconds: see prepare.
var clocks = map[Dialect]string{
	PostgreSQL: "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint",
	MySQL:      "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))",
}

// prepare writes the statement as the dialect has it.
func prepare(d Dialect, text string) statement {
	s := statement{}
	s.text = placeholder.ReplaceAllStringFunc(text, func(found string) string {
		if clock, known := clocks[d]; found == "{now}" && known {
			return clock
		}
		n, _ := strconv.Atoi(strings.TrimPrefix(found, "$")) // 0 for the clock
		if d == PostgreSQL {
			return found
		}
		s.args = append(s.args, n)
		return "?"
	})
	return s
}

// bind returns the arguments in the order of the placeholders.
func (s *statement) bind(args []any) []any {
	if s.args == nil {
		return args
	}
	bound, now := make([]any, len(s.args)), time.Now().UnixMicro()
	for i, n := range s.args {
		if n == 0 {
			bound[i] = now
		} else {
			bound[i] = args[n-1]
		}
	}
	return bound
}

// statements are those of a dialect.
type statements struct {
	read, update, insert, release, renew, changed statement
	acquire                                       statement // empty: read, then update
	listen, heard                                 statement // PostgreSQL
	releaseTx                                     statement
	old, raise, sweep                             statement
	page                                          statement
	register, forget, unregister, registered      statement
}

// The statements that all databases have in common. None waits for another but for the
// row of its key, and each is a transaction of its own.
const (
	readText = `SELECT {now}, m.floor, COALESCE(l.version, 0), COALESCE(l.expires, 0), COALESCE(l.fence, 0), COALESCE(l.mode, 0), COALESCE(l.owner, ''), l.more
FROM redlatch_meta m LEFT JOIN redlatch_locks l ON l.id = $1`

	// Versions never come back, or a decision about a row that has gone would be written
	// to another: where a crash or a failover forgets a version, time has passed.
	nextVersion = `version = CASE WHEN version < {now} THEN {now} ELSE version END + 1`

	// A decision is old after some seconds: see decisionLasts.
	updateText = `UPDATE redlatch_locks SET ` + nextVersion + `, expires = $3, fence = $4, mode = $5, owner = $6, more = $7
WHERE id = $1 AND version = $2 AND {now} < $8`

	releaseText = `UPDATE redlatch_locks SET ` + nextVersion + `, expires = 0, owner = ''
WHERE id = $1 AND owner = $2 AND mode IN ($3, $4) AND more IS NULL AND expires > {now}`

	releaseTxText = `UPDATE redlatch_locks SET ` + nextVersion + `, expires = 0, owner = ''
WHERE id = $1 AND owner = $2 AND mode IN ($3, $4) AND more IS NULL`

	oldText = `SELECT x.id, x.fence FROM (SELECT * FROM redlatch_locks WHERE id > $1 ORDER BY id LIMIT 192) x
WHERE x.expires < {now} - 60000000 AND x.waited < {now} - 60000000 AND x.fence < ({now} - 60000000) * 64`

	pageText = `SELECT id, name, {now}, version, expires, fence, mode, owner, more FROM redlatch_locks WHERE id > $1 ORDER BY id LIMIT $2`

	registerText = `INSERT INTO redlatch_lockers (id, registration, expires) VALUES ($1, $2, {now} + $3)
ON CONFLICT (id) DO UPDATE SET registration = excluded.registration, expires = excluded.expires`
	registeredText = `SELECT registration FROM redlatch_lockers WHERE expires > {now} AND `
	unregisterText = `DELETE FROM redlatch_lockers WHERE id = $1`
	forgetText     = `DELETE FROM redlatch_lockers WHERE expires < {now} - 60000000`

	raiseText = `UPDATE redlatch_meta SET floor = $1 WHERE floor < $1`
)

// decisionLasts is for how many microseconds a decision about a row may be written.
const decisionLasts = 5_000_000

func statementsOf(d Dialect) *statements {
	of := func(text string) statement { return prepare(d, text) }
	all := &statements{
		read: of(readText), update: of(updateText), release: of(releaseText), releaseTx: of(releaseTxText),
		old: of(oldText), raise: of(raiseText), page: of(pageText), forget: of(forgetText), unregister: of(unregisterText),
	}
	switch d {
	case PostgreSQL:
		postgresql(all, of)
	case MySQL:
		mysql(all, of)
	case SQLite:
		sqlite(all, of)
	}
	return all
}
