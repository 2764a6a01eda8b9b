package sqlstore_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/sqlstore"
	"github.com/redlatch/redlatch/test/internal/sqltest"
)

// claim is one of an owner for a minute.
func claim(key, owner string, m lock.Mode) lock.Claim {
	c := lock.Claim{Key: key, Owner: owner, Mode: m, TTL: time.Minute}
	if m == lock.Semaphore {
		c.Permits, c.Size = 1, 1
	}
	return c
}

func granted(t *testing.T, s lock.BlockingStore, c lock.Claim) uint64 {
	t.Helper()
	fence, err := s.Acquire(t.Context(), c)
	if err != nil {
		t.Fatalf("Acquire(%+v): %v", c, err)
	}
	return fence
}

func outcome(t *testing.T, err error) lock.Outcome {
	t.Helper()
	failed, ok := errors.AsType[*lock.StoreError](err)
	if !ok {
		t.Fatalf("got %v, want a StoreError", err)
	}
	return failed.Outcome
}

// An upsert that only its WHERE refuses locks the row, and writes.
func TestARefusedTryWritesNothing(t *testing.T) {
	t.Parallel()
	db := postgres(t, sharedPostgres.database(t), nil)
	s := lock.Blocking(store(t, db, sqlstore.PostgreSQL))
	tuple := func() (text string) {
		if err := db.QueryRowContext(t.Context(), "SELECT string_agg(ctid::text || ' ' || xmin || ' ' || xmax, ',' ORDER BY id) FROM redlatch_locks").Scan(&text); err != nil {
			t.Fatal(err)
		}
		return text
	}
	for _, m := range []lock.Mode{lock.Exclusive, lock.Fair, lock.Write, lock.Semaphore} {
		granted(t, s, claim(m.String(), "a:1", m))
	}
	queued := claim("fair", "b:1", lock.Fair)
	queued.Places = []string{"b:1"}
	if _, err := s.Acquire(t.Context(), queued); !errors.Is(err, lock.ErrBusy) {
		t.Fatal(err)
	}
	before := tuple()
	for range 3 {
		for _, c := range []lock.Claim{
			claim("exclusive", "b:1", lock.Exclusive), queued, claim("fair", "c:1", lock.Fair), claim("write", "b:1", lock.Read),
			claim("write", "b:1", lock.Write), claim("semaphore", "b:1", lock.Semaphore),
		} {
			if _, err := s.Acquire(t.Context(), c); !errors.Is(err, lock.ErrBusy) {
				t.Errorf("Acquire(%+v): got %v, want ErrBusy", c, err)
			}
		}
	}
	if after := tuple(); after != before {
		t.Errorf("rows %s became %s", before, after)
	}
}

// All parts of a statement see the snapshot of its beginning: a release must look again
// before it says that a hold which has just moved into a document is gone.
func TestAReleaseFindsAHoldThatMoves(t *testing.T) {
	t.Parallel()
	worlds(t, func(t *testing.T, w world) {
		t.Helper()
		here, there := lock.Blocking(store(t, w.open(), w.dialect)), lock.Blocking(store(t, w.open(), w.dialect))
		for round := range 60 {
			key := fmt.Sprint("moves:", round)
			mine, other := claim(key, "a:1", lock.Fair), claim(key, "b:1", lock.Fair)
			other.Places = []string{other.Owner}
			granted(t, here, mine)
			var done sync.WaitGroup
			done.Go(func() {
				if _, err := there.Acquire(t.Context(), other); err != nil && !errors.Is(err, lock.ErrBusy) {
					t.Error(err)
				}
			})
			if err := here.Release(t.Context(), mine); err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
			done.Wait()
		}
	})
}

// Keys that fit no index, and keys that a collation takes for one.
func TestKeysAreBytes(t *testing.T) {
	t.Parallel()
	worlds(t, func(t *testing.T, w world) {
		t.Helper()
		s := lock.Blocking(store(t, w.open(), w.dialect))
		long := make([]byte, lock.MaxKeyBytes)
		_, _ = rand.Read(long)
		for _, key := range []string{"a", "A", "a ", "ä", "a\x00", "\xff", string(long), string(long[:lock.MaxKeyBytes-1])} {
			granted(t, s, claim(key, "a:1", lock.Exclusive))
		}
		for _, owner := range []string{"a\x00:1", "\xff:1", strings.Repeat("a", 200)} {
			if _, err := s.Acquire(t.Context(), claim("k", owner, lock.Exclusive)); !errors.Is(err, lock.ErrInvalid) {
				t.Errorf("owner %q: got %v, want ErrInvalid", owner, err)
			}
		}
	})
}

