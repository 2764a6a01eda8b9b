package fence_test

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/redlatch/redlatch/core/fence"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
)

// step is where a holder is paused.
type step int

const (
	nowhere step = iota
	locked
	begun
	claimed
	written
	committed
)

// holder counts up under a lock until it comes to its step, where it waits for
// the signal to go on. It is the database, and the store of the locks, of itself.
type holder struct {
	database
	lock.BlockingStore
	t             *testing.T
	table         string
	at            step
	paused, going chan struct{}
	resume        func()
	wrote         int // 0: nothing
}

func (db database) holder(t *testing.T, store *memstore.Store, table string, at step) *holder {
	t.Helper()
	going := make(chan struct{})
	return &holder{
		database: db, BlockingStore: lock.Blocking(store), t: t, table: table, at: at,
		paused: make(chan struct{}), going: going, resume: sync.OnceFunc(func() { close(going) }),
	}
}

func (h *holder) reach(at step) {
	if at == h.at {
		close(h.paused)
		<-h.going
	}
}

func (h *holder) BeginTx(ctx context.Context, opts *sql.TxOptions) (*sql.Tx, error) {
	h.reach(locked)
	tx, err := h.database.BeginTx(ctx, opts)
	h.reach(begun)
	return tx, err
}

// Release comes after the commit: others see what was written.
func (h *holder) Release(ctx context.Context, c lock.Claim) error {
	if n, err := h.tryCount(ctx, h, "SELECT val FROM "+h.table+" WHERE id = 1"); err != nil || n < h.wrote {
		h.t.Errorf("val is %d when the lock is released, and the holder wrote %d (%v)", n, h.wrote, err)
	}
	h.reach(committed)
	return h.BlockingStore.Release(ctx, c)
}

func (h *holder) count(ctx context.Context, tx *sql.Tx) error {
	h.reach(claimed)
	n, err := h.tryCount(ctx, tx, "SELECT val FROM "+h.table+" WHERE id = 1")
	if err == nil {
		_, err = tx.ExecContext(ctx, h.numbered("UPDATE "+h.table+" SET val = ? WHERE id = 1"), n+1)
	}
	if err == nil {
		h.wrote = n + 1
	}
	h.reach(written)
	return err
}

// start counts up once, in the way given, and reports what came of it.
func (h *holder) start(t *testing.T, way func(ctx context.Context, l *lock.Locker, db fence.Beginner) error) <-chan error {
	t.Helper()
	l := lock.New(lock.Async(h))
	t.Cleanup(func() { h.resume(); _ = l.Close(context.Background()) })
	done := make(chan error, 1)
	go func() { done <- way(t.Context(), l, h) }()
	return done
}

const patience = time.Minute

func await[T any](t *testing.T, what string, from <-chan T) (got T) {
	t.Helper()
	select {
	case got = <-from:
	case <-time.After(patience):
		t.Fatalf("%s: nothing after %v", what, patience)
	}
	return got
}

// A holder stands still at each step, past the end of its lease, and another one
// has the lock. Each update that was acknowledged is there in the end.
func lockUntilCommit(t *testing.T, db database) {
	t.Helper()
	for name, c := range map[string]struct {
		at step
		// The next holder is through before the paused one goes on.
		overtaken bool
		want      error // of the paused holder
	}{
		"behind the lock":        {locked, true, fence.ErrStale},
		"behind the beginning":   {begun, true, fence.ErrStale},
		"behind the claim":       {claimed, false, nil},
		"in front of the commit": {written, false, nil},
		"behind the commit":      {committed, true, nil},
	} {
		if c.at == begun && db.immediate {
			c.overtaken, c.want = false, nil // such a transaction keeps others out from its beginning
		}
		for kind, way := range db.ways(t) {
			t.Run(name+", "+kind, func(t *testing.T) {
				table, count := way()
				store := memstore.New()
				first, second := db.holder(t, store, table, c.at), db.holder(t, store, table, nowhere)
				paused := first.start(t, func(ctx context.Context, l *lock.Locker, db fence.Beginner) error { return count(ctx, l, db, first) })
				await(t, "the pause", first.paused)
				if _, err := store.ForceRelease(t.Context(), lockKey); err != nil { // as its lease would end
					t.Fatal(err)
				}
				next := second.start(t, func(ctx context.Context, l *lock.Locker, db fence.Beginner) error { return count(ctx, l, db, second) })
				if c.overtaken {
					wantErr(t, "the next holder", await(t, "the next holder", next), nil)
				}
				first.resume()
				wantErr(t, "the paused holder", await(t, "the paused holder", paused), c.want)
				want := 1
				if !c.overtaken {
					wantErr(t, "the next holder", await(t, "the next holder", next), nil)
				}
				if c.want == nil {
					want = 2
				}
				if got := db.count(t, db, "SELECT val FROM "+table+" WHERE id = 1"); got != want {
					t.Errorf("val is %d after %d updates", got, want)
				}
			})
		}
	}
}

const lockKey = "stock:1"

