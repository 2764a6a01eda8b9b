package leader_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/core/leader"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
)

// A fleet for hours: processes lose the store, are stopped and
// started, at random. Leaders that mind their context never meet, their
// terms rise, and there is a leader again soon after each fault.
func TestAFleetHasOneLeaderAtATime(t *testing.T) {
	for seed := range uint64(2) {
		synctest.Test(t, func(t *testing.T) { fleet(t, rand.New(rand.NewPCG(seed, 1))) })
	}
}

func fleet(t *testing.T, random *rand.Rand) {
	t.Helper()
	store := memstore.New()
	var newest atomic.Uint64
	var leading, terms atomic.Int32
	lead := func(ctx context.Context, term uint64) error {
		if n := leading.Add(1); n != 1 {
			t.Errorf("%d lead at the same time", n)
		}
		defer leading.Add(-1)
		terms.Add(1)
		if before := newest.Swap(term); before >= term {
			t.Errorf("term %d after %d", term, before)
		}
		return until(ctx, term)
	}
	const size = 5
	var processes sync.WaitGroup
	over := make(chan struct{})
	lines := make([]*line, size)
	restart := make([]chan struct{}, size)
	for i := range size {
		lines[i], restart[i] = &line{Store: store}, make(chan struct{})
		processes.Go(func() {
			for process(t, lines[i], lead, restart[i], over) {
			}
		})
	}
	inspector := newLocker(t, store)
	for range 100 {
		switch i := random.IntN(size); random.IntN(5) {
		case 0, 1:
			lines[i].cut.Store(true)
		case 2, 3:
			lines[i].cut.Store(false)
		default:
			restart[i] <- struct{}{}
		}
		time.Sleep(time.Duration(random.Int64N(int64(time.Minute))))
	}
	for _, line := range lines {
		line.cut.Store(false)
	}
	time.Sleep(lock.DefaultWatchdog + 5*time.Second)
	if who, err := leader.Who(t.Context(), inspector, office); err != nil || who.ID == "" || leading.Load() != 1 {
		t.Errorf("at the end %d lead: %+v, %v", leading.Load(), who, err)
	}
	close(over)
	processes.Wait()
	if n := terms.Load(); n < 5 {
		t.Errorf("there were %d terms only", n)
	}
}

// process is one life of a process. It reports whether there is another.
func process(t *testing.T, store lock.Store, lead func(context.Context, uint64) error, restart, over <-chan struct{}) bool {
	t.Helper()
	l := lock.New(store)
	ended := run(t.Context(), l, lead, leader.WithRepeat())
	again := true
	select {
	case <-restart:
	case <-over:
		again = false
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_ = l.Drain(ctx) // it resigns
	wantErr(t, <-ended, lock.ErrClosed)
	_ = l.Close(ctx) // fails when the store is away
	return again
}
