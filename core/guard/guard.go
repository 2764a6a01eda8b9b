package guard

import (
	"errors"
	"sync/atomic"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/rule"
)

// Guard puts locks in front of operations, as its rules say. It is safe for
// concurrent use.
type Guard struct {
	locker *lock.Locker
	rules  *atomic.Pointer[rule.Set] // shared with the guards of WithHooks
	hooks  Hooks
}

// New returns a guard that takes its locks from locker, which the caller still
// owns and closes. The rules are checked as a whole: the error lists
// everything that is wrong with any of them ([rule.Faults]). A guard without
// rules serves doors that bring their own.
func New(locker *lock.Locker, rules ...rule.Rule) (*Guard, error) {
	if locker == nil {
		return nil, errors.New("guard: locker is nil")
	}
	set, err := rule.NewSet(rules...)
	if err != nil {
		return nil, err
	}
	g := &Guard{locker: locker, rules: new(atomic.Pointer[rule.Set])}
	g.rules.Store(set)
	return g, nil
}

// Must is for rules that are part of the program: it panics when err is not
// nil.
//
//	g := guard.Must(guard.New(locker, rules...))
func Must(g *Guard, err error) *Guard {
	if err != nil {
		panic(err) //nolint:forbidigo // it is a Must function
	}
	return g
}

// Replace puts other rules in the place of all that the guard has. They are
// checked as a whole, as by [New]; on an error nothing changes.
//
// An operation that has entered keeps the lock of its old rule, and gives that
// very lock back. One that enters later takes the lock of the new rule: where
// the two have different keys, both may run at once.
func (g *Guard) Replace(rules ...rule.Rule) error {
	set, err := rule.NewSet(rules...)
	if err != nil {
		return err
	}
	g.rules.Store(set)
	return nil
}

// Locker returns the locker that the guard takes its locks from.
func (g *Guard) Locker() *lock.Locker { return g.locker }

// Rule returns the rule of an operation, spelt as in the rule.
func (g *Guard) Rule(operation string) (*rule.Compiled, bool) {
	return g.rules.Load().Lookup(operation)
}

// Rules returns all rules, in the order in which they were given.
func (g *Guard) Rules() []*rule.Compiled { return g.rules.Load().All() }

// Overlaps returns the groups of rules whose templates differ but can render
// to the same key: worth a warning at start-up.
func (g *Guard) Overlaps() []rule.Overlap { return g.rules.Load().Overlaps() }
