package fxmodule

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"time"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/rule"
)

// Config holds the settings that usually come from a file. A field that is zero
// has its default. In YAML and JSON durations are strings, such as "30s" or
// "200ms", and an unknown field is an error.
type Config struct {
	// Service is the name of the program that operators see: with the host and the process
	// it is the locker's identity, as of [lock.WithIdentity]. Default the name of the
	// executable.
	Service string `yaml:"service" json:"service"`
	// Watchdog is the lease that is renewed, every third of it, for as long
	// as a lock is held. Default 30s.
	Watchdog time.Duration `yaml:"watchdog" json:"watchdog"`
	// Poll bounds how long a waiter relies on wake-ups alone. Default 1s.
	Poll time.Duration `yaml:"poll" json:"poll"`
	// Margin is how long before the store forgets a lease it is no longer
	// trusted, as of [lock.WithMargin]. Default 2ms.
	Margin time.Duration `yaml:"margin" json:"margin"`
	// CallTimeout bounds one call to the store, and must be below the watchdog. Default
	// 2s, or half of a shorter watchdog.
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
	// Handoffs is how many times a released key passes to the next caller of this
	// process without a call to the store, as of [lock.WithHandoff]. Default 63,
	// which is the most; -1 turns it off.
	Handoffs int `yaml:"handoffs" json:"handoffs"`
	// HandoffTime bounds the same in time. Default 10ms.
	HandoffTime time.Duration `yaml:"handoffTime" json:"handoffTime"`
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
	// Redis is how the store is made of the application's Redis client. With
	// another store it must be empty.
	Redis Redis `yaml:"redis" json:"redis,omitzero"`
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		Watchdog:       lock.DefaultWatchdog,
		Poll:           lock.DefaultPoll,
		Margin:         lock.DefaultMargin,
		CallTimeout:    lock.DefaultCallTimeout,
		Handoffs:       lock.DefaultHandoffs,
		HandoffTime:    lock.DefaultHandoffTime,
		CheckTimeout:   5 * time.Second,
		ReleaseTimeout: 2 * time.Second,
	}
}

// settings are all fields of c.
func (c *Config) settings() settings {
	return settings{
		{name: "service", value: &c.Service},
		duration("watchdog", &c.Watchdog, lock.MinLease),
		duration("poll", &c.Poll, time.Millisecond),
		duration("margin", &c.Margin, lock.DefaultMargin),
		duration("callTimeout", &c.CallTimeout, time.Millisecond),
		duration("maxWait", &c.MaxWait, time.Millisecond),
		duration("maxHold", &c.MaxHold, lock.MinLease),
		count("maxWaiters", &c.MaxWaiters),
		count("maxTotalWaiters", &c.MaxTotalWaiters),
		{name: "handoffs", value: &c.Handoffs, fault: func() string {
			if c.Handoffs < -1 || c.Handoffs >= lock.FenceStep {
				return fmt.Sprintf("%d is not between -1, which turns it off, and %d", c.Handoffs, lock.FenceStep-1)
			}
			return ""
		}},
		duration("handoffTime", &c.HandoffTime, 0),
		duration("checkTimeout", &c.CheckTimeout, time.Millisecond),
		duration("releaseTimeout", &c.ReleaseTimeout, time.Millisecond),
		{name: "rules", value: &c.Rules, empty: func() bool { return len(c.Rules) == 0 }},
		{name: "rulesFile", value: &c.RulesFile},
		{name: "followRules", value: &c.FollowRules, fault: func() string {
			if c.FollowRules && c.RulesFile == "" {
				return "needs a rulesFile, which is missing"
			}
			return ""
		}},
		{name: "redis", value: c.Redis.settings(), empty: func() bool { return c.Redis == Redis{} }},
	}
}

// Validate reports every field that is neither zero nor in its range, fields that
// contradict each other, and FollowRules without a file. The rules are checked by
// the guard.
func (c Config) Validate() error {
	faults := slices.Concat(c.settings().faults(""), c.contradictions())
	return errors.Join(faults...)
}

