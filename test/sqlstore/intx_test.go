package sqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/sqlstore"
)

// world is a database with a counter in it.
type world struct {
	dialect sqlstore.Dialect
	data    *sql.DB // the user's pool
	open    func() *sql.DB
}

// worlds are the databases, each with an empty table.
func worlds(t *testing.T, run func(t *testing.T, w world)) {
	t.Helper()
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		address := sharedPostgres.database(t)
		run(t, newWorld(t, sqlstore.PostgreSQL, func() *sql.DB { return postgres(t, address, nil) }))
	})
	t.Run("MariaDB", func(t *testing.T) {
		t.Parallel()
		address := sharedMariaDB.database(t)
		run(t, newWorld(t, sqlstore.MySQL, func() *sql.DB { return mariadb(t, address, nil) }))
	})
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		file := filepath.Join(t.TempDir(), "data.db")
		run(t, newWorld(t, sqlstore.SQLite, func() *sql.DB { return sqlite(t, file) }))
	})
}

func newWorld(t *testing.T, d sqlstore.Dialect, open func() *sql.DB) world {
	t.Helper()
	w := world{dialect: d, data: open(), open: open}
	for _, statement := range []string{"CREATE TABLE counter (id INT NOT NULL PRIMARY KEY, n INT NOT NULL)", "INSERT INTO counter VALUES (1, 0)"} {
		if _, err := w.data.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// locker is one as another process has it, with a pool of its own.
func (w world) locker(t *testing.T, opts ...lock.Option) (*sqlstore.Store, *lock.Locker) {
	t.Helper()
	s := store(t, w.open(), w.dialect)
	l := lock.New(s, opts...)
	t.Cleanup(func() { _ = l.Close(context.Background()) })
	return s, l
}

func (w world) count(t *testing.T) (n int) {
	t.Helper()
	if err := w.data.QueryRowContext(t.Context(), "SELECT n FROM counter").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// add reads the counter, lets between run, and writes one more.
func add(ctx context.Context, tx *sql.Tx, between func()) error {
	var n int
	if err := tx.QueryRowContext(ctx, "SELECT n FROM counter").Scan(&n); err != nil {
		return err
	}
	between()
	_, err := tx.ExecContext(ctx, fmt.Sprintf("UPDATE counter SET n = %d", n+1))
	return err
}

// again reports whether the database wants the transaction to be repeated.
func again(err error) bool {
	text := err.Error()
	return strings.Contains(text, "40001") || strings.Contains(text, "40P01") || strings.Contains(text, "1213") || strings.Contains(text, "locked")
}

const stock = "stock:1"

// brief is a lease that pauses outlast.
const brief = 60 * time.Millisecond

// pausing is a transaction whose caller stands still before its next statement.
type pausing struct {
	*sql.Tx
	pause func()
}

func (p pausing) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	p.pause()
	return p.Tx.ExecContext(ctx, query, args...)
}

// Callers stand still at random, some beyond the end of their lease, when they have looked
// at the lease for the last time. Only the database can refuse them.
func TestInTxLosesNoUpdateToPauses(t *testing.T) {
	t.Parallel()
	worlds(t, func(t *testing.T, w world) {
		t.Helper()
		committed, refused := w.crowd(t, func(ctx context.Context, s *sqlstore.Store, lease *lock.Lease, pause func()) error {
			tx, err := w.data.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			defer tx.Rollback() //nolint:errcheck // after a commit it does nothing
			if err := add(ctx, tx, func() {}); err != nil {
				return err
			}
			if err := s.ReleaseTx(ctx, pausing{tx, pause}, lease); err != nil {
				return err
			}
			return tx.Commit()
		})
		if got := w.count(t); got != committed {
			t.Errorf("%d committed, and the counter says %d", committed, got)
		}
		if committed == 0 || refused == 0 && w.dialect != sqlstore.SQLite { // whose only writer others wait for
			t.Errorf("%d committed, %d refused: want some of each", committed, refused)
		}
		t.Logf("%d committed, %d refused", committed, refused)
	})
}

// The control: a release after the commit loses updates. SQLite has one writer at a time,
// which keeps the others out from the beginning of its transaction.
func TestAReleaseAfterTheCommitLosesUpdates(t *testing.T) {
	t.Parallel()
	worlds(t, func(t *testing.T, w world) {
		t.Helper()
		if w.dialect == sqlstore.SQLite {
			t.Skip("one writer at a time")
		}
		committed, _ := w.crowd(t, func(ctx context.Context, _ *sqlstore.Store, _ *lock.Lease, pause func()) error {
			tx, err := w.data.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			defer tx.Rollback() //nolint:errcheck // after a commit it does nothing
			if err := add(ctx, tx, pause); err != nil {
				return err
			}
			return tx.Commit()
		})
		if got := w.count(t); got >= committed {
			t.Errorf("%d committed, and the counter says %d: the pauses lost nothing", committed, got)
		}
	})
}

// crowd lets twelve callers of three processes work under short leases.
func (w world) crowd(t *testing.T, work func(ctx context.Context, s *sqlstore.Store, lease *lock.Lease, pause func()) error) (committed, refused int) {
	t.Helper()
	var mu sync.Mutex
	var done sync.WaitGroup
	for range 3 {
		s, l := w.locker(t, lock.WithMargin(2*time.Millisecond))
		for range 4 {
			done.Go(func() {
				for range 8 {
					lease, err := l.Acquire(t.Context(), stock, lock.WithLease(brief))
					if errors.Is(err, lock.ErrUnavailable) {
						continue // SQLite was busy with others for longer than the lease
					}
					if err != nil {
						t.Error(err)
						return
					}
					err = work(t.Context(), s, lease, func() {
						d := time.Duration(0)
						if rand.N(3) == 0 {
							d = rand.N(3 * brief)
						}
						<-time.After(d)
					})
					_ = lease.Release(t.Context())
					mu.Lock()
					switch {
					case err == nil:
						committed++
					case errors.Is(err, lock.ErrLost) || again(err):
						refused++
					default:
						t.Error(err)
					}
					mu.Unlock()
				}
			})
		}
	}
	done.Wait()
	return committed, refused
}

func TestInTxCommitsLockAndDataTogether(t *testing.T) {
	t.Parallel()
	worlds(t, func(t *testing.T, w world) {
		t.Helper()
		s, l := w.locker(t)
		_, elsewhere := w.locker(t)
		free := func() {
			t.Helper()
			if state, err := l.Inspect(t.Context(), stock); err != nil || state.Held {
				t.Errorf("held %v, %v", state.Held, err)
			}
		}
		err := s.InTx(t.Context(), l, w.data, stock, func(ctx context.Context, tx *sql.Tx) error {
			if _, err := elsewhere.TryAcquire(t.Context(), stock); !errors.Is(err, lock.ErrBusy) {
				t.Errorf("elsewhere: got %v, want ErrBusy", err)
			}
			return add(ctx, tx, func() {})
		})
		if err != nil || w.count(t) != 1 {
			t.Errorf("%v, counter %d", err, w.count(t))
		}
		free()

		wrong := errors.New("wrong")
		err = s.InTx(t.Context(), l, w.data, stock, func(ctx context.Context, tx *sql.Tx) error {
			if err := add(ctx, tx, func() {}); err != nil {
				return err
			}
			return wrong
		})
		if !errors.Is(err, wrong) || w.count(t) != 1 {
			t.Errorf("%v, counter %d", err, w.count(t))
		}
		free()

		for _, opt := range []lock.Option{lock.WithMode(lock.Read), lock.WithPermits(1, 2), lock.WithMinHold(time.Minute)} {
			err = s.InTx(t.Context(), l, w.data, stock+fmt.Sprint(rand.Int()), func(ctx context.Context, tx *sql.Tx) error { return add(ctx, tx, func() {}) }, opt)
			if !errors.Is(err, lock.ErrUnsupported) || w.count(t) != 1 {
				t.Errorf("%v, counter %d, want ErrUnsupported", err, w.count(t))
			}
		}
	})
}

// A holder that was overtaken is refused, whoever has the key now, and also where a queue
// has moved its hold into a document.
func TestReleaseTxFindsItsOwnHoldOnly(t *testing.T) {
	t.Parallel()
	worlds(t, func(t *testing.T, w world) {
		t.Helper()
		s, l := w.locker(t)
		_, elsewhere := w.locker(t)
		for name, c := range map[string]struct {
			meanwhile func(key string)
			want      error
		}{
			"nothing happens": {func(string) {}, nil},
			"others queue": {func(key string) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if _, err := elsewhere.Acquire(ctx, key, lock.WithMode(lock.Fair)); !errors.Is(err, lock.ErrBusy) {
					t.Errorf("the one that queues: %v", err)
				}
			}, nil},
			"it was released by force": {func(key string) {
				if _, err := elsewhere.ForceRelease(t.Context(), key); err != nil {
					t.Error(err)
				}
			}, lock.ErrTaken},
			"somebody else has it": {func(key string) {
				if _, err := elsewhere.ForceRelease(t.Context(), key); err != nil {
					t.Error(err)
				}
				if _, err := elsewhere.Acquire(t.Context(), key); err != nil {
					t.Error(err)
				}
			}, lock.ErrTaken},
		} {
			t.Run(name, func(t *testing.T) {
				key := stock + ":" + name
				lease, err := l.Acquire(t.Context(), key, lock.WithMode(lock.Fair))
				if err != nil {
					t.Fatal(err)
				}
				c.meanwhile(key)
				tx, err := w.data.BeginTx(t.Context(), nil)
				if err != nil {
					t.Fatal(err)
				}
				defer tx.Rollback() //nolint:errcheck // after a commit it does nothing
				if err := s.ReleaseTx(t.Context(), tx, lease); !errors.Is(err, c.want) {
					t.Fatalf("got %v, want %v", err, c.want)
				}
				if c.want != nil {
					return
				}
				if err := tx.Commit(); err != nil {
					t.Fatal(err)
				}
				if state, err := l.Inspect(t.Context(), key); err != nil || state.Held {
					t.Errorf("held %v, %v", state.Held, err)
				}
				if err := lease.Release(t.Context()); err != nil {
					t.Errorf("Release after the commit: %v", err)
				}
			})
		}
	})
}

// After a rollback the hold is there as before, and Release ends it.
func TestReleaseTxThatIsRolledBackReleasesNothing(t *testing.T) {
	t.Parallel()
	worlds(t, func(t *testing.T, w world) {
		t.Helper()
		s, l := w.locker(t)
		lease, err := l.Acquire(t.Context(), stock)
		if err != nil {
			t.Fatal(err)
		}
		tx, err := w.data.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.ReleaseTx(t.Context(), tx, lease); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Acquire(lease.Context(), stock); !errors.Is(err, lock.ErrOwnHold) {
			t.Errorf("re-entry behind ReleaseTx: got %v, want ErrOwnHold", err)
		}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
		if state, err := l.Inspect(t.Context(), stock); err != nil || !state.Held {
			t.Errorf("held %v, %v", state.Held, err)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Error(err)
		}
		if state, err := l.Inspect(t.Context(), stock); err != nil || state.Held {
			t.Errorf("held %v, %v", state.Held, err)
		}
	})
}

// The engine hands a released key to the next caller of its process without a call: not
// one that a transaction has released.
func TestWhatATransactionReleasedIsNotPassedOn(t *testing.T) {
	t.Parallel()
	worlds(t, func(t *testing.T, w world) {
		t.Helper()
		s, l := w.locker(t)
		for range 20 {
			lease, err := l.Acquire(t.Context(), stock)
			if err != nil {
				t.Fatal(err)
			}
			next := make(chan *lock.Lease, 1)
			go func() {
				lease, err := l.Acquire(t.Context(), stock)
				if err != nil {
					t.Error(err)
				}
				next <- lease
			}()
			tx, err := w.data.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.ReleaseTx(t.Context(), tx, lease); err != nil {
				t.Fatal(err)
			}
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
			_ = lease.Release(t.Context())
			got := <-next
			if state, err := l.Inspect(t.Context(), stock); err != nil || !state.Held || state.Owners[0].Owner != got.Owner() {
				t.Fatalf("%+v, %v: the next one thinks that it holds the key", state, err)
			}
			if err := got.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	})
}
