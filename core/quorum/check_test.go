package quorum_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
)

// checked is a node with a Check.
type checked struct {
	lock.Store
	check func(modes []lock.Mode) error
}

func (c checked) Check(_ context.Context, modes ...lock.Mode) error { return c.check(modes) }

func TestCheckNamesEachNodeThatFails(t *testing.T) {
	replica := errors.New("this is a replica")
	var seen []lock.Mode
	q := quorumOver(t,
		memstore.New(), // has no Check
		checked{memstore.New(), func(modes []lock.Mode) error { seen = modes; return nil }},
		checked{memstore.New(), func([]lock.Mode) error { return replica }},
		checked{memstore.New(), func([]lock.Mode) error { return lock.ErrUnavailable }},
		checked{memstore.New(), func([]lock.Mode) error { panic("a bug") }},
	)
	err := q.Check(t.Context(), lock.Exclusive)
	var panicked *lock.PanicError
	if !errors.Is(err, replica) || !errors.Is(err, lock.ErrUnavailable) || !errors.As(err, &panicked) {
		t.Fatalf("got %v, want the errors of three nodes", err)
	}
	for text, want := range map[string]bool{
		"node 1": false, "node 2": false, "node 3: this is a replica": true, "node 4: ": true, "node 5: ": true,
	} {
		if strings.Contains(err.Error(), text) != want {
			t.Errorf("%q in the error: want %v\n%v", text, want, err)
		}
	}
	if len(seen) != 1 || seen[0] != lock.Exclusive {
		t.Errorf("node 2 checked %v", seen)
	}
	if err := q.Check(t.Context(), lock.Exclusive, lock.Fair); !errors.Is(err, lock.ErrUnsupported) {
		t.Errorf("mode fair: got %v, want ErrUnsupported", err)
	}
	if err := quorumOver(t, memstore.New(), memstore.New(), memstore.New()).Check(t.Context()); err != nil {
		t.Errorf("nodes without a Check: %v", err)
	}
}
