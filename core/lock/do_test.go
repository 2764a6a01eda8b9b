package lock_test

import (
	"context"
	"errors"
	"testing"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
)

func TestDo(t *testing.T) {
	store := memstore.New()
	l := newLocker(t, store)
	errWork := errors.New("work failed")

	t.Run("returns the work's error and releases", func(t *testing.T) {
		err := l.Do(t.Context(), "k", func(ctx context.Context) error {
			if err := lock.AssertHeld(ctx, "k"); err != nil {
				t.Error(err)
			}
			return errWork
		})
		if !errors.Is(err, errWork) || errors.Is(err, lock.ErrLost) {
			t.Errorf("got %v, want the work's own error", err)
		}
		if holds(t, store, "k") != 0 {
			t.Error("not released")
		}
	})
	t.Run("releases when the work panics", func(t *testing.T) {
		defer func() {
			if p := recover(); p != "boom" {
				t.Errorf("recovered %v", p)
			}
			if holds(t, store, "k") != 0 {
				t.Error("not released")
			}
		}()
		_ = l.Do(t.Context(), "k", func(context.Context) error { panic("boom") })
	})
	t.Run("does not run the work without the lock", func(t *testing.T) {
		lease := acquire(t, l, t.Context(), "k")
		err := l.Do(t.Context(), "k", func(context.Context) error {
			t.Error("ran without the lock")
			return nil
		}, lock.WithWait(0))
		wantErr(t, err, lock.ErrBusy)
		release(t, lease)
	})
	t.Run("says when the lease was lost meanwhile", func(t *testing.T) {
		err := l.Do(t.Context(), "k", func(context.Context) error {
			_, err := l.ForceRelease(t.Context(), "k")
			return err
		})
		wantErr(t, err, lock.ErrLost)
		err = l.Do(t.Context(), "k", func(context.Context) error {
			_, _ = l.ForceRelease(t.Context(), "k")
			return errWork
		})
		wantErr(t, err, lock.ErrLost, errWork)
	})
	t.Run("says when the locker was closed meanwhile", func(t *testing.T) {
		other := newLocker(t, store)
		err := other.Do(t.Context(), "k", func(context.Context) error {
			return errors.Join(errWork, other.Close(t.Context()))
		})
		wantErr(t, err, lock.ErrClosed, errWork)
	})
	t.Run("re-enters", func(t *testing.T) {
		err := l.Do(t.Context(), "k", func(ctx context.Context) error {
			return l.Do(ctx, "k", func(ctx context.Context) error { return lock.AssertHeld(ctx, "k") })
		})
		if err != nil {
			t.Error(err)
		}
	})
}
