package guard

import (
	"context"
	"errors"

	"github.com/redlatch/redlatch/core/key"
)

// Hooks observe a guard. A nil func costs nothing. What happens to a lock once
// its key is known, its locker tells: see [lock.Hooks].
type Hooks struct {
	// Refused is called by every entry that fails, on the caller's goroutine,
	// with the error that it returns. It must not block.
	Refused func(ctx context.Context, e *Error)
}

// WithHooks returns a guard that calls h, and shares everything else with g:
// rules that either of them is given by [Guard.Replace] are the other's, too.
// The hooks of g stay with g.
func (g *Guard) WithHooks(h Hooks) *Guard {
	return &Guard{locker: g.locker, rules: g.rules, hooks: h}
}

// refuse tells of an entry that failed.
func (g *Guard) refuse(ctx context.Context, e *Error) *Error {
	if g.hooks.Refused != nil {
		g.hooks.Refused(ctx, e)
	}
	return e
}

// KeyReason says in one of a few fixed words, fit for a metric, why a key
// could not be made: "missing", "ambiguous", "too_long" or "invalid" for an
// error of kind [BadKey], "unresolvable" for a variable that the rule names
// but nothing has a value for ([ErrUnresolvable]). It is empty for every other
// error.
func KeyReason(err error) string {
	switch {
	case errors.Is(err, ErrUnresolvable):
		return "unresolvable"
	case KindOf(err) != BadKey:
		return ""
	case errors.Is(err, key.ErrMissing):
		return "missing"
	case errors.Is(err, key.ErrAmbiguous):
		return "ambiguous"
	case errors.Is(err, key.ErrTooLong):
		return "too_long"
	}
	return "invalid"
}
