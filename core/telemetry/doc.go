// Package telemetry reports to OpenTelemetry and slog what a locker does.
//
//	t, err := telemetry.New()
//	locker := lock.New(store, lock.WithHooks(t.Hooks()))
//
// # Metrics
//
//	redlatch.acquire.duration  histogram, s       template, mode, outcome, error.type
//	redlatch.hold.duration     histogram, s       template, mode, outcome, error.type
//	redlatch.waiter.count      up-down, {waiter}  template
//	redlatch.held.count        up-down, {lock}    template
//	redlatch.renewals          counter, {renewal} outcome
//	redlatch.losses            counter, {lock}    template, reason
//	redlatch.key.failures      counter, {failure} template, reason
//	redlatch.circuit.opens     counter, {opening}
//	redlatch.circuit.count     up-down, {circuit} server
//	redlatch.backlog.count     up-down, {call}
//	redlatch.leader.term       gauge, {term}      template
//
// The attributes are redlatch.template, redlatch.mode, redlatch.outcome,
// redlatch.reason and redlatch.server. A template is the name that the lock was given with
// [lock.WithName], as rules do: never its key. Locks without a name, and those
// of further names once there are [MaxNames], are recorded as "_other", so
// that the number of series has a bound whatever clients send.
//
// An acquisition ends as acquired, contended (another owner had the key),
// canceled (its caller gave up) or error. A contended one that was refused
// because too many wait has the error.type too_many_waiters, and every error has
// one: unavailable, lost, closed, unsupported, invalid or _OTHER. A hold ends as
// released, expired (its fixed lease ran out, or it reached its limit) or lost; a
// release that the store didn't confirm has the error.type unavailable. A renewal is ok, error (it is
// tried again) or lost. The reasons of losses are those of [lock.LossReason].
//
// The circuits are those of the servers of a store, whose addresses are the attribute
// redlatch.server:
//
//	store := redisstore.New(rdb, redisstore.WithCircuitHook(t.Circuit))
//
// redlatch.leader.term is the term that this process leads in, and 0 when it does
// not. It is set by the hooks of package leader:
//
//	leader.WithHooks(leader.Hooks{Elected: t.Elected, Resigned: t.Resigned, Lost: t.TermLost})
//
// # Spans
//
// An acquisition that had to wait, or that failed, is an internal span
// lock.acquire: see [WithSpans]. It has the status Error only when the store or
// the hold failed; that another owner was faster is a normal outcome. A loss is
// an event lock.lost on the span in which the lock was acquired.
//
// # Logs
//
// Losses and releases that the store didn't confirm are warnings, failed
// renewals are information, refused keys are for debugging. When a store dies,
// thousands of locks say the same: the first line of a kind is written at once,
// then at most one a second, which says how many were suppressed. The attribute
// cause is the class of the failure, as of [lock.ClassOf].
//
// Nothing here carries the key unless [WithKeyAttribute] adds it, nor an
// owner, nor what the store said.
package telemetry
