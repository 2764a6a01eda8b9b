package fxmodule

import (
	"go.uber.org/fx"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/rule"
)

// AsOption adds a setting to the locker. The order among several is random,
// so they must not override each other. Hooks ([lock.WithHooks]) are added to
// those of the module's telemetry.
func AsOption(o lock.Option) fx.Option { return first.AsOption(o) }

// AsRule adds a rule to the guard, which is made then.
func AsRule(r rule.Rule) fx.Option { return first.AsRule(r) }

// AsRules adds rules to the guard, which is made then.
func AsRules(rules ...rule.Rule) fx.Option { return first.AsRules(rules...) }

// RulesFile is a YAML or JSON file with rules.
type RulesFile struct {
	Path string
	// Follow has changes take effect while the application runs.
	Follow bool
}

// WithRulesFile adds the rules of a YAML or JSON file to the guard, which is made
// then, and reads the file; see [rulefile.Load] for its form and errors.
func WithRulesFile(path string) fx.Option { return first.WithRulesFile(path) }

// FollowRulesFile is [WithRulesFile] for a file that may change: from the start of
// the application to its stop, the rules of a new version replace those before. A
// version that is wrong changes nothing and is logged with its lines; see package
// rulewatch. One that only contradicts another file takes effect when that one
// changes, so a rule can move from file to file. A version is also wrong if it has a
// rule that nothing serves, or one that the settings or the store rule out, or takes
// away the rule of a served operation that it doesn't list under unlocked. Locks that
// are held stay held.
func FollowRulesFile(path string) fx.Option { return first.FollowRulesFile(path) }

// WithConfig supplies the configuration. If it has rules, the guard is made.
// Applications may provide a [Config] in any other way as well. If it has rules, the
// start then fails where something uses the locker and nothing the guard.
func WithConfig(c Config) fx.Option { return first.WithConfig(c) }
