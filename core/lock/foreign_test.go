package lock_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
)

// frameworkContext is a context of a framework's own type, as *gin.Context is with its
// defaults: it never ends, and has what is stored in it under strings, and nothing of the
// request's context.
type frameworkContext struct {
	context.Context

	stored map[string]any
}

func newFrameworkContext() *frameworkContext {
	return &frameworkContext{context.WithoutCancel(context.Background()), make(map[string]any)}
}

func (c *frameworkContext) Value(key any) any {
	name, _ := key.(string)
	return c.stored[name]
}

type userKey struct{}

func TestALeaseIsFoundThroughAFrameworksContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocker(t, memstore.New())
		c := newFrameworkContext()
		outer := acquire(t, l, t.Context(), "outer")
		c.stored[lock.ContextKey] = acquire(t, l, outer.Context(), "k")
		for name, ctx := range map[string]context.Context{
			"itself": c, "with a value": context.WithValue(c, userKey{}, 1), "detached": context.WithoutCancel(c),
		} {
			if lease, ok := lock.FromContext(ctx); !ok || lease.Key() != "k" {
				t.Errorf("%s: found %v", name, lease)
			}
			wantErr(t, lock.AssertHeld(ctx, "k"), nil)
			wantErr(t, lock.AssertHeld(ctx, "outer"), nil)
			wantErr(t, l.Do(ctx, "k", func(inside context.Context) error {
				return lock.AssertHeld(inside, "outer")
			}, lock.WithWait(time.Second)), nil)
		}
		if _, ok := lock.FromContext(newFrameworkContext()); ok {
			t.Error("a context without a lease has one")
		}
	})
}

// A middleware may have derived the request's context from that of the framework, in which
// the lease of the request is found later.
func TestALeaseIsNotFoundAroundItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocker(t, memstore.New())
		c := newFrameworkContext()
		lease := acquire(t, l, context.WithValue(c, userKey{}, 1), "k")
		c.stored[lock.ContextKey] = lease
		wantErr(t, lease.Context().Err(), nil)
		wantErr(t, lock.AssertHeld(c, "k"), nil)
		wantErr(t, lock.AssertHeld(c, "other"), lock.ErrNotHeld)
	})
}

func TestAWaitOnAContextThatCannotEndSaysSo(t *testing.T) {
	framework := func(context.Context) context.Context { return newFrameworkContext() }
	all := func(l *lock.Locker, ctx context.Context, opts ...lock.Option) error {
		leases, err := lock.AcquireAll(ctx, l.Request("j", opts...), l.Request("k", opts...))
		if err == nil {
			err = leases.Release(ctx)
		}
		return err
	}
	one := func(l *lock.Locker, ctx context.Context, opts ...lock.Option) error {
		return l.Do(ctx, "k", func(context.Context) error { return nil }, opts...)
	}
	for name, test := range map[string]struct {
		wait func(l *lock.Locker, ctx context.Context, opts ...lock.Option) error
		ctx  func(context.Context) context.Context
		opts []lock.Option
		want bool
	}{
		"a framework's":          {one, framework, nil, true},
		"a framework's, several": {all, framework, nil, true},
		"detached":               {one, context.WithoutCancel, nil, true},
		"the request's":          {one, func(ctx context.Context) context.Context { return ctx }, nil, false},
		"meant not to end":       {one, func(context.Context) context.Context { return context.Background() }, nil, false},
		"limited":                {one, framework, []lock.Option{lock.WithWait(time.Hour)}, false},
		"limited, several":       {all, framework, []lock.Option{lock.WithWait(time.Hour)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var logged bytes.Buffer
				defer slog.SetDefault(slog.Default())
				slog.SetDefault(slog.New(slog.NewTextHandler(&logged, nil)))
				l := newLocker(t, memstore.New())
				lease := acquire(t, l, t.Context(), "k")
				done := make(chan error)
				go func() { done <- test.wait(l, test.ctx(t.Context()), test.opts...) }()
				time.Sleep(time.Minute)
				synctest.Wait()
				release(t, lease)
				wantErr(t, <-done, nil)
				line := logged.String()
				if got := strings.Count(line, "a call waits on a context that can't end"); (got == 1) != test.want || got > 1 {
					t.Errorf("logged %q", line)
				}
				if test.want && !strings.Contains(line, "core/lock_test.TestAWait") {
					t.Errorf("the caller is not named: %s", line)
				}
			})
		})
	}
}
