package fence_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/redlatch/redlatch/core/fence"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
)

// accounts is a table with the rows 1 and 2, which belong to the keys of the same index.
type accounts struct {
	database
	name string
	// inTxAll runs fn under the locks of these keys.
	inTxAll func(ctx context.Context, l *lock.Locker, db fence.Beginner, keys []string, fn func(context.Context, *sql.Tx) error, opts ...lock.Option) error
	// claim claims the row of a key.
	claim func(ctx context.Context, on fence.Conn, key string, token fence.Token) error
	// claims counts the keys whose rows have been claimed.
	claims func() int
}

var accountKeys = []string{"account:1", "account:2"}

// accountWays are new tables, one for each way to fence.
func (db database) accountWays(t *testing.T) map[string]*accounts {
	t.Helper()
	guardsName := db.name("guards")
	guards, err := fence.NewGuards(db.dialect, guardsName, fence.Columns{})
	if err != nil {
		t.Fatal(err)
	}
	db.exec(t, db, guards.Schema())
	guarded := &accounts{database: db, inTxAll: func(ctx context.Context, l *lock.Locker, b fence.Beginner, keys []string, fn func(context.Context, *sql.Tx) error, opts ...lock.Option) error {
		return guards.InTxAll(ctx, l, b, keys, fn, opts...)
	}, claim: guards.Claim}
	guarded.claims = func() int { return db.count(t, db, "SELECT COUNT(*) FROM "+guardsName) }
	_, guarded.name = db.stock(t)
	table, name := db.stock(t)
	ids := map[string]any{accountKeys[0]: 1, accountKeys[1]: 2, "account:3": 3}
	rowed := &accounts{database: db, name: name, inTxAll: func(ctx context.Context, l *lock.Locker, b fence.Beginner, keys []string, fn func(context.Context, *sql.Tx) error, opts ...lock.Option) error {
		of := make(map[string]any)
		for _, key := range keys {
			of[key] = ids[key]
		}
		return table.InTxAll(ctx, l, b, of, fn, opts...)
	}, claim: func(ctx context.Context, on fence.Conn, key string, token fence.Token) error {
		return table.Claim(ctx, on, ids[key], token)
	}}
	rowed.claims = func() int { return db.count(t, db, "SELECT COUNT(*) FROM "+name+" WHERE fence > 0") }
	for _, a := range []*accounts{guarded, rowed} {
		db.exec(t, db, "INSERT INTO "+a.name+" (id, val) VALUES (2, 0)")
	}
	return map[string]*accounts{"guards": guarded, "rows": rowed}
}

// move moves 1 from the account of row 1 to that of row 2.
func (a *accounts) move(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, "UPDATE "+a.name+" SET val = val - 1 WHERE id = 1")
	if err == nil {
		_, err = tx.ExecContext(ctx, "UPDATE "+a.name+" SET val = val + 1 WHERE id = 2")
	}
	return err
}

// moved is how often it was done.
func (a *accounts) moved(t *testing.T) int {
	t.Helper()
	from := a.count(t, a, "SELECT val FROM "+a.name+" WHERE id = 1")
	to := a.count(t, a, "SELECT val FROM "+a.name+" WHERE id = 2")
	if from+to != 0 {
		t.Errorf("the accounts have %d and %d: half of a transfer", from, to)
	}
	return to
}

// asked notes the order in which keys are acquired.
type asked struct {
	lock.BlockingStore
	keys []string
}

func (s *asked) Acquire(ctx context.Context, c lock.Claim) (uint64, error) {
	s.keys = append(s.keys, c.Key)
	return s.BlockingStore.Acquire(ctx, c)
}

// beforeBegin calls a func when all locks are held, and no transaction has begun.
type beforeBegin struct {
	database
	do func()
}

func (b beforeBegin) BeginTx(ctx context.Context, opts *sql.TxOptions) (*sql.Tx, error) {
	b.do()
	return b.database.BeginTx(ctx, opts)
}

func lockAllUntilCommit(t *testing.T, db database) {
	t.Helper()
	for name, a := range db.accountWays(t) {
		t.Run(name, func(t *testing.T) {
			store := &asked{BlockingStore: lock.Blocking(memstore.New())}
			l, other := lock.New(lock.Async(store)), lock.New(lock.Async(store.BlockingStore))
			defer func() { _ = errors.Join(l.Close(context.Background()), other.Close(context.Background())) }()
			run := func(begin fence.Beginner, fn func(context.Context, *sql.Tx) error, opts ...lock.Option) error {
				return a.inTxAll(t.Context(), l, begin, []string{accountKeys[1], accountKeys[0], accountKeys[1]}, fn, opts...)
			}
			a.secondIsStale(t, store, run, other)
			store.keys = nil
			wantErr(t, "two keys, one of them twice", run(db, func(ctx context.Context, tx *sql.Tx) error {
				for _, key := range accountKeys {
					lease, held := lock.LeaseOf(ctx, key)
					token, err := fence.Of(lease)
					if !held || err != nil {
						t.Errorf("%s: %v, %v", key, held, err)
					}
					wantErr(t, key+" is claimed with its fence", a.claim(ctx, tx, key, token), nil)
					wantErr(t, "an older one of "+key, a.claim(ctx, tx, key, fence.New(token.Fence-1, "z:1")), fence.ErrStale)
				}
				return a.move(ctx, tx)
			}), nil)
			if !slices.Equal(store.keys, accountKeys) {
				t.Errorf("acquired %q, want each once, in the order of their names", store.keys)
			}
			a.allFail(t, run, store, l, other)
			for _, key := range accountKeys {
				lease, err := other.TryAcquire(t.Context(), key)
				wantErr(t, key+" is free", err, nil)
				_ = lease.Release(t.Context())
			}
			if n := db.Stats().InUse; n != 0 {
				t.Errorf("%d connections are in use", n)
			}
			wantErr(t, "after all", run(db, a.move), nil)
			if n := a.moved(t); n != 2 {
				t.Errorf("moved %d times, want 2", n)
			}
		})
	}
}