// Batches that overlap are renewed in one order, or they deadlock.
func TestRenewalsThatOverlapWaitForEachOther(t *testing.T) {
	t.Parallel()
	worlds(t, func(t *testing.T, w world) {
		t.Helper()
		const n = 300
		var claims []lock.Claim
		first := lock.Blocking(store(t, w.open(), w.dialect))
		for i := range n {
			c := claim(fmt.Sprint("k", i), "a:1", lock.Exclusive)
			granted(t, first, c)
			claims = append(claims, c)
		}
		var done sync.WaitGroup
		for i := range 4 {
			s := lock.Blocking(store(t, w.open(), w.dialect))
			done.Go(func() {
				for round := range 5 {
					from := (i*37 + round*11) % n
					mixed := append(append([]lock.Claim{}, claims[from:]...), claims[:from]...)
					s.Renew(t.Context(), mixed, func(_ int, err error) {
						if err != nil {
							t.Errorf("Renew: %v", err)
						}
					})
				}
			})
		}
		done.Wait()
	})
}

// An acquire waits for a transaction that releases the lock, but not for long: a refused
// one can be tried again, and has done nothing.
func TestAnAcquireWaitsOnlyAMomentForATransaction(t *testing.T) {
	t.Parallel()
	address := sharedPostgres.database(t)
	data := postgres(t, address, nil)
	s := store(t, postgres(t, address, nil), sqlstore.PostgreSQL)
	l := lock.New(s)
	t.Cleanup(func() { _ = l.Close(context.Background()) })
	lease, err := l.Acquire(t.Context(), "k", lock.WithLease(2*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	tx, err := data.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback() //nolint:errcheck // after a commit it does nothing
	if err := s.ReleaseTx(t.Context(), tx, lease); err != nil {
		t.Fatal(err)
	}
	<-lease.Context().Done() // the hold has expired, and the row is locked
	other := lock.Blocking(store(t, postgres(t, address, nil), sqlstore.PostgreSQL))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for state := (lock.State{Held: true}); state.Held; {
		if state, err = other.Inspect(ctx, "k"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := other.Acquire(ctx, claim("k", "b:1", lock.Exclusive)); !errors.Is(err, lock.ErrBusy) || ctx.Err() != nil {
		t.Errorf("got %v, want ErrBusy", err)
	}
	if err := tx.Commit(); err != nil {
		t.Errorf("an expired hold that nobody took: %v", err)
	}
	granted(t, other, claim("k", "b:1", lock.Exclusive))
}

// A synchronous replica that is away: a grant must not be believed, also after a cancel, and
// neither a release under a minimum hold. Other releases don't wait for it, as they have
// NOTIFY in their commit.
func TestAGrantThatTheReplicaDoesNotHaveIsUnknown(t *testing.T) {
	t.Parallel()
	address := sqltest.Postgres(t)
	db := postgres(t, address, nil)
	s := lock.Blocking(store(t, postgres(t, address, nil), sqlstore.PostgreSQL, sqlstore.WithListener(listener(t, address)), quiet))
	held, keeping := claim("held", "a:1", lock.Exclusive), claim("keeping", "a:1", lock.Exclusive)
	granted(t, s, held)
	granted(t, s, keeping)
	stop, err := s.Watch(t.Context(), claim("held", "b:1", lock.Exclusive), func() {})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	replica := func(names string) {
		t.Helper()
		for _, statement := range []string{
			"SET synchronous_commit = off", "ALTER SYSTEM SET synchronous_standby_names = '" + names + "'", "SELECT pg_reload_conf()",
		} {
			if _, err := db.ExecContext(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
	}
	db.SetMaxOpenConns(1) // which has the setting
	replica("nobody")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	eventually(t, "the setting is known", func() bool {
		brief, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		defer cancel()
		_, err := s.Acquire(brief, claim(fmt.Sprint("k", time.Now().UnixNano()), "a:1", lock.Exclusive))
		if err != nil && outcome(t, err) != lock.OutcomeUnknown {
			t.Fatalf("got %v with outcome %d, want unknown", err, outcome(t, err))
		}
		return err != nil
	})
	if err := s.Release(ctx, held); err != nil {
		t.Errorf("a release waits for the replica: %v", err)
	}
	keeping.Keep = time.Now().Add(time.Minute)
	brief, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	if err := s.Release(brief, keeping); err == nil || outcome(t, err) != lock.OutcomeUnknown {
		t.Errorf("a release under a minimum hold: got %v, want an unknown outcome", err)
	}
	replica("")
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for tick := time.NewTicker(5 * time.Millisecond); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("never happened: %s", what)
		}
	}
}

// Rows that nobody uses go when others come, and the fences of their keys go on growing.
func TestOldRowsGo(t *testing.T) {
	t.Parallel()
	worlds(t, func(t *testing.T, w world) {
		t.Helper()
		db := w.open()
		s := lock.Blocking(store(t, db, w.dialect))
		exec := func(statement string, args ...any) {
			t.Helper()
			if _, err := db.ExecContext(t.Context(), statement, args...); err != nil {
				t.Fatal(err)
			}
		}
		old := claim("old", "a:1", lock.Exclusive)
		granted(t, s, old)
		if err := s.Release(t.Context(), old); err != nil {
			t.Fatal(err)
		}
		ahead := claim("ahead", "a:1", lock.Exclusive)
		fence := granted(t, s, ahead)
		if err := s.Release(t.Context(), ahead); err != nil {
			t.Fatal(err)
		}
		hour := int64(time.Hour / time.Microsecond)
		now := time.Now().UnixMicro()
		exec(fmt.Sprintf("UPDATE redlatch_locks SET expires = %d, fence = %d", now-hour, (now-hour)*64))
		// The clock went back: its fence is ahead of it.
		exec(fmt.Sprintf("UPDATE redlatch_locks SET fence = %d WHERE fence > 0 AND name = %s", (now+hour)*64, literal(w.dialect, "ahead")))
		held := claim("held", "a:1", lock.Exclusive)
		granted(t, s, held)
		for i := range 64 * 3 {
			c := claim(fmt.Sprint("new", i), "a:1", lock.Exclusive)
			granted(t, s, c)
		}
		count := func(name string) (n int) {
			t.Helper()
			if err := db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM redlatch_locks WHERE name = "+literal(w.dialect, name)).Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		}
		for i := 0; count("old") > 0; i++ { // each look begins at a random place
			if i == 40 {
				t.Fatal("the old row stays")
			}
			exec(fmt.Sprintf("DELETE FROM redlatch_locks WHERE name NOT IN (%s, %s, %s)", // or there are more and more
				literal(w.dialect, "old"), literal(w.dialect, "ahead"), literal(w.dialect, "held")))
			for n := range 64 {
				granted(t, s, claim(fmt.Sprint("more", i, ".", n), "a:1", lock.Exclusive))
			}
		}
		if count("ahead") != 1 || count("held") != 1 {
			t.Error("a row went that is held, or whose fence is ahead of the clock")
		}
		if next := granted(t, s, ahead); next <= uint64(now+hour)*64 || next <= fence {
			t.Errorf("fence %d after %d", next, (now+hour)*64)
		}
		var floor int64
		if err := db.QueryRowContext(t.Context(), "SELECT floor FROM redlatch_meta").Scan(&floor); err != nil || floor < (now-hour)*64 {
			t.Errorf("floor %d, %v: want %d at least", floor, err, (now-hour)*64)
		}
		exec(fmt.Sprintf("UPDATE redlatch_meta SET floor = %d", (now+2*hour)*64))
		for _, m := range []lock.Mode{lock.Exclusive, lock.Semaphore} { // both ways to insert
			if next := granted(t, s, claim("another"+m.String(), "a:1", m)); next <= uint64(now+2*hour)*64 {
				t.Errorf("%s: fence %d, with a floor of %d", m, next, (now+2*hour)*64)
			}
		}
	})
}

// literal is a string as bytes.
func literal(d sqlstore.Dialect, text string) string {
	if d == sqlstore.PostgreSQL {
		return fmt.Sprintf(`'\x%x'::bytea`, text)
	}
	return fmt.Sprintf("x'%x'", text)
}

func TestCheckSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	worlds(t, func(t *testing.T, w world) {
		t.Helper()
		db := w.open()
		s, err := sqlstore.New(db, w.dialect)
		if err != nil {
			t.Fatal(err)
		}
		says := func(words ...string) {
			t.Helper()
			err := s.Check(t.Context())
			if !errors.Is(err, lock.ErrUnavailable) {
				t.Fatalf("got %v, want ErrUnavailable", err)
			}
			for _, word := range words {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%q doesn't say %q", err, word)
				}
			}
		}
		says("redlatch_locks cannot be read", "CREATE TABLE IF NOT EXISTS redlatch_locks (")
		for range 2 { // the second changes nothing
			if err := s.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := s.Check(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		exec := func(statement string) {
			t.Helper()
			if _, err := db.ExecContext(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
		exec("DELETE FROM redlatch_meta")
		says("redlatch_meta has 0 rows", "INTO redlatch_meta")
		if err := s.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		exec("ALTER TABLE redlatch_locks DROP COLUMN more")
		says("redlatch_locks cannot be read", "more")
		exec("DROP TABLE redlatch_meta")
		exec("DROP TABLE redlatch_locks")
		says("CREATE TABLE IF NOT EXISTS redlatch_locks (")
	})
}

// A user that may read but not write.
func TestCheckSaysWhatIsForbidden(t *testing.T) {
	t.Parallel()
	address := sharedPostgres.database(t)
	db := postgres(t, address, nil)
	store(t, db, sqlstore.PostgreSQL)
	for _, statement := range []string{"CREATE ROLE reader LOGIN PASSWORD 'reader'", "GRANT SELECT ON redlatch_locks, redlatch_lockers, redlatch_meta TO reader"} {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	reader, err := sqlstore.New(open(t, "pgx", strings.Replace(address, "redlatch:redlatch@", "reader:reader@", 1), 2), sqlstore.PostgreSQL)
	if err != nil {
		t.Fatal(err)
	}
	err = reader.Check(t.Context())
	if err == nil || outcome(t, err) != lock.OutcomeRefused || lock.ClassOf(err) != "no permission" {
		t.Errorf("got %v of class %q, want a refusal for want of a permission", err, lock.ClassOf(err))
	}
}

// A call that has no connection when its time has come, or whose pool is closed, was not
// sent.
func TestACallWithoutAConnectionIsNotSent(t *testing.T) {
	t.Parallel()
	worlds(t, func(t *testing.T, w world) {
		t.Helper()
		db := w.open()
		s := store(t, db, w.dialect)
		db.SetMaxOpenConns(1)
		conn, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		acquired := func(by time.Time) error {
			answer := make(chan error, 1)
			s.Acquire(t.Context(), claim("k", "a:1", lock.Exclusive), by, lock.AnswerFunc(func(_ uint64, err error) { answer <- err }))
			return <-answer
		}
		err = acquired(time.Now().Add(50 * time.Millisecond))
		if outcome(t, err) != lock.OutcomeNotExecuted {
			t.Errorf("no free connection: %v with outcome %d", err, outcome(t, err))
		}
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
		if err := acquired(time.Now().Add(time.Minute)); err != nil {
			t.Errorf("with a connection: %v", err)
		}
		_ = db.Close()
		if err := acquired(time.Now().Add(time.Minute)); outcome(t, err) != lock.OutcomeRefused {
			t.Errorf("a closed pool: %v with outcome %d", err, outcome(t, err))
		}
	})
}

// A crash may forget the last release of PostgreSQL, and a failover more than that. What
// others have decided about a version that was forgotten must not be written to another
// row that has come to the same one.
func TestAVersionThatWasForgottenNeverComesBack(t *testing.T) {
	t.Parallel()
	worlds(t, func(t *testing.T, w world) {
		t.Helper()
		db := w.open()
		s := lock.Blocking(store(t, db, w.dialect))
		type row struct {
			version, expires, fence, mode int64
			owner                         string
			more                          []byte
		}
		read := func() (r row) {
			t.Helper()
			err := db.QueryRowContext(t.Context(), "SELECT version, expires, fence, mode, owner, more FROM redlatch_locks").
				Scan(&r.version, &r.expires, &r.fence, &r.mode, &r.owner, &r.more)
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		forget := func(r row) { // what was written since
			t.Helper()
			more := "NULL"
			if r.more != nil {
				more = literal(w.dialect, string(r.more))
			}
			statement := fmt.Sprintf("UPDATE redlatch_locks SET version = %d, expires = %d, fence = %d, mode = %d, owner = '%s', more = %s",
				r.version, r.expires, r.fence, r.mode, r.owner, more)
			if _, err := db.ExecContext(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
		exclusive, fair := claim("k", "a:1", lock.Exclusive), claim("k", "a:1", lock.Fair)
		queued := claim("k", "b:1", lock.Fair)
		queued.Places = []string{queued.Owner}
		calls := []struct {
			name string
			call func() error
		}{
			{"acquire", func() error { _, err := s.Acquire(t.Context(), exclusive); return err }},
			{"acquire again", func() error { _, err := s.Acquire(t.Context(), exclusive); return err }},
			{"renew", func() (err error) {
				s.Renew(t.Context(), []lock.Claim{exclusive}, func(_ int, e error) { err = e })
				return err
			}},
			{"release", func() error { return s.Release(t.Context(), exclusive) }},
			{"acquire with others in the queue", func() error {
				fair.Places = []string{queued.Owner}
				_, err := s.Acquire(t.Context(), fair)
				return err
			}},
			{"release from a document", func() error { return s.Release(t.Context(), fair) }},
		}
		granted(t, s, exclusive)
		for _, c := range calls {
			before := read()
			forgotten := int64(0)
			for range 2 {
				forget(before)
				if err := c.call(); err != nil {
					t.Fatalf("%s: %v", c.name, err)
				}
				if now := read().version; now == forgotten {
					t.Errorf("%s: its version comes back", c.name)
				} else {
					forgotten = now
				}
			}
		}
	})
}

// Two processes have seen that a key is free, and both write: the second to come looks again.
func TestADecisionAboutAnOldRowIsNotWritten(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		mode  lock.Mode
		block string // keeps both from writing
	}{
		"a statement": {lock.Exclusive, "SELECT id FROM redlatch_locks FOR UPDATE"},
		"an update":   {lock.Semaphore, "SELECT id FROM redlatch_locks FOR UPDATE"},
		"an insert": {
			lock.Semaphore, "WITH gone AS (DELETE FROM redlatch_locks) INSERT INTO redlatch_locks (id, name) VALUES (substr(sha256('new'), 1, 16), 'new')",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := sharedPostgres.database(t)
			w := writers{db: postgres(t, address, nil)}
			for range 2 {
				w.stores = append(w.stores, lock.Blocking(store(t, postgres(t, address, nil), sqlstore.PostgreSQL)))
			}
			first := claim("used", "a:1", c.mode)
			first.TTL = time.Millisecond
			granted(t, w.stores[0], first)
			eventually(t, "the end of the first hold", func() bool {
				state, err := w.stores[0].Inspect(t.Context(), "used")
				return err == nil && !state.Held
			})
			key := "used"
			if name == "an insert" {
				key = "new"
			}
			grants := 0
			for round := 0; grants == 0; round++ { // on a slow machine both may have waited for too long
				grants = w.write(t, key, c.mode, c.block, round)
			}
			if grants != 1 {
				t.Errorf("%d grants at once", grants)
			}
		})
	}
}

// writers are processes that write at the same time.
type writers struct {
	db     *sql.DB
	stores []lock.BlockingStore
}

// write lets each process acquire the key, and write when all have decided. It returns how
// many have it.
func (w writers) write(t *testing.T, key string, m lock.Mode, block string, round int) (grants int) {
	t.Helper()
	tx, err := w.db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback() //nolint:errcheck // a second time it does nothing
	if _, err := tx.ExecContext(t.Context(), block); err != nil {
		t.Fatal(err)
	}
	got := make(chan error, len(w.stores))
	for i, s := range w.stores {
		go func() {
			_, err := s.Acquire(t.Context(), claim(key, fmt.Sprintf("%c%d:2", 'a'+i, round), m))
			got <- err
		}()
	}
	eventually(t, "all wait for the row, or have waited for too long", func() bool {
		return number(t, w.db, "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'")+len(got) == len(w.stores)
	})
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	for range w.stores {
		switch err := <-got; {
		case err == nil:
			grants++
		case !errors.Is(err, lock.ErrBusy):
			t.Error(err)
		}
	}
	return grants
}

// Processes that decide about a key at the same time lose no decision, also where nobody
// has had the key yet.
func TestTwoProcessesGrantOneHold(t *testing.T) {
	t.Parallel()
	worlds(t, func(t *testing.T, w world) {
		t.Helper()
		var stores []lock.BlockingStore
		for range 3 {
			stores = append(stores, lock.Blocking(store(t, w.open(), w.dialect)))
		}
		for _, m := range []lock.Mode{lock.Exclusive, lock.Fair, lock.Write, lock.Semaphore} {
			for round := range 40 {
				key := fmt.Sprint("two:", m, round/2) // every second time there is a row
				var done sync.WaitGroup
				var mu sync.Mutex
				var granted []lock.Claim
				for i, s := range stores {
					c := claim(key, fmt.Sprintf("%c%d:1", 'a'+i, round), m)
					done.Go(func() {
						_, err := s.Acquire(t.Context(), c)
						mu.Lock()
						defer mu.Unlock()
						switch {
						case err == nil:
							granted = append(granted, c)
						case !errors.Is(err, lock.ErrBusy):
							t.Errorf("%s: %v", m, err)
						}
					})
				}
				done.Wait()
				if len(granted) != 1 {
					t.Fatalf("%s, round %d: %d are granted", m, round, len(granted))
				}
				if err := stores[0].Release(t.Context(), granted[0]); err != nil {
					t.Fatalf("%s, round %d: %v", m, round, err)
				}
			}
		}
	})
}
