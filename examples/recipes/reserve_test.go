package recipes_test

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redlatch/redlatch/core/fence"
	"github.com/redlatch/redlatch/examples/recipes"
)

func TestNoMoreIsReservedThanThereIs(t *testing.T) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			store := open(t)
			db, guards := database(t)
			run(t, db, `INSERT INTO stock (article, pieces) VALUES ('lamp', 10)`)
			var sold, refused atomic.Int32
			var fleet sync.WaitGroup
			for range 3 {
				locker := process(t, store)
				for range 6 {
					fleet.Go(func() {
						switch err := recipes.Reserve(t.Context(), locker, db, guards, "lamp", 1); {
						case err == nil:
							sold.Add(1)
						case errors.Is(err, recipes.ErrSoldOut):
							refused.Add(1)
						default:
							t.Errorf("Reserve: %v", err)
						}
					})
				}
			}
			fleet.Wait()
			if left := query[int64](t, db, `SELECT pieces FROM stock`); sold.Load() != 10 || refused.Load() != 8 || left[0] != 0 {
				t.Errorf("%d sold, %d refused, %d left", sold.Load(), refused.Load(), left[0])
			}
		})
	}
}

func TestNobodyReservesLessThanOnePiece(t *testing.T) {
	db, guards := database(t)
	run(t, db, `INSERT INTO stock (article, pieces) VALUES ('lamp', 10)`)
	locker := process(t, stores["memory"](t))
	for _, pieces := range []int{0, -5} {
		err := recipes.Reserve(t.Context(), locker, db, guards, "lamp", pieces)
		if left := query[int64](t, db, `SELECT pieces FROM stock`); err == nil || left[0] != 10 {
			t.Errorf("%d pieces: %v, %d are left", pieces, err, left[0])
		}
	}
}

// slow stands still in front of a transaction.
type slow struct {
	*sql.DB
	paused, resume chan struct{}
}

func (s slow) BeginTx(ctx context.Context, opts *sql.TxOptions) (*sql.Tx, error) {
	close(s.paused)
	<-s.resume
	return s.DB.BeginTx(ctx, opts)
}

func TestALateReservationIsRefused(t *testing.T) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			store := open(t)
			db, guards := database(t)
			run(t, db, `INSERT INTO stock (article, pieces) VALUES ('lamp', 10)`)
			late := slow{db, make(chan struct{}), make(chan struct{})}
			done := make(chan error, 1)
			first := process(t, store)
			go func() { done <- recipes.Reserve(t.Context(), first, late, guards, "lamp", 4) }()
			await(t, "the pause", late.paused)
			force(t, store, "stock:lamp")
			if err := recipes.Reserve(t.Context(), process(t, store), db, guards, "lamp", 5); err != nil {
				t.Errorf("the next holder: %v", err)
			}
			close(late.resume)
			if err := await(t, "the late one", done); !errors.Is(err, fence.ErrStale) {
				t.Errorf("the late one: %v", err)
			}
			if left := query[int64](t, db, `SELECT pieces FROM stock`); left[0] != 5 {
				t.Errorf("%d pieces are left, want 5", left[0])
			}
		})
	}
}
