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

// documents returns two processes that edit the same documents, of which there is
// number 1. stop ends the first.
func documents(t *testing.T, store lock.Store) (first, second *recipes.Documents, stop func()) {
	t.Helper()
	db, _ := database(t)
	run(t, db, `INSERT INTO documents (id, body) VALUES (1, 'a')`)
	table, err := fence.NewTable(fence.SQLite, "documents", fence.Columns{})
	if err != nil {
		t.Fatal(err)
	}
	first = &recipes.Documents{Locker: lock.New(store), DB: db, Rows: table}
	second = &recipes.Documents{Locker: process(t, store), DB: db, Rows: table}
	stop = func() {
		if err := first.Locker.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
	return first, second, stop
}

// opens returns what Open shows, or says why it doesn't.
func opens(t *testing.T, d *recipes.Documents) (body string, ticket fence.Token) {
	t.Helper()
	body, ticket, err := d.Open(t.Context(), 1)
	switch {
	case errors.Is(err, lock.ErrBusy):
		return "busy", ticket
	case err != nil:
		t.Fatalf("Open: %v", err)
	}
	return body, ticket
}

func TestADocumentIsEditedInTwoRequestsToTwoProcesses(t *testing.T) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			first, second, stop := documents(t, open(t))
			body, ticket := opens(t, first)
			if body != "a" {
				t.Errorf("the document is %q", body)
			}
			stop()
			if body, _ := opens(t, second); body != "busy" {
				t.Errorf("behind the end of the process that opened it: %q", body)
			}
			form, err := fence.Parse(ticket.String())
			if err != nil {
				t.Fatal(err)
			}
			if err := second.Save(t.Context(), 1, form, "b"); err != nil {
				t.Errorf("Save: %v", err)
			}
			if body, _ := opens(t, second); body != "b" {
				t.Errorf("behind Save: %q", body)
			}
			if err := second.Save(t.Context(), 1, form, "c"); !errors.Is(err, fence.ErrStale) {
				t.Errorf("Save behind another Open: %v", err)
			}
		})
	}
}

// The lock of an editor is taken away and granted to another before the first one has
// claimed the document.
func TestAnEditorThatComesTooLateFreesNoOtherEditorsLock(t *testing.T) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) { comesTooLate(t, open(t), false, fence.ErrStale) })
		t.Run(name+", and gives up", func(t *testing.T) { comesTooLate(t, open(t), true, context.Canceled) })
	}
}

// comesTooLate has an editor open the document while its lock is another's.
func comesTooLate(t *testing.T, store lock.Store, givesUp bool, want error) {
	t.Helper()
	first, second, stop := documents(t, store)
	defer stop()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var once sync.Once
	paused := lock.New(store, lock.WithHooks(lock.Hooks{Acquired: func(context.Context, lock.AcquireEvent) {
		once.Do(func() {
			force(t, store, "edit:document:1")
			opens(t, second)
			if givesUp {
				cancel()
			}
		})
	}}))
	defer func() { _ = paused.Close(context.Background()) }()
	late := &recipes.Documents{Locker: paused, DB: first.DB, Rows: first.Rows}
	if _, _, err := late.Open(ctx, 1); !errors.Is(err, want) {
		t.Errorf("the late one: %v", err)
	}
	if body, _ := opens(t, first); body != "busy" {
		t.Errorf("the late one has freed the lock: %q", body)
	}
}

func TestALateEditIsRefused(t *testing.T) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			store := open(t)
			first, second, stop := documents(t, store)
			defer stop()
			_, late := opens(t, first)
			force(t, store, "edit:document:1") // stands for ten minutes
			_, next := opens(t, second)
			if err := first.Save(t.Context(), 1, late, "late"); !errors.Is(err, fence.ErrStale) {
				t.Errorf("the late one: %v", err)
			}
			if body, _ := opens(t, first); body != "busy" {
				t.Errorf("the late one has freed the lock: %q", body)
			}
			if err := second.Save(t.Context(), 1, next, "next"); err != nil {
				t.Errorf("the next: %v", err)
			}
			if bodies := query[string](t, first.DB, `SELECT body FROM documents`); bodies[0] != "next" {
				t.Errorf("the document is %q", bodies[0])
			}
			// What can't be opened isn't locked.
			for range 2 {
				if _, _, err := first.Open(t.Context(), 2); !errors.Is(err, sql.ErrNoRows) {
					t.Errorf("no such document: %v", err)
				}
			}
		})
	}
}
