package lock_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/redlatch/redlatch/core/lock"
)

func TestClassOf(t *testing.T) {
	failed := func(class string, err error) error { return &lock.StoreError{Class: class, Err: err} }
	other := errors.New("NOPERM alice 10.1.2.3")
	for name, tt := range map[string]struct {
		err  error
		want string
	}{
		"nil":                          {nil, ""},
		"busy":                         {lock.ErrBusy, ""},
		"busy when its wait ended":     {fmt.Errorf("%w: %w", lock.ErrBusy, context.DeadlineExceeded), ""},
		"lost":                         {lock.ErrLost, ""},
		"a store's class":              {failed("OOM", other), "OOM"},
		"wrapped":                      {&lock.Error{Err: fmt.Errorf("%w: %w", lock.ErrUnavailable, failed("OOM", other))}, "OOM"},
		"of a store inside a store":    {failed("", failed("OOM", other)), "OOM"},
		"of the first of several":      {failed("", errors.Join(other, failed("OOM", other), failed("READONLY", other))), "OOM"},
		"open circuit":                 {fmt.Errorf("%w: %w: %w", lock.ErrUnavailable, lock.ErrCircuitOpen, failed("timeout", other)), "circuit open"},
		"no class, but a deadline":     {failed("", context.DeadlineExceeded), "timeout"},
		"no class, but a cancellation": {failed("", context.Canceled), "canceled"},
		"a panic":                      {fmt.Errorf("%w: %w", lock.ErrUnavailable, &lock.PanicError{Value: "makeslice"}), "panic"},
		"no class at all":              {fmt.Errorf("%w: %w", lock.ErrUnavailable, failed("", other)), "unknown"},
		"no class, from the store":     {failed("", other), "unknown"},
	} {
		if got := lock.ClassOf(tt.err); got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}
