package recipes_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/redlatch/redlatch/core/fence"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/examples/recipes"
)

func TestCrossingTransfersLoseNoMoneyAndNeverWaitForEachOther(t *testing.T) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			store := open(t)
			db, guards := database(t)
			run(t, db, `INSERT INTO accounts (id, balance) VALUES ('a', 100), ('b', 100)`)
			var fleet sync.WaitGroup
			for i := range 4 {
				locker := process(t, store)
				from, to := "a", "b"
				if i%2 == 0 {
					from, to = to, from
				}
				fleet.Go(func() {
					for range 20 {
						if err := recipes.Transfer(t.Context(), locker, db, guards, from, to, 1); err != nil {
							t.Errorf("from %s to %s: %v", from, to, err)
							return
						}
					}
				})
			}
			fleet.Wait()
			if balances := query[int64](t, db, `SELECT balance FROM accounts ORDER BY id`); balances[0] != 100 || balances[1] != 100 {
				t.Errorf("balances are %v", balances)
			}
			if fences := query[int64](t, db, `SELECT fence FROM guards ORDER BY 1`); len(fences) != 2 || fences[0] == 0 {
				t.Errorf("the fences of the accounts are %v", fences)
			}
		})
	}
}

func TestATransferToItselfIsOneLock(t *testing.T) {
	db, guards := database(t)
	run(t, db, `INSERT INTO accounts (id, balance) VALUES ('a', 100)`)
	if err := recipes.Transfer(t.Context(), process(t, stores["memory"](t)), db, guards, "a", "a", 5); err != nil {
		t.Error(err)
	}
}

func TestATransferOfMoreThanThereIsMovesNothing(t *testing.T) {
	db, guards := database(t)
	run(t, db, `INSERT INTO accounts (id, balance) VALUES ('a', 1), ('b', 0)`)
	if err := recipes.Transfer(t.Context(), process(t, stores["memory"](t)), db, guards, "a", "b", 2); !errors.Is(err, recipes.ErrTooLittle) {
		t.Errorf("got %v", err)
	}
}

// One of the two locks is taken away, and its next holder has written.
func TestALateTransferIsRefused(t *testing.T) {
	store := stores["memory"](t)
	db, guards := database(t)
	run(t, db, `INSERT INTO accounts (id, balance) VALUES ('a', 100), ('b', 100), ('c', 100)`)
	late := slow{db, make(chan struct{}), make(chan struct{})}
	done := make(chan error, 1)
	first := process(t, store)
	go func() { done <- recipes.Transfer(t.Context(), first, late, guards, "a", "b", 10) }()
	await(t, "the pause", late.paused)
	force(t, store, "account:b")
	if err := recipes.Transfer(t.Context(), process(t, store), db, guards, "b", "c", 5); err != nil {
		t.Errorf("the next holder: %v", err)
	}
	close(late.resume)
	if err := await(t, "the late one", done); !errors.Is(err, fence.ErrStale) && !errors.Is(err, lock.ErrLost) {
		t.Errorf("the late one: %v", err)
	}
	if balances := query[int64](t, db, `SELECT balance FROM accounts ORDER BY id`); balances[0] != 100 || balances[1] != 95 {
		t.Errorf("balances are %v", balances)
	}
}
