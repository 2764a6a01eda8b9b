package annotations

import (
	"context"
	"errors"
	"fmt"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/key"
)

// Vars finds the values of one call for the variables of templates. [VarsOf]
// makes one, and so may any func. It returns [guard.ErrUnresolvable] for a
// variable that no call has a value for.
type Vars = key.Lookup

// Var is a variable of a template.
type Var = key.Var

// Do runs work while holding the locks of m, with a context that ends when the
// first of them does, and releases them, also when work panics.
//
// The error is work's, as [guard.Ran] returns it, or a [*guard.Error] that says why
// work didn't run. So an error of work that is about other locks or a context isn't
// taken for a refusal of this call. If a lease was lost before work was done, the
// error is of kind [guard.Lost] and wraps work's error, if there was one: what work
// did may overlap with another owner's. When the locks are held by another owner and
// the rule says onBusy=skip, Do returns nil without running work.
func Do(ctx context.Context, m *Method, vars Vars, work func(ctx context.Context) error) (err error) {
	inside, leave, err := m.enter(ctx, vars)
	switch guard.KindOf(err) {
	case guard.None:
	case guard.Skipped:
		return nil
	default:
		return err
	}
	defer func() {
		lost := leave()
		switch {
		case lost == nil:
		case err == nil:
			err = lost
		default:
			err = fmt.Errorf("%w: %w", lost, err)
		}
	}()
	return guard.Ran(work(inside))
}

// Call is [Do] for work with a result. It is the zero value when work didn't
// run, also when that is no error; with a lost lease it is work's.
func Call[T any](ctx context.Context, m *Method, vars Vars, work func(ctx context.Context) (T, error)) (T, error) {
	var result T
	err := Do(ctx, m, vars, func(ctx context.Context) error {
		var err error
		result, err = work(ctx)
		return err
	})
	return result, err
}

// enter takes the locks: those of the guard's rules for the operation, or else
// those of the directives.
func (m *Method) enter(ctx context.Context, vars Vars) (inside context.Context, leave func() error, err error) {
	rules, err := m.guard.RulesOf(m.operation)
	switch {
	case err != nil:
		return nil, nil, m.guard.Refuse(ctx, guard.Call{Operation: m.operation}, errors.Unwrap(err)) // which wraps it again
	case len(rules) == 0:
		rules = m.rules
	}
	if len(rules) == 1 {
		return m.guard.Enter(ctx, guard.Call{Operation: m.operation, Rule: rules[0], Vars: vars})
	}
	calls := make([]guard.Call, len(rules))
	for i, r := range rules {
		calls[i] = guard.Call{Operation: m.operation, Rule: r, Vars: vars}
	}
	return m.guard.EnterAll(ctx, calls...)
}
