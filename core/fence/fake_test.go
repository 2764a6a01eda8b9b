package fence_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/redlatch/redlatch/core/fence"
	"github.com/redlatch/redlatch/core/lock"
)

// fake is a database that answers what a test says. The answers to updates are one after
// the other, and the last stays.
type fake struct {
	begins, commits error
	committing      func()
	updates         []update
	seen            []driver.Value // the row that is read; nil is none
	reads           error
	looked          int
}

type update struct {
	rows int64
	err  error // of the statement
	late error // of the number of rows
}

func (u update) LastInsertId() (int64, error) { return 0, errDatabase }
func (u update) RowsAffected() (int64, error) { return u.rows, u.late }

var errDatabase = errors.New("deadlock found when trying to get lock")

func (f *fake) open(t *testing.T) *sql.DB {
	t.Helper()
	db := sql.OpenDB(f)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func (f *fake) Connect(context.Context) (driver.Conn, error) { return fakeConn{f}, nil }
func (f *fake) Driver() driver.Driver                        { return nil }

type fakeConn struct{ *fake }

func (c fakeConn) Prepare(string) (driver.Stmt, error) { return nil, errDatabase }
func (c fakeConn) Close() error                        { return nil }
func (c fakeConn) Begin() (driver.Tx, error)           { return fakeTx(c), c.begins }

func (c fakeConn) ExecContext(context.Context, string, []driver.NamedValue) (driver.Result, error) {
	u := c.updates[0]
	if len(c.updates) > 1 {
		c.updates = c.updates[1:]
	}
	return u, u.err
}

func (c fakeConn) QueryContext(context.Context, string, []driver.NamedValue) (driver.Rows, error) {
	c.looked++
	return &fakeRows{row: c.seen}, c.reads
}

type fakeTx struct{ *fake }

func (tx fakeTx) Rollback() error { return nil }

func (tx fakeTx) Commit() error {
	if tx.committing != nil {
		tx.committing()
	}
	return tx.commits
}

type fakeRows struct{ row []driver.Value }

func (r *fakeRows) Columns() []string { return []string{"fence", "owner"} }
func (r *fakeRows) Close() error      { return nil }

func (r *fakeRows) Next(to []driver.Value) error {
	if r.row == nil {
		return io.EOF
	}
	copy(to, r.row)
	r.row = nil
	return nil
}

// errOther stands for any error that decides nothing.
var errOther = errors.New("another error")

// What the database has no answer to is neither a newer holder nor a claim that stands.
func TestAnErrorOfTheDatabaseIsNoDecision(t *testing.T) {
	token := fence.New(7, "an owner")
	row := func(token fence.Token) []driver.Value { return []driver.Value{int64(token.Fence), token.Owner} }
	none, one, two := update{}, update{rows: 1}, update{rows: 2}
	failed, uncounted := update{err: errDatabase}, update{late: errDatabase}
	const table, guard, guardOfMySQL, confirm = "a row", "a guard", "a guard of MySQL", "a write"
	for name, c := range map[string]struct {
		db    fake
		wants map[string]error // by what is tried
	}{
		"the update fails": {
			fake{updates: []update{failed}, seen: row(token)},
			map[string]error{table: errDatabase, guard: errDatabase, guardOfMySQL: errDatabase},
		},
		"the rows cannot be counted": {
			fake{updates: []update{uncounted}, seen: row(token)},
			map[string]error{table: errDatabase, guard: errDatabase, confirm: errDatabase, guardOfMySQL: nil},
		},
		"one row, and no look at it": {
			fake{updates: []update{one}, reads: errDatabase},
			map[string]error{table: nil, guard: nil, confirm: nil, guardOfMySQL: errDatabase},
		},
		"several rows": {
			fake{updates: []update{two}, seen: row(token)},
			map[string]error{table: lock.ErrInvalid, guardOfMySQL: nil, confirm: nil},
		},
		"no row is changed, and the look fails": {
			fake{updates: []update{none}, reads: errDatabase},
			map[string]error{table: errDatabase, confirm: errDatabase, guardOfMySQL: errDatabase, guard: fence.ErrStale},
		},
		"no row is changed, as it has the token": {
			fake{updates: []update{none}, seen: row(token)},
			map[string]error{table: nil, confirm: nil, guardOfMySQL: nil},
		},
		"no row is changed, as it has a newer one": {
			fake{updates: []update{none}, seen: row(fence.New(8, "an owner"))},
			map[string]error{table: fence.ErrStale, confirm: fence.ErrStale, guardOfMySQL: fence.ErrStale, guard: fence.ErrStale},
		},
		"no row is changed, as it has another's": {
			fake{updates: []update{none}, seen: row(fence.New(7, "another"))},
			map[string]error{table: fence.ErrStale, confirm: fence.ErrStale, guardOfMySQL: fence.ErrStale, guard: fence.ErrStale},
		},
		"there is no row": {
			fake{updates: []update{none}},
			map[string]error{table: sql.ErrNoRows, confirm: sql.ErrNoRows, guardOfMySQL: sql.ErrNoRows},
		},
		"the row comes in between": {
			fake{updates: []update{none, one}, seen: row(fence.New(6, "an owner"))},
			map[string]error{table: nil},
		},
		"the row is always older, and never changed": {
			fake{updates: []update{none}, seen: row(fence.New(6, "an owner"))},
			map[string]error{table: errOther},
		},
		"the row has a number that no fence is": {
			fake{updates: []update{none}, seen: []driver.Value{int64(-1), ""}},
			map[string]error{table: errOther},
		},
		"the row has no number": {
			fake{updates: []update{none}, seen: []driver.Value{nil, nil}},
			map[string]error{table: errOther, confirm: errOther, guardOfMySQL: errOther},
		},
	} {
		for what, want := range c.wants {
			t.Run(name+": "+what, func(t *testing.T) {
				f := c.db
				db := f.open(t)
				var err error
				switch what {
				case table, confirm:
					rows, failed := fence.NewTable(fence.MySQL, "stock", fence.Columns{})
					if failed != nil {
						t.Fatal(failed)
					}
					if what == table {
						err = rows.Claim(t.Context(), db, 1, token)
					} else {
						err = rows.Confirm(t.Context(), db, 1, token, f.updates[0])
					}
				default:
					dialect := fence.SQLite
					if what == guardOfMySQL {
						dialect = fence.MySQL
					}
					guards, failed := fence.NewGuards(dialect, "guards", fence.Columns{})
					if failed != nil {
						t.Fatal(failed)
					}
					err = guards.Claim(t.Context(), db, "k", token)
				}
				if want == errOther { //nolint:errorlint // as it is
					if err == nil || errors.Is(err, fence.ErrStale) || errors.Is(err, sql.ErrNoRows) {
						t.Errorf("got %v, want an error of the database", err)
					}
					return
				}
				if err != nil && want == nil || !errors.Is(err, want) || errors.Is(err, fence.ErrStale) != errors.Is(want, fence.ErrStale) {
					t.Errorf("got %v, want %v", err, want)
				}
			})
		}
	}
}

// What InTx returns is what became of the transaction, whatever became of the lease.
func TestATransactionReturnsWhatBecameOfIt(t *testing.T) {
	for name, c := range map[string]struct {
		db    fake
		fn    error
		loses bool // the lease, during the commit
		want  error
		is    bool // want itself
		runs  bool
	}{
		"it is committed":                            {runs: true},
		"it is committed, and the lease is lost":     {loses: true, runs: true},
		"the func fails":                             {fn: errDatabase, want: errDatabase, is: true, runs: true},
		"it doesn't begin":                           {db: fake{begins: errDatabase}, want: errDatabase, is: true},
		"the commit fails":                           {db: fake{commits: errDatabase}, want: errDatabase, is: true, runs: true},
		"the commit fails, and the lease is lost":    {db: fake{commits: errDatabase}, loses: true, want: errDatabase, runs: true},
		"the commit fails: the loss is said as well": {db: fake{commits: errDatabase}, loses: true, want: lock.ErrForced, runs: true},
		"it claims late":                             {db: fake{updates: []update{{}}}, want: fence.ErrStale},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				locker := newLocker(t)
				f := c.db
				if f.updates == nil {
					f.updates = []update{{rows: 1}}
				}
				if c.loses {
					f.committing = func() {
						if _, err := locker.ForceRelease(context.Background(), "k"); err != nil {
							t.Error(err)
						}
					}
				}
				guards, err := fence.NewGuards(fence.PostgreSQL, "guards", fence.Columns{})
				if err != nil {
					t.Fatal(err)
				}
				ran := false
				db := sql.OpenDB(&f)
				err = guards.InTx(t.Context(), locker, db, "k", func(context.Context, *sql.Tx) error { ran = true; return c.fn })
				if err != nil && c.want == nil || !errors.Is(err, c.want) || c.is && err != c.want { //nolint:errorlint // as it is
					t.Errorf("got %v, want %v", err, c.want)
				}
				if ran != c.runs {
					t.Errorf("the func ran: %v", ran)
				}
				if err := db.Close(); err != nil {
					t.Error(err)
				}
				if lease, err := locker.TryAcquire(t.Context(), "k"); err != nil {
					t.Errorf("the lock is not free: %v", err)
				} else if err := lease.Release(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// The errors of a claim name the key, and none the token's owner.
func TestAnErrorOfAClaimNamesTheKeyAndNotTheOwner(t *testing.T) {
	f := fake{updates: []update{{err: errDatabase}}}
	guards, err := fence.NewGuards(fence.SQLite, "guards", fence.Columns{})
	if err != nil {
		t.Fatal(err)
	}
	token := fence.New(7, "an owner")
	err = guards.On(f.open(t)).Claim(t.Context(), "lock:order:42", token)
	if err == nil || !strings.Contains(err.Error(), "lock:order:42") || strings.Contains(err.Error(), token.Owner) {
		t.Errorf("got %v", err)
	}
}
