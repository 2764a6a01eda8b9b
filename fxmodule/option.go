package fxmodule

import (
	"go.uber.org/fx"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/rule"
)

const (
	optionGroup = `group:"lock_options"`
	ruleGroup   = `group:"lock_rules"`
	rulesGroup  = `group:"lock_rules,flatten"`
)

// AsOption adds a setting to the locker. The order among several is random,
// so they must not override each other.
func AsOption(o lock.Option) fx.Option {
	return fx.Supply(fx.Annotate(o, fx.ResultTags(optionGroup)))
}

// AsRule adds a rule to the guard.
func AsRule(r rule.Rule) fx.Option {
	return fx.Supply(fx.Annotate(r, fx.ResultTags(ruleGroup)))
}

// AsRules adds rules to the guard.
func AsRules(rules ...rule.Rule) fx.Option {
	return fx.Supply(fx.Annotate(rules, fx.ResultTags(rulesGroup)))
}

// WithRulesFile adds the rules of a YAML or JSON file to the guard. It is read
// when the guard is made; see [rule.Load] for its form and errors.
func WithRulesFile(path string) fx.Option {
	load := func() ([]rule.Rule, error) {
		set, err := rule.Load(path)
		if err != nil {
			return nil, err
		}
		return set.Rules(), nil
	}
	return fx.Provide(fx.Annotate(load, fx.ResultTags(rulesGroup)))
}

// WithConfig supplies the configuration. Applications may provide a [Config]
// in any other way as well.
func WithConfig(c Config) fx.Option { return fx.Supply(c) }
