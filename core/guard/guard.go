package guard

import (
	"errors"
	"sync/atomic"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/rule"
)

// Guard takes locks for operations, according to its rules. It is safe for
// concurrent use.
type Guard struct {
	locker *lock.Locker
	rules  *atomic.Pointer[rule.Set] // shared with the guards of WithHooks
	served *served                   // shared with them, too
	hooks  Hooks
	log    *sampled
}

// New returns a guard that takes its locks from locker, which the caller still owns
// and closes. The rules are checked as a whole: the error lists everything that is
// wrong with any of them ([rule.Faults]). A guard without rules is for integrations
// that bring their own. One with rules lets nobody in until each rule is served,
// see [Guard.Validate].
func New(locker *lock.Locker, rules ...rule.Rule) (*Guard, error) {
	if locker == nil {
		return nil, errors.New("guard: locker is nil")
	}
	set, err := rule.NewSet(rules...)
	if err != nil {
		return nil, err
	}
	g := &Guard{
		locker: locker, rules: new(atomic.Pointer[rule.Set]), log: newSampled(nil),
		served: &served{by: make(map[string]string), declared: make(map[string]bool), required: make(map[string]bool)},
	}
	g.rules.Store(set)
	return g, nil
}

// Must is for rules that are part of the program: it panics if err isn't nil.
//
//	g := guard.Must(guard.New(locker, rules...))
func Must(g *Guard, err error) *Guard {
	if err != nil {
		panic(err) //nolint:forbidigo // it is a Must function
	}
	return g
}

// Locker returns the locker that the guard takes its locks from.
func (g *Guard) Locker() *lock.Locker { return g.locker }

// RulesOf returns the rules whose Operation equals operation: one, or several whose
// locks are taken together. It returns none where the operation may run without a lock.
// The error, of kind [Invalid], says that the guard isn't valid and lets nobody in;
// integrations that let operations without a rule pass must refuse the call then. The
// slice must not be changed.
func (g *Guard) RulesOf(operation string) ([]*rule.Compiled, error) {
	set, err := g.ready()
	if err != nil {
		return nil, &Error{Kind: Invalid, Operation: operation, Err: err}
	}
	return set.Lookup(operation), nil
}

// Rules returns all rules, in the order in which they were given.
func (g *Guard) Rules() []*rule.Compiled { return g.rules.Load().All() }

// Overlaps returns the groups of rules whose templates differ but can render
// to the same key: worth a warning at start-up.
func (g *Guard) Overlaps() []rule.Overlap { return g.rules.Load().Overlaps() }
