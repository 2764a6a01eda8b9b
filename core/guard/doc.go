// Package guard is what all integrations share. It finds the rule of an operation,
// renders the key, takes the lock, and sorts errors into a [Kind] that an
// integration maps to its status codes.
//
//	ctx, leave, err := g.Enter(ctx, guard.Call{Operation: "POST /orders", Vars: vars})
//	if err != nil {
//		return answer(guard.KindOf(err)) // the work must not run
//	}
//	defer leave()
//	return work(ctx)
//
// # Every rule must be served
//
// An operation with a rule never runs without its lock. A rule whose operation is
// misspelled would lock nothing, so somebody has to serve each rule: integrations
// tell the guard which operations go through it ([Guard.Serve], [Guard.Attach]), and
// programs name the operations that they enter themselves ([Guard.Declare]). When everything
// is registered, call [Guard.Validate]. Until it succeeds the guard lets nobody in.
//
// [Guard.Enter] refuses an operation without a rule. Integrations let such operations
// pass after they have looked for a rule with [Guard.RulesOf]. The rules can change while
// the guard works: see [Guard.Replace].
package guard
