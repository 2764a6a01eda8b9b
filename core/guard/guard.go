package guard

import (
	"errors"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/rule"
)

// Guard puts locks in front of operations, as its rules say. It never changes
// and is safe for concurrent use.
type Guard struct {
	locker *lock.Locker
	rules  *rule.Set
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
	return &Guard{locker: locker, rules: set}, nil
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

// Locker returns the locker that the guard takes its locks from.
func (g *Guard) Locker() *lock.Locker { return g.locker }

// Rule returns the rule of an operation, spelt as in the rule.
func (g *Guard) Rule(operation string) (*rule.Compiled, bool) { return g.rules.Lookup(operation) }

// Rules returns all rules, in the order in which they were given.
func (g *Guard) Rules() []*rule.Compiled { return g.rules.All() }

// Overlaps returns the groups of rules whose templates differ but can render
// to the same key: worth a warning at start-up.
func (g *Guard) Overlaps() []rule.Overlap { return g.rules.Overlaps() }
