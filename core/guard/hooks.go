package guard

import (
	"context"
	"errors"
	"log/slog"

	"github.com/redlatch/redlatch/core/key"
)

// Hooks observe a guard. A nil func costs nothing. What happens to a lock once
// its key is known is reported by the locker: see [lock.Hooks].
type Hooks struct {
	// Refused is called by every entry that fails, and when a lease was lost
	// before the work was done, on the caller's goroutine, with the error that is
	// returned. It must not block.
	Refused func(ctx context.Context, e *Error)
}

// WithHooks returns a guard that calls h and shares everything else with g:
// [Guard.Replace] of either replaces the rules of both. It doesn't call the hooks
// of g.
func (g *Guard) WithHooks(h Hooks) *Guard {
	other := *g
	other.hooks = h
	return &other
}

// SharesRules reports whether g and other have the same rules, now and after each
// [Guard.Replace]: one was made from the other by [Guard.WithHooks] or
// [Guard.WithLogger], or both from a third. Two guards that happen to have equal
// rules, or none, don't share them.
func (g *Guard) SharesRules(other *Guard) bool { return g.rules == other.rules }

// WithLogger returns a guard that logs to log and shares everything else with g. A
// nil log is [slog.Default], which is also what a new guard logs to.
//
// A guard logs the errors that are the operator's business, of kind [Invalid],
// [Unavailable] and [Lost]: the first of each kind at once, then at most one a
// second, which says how many weren't logged. A line has the operation, the rule,
// the kind, the reason, such as in which way a lease was lost, and the class of a
// store's failure ([lock.ClassOf]). It never has the key or an owner.
func (g *Guard) WithLogger(log *slog.Logger) *Guard {
	other := *g
	other.log = newSampled(log)
	return &other
}

// refuse reports an entry that failed, or a lease that was lost.
func (g *Guard) refuse(ctx context.Context, e *Error) *Error {
	g.log.refused(ctx, e)
	if g.hooks.Refused != nil {
		g.hooks.Refused(ctx, e)
	}
	return e
}

// KeyReason returns one of a few fixed words, fit for a metric, for why a key
// couldn't be made: "missing", "ambiguous", "too_long" or "invalid" for an error of
// kind [BadKey] or [Unauthenticated], "unresolvable" for a variable that the rule
// names but nothing has a value for ([ErrUnresolvable]). It is empty for every
// other error.
func KeyReason(err error) string {
	switch {
	case errors.Is(err, ErrUnresolvable):
		return "unresolvable"
	case errors.Is(err, ErrUnauthenticated):
		return "missing"
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
