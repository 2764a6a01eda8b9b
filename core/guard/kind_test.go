package guard_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/key"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/rule"
)

func TestKindOfIsAFunctionOfTheSentinels(t *testing.T) {
	and := func(errs ...error) error { return errors.Join(errs...) }
	for _, test := range []struct {
		err  error
		want guard.Kind
	}{
		{nil, guard.None},
		{errors.New("of the handler"), guard.None},
		{lock.ErrBusy, guard.Contended},
		{&lock.BusyError{}, guard.Contended},
		{and(lock.ErrBusy, context.DeadlineExceeded), guard.Contended},
		{and(lock.ErrBusy, lock.ErrTooManyWaiters), guard.Overloaded},
		{and(lock.ErrBusy, lock.ErrOwnHold), guard.Invalid},
		{and(lock.ErrLost, lock.ErrHeldTooLong), guard.Lost},
		{and(lock.ErrUnavailable, context.DeadlineExceeded), guard.Unavailable},
		{lock.ErrClosed, guard.Unavailable},
		{lock.ErrLost, guard.Lost},
		{and(context.Canceled, lock.ErrLost), guard.Lost},
		{lock.ErrNotHeld, guard.Lost},
		{context.Canceled, guard.Canceled},
		{context.DeadlineExceeded, guard.Canceled},
		{key.ErrMissing, guard.BadKey},
		{key.ErrInvalid, guard.BadKey},
		{key.ErrTooLong, guard.BadKey},
		{key.ErrAmbiguous, guard.BadKey},
		{key.ErrSyntax, guard.Invalid},
		{rule.ErrInvalid, guard.Invalid},
		{lock.ErrInvalid, guard.Invalid},
		{lock.ErrUnsupported, guard.Invalid},
		{guard.ErrUnresolvable, guard.Invalid},
		{guard.ErrUnauthenticated, guard.Unauthenticated},
		{&guard.Error{Kind: guard.Canceled, Err: lock.ErrBusy}, guard.Canceled},
	} {
		if got := guard.KindOf(test.err); got != test.want {
			t.Errorf("KindOf(%v) is %v, want %v", test.err, got, test.want)
		}
		if test.err == nil {
			continue
		}
		if got := guard.KindOf(fmt.Errorf("wrapped: %w", test.err)); got != test.want {
			t.Errorf("KindOf(wrapped %v) is %v, want %v", test.err, got, test.want)
		}
	}
}

// statusError is an error that others look for by its type.
type statusError struct{ error }

func (e statusError) Unwrap() error { return e.error }

func TestAnErrorOfWorkThatRanIsNoRefusal(t *testing.T) {
	for _, err := range []error{
		&guard.Error{Kind: guard.Contended, Err: lock.ErrBusy},
		statusError{&guard.Error{Kind: guard.Invalid, Err: rule.ErrInvalid}},
		lock.ErrBusy, lock.ErrUnavailable, key.ErrMissing, context.DeadlineExceeded,
	} {
		got := fmt.Errorf("place: %w", guard.Ran(err))
		var refusal *guard.Error
		if kind := guard.KindOf(got); kind != guard.None || errors.As(got, &refusal) {
			t.Errorf("%v: of kind %v, and %v", err, kind, refusal)
		}
		var status statusError
		if !errors.Is(got, err) || errors.As(got, &status) != errors.As(err, &status) || got.Error() != "place: "+err.Error() {
			t.Errorf("%v is hidden in %v", err, got)
		}
		lost := &guard.Error{Kind: guard.Lost}
		if kind := guard.KindOf(fmt.Errorf("%w: %w", lost, guard.Ran(err))); kind != guard.Lost {
			t.Errorf("%v under a lost lock: of kind %v", err, kind)
		}
	}
	for _, err := range []error{nil, errors.New("of the handler"), lock.ErrLost, &guard.Error{Kind: guard.Lost}} {
		if got := guard.Ran(err); got != err { //nolint:errorlint // it must be the work's own
			t.Errorf("%v became %#v", err, got)
		}
	}
}

func TestEveryKindHasItsCode(t *testing.T) {
	for kind, want := range map[guard.Kind]struct {
		name, code string
		retryable  bool
	}{
		guard.None:            {"none", "", false},
		guard.Contended:       {"contended", "LOCK_CONTENDED", true},
		guard.BadKey:          {"bad key", "LOCK_KEY_INVALID", false},
		guard.Unavailable:     {"unavailable", "LOCK_UNAVAILABLE", true},
		guard.Canceled:        {"canceled", "LOCK_CANCELED", true},
		guard.Lost:            {"lost", "LOCK_LOST", false},
		guard.Skipped:         {"skipped", "LOCK_SKIPPED", false},
		guard.Invalid:         {"invalid rule", "LOCK_RULE_INVALID", false},
		guard.Overloaded:      {"overloaded", "LOCK_OVERLOADED", true},
		guard.Unauthenticated: {"unauthenticated", "LOCK_UNAUTHENTICATED", false},
		guard.Kind(99):        {"kind(99)", "", false},
	} {
		if kind.String() != want.name || kind.Code() != want.code || kind.Retryable() != want.retryable {
			t.Errorf("%d: %q %q %v, want %v", kind, kind, kind.Code(), kind.Retryable(), want)
		}
	}
}
