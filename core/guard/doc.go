// Package guard is what all doors share: it finds the rule of an operation,
// renders its key, takes the lock, and sorts what can go wrong into a [Kind]
// that a door maps to its own statuses.
//
//	ctx, leave, err := g.Enter(ctx, guard.Call{Operation: "POST /orders", Vars: vars})
//	if err != nil {
//		return answer(guard.KindOf(err)) // the work must not run
//	}
//	defer leave()
//	return work(ctx)
//
// An operation without a rule passes through untouched. An operation with a
// rule never runs without its lock. The rules can change while the guard works:
// see [Guard.Replace].
package guard
