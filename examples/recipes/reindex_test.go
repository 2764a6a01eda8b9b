package recipes_test

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"testing"

	"github.com/redlatch/redlatch/core/fence"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/examples/recipes"
)

const rows, perPage = 40, 3

// indexing returns a page func that notes each row it has done. before is called in
// front of each page.
func indexing(before func(after int64)) func(ctx context.Context, tx *sql.Tx, after int64) (int64, error) {
	return func(ctx context.Context, tx *sql.Tx, after int64) (int64, error) {
		last := min(after+perPage, rows)
		for id := after + 1; id <= last; id++ {
			if _, err := tx.ExecContext(ctx, `INSERT INTO done (id) VALUES (?)`, id); err != nil {
				return 0, err
			}
		}
		before(after)
		return last, nil
	}
}

func checkDone(t *testing.T, db *sql.DB) {
	t.Helper()
	done := query[int64](t, db, `SELECT id FROM done ORDER BY id`)
	for i, id := range done {
		if id != int64(i+1) {
			t.Fatalf("done are %v, want each of %d rows once", done, rows)
		}
	}
	if len(done) != rows {
		t.Errorf("%d rows are done, want %d", len(done), rows)
	}
}

func TestReindexGoesOnWhereItStopped(t *testing.T) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			store := open(t)
			db, guards := database(t)
			run(t, db, `CREATE TABLE done (id INTEGER NOT NULL)`)
			first := process(t, store)
			err := recipes.Reindex(t.Context(), first, db, guards, indexing(func(after int64) {
				if after == 2*perPage { // the third page isn't committed
					_, _ = first.ForceRelease(t.Context(), "job:reindex")
				}
			}))
			if !errors.Is(err, lock.ErrForced) {
				t.Errorf("the first: %v", err)
			}
			if n := len(query[int64](t, db, `SELECT id FROM done`)); n != 2*perPage {
				t.Errorf("%d rows are done by the first, want %d", n, 2*perPage)
			}
			var fleet sync.WaitGroup
			for range 3 {
				second := process(t, store)
				fleet.Go(func() {
					if err := recipes.Reindex(t.Context(), second, db, guards, indexing(func(int64) {})); err != nil {
						t.Errorf("a later one: %v", err)
					}
				})
			}
			fleet.Wait()
			checkDone(t, db)
		})
	}
}

// The lock is lost and nobody notices: two processes work at the same time.
func TestReindexDoesNoPageTwice(t *testing.T) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			store := open(t)
			db, guards := database(t)
			run(t, db, `CREATE TABLE done (id INTEGER NOT NULL)`)
			lost, held := make(chan struct{}), make(chan struct{})
			late := make(chan error, 1)
			go func() {
				late <- recipes.Reindex(t.Context(), process(t, store), db, guards, indexing(func(after int64) {
					if after == perPage {
						close(lost)
						<-held
					}
				}))
			}()
			await(t, "the second page", lost)
			force(t, store, "job:reindex")
			next := make(chan error, 1)
			locker := lock.New(store, lock.WithHooks(lock.Hooks{Acquired: func(context.Context, lock.AcquireEvent) { close(held) }}))
			defer func() { _ = locker.Close(context.Background()) }()
			go func() { next <- recipes.Reindex(t.Context(), locker, db, guards, indexing(func(int64) {})) }()
			if err := await(t, "the next holder", next); err != nil {
				t.Errorf("the next holder: %v", err)
			}
			if err := await(t, "the late holder", late); err != nil && !errors.Is(err, fence.ErrStale) && !errors.Is(err, lock.ErrLost) {
				t.Errorf("the late holder: %v", err)
			}
			checkDone(t, db)
		})
	}
}
