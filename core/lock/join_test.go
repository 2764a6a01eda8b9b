package lock_test

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
)

// noted are hooks that write down their own name and that of each event.
func noted(name string, note func(string)) lock.Hooks {
	return lock.Hooks{
		Waiting: func(context.Context, lock.Event) func() {
			note(name + " waiting")
			return func() { note(name + " waited") }
		},
		Acquired: func(context.Context, lock.AcquireEvent) { note(name + " acquired") },
		Released: func(lock.ReleaseEvent) { note(name + " released") },
		Renewed:  func(lock.RenewEvent) { note(name + " renewed") },
		Lost:     func(lock.LossEvent) { note(name + " lost") },
		Backlog:  func(n int) { note(fmt.Sprint(name, " backlog ", n)) },
	}
}

func TestHooksGivenTwiceAreBothCalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		note := func(line string) { d.note("%s", line) }
		mute := lock.Hooks{Waiting: func(context.Context, lock.Event) func() { return nil }}
		store := newFaulty()
		l := newLocker(t, store,
			lock.WithHooks(noted("a", note)), lock.WithHooks(lock.Hooks{}), lock.WithHooks(mute), lock.WithHooks(noted("b", note)))
		lease := acquire(t, l, t.Context(), "k")
		_, err := l.Acquire(t.Context(), "k", lock.WithWait(time.Second))
		wantErr(t, err, lock.ErrBusy)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		release(t, lease)
		lease = acquire(t, l, t.Context(), "k", lock.WithLease(time.Second))
		<-lease.Context().Done()
		synctest.Wait()
		store.set(only("acquire", func(lock.Claim) error { time.Sleep(time.Second); return nil }), nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err = l.TryAcquire(ctx, "k")
		wantErr(t, err, context.DeadlineExceeded)
		time.Sleep(time.Minute) // it is granted, and undone
		var want []string
		for _, what := range []string{
			"acquired", "waiting", "waited", "acquired", "renewed", "released", "acquired", "lost",
			"acquired", "backlog 1", "backlog 0", // the last call is to be undone before or when its caller hears
		} {
			want = append(want, "a "+what, "b "+what)
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		slices.SortStableFunc(d.lines, func(a, b string) int {
			return strings.Count(a, "backlog") - strings.Count(b, "backlog")
		})
		if !slices.Equal(d.lines, want) {
			t.Errorf("got\n%q\nwant\n%q", d.lines, want)
		}
	})
}

// A hook that is added to the struct must be joined as well.
func TestEveryHookIsJoined(t *testing.T) {
	const known = 6
	if n := reflect.TypeFor[lock.Hooks]().NumField(); n != known {
		t.Errorf("there are %d hooks, and TestHooksGivenTwiceAreBothCalled looks at %d", n, known)
	}
}

func TestHooksAreCalledThoughOthersPanic(t *testing.T) {
	broken := func() { panic("a hook is broken") }
	for name, c := range map[string]struct {
		hooks lock.Hooks
		want  []string
	}{
		"at the end of an acquisition": {
			lock.Hooks{Acquired: func(context.Context, lock.AcquireEvent) { broken() }},
			[]string{"b waiting", "b waited", "b acquired", "b released"},
		},
		"at the end of a wait": {
			lock.Hooks{Waiting: func(context.Context, lock.Event) func() { return broken }},
			[]string{"b waiting", "b waited"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var d diary
				store := memstore.New()
				before := acquire(t, newLocker(t, store), t.Context(), "k")
				time.AfterFunc(time.Second, func() { release(t, before) })
				l := newLocker(t, store, lock.WithHooks(c.hooks), lock.WithHooks(noted("b", func(line string) { d.note("%s", line) })))
				func() {
					defer func() { _ = recover() }()
					_, _ = l.Acquire(t.Context(), "k")
					t.Error("no panic")
				}()
				synctest.Wait()
				d.mu.Lock()
				defer d.mu.Unlock()
				if !slices.Equal(d.lines, c.want) {
					t.Errorf("hooks saw %q, want %q", d.lines, c.want)
				}
			})
		})
	}
}
