package fxmodule

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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

// GuardParams are what a guard is made of.
type GuardParams struct {
	fx.In

	Locker    *lock.Locker
	Rules     []rule.Rule          `group:"lock_rules"`
	Files     []RulesFile          `group:"lock_rules_files"`
	Config    Config               `optional:"true"` // its RulesFile is one more of Files
	Logger    *slog.Logger         `optional:"true"` // default slog.Default
	Telemetry *telemetry.Telemetry `optional:"true"` // counts operations without a key; nil does not

	// Lifecycle is needed for files that are followed.
	Lifecycle fx.Lifecycle `optional:"true"`
}

// NewGuard makes a guard. Its error lists everything that is wrong with the
// rules and the files. It warns of rules that may render to the same key although
// their templates differ.
func NewGuard(p GuardParams) (*guard.Guard, error) {
	if p.Logger == nil {
		p.Logger = slog.Default()
	}
	if p.Config.RulesFile != "" {
		p.Files = append(slices.Clip(p.Files), RulesFile{Path: p.Config.RulesFile, Follow: p.Config.FollowRules})
	}
	b := &book{rules: p.Rules, files: make([][]rule.Rule, len(p.Files))}
	if err := b.load(p.Files); err != nil {
		return nil, fmt.Errorf("fxmodule: lock rules: %w", err)
	}
	g, err := guard.New(p.Locker, join(b.rules, b.files)...)
	if err != nil {
		return nil, fmt.Errorf("fxmodule: lock rules: %w", err)
	}
	if p.Telemetry != nil {
		g = g.WithHooks(refusals(p.Telemetry))
	}
	for _, overlap := range g.Overlaps() {
		p.Logger.Warn("lock rules overlap", "overlap", overlap.String())
	}
	b.guard = g
	return g, b.follow(p)
}

// book holds the rules by where they came from, for one file to change without
// the others.
type book struct {
	guard *guard.Guard
	rules []rule.Rule

	mu    sync.Mutex
	files [][]rule.Rule
}

func (b *book) load(files []RulesFile) error {
	var faults []error
	for i, f := range files {
		set, err := rulefile.Load(f.Path)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		b.files[i] = set.Rules()
	}
	return errors.Join(faults...)
}

func join(rules []rule.Rule, files [][]rule.Rule) []rule.Rule {
	return slices.Concat(rules, slices.Concat(files...))
}

// follow watches those files that are to be followed while the application runs.
func (b *book) follow(p GuardParams) error {
	for i, f := range p.Files {
		if !f.Follow {
			continue
		}
		if p.Lifecycle == nil {
			return fmt.Errorf("fxmodule: lock rules: %s cannot be followed without a lifecycle", f.Path)
		}
		var watcher *rulewatch.Watcher
		p.Lifecycle.Append(fx.Hook{
			OnStart: func(context.Context) error {
				watcher = rulewatch.Start(f.Path, func(set *rule.Set) error { return b.replace(i, set) }, rulewatch.WithLogger(p.Logger))
				return nil
			},
			OnStop: func(context.Context) error {
				watcher.Close()
				return nil
			},
		})
	}
	return nil
}

// replace puts the rules of one file in the place of those it had before.
func (b *book) replace(file int, set *rule.Set) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	files := slices.Clone(b.files)
	files[file] = set.Rules()
	if err := b.guard.Replace(join(b.rules, files), set.Unlocked()...); err != nil {
		return err
	}
	b.files = files
	return nil
}
