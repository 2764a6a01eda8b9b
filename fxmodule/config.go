package fxmodule

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/rule"
)

// Config holds the settings that usually come from a file. A field that is zero
// has its default. In YAML and JSON durations are strings, such as "30s" or
// "200ms", and an unknown field is an error.
type Config struct {
	// Watchdog is the lease that is renewed, every third of it, for as long
	// as a lock is held. Default 30s.
	Watchdog time.Duration `yaml:"watchdog" json:"watchdog"`
	// Poll bounds how long a waiter relies on wake-ups alone. Default 1s.
	Poll time.Duration `yaml:"poll" json:"poll"`
	// CallTimeout bounds one call to the store. Default 2s.
	CallTimeout time.Duration `yaml:"callTimeout" json:"callTimeout"`
	// MaxWait bounds every wait for a lock, as of [lock.WithMaxWait]. Default
	// no limit.
	MaxWait time.Duration `yaml:"maxWait" json:"maxWait"`
	// MaxHold bounds how long a lock is held, as of [lock.WithMaxHold]. Default
	// no limit.
	MaxHold time.Duration `yaml:"maxHold" json:"maxHold"`
	// MaxWaiters bounds how many wait for one key, as of [lock.WithMaxWaiters].
	// Default no limit.
	MaxWaiters int `yaml:"maxWaiters" json:"maxWaiters"`
	// MaxTotalWaiters bounds how many wait for all keys, as of
	// [lock.WithMaxTotalWaiters]. Default no limit.
	MaxTotalWaiters int `yaml:"maxTotalWaiters" json:"maxTotalWaiters"`
	// CheckTimeout bounds the check of the store at start, and each call of
	// [Health.Check]. Default 5s.
	CheckTimeout time.Duration `yaml:"checkTimeout" json:"checkTimeout"`
	// ReleaseTimeout is the end of the stop timeout, in which locks that are
	// still held are released instead of waited for. Default 2s; at most half
	// of what is left when the locker's turn to stop comes.
	ReleaseTimeout time.Duration `yaml:"releaseTimeout" json:"releaseTimeout"`
	// Rules are rules of the guard, as of [AsRules].
	Rules []rule.Rule `yaml:"rules" json:"rules,omitempty"`
	// RulesFile is a YAML or JSON file with rules, as of [WithRulesFile].
	// Default none.
	RulesFile string `yaml:"rulesFile" json:"rulesFile"`
	// FollowRules has changes of RulesFile take effect while the application
	// runs, as of [FollowRulesFile].
	FollowRules bool `yaml:"followRules" json:"followRules"`
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		Watchdog:       lock.DefaultWatchdog,
		Poll:           lock.DefaultPoll,
		CallTimeout:    lock.DefaultCallTimeout,
		CheckTimeout:   5 * time.Second,
		ReleaseTimeout: 2 * time.Second,
	}
}

// field is one duration, for what is done to all of them.
type field struct {
	name  string
	value *time.Duration
	min   time.Duration
}

func (c *Config) fields() []field {
	return []field{
		{"watchdog", &c.Watchdog, lock.MinLease},
		{"poll", &c.Poll, time.Millisecond},
		{"callTimeout", &c.CallTimeout, time.Millisecond},
		{"maxWait", &c.MaxWait, time.Millisecond},
		{"maxHold", &c.MaxHold, lock.MinLease},
		{"checkTimeout", &c.CheckTimeout, time.Millisecond},
		{"releaseTimeout", &c.ReleaseTimeout, time.Millisecond},
	}
}

// counts are the numbers by their names.
func (c *Config) counts() map[string]*int {
	return map[string]*int{"maxWaiters": &c.MaxWaiters, "maxTotalWaiters": &c.MaxTotalWaiters}
}

// Validate reports every field that is neither zero nor in its range, fields that
// contradict each other, and FollowRules without a file. The rules are checked by
// the guard.
func (c Config) Validate() error {
	var faults []error
	for _, f := range c.fields() {
		if *f.value != 0 && *f.value < f.min {
			faults = append(faults, fmt.Errorf("fxmodule: config: %s: %v is too short, use at least %v, or 0 for the default",
				f.name, *f.value, f.min))
		}
	}
	faults = append(faults, c.contradictions()...)
	for _, name := range []string{"maxWaiters", "maxTotalWaiters"} {
		if n := *c.counts()[name]; n < 0 {
			faults = append(faults, fmt.Errorf("fxmodule: config: %s: %d is negative, use 0 for no limit", name, n))
		}
	}
	if c.FollowRules && c.RulesFile == "" {
		faults = append(faults, errors.New("fxmodule: config: followRules: there is no rulesFile to follow"))
	}
	return errors.Join(faults...)
}

