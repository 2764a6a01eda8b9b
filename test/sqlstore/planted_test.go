package sqlstore_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch/core/sqlstore"
)

// A planted bug is a statement with another text. The test of its row, run by a process of
// its own whose connections change the text, must fail.
const (
	plantedFrom   = "REDLATCH_PLANTED_FROM"
	plantedTo     = "REDLATCH_PLANTED_TO"
	plantedServer = "REDLATCH_PLANTED_SERVER" // which has the databases
)

const (
	contractPG    = "TestContractOnPostgreSQL/two_processes/"
	contractNotes = "TestContractWithNotifications/two_processes/"
	contractMy    = "TestContractOnMariaDB/two_processes/"
	contractLite  = "TestContractOnSQLite/two_processes/"
)

type plant struct {
	name     string
	dialect  sqlstore.Dialect
	from, to string
	test     string // that finds it
}

var plants = []plant{
	{"acquire: writes when it is refused", sqlstore.PostgreSQL, "OR s.expires > c.t AND NOT", "OR false AND NOT", "TestARefusedTryWritesNothing"},
	{"acquire: the fence stays", sqlstore.PostgreSQL, "greatest(l.fence + 64, excluded.fence)", "l.fence", contractPG + "fences_grow_over_release,_expiry_and_force"},
	{"acquire: shortens", sqlstore.PostgreSQL, "expires = greatest(l.expires, excluded.expires)", "expires = excluded.expires", contractPG + "the_same_claim_again_lengthens"},
	{"acquire: a held key", sqlstore.PostgreSQL, "WHERE l.more IS NULL AND (l.expires <= excluded.version OR", "WHERE l.more IS NULL AND (l.expires > 0 OR", "TestADecisionAboutAnOldRowIsNotWritten/a_statement"},
	{"update: whatever the row is now", sqlstore.PostgreSQL, "AND version = $2::bigint", "AND $2::bigint > 0", "TestADecisionAboutAnOldRowIsNotWritten/an_update"},
	{"insert: fails where another was faster", sqlstore.PostgreSQL, "WHERE {now} < $8::bigint\nON CONFLICT DO NOTHING", "WHERE {now} < $8::bigint", "TestADecisionAboutAnOldRowIsNotWritten/an_insert"},
	{"release: of others", sqlstore.PostgreSQL, "AND owner = $2 AND mode IN ($3, $4) AND more IS NULL AND expires >", "AND $2 <> '' AND mode IN ($3, $4) AND more IS NULL AND expires >", contractPG + "release_never_touches"},
	{"release: notifies nobody", sqlstore.PostgreSQL, "pg_notify('redlatch', $5::text)::text", "$5::text", contractNotes + "a_release_wakes_who_watches"},
	{"release: waits for the replica", sqlstore.PostgreSQL, "set_config('synchronous_commit', 'off', true)", "''", "TestAGrantThatTheReplicaDoesNotHaveIsUnknown"},
	{"release in a transaction: of others", sqlstore.PostgreSQL, "AND owner = $2 AND mode IN ($3, $4) AND more IS NULL RETURNING", "AND $2 <> '' AND mode IN ($3, $4) AND more IS NULL RETURNING", "TestReleaseTxFindsItsOwnHoldOnly/PostgreSQL"},
	{"renew: of others", sqlstore.PostgreSQL, "AND l.owner = w.owner", "", contractPG + "renewal_lengthens_own_holds_only"},
	{"renew: what has gone", sqlstore.PostgreSQL, "AND l.more IS NULL AND l.expires > c.t\nRETURNING", "AND l.more IS NULL\nRETURNING", contractPG + "a_hold_that_is_not_renewed_expires"},
	{"renew: shortens", sqlstore.PostgreSQL, "greatest(l.expires, c.t + w.ttl)", "c.t + w.ttl", contractPG + "a_late,_shorter_renewal_cuts_nothing"},
	{"poll: sees no change", sqlstore.PostgreSQL, "l.version <> w.version", "l.version < w.version", contractPG + "a_release_wakes_who_watches"},
	{"listen: says nothing in the row", sqlstore.PostgreSQL, "SET waited = excluded.waited", "SET waited = l.waited", "TestOnlyReleasesThatSomebodyWaitsForAreNotified"},
	{"read: of another key", sqlstore.PostgreSQL, "LEFT JOIN redlatch_locks l ON l.id = $1", "LEFT JOIN redlatch_locks l ON l.id > $1", contractPG + "inspect_reports_the_truth"},
	{"old: finds nothing", sqlstore.PostgreSQL, "ORDER BY id LIMIT 192", "ORDER BY id LIMIT 0", "TestOldRowsGo/PostgreSQL"},
	{"raise: forgets the fences", sqlstore.PostgreSQL, "SET floor = $1", "SET floor = floor + 0 * $1::bigint", "TestOldRowsGo/PostgreSQL"},
	{"sweep: deletes nothing", sqlstore.PostgreSQL, "AND l.fence <= $2::bigint", "AND l.fence > $2::bigint", "TestOldRowsGo/PostgreSQL"},
	{"list: in the wrong order", sqlstore.PostgreSQL, "WHERE id > $1 ORDER BY id LIMIT $2", "WHERE id > $1 ORDER BY id DESC LIMIT $2", contractPG + "list:_many_keys_in_pages"},
	{"force: announces nothing", sqlstore.PostgreSQL, "pg_notify('redlatch', $11::text)::text", "$11::text", contractNotes + "registry:_a_forced_release"},
	{"register: what was said first", sqlstore.PostgreSQL, "registration = excluded.registration", "registration = redlatch_lockers.registration", contractPG + "registry:_a_locker_is_who"},
	{"registered: who has gone", sqlstore.PostgreSQL, "FROM redlatch_lockers WHERE expires >", "FROM redlatch_lockers WHERE 0 * expires <", contractPG + "registry:_a_locker_is_who"},
	{"unregister: nobody", sqlstore.PostgreSQL, "DELETE FROM redlatch_lockers WHERE id = $1", "DELETE FROM redlatch_lockers WHERE id = $1 || '?'", contractPG + "registry:_a_locker_is_who"},
	{"forget: everybody", sqlstore.PostgreSQL, "DELETE FROM redlatch_lockers WHERE expires <", "DELETE FROM redlatch_lockers WHERE 0 * expires <", contractPG + "registry:_a_locker_is_who"},
	{"versions come back", sqlstore.PostgreSQL, "greatest(l.version, c.t) + 1", "l.version + 1", "TestAVersionThatWasForgottenNeverComesBack/PostgreSQL"},

	{"acquire: the fence stays", sqlstore.MySQL, "GREATEST(fence + 64, {now} * 64)", "fence", contractMy + "fences_grow_over_release,_expiry_and_force"},
	{"acquire: takes it from others", sqlstore.MySQL, "owner = IF(more IS NULL AND expires <= {now}", "owner = IF(more IS NULL AND 0 <= {now}", contractMy + "engine:_a_counter_under_contention"},
	{"acquire: says that it is free", sqlstore.MySQL, "ELSE IF(LAST_INSERT_ID({now} - expires) IS NULL", "ELSE IF(LAST_INSERT_ID(expires) IS NULL", contractMy + "a_held_key_is_busy"},
	{"insert: fails where another was faster", sqlstore.MySQL, "INSERT IGNORE INTO redlatch_locks", "INSERT INTO redlatch_locks", "TestTwoProcessesGrantOneHold/MariaDB"},
	{"renew: of others", sqlstore.MySQL, "l.owner = CAST(w.owner AS BINARY) AND ", "", contractMy + "renewal_lengthens_own_holds_only"},
	{"poll: sees no change", sqlstore.MySQL, "l.version <> w.version", "l.version < w.version", contractMy + "a_release_wakes_who_watches"},
	{"sweep: deletes nothing", sqlstore.MySQL, "WHERE l.fence <= ?", "WHERE l.fence > ?", "TestOldRowsGo/MariaDB"},
	{"registered: who has gone", sqlstore.MySQL, "FROM redlatch_lockers WHERE expires >", "FROM redlatch_lockers WHERE 0 * expires <", contractMy + "registry:_a_locker_is_who"},

	{"insert: fails where another was faster", sqlstore.SQLite, "WHERE ? < ?\nON CONFLICT DO NOTHING", "WHERE ? < ?", "TestTwoProcessesGrantOneHold/SQLite"},
	{"renew: of others", sqlstore.SQLite, "AND l.owner = w.owner ", "", contractLite + "renewal_lengthens_own_holds_only"},
	{"poll: sees no change", sqlstore.SQLite, "l.version <> w.version", "l.version < w.version", contractLite + "a_release_wakes_who_watches"},
	{"sweep: deletes nothing", sqlstore.SQLite, "AND fence <= ?", "AND fence > ?", "TestOldRowsGo/SQLite"},
}

