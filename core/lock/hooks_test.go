package lock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
)

// diary writes down what hooks say.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) note(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

func (d *diary) hooks() lock.Hooks {
	return lock.Hooks{
		Waiting: func(_ context.Context, e lock.Event) func() {
			d.note("waiting %s", e.Name)
			return func() { d.note("waited %s", e.Name) }
		},
		Acquired: func(_ context.Context, e lock.AcquireEvent) {
			d.note("acquired %s after %v reentrant=%v %v", e.Name, e.Elapsed, e.Reentrant, decision(e.Err))
		},
		Released: func(e lock.ReleaseEvent) { d.note("released %s held %v %v", e.Name, e.Held, decision(e.Err)) },
		Renewed:  func(e lock.RenewEvent) { d.note("renewed %s %v", e.Name, decision(e.Err)) },
		Lost:     func(e lock.LossEvent) { d.note("lost %s held %v %v", e.Name, e.Held, decision(e.Cause)) },
	}
}

func decision(err error) string {
	for _, known := range []error{lock.ErrBusy, lock.ErrLost, lock.ErrNotHeld} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	return fmt.Sprint(err)
}

func TestHooksTellTheStory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		store := memstore.New()
		l := newLocker(t, store, lock.WithHooks(d.hooks()), lock.WithName("order"))
		lease := acquire(t, l, t.Context(), "k")
		inner := acquire(t, l, lease.Context(), "k", lock.WithName("inner"))
		release(t, inner)
		_, err := l.Acquire(t.Context(), "k", lock.WithWait(time.Second), lock.WithName("late"))
		wantErr(t, err, lock.ErrBusy)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		release(t, lease)
		lease = acquire(t, l, t.Context(), "k", lock.WithLease(time.Second))
		<-lease.Context().Done()
		synctest.Wait()
		want := []string{
			"acquired order after 0s reentrant=false <nil>",
			"acquired inner after 0s reentrant=true <nil>",
			"released order held 0s <nil>",
			"waiting late",
			"waited late",
			"acquired late after 1s reentrant=false lock is held by another owner",
			"renewed order <nil>",
			"released order held 11s <nil>",
			"acquired order after 0s reentrant=false <nil>",
			"lost order held 988ms lease is lost",
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		if !slices.Equal(d.lines, want) {
			t.Errorf("got\n%q\nwant\n%q", d.lines, want)
		}
	})
}
