package fence_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redlatch/redlatch/core/fence"
	"github.com/redlatch/redlatch/core/lock"
)

func promises(t *testing.T, db database) {
	t.Helper()
	for name, holds := range map[string]func(*testing.T, database){
		"the newest holder only":                                 newestOnly,
		"a late write after the read of the next is refused":     lateAfterRead,
		"a check at the write alone loses that update":           writeCheckAlone,
		"a claim keeps others out until its transaction ends":    keepsOthersOut,
		"a claim that is rolled back has not been":               rolledBack,
		"a claim sees what is there now, not what was at first":  notTheSnapshot,
		"a write that changes nothing is confirmed":              unchanged,
		"a write without a token writes nothing":                 tokenless,
		"a late transaction inserts nothing":                     insertOnce,
		"without any lock no update is lost, in one transaction": counterInOne,
		"without any lock no update is lost, in two":             counterInTwo,
		"many who make the same guard at once":                   guardRace,
		"no row, or several, are an error":                       rows,
		"names are taken as they are":                            names,
		"a missing column is an error":                           absentColumn,
		"keys are compared by their bytes":                       keys,
		"a lock until the commit, and a pause at each step":      lockUntilCommit,
		"the same without a claim loses an update":               lockUntilCommitWithoutClaim,
		"a lock until the commit that fails leaves nothing":      lockUntilCommitFails,
		"two locks until the commit, or neither":                 lockAllUntilCommit,
		"two rows are claimed in the order of their keys":        claimsInOrder,
	} {
		t.Run(name, func(t *testing.T) { holds(t, db) })
	}
}

var older, newer = fence.New(1763735688000000, "a:1"), fence.New(1763735688000001, "b:1")

