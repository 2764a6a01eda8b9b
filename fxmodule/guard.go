package fxmodule

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"sync"

	"go.uber.org/fx"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/core/rule/rulefile"
	"github.com/redlatch/redlatch/core/rule/rulefile/rulewatch"
	"github.com/redlatch/redlatch/core/telemetry"
)

// GuardParams are the parameters of [NewGuard].
type GuardParams struct {
	fx.In

	Locker    *lock.Locker
	Rules     []rule.Rule          `group:"lock_rules"`
	Files     []RulesFile          `group:"lock_rules_files"`
	Config    Config               `optional:"true"` // its Rules are more Rules, its RulesFile one more of Files
	Health    *Health              `optional:"true"` // of New, whose store is checked with the modes of the rules
	Logger    *slog.Logger         `optional:"true"` // default slog.Default
	Telemetry *telemetry.Telemetry `optional:"true"` // counts operations without a key; nil does not

	// Lifecycle is needed to validate the guard at the start, and for files that
	// are followed. Without it, call [guard.Guard.Validate].
	Lifecycle fx.Lifecycle `optional:"true"`
}

// NewGuard makes a guard. Its error lists everything that is wrong with the
// rules and the files. It warns of rules that may render to the same key although
// their templates differ.
//
// The start calls [guard.Guard.Validate], and ends with its error: a rule that
// nothing serves locks nothing. So routes must be registered before, in
// constructors or by fx.Invoke. An optional rule that nothing serves is for another
// program, and may have a mode that the settings or the store rule out.
func NewGuard(p GuardParams) (*guard.Guard, error) {
	s, err := newSources(p)
	if err != nil {
		return nil, err
	}
	return s.guard, nil
}

// madeGuard is a guard and the rules that it was made of.
type madeGuard struct {
	fx.Out

	Guard   *guard.Guard
	Sources *sources
}

func provideGuard(p GuardParams) (madeGuard, error) {
	s, err := newSources(p)
	if err != nil {
		return madeGuard{}, err
	}
	return madeGuard{Guard: s.guard, Sources: s}, nil
}

func newSources(p GuardParams) (*sources, error) {
	if p.Logger == nil {
		p.Logger = slog.Default()
	}
	if p.Config.RulesFile != "" {
		p.Files = append(slices.Clip(p.Files), RulesFile{Path: p.Config.RulesFile, Follow: p.Config.FollowRules})
	}
	s := &sources{health: p.Health, redis: p.Config.Redis, log: p.Logger, own: entriesOf(p.Rules, p.Config.Rules), files: p.Files}
	if err := s.load(p.Files); err != nil {
		return nil, fmt.Errorf("fxmodule: lock rules: %w", err)
	}
	rules, err := s.join(s.sets)
	if err == nil {
		err = s.locate(s.refused(required(rules)))
	}
	if err != nil {
		return nil, fmt.Errorf("fxmodule: lock rules: %w", err)
	}
	g, err := guard.New(p.Locker, rules...)
	if err != nil {
		return nil, fmt.Errorf("fxmodule: lock rules: %w", err)
	}
	g = g.WithLogger(p.Logger)
	if p.Telemetry != nil {
		g = g.WithHooks(refusals(p.Telemetry))
	}
	if p.Health != nil {
		p.Health.guard.Store(g)
	}
	for _, overlap := range g.Overlaps() {
		p.Logger.Warn("lock rules overlap", "overlap", overlap.String())
	}
	if p.Lifecycle != nil {
		p.Lifecycle.Append(fx.StartHook(s.validate))
	}
	s.guard = g
	return s, s.follow(p)
}

// use has another guard take the place of the one that was made, if it has all its rules.
func (s *sources) use(g *guard.Guard) error {
	if g.SharesRules(s.guard) {
		return nil
	}
	has := make(map[rule.Rule]bool)
	for _, r := range g.Rules() {
		has[r.Rule] = true
	}
	var faults rule.Faults
	for _, r := range s.guard.Rules() {
		if !has[r.Rule] {
			faults = append(faults, rule.Fault{Operation: r.Operation, Reason: "has a rule, and the guard that the application has put in its place " +
				"(fx.Replace, fx.Decorate) doesn't: make it with WithHooks or WithLogger of the guard that it decorates, or give it the rules"})
		}
	}
	if err := faults.Err(); err != nil {
		return fmt.Errorf("fxmodule: lock rules: %w", s.locate(err))
	}
	s.guard = g
	if s.health != nil {
		s.health.guard.Store(g)
	}
	return nil
}

