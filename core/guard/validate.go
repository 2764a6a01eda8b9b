package guard

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlatch/redlatch/core/rule"
)

// served records which operations go through the guard. The guards of WithHooks and
// WithLogger share it.
type served struct {
	// turn is held from a look at the rules until they are in force or found good, so
	// that nobody replaces other rules than the ones that were compared.
	turn sync.Mutex

	mu       sync.Mutex
	by       map[string]string // who serves an operation
	declared map[string]bool   // operations that the program enters itself
	required map[string]bool   // operations that must be served, whether or not they have a rule
	surveys  []survey
	started  bool                     // valid at some time: calls have run since
	valid    atomic.Pointer[rule.Set] // the rules that all surveys found good, nil while one has not looked
	failed   error                    // of the rules that were not
	failedOf *rule.Set
	failedAt time.Time
}

// survey is an integration that looks for its operations during [Guard.Validate].
type survey struct {
	by     string
	router any
	find   func(rules *rule.Set) (operations []string, err error)
}

// revalidateAfter is how long a guard that isn't valid relies on having found so.
// What it refused for may be put right while the program still starts.
const revalidateAfter = 200 * time.Millisecond

// Serve declares that an integration, whose name is by, puts these operations
// behind the guard: each call of them enters the guard before its work runs. It may
// be called again, with the same operations or others.
func (g *Guard) Serve(by string, operations ...string) {
	g.served.mu.Lock()
	defer g.served.mu.Unlock()
	for _, operation := range operations {
		g.served.by[operation] = by
	}
	g.served.failedAt = time.Time{}
}

// Declare names operations that the program enters itself, with [Guard.Enter]. Each
// of them must have a rule.
func (g *Guard) Declare(names ...string) {
	g.Serve("the program", names...)
	g.served.mu.Lock()
	defer g.served.mu.Unlock()
	for _, name := range names {
		g.served.declared[name] = true
	}
}

// Require says that each of these operations must be served, although the guard may have
// no rule for it: such as a method whose lock its .proto declares. [Guard.Validate]
// reports the ones that nobody serves.
func (g *Guard) Require(operations ...string) {
	g.served.mu.Lock()
	defer g.served.mu.Unlock()
	for _, operation := range operations {
		g.served.required[operation] = true
	}
	g.served.failedAt = time.Time{}
	g.served.valid.Store(nil)
}

// Attach registers an integration whose operations are known later, such as
// a router whose routes are still to be registered. [Guard.Validate] calls find
// with the rules that are to be in force. [Guard.Replace] may call it with the rules
// before them as well. find returns the operations behind the guard, and everything
// that is wrong with how they are registered: an operation with a rule that isn't
// behind the guard, a variable that a rule can never have a value for. find must not
// call the guard.
//
// router identifies what find reads, by ==. A later call for the same router
// replaces the earlier one, and its find must find the same. A guard that was valid
// calls it at the next [Guard.Validate] or [Guard.Replace], not before. A nil router
// never replaces another.
//
// If the router is a new one, a guard that was valid is validated once more by its
// next call, and lets nobody in while find reports something wrong. So attach all of
// them before the first call.
func (g *Guard) Attach(by string, router any, find func(rules *rule.Set) (operations []string, err error)) {
	s := g.served
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failedAt = time.Time{}
	if i := slices.IndexFunc(s.surveys, func(a survey) bool { return router != nil && a.router == router }); i >= 0 {
		s.surveys[i] = survey{by, router, find}
		return
	}
	s.surveys = append(s.surveys, survey{by, router, find})
	s.valid.Store(nil)
}

// Validate reports every rule that nobody serves, every rule that the settings of the
// locker rule out ([lock.Locker.Check]), every operation that lacks one of its rules
// ([rule.Set.Alone]), and everything that an attached integration
// finds wrong. An optional rule may go unserved, and need not fit the locker then: it is
// for another program. Call Validate when all operations are registered and before the
// first call: a rule whose operation is misspelled would otherwise lock nothing.
//
// A guard with rules is closed until it is valid. The first call validates it if
// nobody did before, and is refused as [Invalid] while there is a fault. That is too
// late for an operation that was never put behind the guard, which no guard can
// refuse: end the program when Validate returns an error. The error is logged as
// well, and wraps [rule.ErrInvalid]. A guard without rules and without attached
// integrations is valid.
func (g *Guard) Validate() (err error) {
	defer func() {
		if err != nil {
			g.log.invalid(err)
		}
	}()
	g.served.turn.Lock()
	defer g.served.turn.Unlock() // also if an integration panics
	return g.validate(g.rules.Load())
}

// validate checks the rules that are in force, and keeps the result. It is the
// caller's turn.
func (g *Guard) validate(set *rule.Set) error {
	s := g.served
	surveys := s.surveyed()
	err := g.check(set)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.failed, s.failedOf, s.failedAt = err, set, time.Now()
		return err
	}
	s.accept(set, surveys)
	return nil
}

