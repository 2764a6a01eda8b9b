package lock

import (
	"context"
	"errors"
)

// ClassOf returns the class of the failure that err reports: one of a few
// fixed words, fit for logs and metrics, such as "timeout", "connection
// refused" or "NOPERM". It never quotes from the error.
//
// The class is "circuit open" for [ErrCircuitOpen]. Otherwise it is that of the
// first [StoreError] in err that has one. Without one it is "panic" for a
// [PanicError], "timeout" and "canceled" for the errors of package context, and
// "unknown" for any other StoreError or [ErrUnavailable]. An error that reports no
// failure of the store, such as [ErrBusy], has the empty class.
func ClassOf(err error) string {
	if errors.Is(err, ErrBusy) {
		return "" // although a wait limit wraps context.DeadlineExceeded
	}
	if errors.Is(err, ErrCircuitOpen) {
		return "circuit open"
	}
	inner, failed := err, (*StoreError)(nil)
	for ; errors.As(inner, &failed); inner = failed.Err {
		if failed.Class != "" {
			return failed.Class
		}
	}
	var panicked *PanicError
	switch {
	case errors.As(err, &panicked):
		return "panic"
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case errors.Is(err, context.Canceled):
		return "canceled"
	case failed != nil, errors.Is(err, ErrUnavailable):
		return "unknown"
	}
	return ""
}