// sources holds the rules by where they came from, so that one file can change
// without the others.
type sources struct {
	guard  *guard.Guard
	health *Health // nil: nobody knows the store
	redis  Redis
	log    *slog.Logger
	own    []rule.Entry // of the rules that are from no file
	files  []RulesFile

	mu     sync.Mutex
	sets   []*rule.Set // of the files, as they are in force
	newest []*rule.Set // as they were read last
}

func (s *sources) load(files []RulesFile) error {
	var faults []error
	for _, f := range files {
		set, err := rulefile.Load(f.Path)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		s.sets = append(s.sets, set)
	}
	s.newest = slices.Clone(s.sets)
	return errors.Join(faults...)
}

// entriesOf are rules that are from no file. Those of the options have no order.
func entriesOf(options, config []rule.Rule) []rule.Entry {
	var entries []rule.Entry
	for _, r := range options {
		entries = append(entries, rule.Entry{Rule: r, Source: "a rule of AsRule or AsRules"})
	}
	for i, r := range config {
		entries = append(entries, rule.Entry{Rule: r, Source: fmt.Sprintf("rules[%d] of the config", i)})
	}
	return entries
}

// join returns all rules if those of the files are sets. Faults name the places of both
// rules that contradict each other.
func (s *sources) join(sets []*rule.Set) ([]rule.Rule, error) {
	entries := slices.Clip(s.own)
	for _, set := range sets {
		entries = append(entries, set.Entries()...)
	}
	all, err := rule.NewSetOf(entries...)
	if err != nil {
		return nil, err
	}
	return all.Rules(), nil
}

// refused returns a fault for each rule whose mode the settings rule out.
func (s *sources) refused(rules []rule.Rule) error {
	var faults rule.Faults
	for _, r := range rules {
		if why := s.redis.refuses(r.Mode); why != "" {
			faults = append(faults, rule.Fault{Operation: r.Operation, Field: "mode", Reason: r.Mode.String() + ": " + why})
		}
	}
	return faults.Err()
}

// required are the rules that aren't optional. Whether an optional one is for this
// program is known at the start.
func required(rules []rule.Rule) []rule.Rule {
	return slices.DeleteFunc(slices.Clone(rules), func(r rule.Rule) bool { return r.Optional })
}

// unsupported returns a fault for each rule whose mode is new, and which the store does
// not have. A store that can't be reached now isn't the fault of a rule.
func (s *sources) unsupported(ctx context.Context, rules []rule.Rule) error {
	if s.health == nil {
		return nil
	}
	var faults rule.Faults
	modes := s.newModes(rules)
	for _, mode := range slices.Sorted(maps.Keys(modes)) {
		switch err := s.health.checkModes(ctx, mode); {
		case errors.Is(err, lock.ErrUnsupported):
			for _, r := range modes[mode] {
				faults = append(faults, rule.Fault{Operation: r.Operation, Field: "mode", Reason: mode.String() + ": " + err.Error()})
			}
		case err != nil:
			s.log.Warn("lock rules: the store could not be checked with a new mode", "mode", mode.String(), "error", err)
		}
	}
	return faults.Err()
}

// newModes returns the rules by their mode, without the modes of rules in force.
func (s *sources) newModes(rules []rule.Rule) map[lock.Mode][]rule.Rule {
	modes := make(map[lock.Mode][]rule.Rule)
	for _, r := range rules {
		modes[r.Mode] = append(modes[r.Mode], r)
	}
	for _, r := range inForce(s.guard) {
		delete(modes, r.Mode)
	}
	return modes
}