// accept records that so many surveys found set good. It isn't valid yet if another
// one was attached meanwhile. mu must be held.
func (s *served) accept(set *rule.Set, surveys int) {
	s.started = true
	if len(s.surveys) == surveys {
		s.valid.Store(set)
	}
}

// check returns why set can't take effect.
func (g *Guard) check(set *rule.Set) error {
	by, faults := g.served.survey(set)
	faults = append(faults, unserved(set, by)...)
	faults = append(faults, alone(set, by)...)
	faults = append(faults, g.unfit(set, by)...)
	faults = append(faults, g.served.missing(set, by)...)
	for _, name := range g.served.names() {
		if len(set.Lookup(name)) == 0 {
			faults = append(faults, rule.Fault{Operation: name, Reason: "is declared and has no rule" + rule.DidYouMean(name, operationsOf(set))})
		}
	}
	if err := errors.Join(faults...); err != nil {
		return invalid{err}
	}
	return nil
}

// survey returns who serves an operation under the rules of set, and what the
// integrations find wrong with them.
func (s *served) survey(set *rule.Set) (by map[string]string, faults []error) {
	s.mu.Lock()
	by, surveys := maps.Clone(s.by), slices.Clone(s.surveys)
	s.mu.Unlock()
	for _, survey := range surveys {
		operations, err := survey.find(set)
		for _, operation := range operations {
			by[operation] = survey.by
		}
		if err != nil {
			faults = append(faults, err)
		}
	}
	return by, faults
}

// names returns the operations that the program enters itself.
func (s *served) names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.declared))
}

// missing returns a fault for each operation that must be served and isn't. Those with a
// rule have one already.
func (s *served) missing(set *rule.Set, by map[string]string) []error {
	s.mu.Lock()
	required := slices.Sorted(maps.Keys(s.required))
	s.mu.Unlock()
	var faults []error
	for _, operation := range required {
		if by[operation] == "" && len(set.Lookup(operation)) == 0 {
			faults = append(faults, rule.Fault{Operation: operation, Reason: "must take its lock, and nothing serves it; " + cure(operation)})
		}
	}
	return faults
}

// invalid marks an error that an integration reports as a fault of the rules.
type invalid struct{ error }

func (e invalid) Unwrap() []error { return []error{rule.ErrInvalid, e.error} }

// unserved returns a fault for each rule that nobody serves.
func unserved(set *rule.Set, by map[string]string) []error {
	var faults []error
	known := slices.Sorted(maps.Keys(by))
	for _, r := range set.All() {
		if by[r.Operation] != "" || elsewhere(r.Rule, by) || set.Lookup(r.Operation)[0] != r { // one fault for the operation
			continue
		}
		faults = append(faults, rule.Fault{Operation: r.Operation, Reason: fmt.Sprintf(
			"has a rule, and nothing serves it%s; %s, or say optional: true if another program does", rule.DidYouMean(r.Operation, known), cure(r.Operation))})
	}
	return faults
}

// alone returns a fault for each operation that lacks one of its rules: its name may be
// misspelled.
func alone(set *rule.Set, by map[string]string) []error {
	known := slices.Sorted(maps.Keys(by))
	var faults []error
	for _, f := range set.Alone() {
		if by[f.Operation] == "" {
			f.Reason += rule.DidYouMean(f.Operation, known)
		}
		faults = append(faults, f)
	}
	return faults
}

// unfit returns a fault for each rule that the locker's own settings rule out: it would
// refuse every call. One for another program is for another locker.
func (g *Guard) unfit(set *rule.Set, by map[string]string) []error {
	var faults []error
	for _, r := range set.All() {
		if elsewhere(r.Rule, by) {
			continue
		}
		if reason := g.misfit(r); reason != "" {
			faults = append(faults, rule.Fault{Operation: r.Operation, Reason: reason})
		}
	}
	return faults
}

// Relevant returns those of the rules that are for this program: all but the optional
// ones whose operations nobody serves here. Rules that contradict each other are all
// returned. Like [Guard.Validate] it calls the attached integrations, so all operations
// must be registered. It changes nothing.
func (g *Guard) Relevant(rules []rule.Rule) []rule.Rule {
	set, err := rule.NewSet(rules...)
	if err != nil || !slices.ContainsFunc(rules, func(r rule.Rule) bool { return r.Optional }) {
		return slices.Clone(rules) // none may be missed
	}
	by, _ := g.served.survey(set)
	return slices.DeleteFunc(slices.Clone(rules), func(r rule.Rule) bool { return elsewhere(r, by) })
}

// elsewhere reports whether a rule is for another program: it is optional, and nobody
// serves it here.
func elsewhere(r rule.Rule, by map[string]string) bool { return r.Optional && by[r.Operation] == "" }