func wantErr(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

func newestOnly(t *testing.T, db database) {
	t.Helper()
	table, _ := db.stock(t)
	guards := db.guards(t)
	for name, claim := range map[string]func(context.Context, fence.Token) error{
		"a row":           func(ctx context.Context, token fence.Token) error { return table.Claim(ctx, db, 1, token) },
		"a guard":         func(ctx context.Context, token fence.Token) error { return guards.Claim(ctx, db, "k", token) },
		"a guard as port": func(ctx context.Context, token fence.Token) error { return guards.On(db.DB).Claim(ctx, "l", token) },
		"a row in a transaction": func(ctx context.Context, token fence.Token) error {
			return db.once(ctx, func(tx *sql.Tx) error { return table.Claim(ctx, tx, 1, token) })
		},
		"a guard in a transaction": func(ctx context.Context, token fence.Token) error {
			return db.once(ctx, func(tx *sql.Tx) error { return guards.Claim(ctx, tx, "m", token) })
		},
	} {
		for _, tt := range []struct {
			name  string
			token fence.Token
			want  error
		}{
			{"the first", fence.New(10, "a:1"), nil},
			{"the same again", fence.New(10, "a:1"), nil},
			{"an older one", fence.New(9, "z:1"), fence.ErrStale},
			{"an older one of the same owner", fence.New(9, "a:1"), fence.ErrStale},
			{"the same fence of another owner", fence.New(10, "b:1"), fence.ErrStale},
			{"a newer one", fence.New(11, "b:1"), nil},
			{"the first, late", fence.New(10, "a:1"), fence.ErrStale},
			{"the newest, once more", fence.New(11, "b:1"), nil},
			{"the largest there is", fence.New(fence.MaxFence, "c:1"), nil},
			{"the largest again", fence.New(fence.MaxFence, "c:1"), nil},
			{"none", fence.Token{}, fence.ErrMalformed},
			{"a digest in capitals", fence.Token{Fence: fence.MaxFence, Owner: strings.ToUpper(fence.New(1, "c:1").Owner)}, fence.ErrMalformed},
		} {
			wantErr(t, name+": "+tt.name, claim(t.Context(), tt.token), tt.want)
		}
		if strings.HasPrefix(name, "a row") {
			table, _ = db.stock(t) // the next starts anew
		}
	}
}

// write is the third step of the protocol, in a separate transaction.
func write(t *testing.T, db database, table *fence.Table, name string, val int, token fence.Token) error {
	t.Helper()
	condition, args := table.Where(token, 3)
	statement := db.numbered("UPDATE "+name+" SET val = ? WHERE id = ? AND ") + condition
	return db.once(t.Context(), func(tx *sql.Tx) error {
		result, err := tx.ExecContext(t.Context(), statement, append([]any{val, 1}, args...)...)
		if err != nil {
			return err
		}
		return table.Confirm(t.Context(), tx, 1, token, result)
	})
}

// Code that runs without a lock has no token. A row that nobody has claimed has none,
// either: they aren't the same.
func tokenless(t *testing.T, db database) {
	t.Helper()
	table, name := db.stock(t)
	for what, token := range map[string]fence.Token{
		"none":                   {},
		"one without a fence":    {Owner: older.Owner},
		"one without an owner":   {Fence: 10},
		"one that is too large":  fence.New(fence.MaxFence+1, "a:1"),
		"a fence that is all 64": fence.New(1<<64-1, "a:1"),
	} {
		wantErr(t, what, write(t, db, table, name, 7, token), fence.ErrMalformed)
		condition, args := table.Where(token, 2)
		result := db.exec(t, db, db.numbered("UPDATE "+name+" SET val = ? WHERE ")+condition, append([]any{7}, args...)...)
		if rows, err := result.RowsAffected(); err != nil || rows != 0 {
			t.Errorf("%s: %d rows, %v", what, rows, err)
		}
		wantErr(t, what+", a write of nothing", table.Confirm(t.Context(), db, 1, token, result), fence.ErrMalformed)
	}
	if got := db.count(t, db, "SELECT val FROM "+name+" WHERE id = 1"); got != 0 {
		t.Errorf("val is %d", got)
	}
}

// A claims and reads, and is paused. B gets the lock, claims and reads. A goes on
// and writes, before B does.
func lateAfterRead(t *testing.T, db database) {
	t.Helper()
	table, name := db.stock(t)
	read := func() int { return db.count(t, db, "SELECT val FROM "+name+" WHERE id = 1") }

	wantErr(t, "A claims", table.Claim(t.Context(), db, 1, older), nil)
	readByA := read()
	wantErr(t, "B claims", table.Claim(t.Context(), db, 1, newer), nil)
	readByB := read()
	wantErr(t, "A writes late", write(t, db, table, name, readByA+1, older), fence.ErrStale)
	wantErr(t, "B writes", write(t, db, table, name, readByB+1, newer), nil)
	wantErr(t, "A claims again", table.Claim(t.Context(), db, 1, older), fence.ErrStale)
	if got := read(); got != 1 {
		t.Errorf("val is %d after one write that was acknowledged", got)
	}
}

// The control: with the same order of events and a fence that is checked by
// writes alone, both are acknowledged, and one is lost.
func writeCheckAlone(t *testing.T, db database) {
	t.Helper()
	_, name := db.stock(t)
	acked := 0
	write := func(val int, token fence.Token) {
		result := db.exec(t, db, "UPDATE "+name+" SET val = ?, fence = ?, fence_owner = ? WHERE id = 1 AND fence <= ?",
			val, int64(token.Fence), token.Owner, int64(token.Fence))
		if n, err := result.RowsAffected(); err == nil && n == 1 {
			acked++
		}
	}
	read := func() int { return db.count(t, db, "SELECT val FROM "+name+" WHERE id = 1") }
	readByA, readByB := read(), read()
	write(readByA+1, older)
	write(readByB+1, newer)
	if val := read(); acked != 2 || val != 1 {
		t.Errorf("%d acknowledged, val %d: the order of events no longer shows why a claim is needed", acked, val)
	}
}

func keepsOthersOut(t *testing.T, db database) {
	t.Helper()
	table, name := db.stock(t)
	first := db.begin(t)
	wantErr(t, "the older claims", table.Claim(t.Context(), first, 1, older), nil)
	read := make(chan int, 1)
	go func() {
		var val int
		err := db.inTx(t.Context(), func(tx *sql.Tx) (err error) {
			if err = table.Claim(t.Context(), tx, 1, newer); err == nil {
				val, err = db.tryCount(t.Context(), tx, "SELECT val FROM "+name+" WHERE id = 1")
			}
			return err
		})
		if err != nil {
			t.Errorf("the newer claims: %v", err)
		}
		read <- val
	}()
	select {
	case val := <-read:
		t.Errorf("the newer has read %d while the older one's transaction is open", val)
	default:
	}
	db.exec(t, first, "UPDATE "+name+" SET val = 7 WHERE id = 1")
	commit(t, first)
	if val := <-read; val != 7 {
		t.Errorf("the newer has read %d, not what the older wrote", val)
	}
}

func rolledBack(t *testing.T, db database) {
	t.Helper()
	table, _ := db.stock(t)
	guards := db.guards(t)
	tx := db.begin(t)
	wantErr(t, "claim row", table.Claim(t.Context(), tx, 1, newer), nil)
	wantErr(t, "claim guard", guards.Claim(t.Context(), tx, "k", newer), nil)
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	wantErr(t, "older row", table.Claim(t.Context(), db, 1, older), nil)
	wantErr(t, "older guard", guards.Claim(t.Context(), db, "k", older), nil)
}

// The late transaction has read before it claims, as it must not: it is refused
// all the same, by the claim or by the database.
func notTheSnapshot(t *testing.T, db database) {
	t.Helper()
	if db.immediate {
		return // while a transaction is open, nobody else can claim
	}
	table, name := db.stock(t)
	guards := db.guards(t)
	isolation := sql.LevelRepeatableRead
	if db.dialect == fence.SQLite {
		isolation = sql.LevelDefault // is more than that
	}
	for what, claim := range map[string]func(fence.Conn, fence.Token) error{
		"row":   func(on fence.Conn, token fence.Token) error { return table.Claim(t.Context(), on, 1, token) },
		"guard": func(on fence.Conn, token fence.Token) error { return guards.Claim(t.Context(), on, "k", token) },
	} {
		late, err := db.BeginTx(t.Context(), &sql.TxOptions{Isolation: isolation})
		if err != nil {
			t.Fatal(err)
		}
		db.count(t, late, "SELECT val FROM "+name+" WHERE id = 1")
		wantErr(t, "the newer claims the "+what, claim(db, newer), nil)
		if err := claim(late, older); err == nil {
			t.Errorf("the late transaction claims the %s", what)
		}
		_ = late.Rollback()

		again, err := db.BeginTx(t.Context(), &sql.TxOptions{Isolation: isolation})
		if err != nil {
			t.Fatal(err)
		}
		db.count(t, again, "SELECT val FROM "+name+" WHERE id = 1")
		newest := fence.New(newer.Fence+1, "c:1")
		wantErr(t, "the newest claims the "+what, claim(db, newest), nil)
		if err := claim(again, newest); errors.Is(err, fence.ErrStale) {
			t.Errorf("the newest is late for its own claim of the %s", what)
		}
		_ = again.Rollback()
	}
}

func unchanged(t *testing.T, db database) {
	t.Helper()
	table, name := db.stock(t)
	wantErr(t, "claim", table.Claim(t.Context(), db, 1, newer), nil)
	for range 2 {
		wantErr(t, "write of what is there", write(t, db, table, name, 0, newer), nil)
	}
	wantErr(t, "late write of what is there", write(t, db, table, name, 0, older), fence.ErrStale)
}

func insertOnce(t *testing.T, db database) {
	t.Helper()
	guards, mails := db.guards(t), db.name("mails")
	db.exec(t, db, "CREATE TABLE "+mails+" (id INT NOT NULL)")
	mail := func(id int, token fence.Token) error {
		return db.once(t.Context(), func(tx *sql.Tx) error {
			if err := guards.Claim(t.Context(), tx, "lock:mail:42", token); err != nil {
				return err
			}
			if db.count(t, tx, "SELECT COUNT(*) FROM "+mails+" WHERE id = ?", id) == 0 {
				db.exec(t, tx, "INSERT INTO "+mails+" (id) VALUES (?)", id)
			}
			return nil
		})
	}
	wantErr(t, "the newer", mail(1, newer), nil)
	wantErr(t, "the newer again", mail(1, newer), nil)
	wantErr(t, "the late one", mail(2, older), fence.ErrStale)
	if n := db.count(t, db, "SELECT COUNT(*) FROM "+mails); n != 1 {
		t.Errorf("%d mails, want 1", n)
	}
}

const workers, rounds = 8, 20

// counter lets workers add one each time, at once and under no lock, with fences
// that are sometimes late and sometimes another's. It compares what was
// acknowledged with what is there.
func counter(t *testing.T, db database, add func(ctx context.Context, table *fence.Table, name string, token fence.Token) error) {
	t.Helper()
	table, name := db.stock(t)
	var (
		wg                   sync.WaitGroup
		next, acked, refused atomic.Int32
	)
	for w := range workers {
		wg.Go(func() {
			for range rounds {
				token := fence.New(uint64(1+next.Add(1)/2), fmt.Sprint("o:", w))
				switch err := add(t.Context(), table, name, token); {
				case err == nil:
					acked.Add(1)
				case errors.Is(err, fence.ErrStale):
					refused.Add(1)
				default:
					t.Errorf("worker %d: %v", w, err)
				}
			}
		})
	}
	wg.Wait()
	val := db.count(t, db, "SELECT val FROM "+name+" WHERE id = 1")
	if int(acked.Load()) != val {
		t.Errorf("%d updates are acknowledged, and %d are there", acked.Load(), val)
	}
	if val == 0 || refused.Load() == 0 {
		t.Errorf("%d added, %d refused: the test shows nothing", val, refused.Load())
	}
	t.Logf("%d added, %d refused", val, refused.Load())
}

func counterInOne(t *testing.T, db database) {
	t.Helper()
	counter(t, db, func(ctx context.Context, table *fence.Table, name string, token fence.Token) error {
		return db.inTx(ctx, func(tx *sql.Tx) error {
			if err := table.Claim(ctx, tx, 1, token); err != nil {
				return err
			}
			val, err := db.tryCount(ctx, tx, "SELECT val FROM "+name+" WHERE id = 1")
			if err != nil {
				return err
			}
			_, err = tx.ExecContext(ctx, db.numbered("UPDATE "+name+" SET val = ? WHERE id = 1"), val+1)
			return err
		})
	})
}

func counterInTwo(t *testing.T, db database) {
	t.Helper()
	counter(t, db, func(ctx context.Context, table *fence.Table, name string, token fence.Token) error {
		var val int
		err := db.inTx(ctx, func(tx *sql.Tx) (err error) {
			if err = table.Claim(ctx, tx, 1, token); err == nil {
				val, err = db.tryCount(ctx, tx, "SELECT val FROM "+name+" WHERE id = 1")
			}
			return err
		})
		if err != nil {
			return err
		}
		condition, args := table.Where(token, 2)
		return db.inTx(ctx, func(tx *sql.Tx) error {
			statement := db.numbered("UPDATE "+name+" SET val = ? WHERE id = 1 AND ") + condition
			result, err := tx.ExecContext(ctx, statement, append([]any{val + 1}, args...)...)
			if err != nil {
				return err
			}
			return table.Confirm(ctx, tx, 1, token, result)
		})
	})
}

func guardRace(t *testing.T, db database) {
	t.Helper()
	const holders = 60
	guards := db.guards(t)
	var wg sync.WaitGroup
	for n := range holders {
		wg.Go(func() {
			token := fence.New(uint64(n+1), "o:1")
			err := db.inTx(t.Context(), func(tx *sql.Tx) error { return guards.Claim(t.Context(), tx, "k", token) })
			if err != nil && !errors.Is(err, fence.ErrStale) {
				t.Errorf("holder %d: %v", n, err)
			}
		})
	}
	wg.Wait()
	wantErr(t, "the newest", guards.Claim(t.Context(), db, "k", fence.New(holders, "o:1")), nil)
	wantErr(t, "the one before", guards.Claim(t.Context(), db, "k", fence.New(holders-1, "o:1")), fence.ErrStale)
}

func rows(t *testing.T, db database) {
	t.Helper()
	table, name := db.stock(t)
	wantErr(t, "no such row", table.Claim(t.Context(), db, 2, newer), sql.ErrNoRows)

	db.exec(t, db, "INSERT INTO "+name+" (id, val) VALUES (2, 0)")
	byVal, err := fence.NewTable(db.dialect, name, fence.Columns{Key: "val"})
	if err != nil {
		t.Fatal(err)
	}
	tx := db.begin(t)
	wantErr(t, "two rows", byVal.Claim(t.Context(), tx, 0, newer), lock.ErrInvalid)
	_ = tx.Rollback()

	var told *lock.Error
	if err := table.Claim(t.Context(), db, 3, newer); !errors.As(err, &told) || told.Key != "3" || told.Op == "" {
		t.Errorf("error %v does not say what on which row", err)
	}
}

func names(t *testing.T, db database) {
	t.Helper()
	c := fence.Columns{Key: "order", Fence: "group", Owner: "select"}
	guards, err := fence.NewGuards(db.dialect, fmt.Sprint("Table", number.Add(1)), c)
	if err != nil {
		t.Fatal(err)
	}
	db.exec(t, db, guards.Schema())
	wantErr(t, "claim", guards.Claim(t.Context(), db, "k", newer), nil)
	wantErr(t, "late claim", guards.Claim(t.Context(), db, "k", older), fence.ErrStale)
}

func absentColumn(t *testing.T, db database) {
	t.Helper()
	good, name := db.stock(t)
	wantErr(t, "the check of a table", good.Check(t.Context(), db), nil)
	wantErr(t, "the check of guards", db.guards(t).Check(t.Context(), db), nil)
	for _, c := range []fence.Columns{{Key: "absent"}, {Fence: "absent"}, {Owner: "absent"}} {
		table, err := fence.NewTable(db.dialect, name, c)
		if err != nil {
			t.Fatal(err)
		}
		for _, err := range []error{table.Check(t.Context(), db), table.Claim(t.Context(), db, 1, newer)} {
			if err == nil || errors.Is(err, fence.ErrStale) || errors.Is(err, sql.ErrNoRows) {
				t.Errorf("%+v: %v, want the database's complaint", c, err)
			}
		}
	}
}

func keys(t *testing.T, db database) {
	t.Helper()
	guards := db.guards(t)
	for _, key := range []string{"a", "A", "a ", "á", "a%", "a\\", "'", "半价", strings.Repeat("k", fence.MaxGuardKey)} {
		wantErr(t, key, guards.Claim(t.Context(), db, key, newer), nil)
		wantErr(t, key, guards.Claim(t.Context(), db, key, older), fence.ErrStale)
	}
	for _, key := range []string{"", "a\x00", "a\xff", strings.Repeat("k", fence.MaxGuardKey+1)} {
		wantErr(t, fmt.Sprintf("%.9q", key), guards.Claim(t.Context(), db, key, newer), lock.ErrInvalid)
	}
	// A lock whose key was equal to another's would have been claimed by it.
	for i, key := range []string{"x", "X", "x ", "ẋ"} {
		wantErr(t, key, guards.Claim(t.Context(), db, key, fence.New(uint64(100-i), "o:1")), nil)
	}
}