// inForce are the rules of a guard that are for this program.
func inForce(g *guard.Guard) []rule.Rule {
	var rules []rule.Rule
	for _, r := range g.Rules() {
		rules = append(rules, r.Rule)
	}
	return g.Relevant(rules)
}

// locate adds the places in the files to faults.
func (s *sources) locate(err error) error {
	for _, set := range s.sets {
		err = set.Locate(nil, err)
	}
	return err
}

// validate ends the start with what the guard finds.
func (s *sources) validate() error {
	err := s.guard.Validate()
	if err == nil {
		err = s.refused(inForce(s.guard))
	}
	if err := s.locate(err); err != nil {
		return fmt.Errorf("fxmodule: lock rules: %w", err)
	}
	return nil
}

// follow watches those files that are to be followed while the application runs.
func (s *sources) follow(p GuardParams) error {
	first := slices.IndexFunc(p.Files, func(f RulesFile) bool { return f.Follow })
	if first < 0 {
		return nil
	}
	if p.Lifecycle == nil {
		return fmt.Errorf("fxmodule: lock rules: %s cannot be followed without a lifecycle", p.Files[first].Path)
	}
	ctx, cancel := context.WithCancel(context.Background())
	for i, f := range p.Files {
		if f.Follow {
			s.watch(ctx, p.Lifecycle, i)
		}
	}
	p.Lifecycle.Append(fx.StopHook(cancel)) // the first hook of the stop: watchers wait for a check of the store
	return nil
}

// watch watches one file. ctx ends what its new versions need of the store.
func (s *sources) watch(ctx context.Context, lifecycle fx.Lifecycle, file int) {
	var watcher *rulewatch.Watcher
	lifecycle.Append(fx.Hook{
		OnStart: func(context.Context) error {
			watcher = rulewatch.Start(s.files[file].Path, func(set *rule.Set) error { return s.replace(ctx, file, set) }, rulewatch.WithLogger(s.log))
			return nil
		},
		OnStop: func(context.Context) error {
			watcher.Close()
			return nil
		},
	})
}

// replace replaces the rules of one file. A rule may move from one file to another,
// and neither version is right without the other: so the newest versions of all files
// are tried first, then that of each other one with this one, because one that is wrong
// holds up no other, and then this one alone.
func (s *sources) replace(ctx context.Context, file int, set *rule.Set) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.newest[file] = set
	alone := slices.Clone(s.sets)
	alone[file] = set
	all := slices.Clone(alone)
	var pairs [][]*rule.Set
	for i, newest := range s.newest {
		if newest != alone[i] && s.stands(i) {
			all[i] = newest
			pair := slices.Clone(alone)
			pair[i] = newest
			pairs = append(pairs, pair)
		}
	}
	if len(pairs) > 1 {
		pairs = slices.Insert(pairs, 0, all)
	}
	for _, sets := range pairs {
		if s.apply(ctx, sets, file) == nil {
			return nil
		}
	}
	return s.apply(ctx, alone, file)
}

// stands reports whether the newest version of a file is still what the file says. Its
// watcher doesn't tell when it is gone or broken since.
func (s *sources) stands(file int) bool {
	set, err := rulefile.Load(s.files[file].Path)
	return err == nil && reflect.DeepEqual(set.Rules(), s.newest[file].Rules())
}

// apply puts the rules of all files in force, of which one has just been read.
func (s *sources) apply(ctx context.Context, sets []*rule.Set, read int) error {
	var unlocked []string
	for i, set := range sets {
		if set != s.sets[i] {
			unlocked = append(unlocked, set.Unlocked()...)
		}
	}
	rules, err := s.join(sets)
	if err != nil {
		return err
	}
	relevant := s.guard.Relevant(rules)
	if err := s.refused(relevant); err != nil {
		return err
	}
	if err := s.unsupported(ctx, relevant); err != nil {
		return err
	}
	if err := s.guard.Replace(rules, unlocked...); err != nil {
		return err
	}
	for i, set := range sets {
		if i != read && set != s.sets[i] { // the watcher of that file has said that it could not be used
			s.log.Info("lock rules are in force", "file", s.files[i].Path, "rules", len(set.All()))
		}
	}
	s.sets = sets
	return nil
}