// runner moves under both locks.
type runner = func(fence.Beginner, func(context.Context, *sql.Tx) error, ...lock.Option) error

// secondIsStale has the first row claimed, and then the second one refused: neither the
// claim nor anything else of it is left.
func (a *accounts) secondIsStale(t *testing.T, store *asked, run runner, other *lock.Locker) {
	t.Helper()
	overtaken := beforeBegin{a.database, func() {
		_, _ = store.ForceRelease(t.Context(), accountKeys[1])
		wantErr(t, "the next holder", a.inTxAll(t.Context(), other, a, accountKeys[1:], func(context.Context, *sql.Tx) error { return nil }), nil)
	}}
	wantErr(t, "the second key is stale", run(overtaken, a.move), fence.ErrStale)
	if n := a.claims(); n != 1 || a.moved(t) != 0 {
		t.Errorf("%d rows are claimed, want that of the next holder", n)
	}
}

// allFail is everything after which nothing must be written.
func (a *accounts) allFail(
	t *testing.T, run runner, store *asked, l, other *lock.Locker,
) {
	t.Helper()
	none := func(context.Context, *sql.Tx) error { return nil }
	// The holder of both keys stands still, and loses each of them in turn to a next one.
	for _, lost := range accountKeys {
		overtaken := beforeBegin{a.database, func() {
			if _, err := store.ForceRelease(t.Context(), lost); err != nil {
				t.Error(err)
			}
			wantErr(t, "the next holder of "+lost, a.inTxAll(t.Context(), other, a, []string{lost}, none), nil)
		}}
		wantErr(t, "it has lost "+lost, run(overtaken, func(context.Context, *sql.Tx) error {
			t.Error("the func runs")
			return nil
		}), fence.ErrStale)
	}
	wantErr(t, "the func fails", run(a, func(ctx context.Context, tx *sql.Tx) error { return errors.Join(a.move(ctx, tx), errWork) }), errWork)
	wantErr(t, "a key is lost while it works", run(a, func(ctx context.Context, tx *sql.Tx) error {
		err := a.move(ctx, tx)
		_, _ = l.ForceRelease(t.Context(), accountKeys[0])
		<-ctx.Done()
		return errors.Join(err, ctx.Err())
	}), lock.ErrForced)
	wantErr(t, "modes that several share", run(a, none, lock.WithMode(lock.Read)), lock.ErrUnsupported)
	wantErr(t, "inside itself", run(a, func(ctx context.Context, _ *sql.Tx) error {
		return a.inTxAll(ctx, l, a, accountKeys[1:], none)
	}), lock.ErrOwnHold)
	if n := a.moved(t); n != 1 {
		t.Errorf("moved %d times, want the one before", n)
	}
}

// Holders that don't know of each other, as after a loss, claim the rows of both keys at
// once. If each claimed its own first, they would wait for each other in the database.
func claimsInOrder(t *testing.T, db database) {
	t.Helper()
	if db.dialect == fence.SQLite {
		return // has one writer at a time
	}
	for name, a := range db.accountWays(t) {
		t.Run(name, func(t *testing.T) {
			var wg sync.WaitGroup
			var done [2]int
			failed := make(chan error, 2)
			for i, keys := range [][]string{{accountKeys[0], accountKeys[1]}, {accountKeys[1], accountKeys[0]}} {
				wg.Go(func() {
					l := lock.New(memstore.New()) // of its own
					defer func() { _ = l.Close(context.Background()) }()
					for range 200 {
						switch err := a.inTxAll(t.Context(), l, db, keys, a.move); {
						case err == nil:
							done[i]++
						case !errors.Is(err, fence.ErrStale):
							failed <- fmt.Errorf("holder %d: %w", i, err)
							return
						}
					}
				})
			}
			wg.Wait()
			close(failed)
			for err := range failed {
				t.Error(err)
			}
			if n := a.moved(t); n != done[0]+done[1] || n == 0 {
				t.Errorf("moved %d times, and %v were acknowledged", n, done)
			}
		})
	}
}