// ways are those to fence, on new tables each.
func (db database) ways(t *testing.T) map[string]func() (table string, count func(context.Context, *lock.Locker, fence.Beginner, *holder) error) {
	t.Helper()
	return map[string]func() (string, func(context.Context, *lock.Locker, fence.Beginner, *holder) error){
		"guard": func() (string, func(context.Context, *lock.Locker, fence.Beginner, *holder) error) {
			_, name := db.stock(t)
			guards := db.guards(t)
			return name, func(ctx context.Context, l *lock.Locker, begin fence.Beginner, h *holder) error {
				return guards.InTx(ctx, l, begin, lockKey, func(ctx context.Context, tx *sql.Tx) error { return h.count(ctx, tx) })
			}
		},
		"row": func() (string, func(context.Context, *lock.Locker, fence.Beginner, *holder) error) {
			table, name := db.stock(t)
			return name, func(ctx context.Context, l *lock.Locker, begin fence.Beginner, h *holder) error {
				return table.InTx(ctx, l, begin, lockKey, 1, func(ctx context.Context, tx *sql.Tx) error { return h.count(ctx, tx) })
			}
		},
	}
}

// The control: the same pause without the claim loses an update, where the
// database lets it.
func lockUntilCommitWithoutClaim(t *testing.T, db database) {
	t.Helper()
	if db.dialect == fence.SQLite {
		return // has one writer at a time, and refuses one that has read before
	}
	_, name := db.stock(t)
	store := memstore.New()
	first, second := db.holder(t, store, name, locked), db.holder(t, store, name, nowhere)
	unfenced := func(h *holder) func(ctx context.Context, l *lock.Locker, _ fence.Beginner) error {
		return func(ctx context.Context, l *lock.Locker, _ fence.Beginner) error {
			return l.Do(ctx, lockKey, func(ctx context.Context) error {
				return db.once(ctx, func(tx *sql.Tx) error {
					n, err := db.tryCount(ctx, tx, "SELECT val FROM "+name+" WHERE id = 1")
					h.reach(locked)
					if err == nil {
						_, err = tx.ExecContext(ctx, db.numbered("UPDATE "+name+" SET val = ? WHERE id = 1"), n+1)
					}
					return err
				})
			})
		}
	}
	paused := first.start(t, unfenced(first))
	await(t, "the pause", first.paused)
	_, _ = store.ForceRelease(t.Context(), lockKey)
	wantErr(t, "the next holder", await(t, "the next holder", second.start(t, unfenced(second))), nil)
	first.resume()
	// Its transaction is committed, and only then it sees that the lease was lost.
	wantErr(t, "the paused holder", await(t, "the paused holder", paused), lock.ErrLost)
	if got := db.count(t, db, "SELECT val FROM "+name+" WHERE id = 1"); got != 1 {
		t.Errorf("val is %d: the control has lost nothing", got)
	}
}

var errWork = errors.New("work failed")

// What fails leaves nothing behind: no write, no transaction, and no lock.
func lockUntilCommitFails(t *testing.T, db database) {
	t.Helper()
	_, name := db.stock(t)
	guards := db.guards(t)
	store := memstore.New()
	l := lock.New(store)
	defer func() { _ = l.Close(context.Background()) }()
	do := func(fn func(ctx context.Context, tx *sql.Tx) error, opts ...lock.Option) error {
		return guards.InTx(t.Context(), l, db, lockKey, func(ctx context.Context, tx *sql.Tx) error {
			db.exec(t, tx, "UPDATE "+name+" SET val = 7 WHERE id = 1")
			return fn(ctx, tx)
		}, opts...)
	}
	none := func(context.Context, *sql.Tx) error { return nil }
	wantErr(t, "the func fails", do(func(context.Context, *sql.Tx) error { return errWork }), errWork)
	wantErr(t, "a lock that several share", do(none, lock.WithMode(lock.Read)), lock.ErrUnsupported)
	wantErr(t, "a lock that is lost", do(func(ctx context.Context, _ *sql.Tx) error {
		_, _ = l.ForceRelease(t.Context(), lockKey)
		<-ctx.Done()
		return ctx.Err()
	}), lock.ErrForced)
	wantErr(t, "a lock that is lost, and nobody minds", do(func(context.Context, *sql.Tx) error {
		_, _ = l.ForceRelease(t.Context(), lockKey)
		return nil
	}), lock.ErrForced)
	wantErr(t, "inside itself", do(func(ctx context.Context, _ *sql.Tx) error {
		return guards.InTx(ctx, l, db, lockKey, none)
	}), lock.ErrOwnHold)
	func() {
		defer func() {
			if recover() != any(errWork) {
				t.Error("the panic does not go on")
			}
		}()
		_ = do(func(context.Context, *sql.Tx) error { panic(errWork) })
	}()
	lease, err := l.TryAcquire(t.Context(), lockKey)
	if err != nil {
		t.Fatalf("the lock is not free: %v", err)
	}
	_ = lease.Release(t.Context())
	if got := db.count(t, db, "SELECT val FROM "+name+" WHERE id = 1"); got != 0 {
		t.Errorf("val is %d, of a transaction that failed", got)
	}
	if n := db.Stats().InUse; n != 0 {
		t.Errorf("%d connections are in use", n)
	}
	wantErr(t, "after all", do(none), nil)
	if got := db.count(t, db, "SELECT val FROM "+name+" WHERE id = 1"); got != 7 {
		t.Errorf("val is %d", got)
	}
}