// contradictions are fields that can't both be meant.
func (c Config) contradictions() (faults []error) {
	effective := c.withDefaults()
	if effective.CallTimeout >= effective.Watchdog && c.Watchdog >= 0 {
		faults = append(faults, fmt.Errorf("fxmodule: config: callTimeout: %v is not below the watchdog of %v, so a lock could be lost while one call renews it: "+
			"use at most a third of watchdog", effective.CallTimeout, effective.Watchdog))
	}
	if c.MaxTotalWaiters > 0 && c.MaxWaiters > c.MaxTotalWaiters {
		faults = append(faults, fmt.Errorf("fxmodule: config: maxWaiters: %d for one key is more than maxTotalWaiters, %d for all of them",
			c.MaxWaiters, c.MaxTotalWaiters))
	}
	return faults
}

func (c Config) withDefaults() Config {
	defaults := DefaultConfig()
	for i, f := range c.fields() {
		if *f.value == 0 {
			*f.value = *defaults.fields()[i].value
		}
	}
	return c
}

func (c Config) options() []lock.Option {
	options := []lock.Option{
		lock.WithWatchdog(c.Watchdog),
		lock.WithPoll(c.Poll),
		lock.WithCallTimeout(c.CallTimeout),
	}
	if c.MaxWait > 0 {
		options = append(options, lock.WithMaxWait(c.MaxWait))
	}
	if c.MaxHold > 0 {
		options = append(options, lock.WithMaxHold(c.MaxHold))
	}
	if c.MaxWaiters > 0 {
		options = append(options, lock.WithMaxWaiters(c.MaxWaiters))
	}
	if c.MaxTotalWaiters > 0 {
		options = append(options, lock.WithMaxTotalWaiters(c.MaxTotalWaiters))
	}
	return options
}

// MarshalJSON writes durations as strings.
func (c Config) MarshalJSON() ([]byte, error) {
	values := map[string]any{"rulesFile": c.RulesFile, "followRules": c.FollowRules}
	if len(c.Rules) > 0 {
		values["rules"] = c.Rules
	}
	for _, f := range c.fields() {
		values[f.name] = f.value.String()
	}
	for name, n := range c.counts() {
		values[name] = *n
	}
	return json.Marshal(values)
}

// MarshalYAML writes what [Config.MarshalJSON] does. It has the form that YAML
// libraries look for.
func (c Config) MarshalYAML() (any, error) {
	data, err := c.MarshalJSON()
	if err != nil {
		return nil, err
	}
	var fields map[string]any
	err = json.Unmarshal(data, &fields)
	return fields, err
}

// UnmarshalJSON reads what [Config.MarshalJSON] writes. An unknown field is an
// error; a missing one is left as it is.
func (c *Config) UnmarshalJSON(data []byte) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return fmt.Errorf("fxmodule: config: %w", err)
	}
	var faults []error
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if err := c.read(name, fields[name]); err != nil {
			faults = append(faults, fmt.Errorf("fxmodule: config: %s: %w", name, err))
		}
	}
	return errors.Join(faults...)
}

// UnmarshalYAML reads YAML as [Config.UnmarshalJSON] reads JSON. It has the form
// that YAML libraries look for.
func (c *Config) UnmarshalYAML(decode func(any) error) error {
	var fields map[string]any
	if err := decode(&fields); err != nil {
		return fmt.Errorf("fxmodule: config: %w", err)
	}
	data, err := json.Marshal(jsonOf(fields))
	if err != nil {
		return fmt.Errorf("fxmodule: config: %w", err)
	}
	return c.UnmarshalJSON(data)
}

// jsonOf makes maps of v fit for JSON: some YAML libraries have keys of any type.
func jsonOf(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			v[key] = jsonOf(value)
		}
	case map[any]any:
		made := make(map[string]any, len(v))
		for key, value := range v {
			made[fmt.Sprint(key)] = jsonOf(value)
		}
		return made
	case []any:
		for i, value := range v {
			v[i] = jsonOf(value)
		}
	}
	return v
}

// read sets one field.
func (c *Config) read(name string, value json.RawMessage) error {
	switch name {
	case "rules":
		return json.Unmarshal(value, &c.Rules)
	case "rulesFile":
		return json.Unmarshal(value, &c.RulesFile)
	case "followRules":
		return json.Unmarshal(value, &c.FollowRules)
	}
	if n, ok := c.counts()[name]; ok {
		return json.Unmarshal(value, n)
	}
	for _, f := range c.fields() {
		if f.name == name {
			return parseDuration(value, f.value)
		}
	}
	return fmt.Errorf("unknown field%s, known are %s", rule.DidYouMean(name, c.names()), strings.Join(c.names(), ", "))
}

// names are those of all fields.
func (c *Config) names() []string {
	names := []string{"rules", "rulesFile", "followRules"}
	for _, f := range c.fields() {
		names = append(names, f.name)
	}
	return slices.Sorted(slices.Values(slices.AppendSeq(names, maps.Keys(c.counts()))))
}

func parseDuration(value json.RawMessage, to *time.Duration) error {
	var s string
	err := json.Unmarshal(value, &s)
	d, failed := time.ParseDuration(s)
	if err != nil || failed != nil || bytes.Equal(value, []byte("null")) {
		return fmt.Errorf("%s is not a duration string such as \"200ms\"", value)
	}
	*to = d
	return nil
}