func TestPlantedBugsOfStatementsAreFound(t *testing.T) {
	t.Parallel()
	otherSettings(t)
	for _, p := range plants {
		t.Run(p.name+" in "+map[sqlstore.Dialect]string{sqlstore.PostgreSQL: "PostgreSQL", sqlstore.MySQL: "MariaDB", sqlstore.SQLite: "SQLite"}[p.dialect], func(t *testing.T) {
			t.Parallel()
			out, err := p.run(t)
			switch {
			case err == nil:
				t.Errorf("%s didn't find it:\n%s", p.test, out)
			case !strings.Contains(out, strings.Split(p.test, "/")[0]):
				t.Errorf("%s wasn't run: %v\n%s", p.test, err, out)
			}
		})
	}
	t.Run("the control", func(t *testing.T) {
		t.Parallel()
		control := plant{dialect: sqlstore.PostgreSQL, from: "what no statement has", test: contractPG + "a_release_wakes_who_watches"}
		if out, err := control.run(t); err != nil || strings.Contains(out, "no tests to run") {
			t.Errorf("%v\n%s", err, out)
		}
	})
}

// run runs the test in a process that has the bug.
func (p plant) run(t *testing.T) (out string, err error) {
	t.Helper()
	server := ""
	switch p.dialect {
	case sqlstore.PostgreSQL:
		server = sharedPostgres.running(t)
	case sqlstore.MySQL:
		server = sharedMariaDB.running(t)
	case sqlstore.SQLite:
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	child := exec.CommandContext(ctx, os.Args[0], "-test.run=^"+strings.ReplaceAll(p.test, "/", "$/^"), "-test.timeout=40s")
	child.Env = append(os.Environ(), plantedFrom+"="+p.from, plantedTo+"="+p.to, plantedServer+"="+server)
	text, err := child.CombinedOutput()
	return string(text), err
}

// planted is the pool with the bug of this process, if there is one.
func planted(db *sql.DB, c driver.Connector) *sql.DB {
	from := os.Getenv(plantedFrom)
	if from == "" {
		return db
	}
	_ = db.Close()
	change := strings.NewReplacer(withClock(from), withClock(os.Getenv(plantedTo)))
	return sql.OpenDB(mutants{c, change})
}

// withClock is a text of a statement as the databases get it.
func withClock(text string) string {
	clock := "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
	if strings.HasPrefix(os.Getenv(plantedServer), "mysql") {
		clock = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"
	}
	return strings.ReplaceAll(text, "{now}", clock)
}

// mutants connects with connections that change the text of statements.
type mutants struct {
	driver.Connector
	change *strings.Replacer
}

func (m mutants) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := m.Connector.Connect(ctx)
	return mutant{conn, m.change}, err
}

type mutant struct {
	driver.Conn
	change *strings.Replacer
}

func (m mutant) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	return m.Conn.(driver.QueryerContext).QueryContext(ctx, m.change.Replace(query), args)
}

func (m mutant) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	return m.Conn.(driver.ExecerContext).ExecContext(ctx, m.change.Replace(query), args)
}

func (m mutant) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	return m.Conn.(driver.ConnPrepareContext).PrepareContext(ctx, m.change.Replace(query))
}

func (m mutant) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	return m.Conn.(driver.ConnBeginTx).BeginTx(ctx, opts)
}

func (m mutant) ResetSession(ctx context.Context) error {
	if r, ok := m.Conn.(driver.SessionResetter); ok {
		return r.ResetSession(ctx)
	}
	return nil
}

// dsn connects by the address.
type dsn struct {
	driver  driver.Driver
	address string
}

func (d dsn) Connect(context.Context) (driver.Conn, error) { return d.driver.Open(d.address) }
func (d dsn) Driver() driver.Driver                        { return d.driver }
