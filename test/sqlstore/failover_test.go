package sqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/sqlstore"
	"github.com/redlatch/redlatch/test/internal/sqltest"
)

// A replica that takes over has all grants if it is synchronous. An asynchronous one forgets
// the grants that it didn't have, and only fences protect the data: they grow all the same.
func TestAReplicaTakesOver(t *testing.T) {
	t.Parallel()
	for name, synchronous := range map[string]bool{"synchronous": true, "asynchronous": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			primary := sqltest.StartPostgres(t)
			admin := postgres(t, primary.URL(), nil)
			store(t, admin, sqlstore.PostgreSQL)
			standby := sqltest.StartStandby(t, primary)
			follower := postgres(t, standby.URL(), nil)
			eventually(t, "the replica follows", func() bool {
				return number(t, admin, "SELECT COUNT(*) FROM pg_stat_replication WHERE state = 'streaming'") == 1
			})
			if synchronous {
				set(t, admin, "synchronous_standby_names", "standby")
				eventually(t, "the replica is synchronous", func() bool {
					return number(t, admin, "SELECT COUNT(*) FROM pg_stat_replication WHERE sync_state = 'sync'") == 1
				})
			}
			s := lock.Blocking(store(t, postgres(t, primary.URL(), nil), sqlstore.PostgreSQL))
			before := grants(t, s, "before")
			if len(before) != each {
				t.Fatalf("%d grants of %d", len(before), each)
			}
			set(t, follower, "primary_conninfo", "")
			eventually(t, "the replica is cut off", func() bool { return number(t, admin, "SELECT COUNT(*) FROM pg_stat_replication") == 0 })
			after := grants(t, s, "after")
			primary.Kill()
			if _, err := follower.ExecContext(t.Context(), "SELECT pg_promote()"); err != nil {
				t.Fatal(err)
			}
			promoted := lock.Blocking(store(t, postgres(t, standby.URL(), nil), sqlstore.PostgreSQL))
			if n := forgotten(t, promoted, before); n > 0 {
				t.Errorf("%d grants of %d are forgotten that the replica had", n, len(before))
			}
			n := forgotten(t, promoted, after)
			t.Logf("behind the cut: %d grants, of which %d are forgotten", len(after), n)
			if synchronous && len(after) > 0 || !synchronous && (len(after) != each || n != each) {
				t.Errorf("behind the cut: %d grants, of which %d are forgotten", len(after), n)
			}
		})
	}
}

// each is how many grants there are before and after.
const each = 40

// grants are the claims that were answered, with their fences.
func grants(t *testing.T, s lock.BlockingStore, prefix string) map[string]uint64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	var mu sync.Mutex
	var done sync.WaitGroup
	granted := make(map[string]uint64)
	for i := range each {
		done.Go(func() {
			key := fmt.Sprint(prefix, ":", i)
			fence, err := s.Acquire(ctx, claim(key, "a:1", lock.Exclusive))
			if err != nil {
				return // it waits for the replica
			}
			mu.Lock()
			defer mu.Unlock()
			granted[key] = fence
		})
	}
	done.Wait()
	return granted
}

// forgotten counts the grants that another gets.
func forgotten(t *testing.T, s lock.BlockingStore, granted map[string]uint64) (n int) {
	t.Helper()
	for key, before := range granted {
		fence, err := s.Acquire(t.Context(), claim(key, "b:1", lock.Exclusive))
		switch {
		case err == nil && fence <= before:
			t.Errorf("%s: fence %d after %d", key, fence, before)
		case err == nil:
			n++
		case !errors.Is(err, lock.ErrBusy):
			t.Fatal(err)
		}
	}
	return n
}

func number(t *testing.T, db *sql.DB, query string) (n int) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// set changes a setting of a server.
func set(t *testing.T, db *sql.DB, name, value string) {
	t.Helper()
	for _, statement := range []string{"ALTER SYSTEM SET " + name + " = '" + value + "'", "SELECT pg_reload_conf()"} {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
}

// While a transaction is open, PostgreSQL keeps each version of a row that is younger. A key
// that many callers of a process want has few, as they pass it on.
func TestAHotKeyBesideALongTransactionIsWrittenRarely(t *testing.T) {
	t.Parallel()
	address := sharedPostgres.database(t)
	count := new(statements)
	l := lock.New(store(t, postgres(t, address, func(c *pgx.ConnConfig) { c.Tracer = count }), sqlstore.PostgreSQL))
	t.Cleanup(func() { _ = l.Close(context.Background()) })
	long, err := postgres(t, address, nil).BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	defer long.Rollback() //nolint:errcheck // it only reads
	if _, err := long.ExecContext(t.Context(), "SELECT COUNT(*) FROM redlatch_locks"); err != nil {
		t.Fatal(err)
	}
	const callers, cycles = 16, 60
	before, inside := count.n.Load(), 0
	var done sync.WaitGroup
	for range callers {
		done.Go(func() {
			for range cycles {
				if err := l.Do(t.Context(), "hot", func(context.Context) error { inside++; return nil }); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done.Wait()
	sent := count.n.Load() - before
	t.Logf("%d statements for %d cycles", sent, callers*cycles)
	if inside != callers*cycles || sent > callers*cycles/4 {
		t.Errorf("counted %d of %d, with %d statements", inside, callers*cycles, sent)
	}
}