// Fits returns an error, which wraps [rule.ErrInvalid], if the settings of the locker
// rule r out ([lock.Locker.Check]): every call would be refused. [Guard.Validate] checks
// the rules of the guard. An integration checks the rules that it brings ([Call.Rule]).
func (g *Guard) Fits(r *rule.Compiled) error {
	if reason := g.misfit(r); reason != "" {
		return rule.Fault{Reason: reason}
	}
	return nil
}

// misfit returns why the settings of the locker rule r out, or nothing.
func (g *Guard) misfit(r *rule.Compiled) string {
	if err := g.locker.Check(r.Key, r.Options()...); err != nil {
		return "doesn't fit the settings of the locker: " + errors.Unwrap(err).Error()
	}
	return ""
}

func operationsOf(set *rule.Set) []string {
	var operations []string
	for _, r := range set.All() {
		operations = append(operations, r.Operation)
	}
	return operations
}

// cure returns how to serve an operation of that shape.
func cure(operation string) string {
	shape, _ := rule.ShapeOf(operation)
	switch shape {
	case rule.HTTP:
		return "put its lock in front of the handler (Rules of ginlock; Route of httplock, fiberlock or hertzlock)"
	case rule.GRPC:
		return "register the service and tell the guard of its server (Attach of package grpclock), or put its decorator around the service (New...ServerLock); " +
			"a method that something else answers, such as an UnknownServiceHandler, is named in Guard.Serve"
	default:
		return "lock the method by package annotations, or name it in Declare"
	}
}

// ready returns the rules that are in force, or why there are none.
func (g *Guard) ready() (*rule.Set, error) {
	set := g.rules.Load()
	s := g.served
	if s.valid.Load() == set || set.Empty() && s.unattached(set) {
		return set, nil
	}
	if err := s.failure(set); err != nil {
		return nil, err
	}
	s.turn.Lock()
	defer s.turn.Unlock()
	set = g.rules.Load()
	if s.valid.Load() == set { // a call before this one has validated them
		return set, nil
	}
	if err := s.failure(set); err != nil {
		return nil, err
	}
	return set, g.validate(set)
}

// failure returns what was wrong with the rules a moment ago.
func (s *served) failure(set *rule.Set) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failedOf == set && time.Since(s.failedAt) < revalidateAfter {
		return s.failed
	}
	return nil
}

// surveyed returns how many integrations are attached.
func (s *served) surveyed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.surveys)
}

// unattached reports whether no integration is attached, and accepts the empty set
// then: an integration may have rules that are not the guard's, and find something
// wrong with those.
func (s *served) unattached(set *rule.Set) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.surveys)+len(s.required) > 0 {
		return false
	}
	if !s.started {
		s.accept(set, 0) // from now on rules are replaced under calls
	}
	return true
}

// hasStarted reports whether the guard has been valid.
func (s *served) hasStarted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.started
}

// Replace replaces all rules of the guard. The new ones are
// checked as a whole, as by [New] and [Guard.Validate]; on an error nothing changes.
//
// It is an error if an operation loses its rule, unless unlocked names the
// operation: a misspelled operation in a new version of a file must not unlock a
// route while the program runs. An optional rule may go if nothing serves its
// operation here. Before the guard was valid for the first time, nothing runs, and
// Validate has still to come.
//
// An operation that runs keeps the lock of its old rule and releases that one. One
// that enters later takes the lock of the new rule. If the two have different keys,
// both may run at once. Calls of Replace take turns: each is compared with the rules
// of the one before, and the last one counts.
func (g *Guard) Replace(rules []rule.Rule, unlocked ...string) error {
	set, err := rule.NewSet(rules...)
	if err != nil {
		return err
	}
	g.served.turn.Lock()
	defer g.served.turn.Unlock()
	s := g.served
	if !s.hasStarted() { // the program still starts
		g.rules.Store(set)
		return nil
	}
	surveys := s.surveyed()
	if err := g.check(set); err != nil {
		return err
	}
	if err := errors.Join(g.lost(set, unlocked)...); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	g.rules.Store(set)
	s.accept(set, surveys)
	return nil
}

// lost returns a fault for each operation that would have no rule in set, unless
// unlocked names it. An optional rule may go if nobody serves its operation here. The
// rules in force say so: under set, an integration need not know the operation.
func (g *Guard) lost(set *rule.Set, unlocked []string) []error {
	old := g.rules.Load()
	by := sync.OnceValue(func() map[string]string {
		by, _ := g.served.survey(old)
		return by
	})
	var faults []error
	for _, before := range old.All() {
		if len(set.Lookup(before.Operation)) > 0 || slices.Contains(unlocked, before.Operation) || before.Optional && by()[before.Operation] == "" {
			continue
		}
		faults = append(faults, rule.Fault{Operation: before.Operation, Reason: "would have no rule any longer" +
			rule.DidYouMean(before.Operation, operationsOf(set)) + "; keep its rule, or list it under unlocked"})
	}
	return faults
}