// contradictions returns a fault for each pair of fields that exclude each other.
func (c Config) contradictions() (faults []error) {
	effective := c.withDefaults()
	if effective.CallTimeout >= effective.Watchdog && c.Watchdog >= 0 {
		faults = append(faults, fmt.Errorf("fxmodule: config: callTimeout: %v is not below the watchdog of %v, so a lock could be lost while one call is waited for: "+
			"use at most a third of watchdog", effective.CallTimeout, effective.Watchdog))
	}
	lease := min(effective.Watchdog, 30*time.Second) // what an acquire writes
	if c.MaxHold >= lock.MinLease {                  // less is refused as such
		lease = min(lease, c.MaxHold)
	}
	if 2*effective.Margin >= lease && c.Watchdog >= 0 {
		faults = append(faults, fmt.Errorf("fxmodule: config: margin: %v is not below half of %v, the least of watchdog, maxHold and 30s", effective.Margin, lease))
	}
	if c.Redis.Replicas > 0 && c.Redis.ReplicasTimeout >= effective.CallTimeout && c.CallTimeout >= 0 {
		faults = append(faults, fmt.Errorf("fxmodule: config: redis.replicasTimeout: %v is not below the callTimeout of %v, so a call could end before the replicas have answered: "+
			"use much less", c.Redis.ReplicasTimeout, effective.CallTimeout))
	}
	if c.MaxTotalWaiters > 0 && c.MaxWaiters > c.MaxTotalWaiters {
		faults = append(faults, fmt.Errorf("fxmodule: config: maxWaiters: %d for one key is more than maxTotalWaiters, %d for all of them",
			c.MaxWaiters, c.MaxTotalWaiters))
	}
	return faults
}

// hasRules reports whether the guard has rules of c.
func (c Config) hasRules() bool { return len(c.Rules) > 0 || c.RulesFile != "" }

// withDefaults has the default of each duration and count that is zero.
func (c Config) withDefaults() Config {
	defaults := DefaultConfig()
	if c.Watchdog > 0 {
		defaults.CallTimeout = min(defaults.CallTimeout, c.Watchdog/2)
	}
	of := defaults.settings()
	for i, s := range c.settings() {
		switch value := s.value.(type) {
		case *time.Duration:
			*value = cmp.Or(*value, *of[i].value.(*time.Duration))
		case *int:
			*value = cmp.Or(*value, *of[i].value.(*int))
		}
	}
	return c
}

// version is that of the main module, empty where none was stamped.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return ""
}

func (c Config) options() []lock.Option {
	options := []lock.Option{
		lock.WithIdentity(lock.Identity{Service: cmp.Or(c.Service, filepath.Base(os.Args[0])), Version: version()}),
		lock.WithWatchdog(c.Watchdog),
		lock.WithPoll(c.Poll),
		lock.WithMargin(c.Margin),
		lock.WithCallTimeout(c.CallTimeout),
		lock.WithHandoff(max(0, c.Handoffs), c.HandoffTime),
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
func (c Config) MarshalJSON() ([]byte, error) { return json.Marshal(c.settings().values()) }

// MarshalYAML writes what [Config.MarshalJSON] does. It has the form that YAML
// libraries look for.
func (c Config) MarshalYAML() (any, error) { return c.settings().values(), nil }

// UnmarshalJSON reads what [Config.MarshalJSON] writes. An unknown field is an
// error; a missing one is left as it is.
func (c *Config) UnmarshalJSON(data []byte) error {
	return c.settings().unmarshal("", data)
}

// UnmarshalYAML reads YAML as [Config.UnmarshalJSON] reads JSON. It has the form
// that YAML libraries look for.
func (c *Config) UnmarshalYAML(decode func(any) error) error {
	var fields map[string]any
	if err := decode(&fields); err != nil {
		return fmt.Errorf("fxmodule: config: %w", err)
	}
	plain, err := jsonOf(fields)
	if err != nil {
		return fmt.Errorf("fxmodule: config: %w", err)
	}
	data, err := json.Marshal(plain)
	if err != nil {
		return fmt.Errorf("fxmodule: config: %w", err)
	}
	return c.UnmarshalJSON(data)
}

// errDate is for a value that YAML libraries take for a date: as a string it would
// be written in another way than it stands in the file.
var errDate = errors.New("is a date in YAML, put it in quotes")

// jsonOf returns v fit for JSON: some YAML libraries have keys of any type. The error
// names the field.
func jsonOf(v any) (any, error) {
	switch v := v.(type) {
	case map[string]any:
		made := make(map[string]any, len(v))
		for _, key := range slices.Sorted(maps.Keys(v)) {
			value, err := jsonOf(v[key])
			if err != nil {
				return nil, fmt.Errorf("%s: %w", key, err)
			}
			made[key] = value
		}
		return made, nil
	case map[any]any:
		made := make(map[string]any, len(v))
		for key, value := range v {
			made[fmt.Sprint(key)] = value
		}
		return jsonOf(made)
	case []any:
		made := make([]any, len(v))
		for i, value := range v {
			var err error
			if made[i], err = jsonOf(value); err != nil {
				return nil, err
			}
		}
		return made, nil
	case time.Time:
		return nil, errDate
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, errors.New("is not a finite number")
		}
	}
	return v, nil
}
