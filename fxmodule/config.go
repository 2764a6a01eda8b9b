package fxmodule

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

// Config is the part of the settings that belongs into a configuration. A field
// that is zero has its default. In YAML and JSON the durations are texts: "30s",
// "200ms".
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
	// CheckTimeout bounds the question at start whether the store is there.
	// Default 5s.
	CheckTimeout time.Duration `yaml:"checkTimeout" json:"checkTimeout"`
	// ReleaseTimeout is the part of the stop timeout in which holders are not
	// waited for any more, but their locks released. Default 2s; at most half
	// of what is left when the locker's turn to stop comes.
	ReleaseTimeout time.Duration `yaml:"releaseTimeout" json:"releaseTimeout"`
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

// Validate reports every field that is neither zero nor in its range, and
// FollowRules without a file.
func (c Config) Validate() error {
	var faults []error
	for _, f := range c.fields() {
		if *f.value != 0 && *f.value < f.min {
			faults = append(faults, fmt.Errorf("fxmodule: config: %s: %v is too short, use at least %v, or 0 for the default",
				f.name, *f.value, f.min))
		}
	}
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

// MarshalJSON writes the durations as texts. (YAML libraries do so by
// themselves.)
func (c Config) MarshalJSON() ([]byte, error) {
	values := map[string]any{"rulesFile": c.RulesFile, "followRules": c.FollowRules}
	for _, f := range c.fields() {
		values[f.name] = f.value.String()
	}
	for name, n := range c.counts() {
		values[name] = *n
	}
	return json.Marshal(values)
}

// UnmarshalJSON reads the durations from texts. An unknown field is an error;
// a missing one is left as it is.
func (c *Config) UnmarshalJSON(data []byte) error {
	var texts map[string]json.RawMessage
	if err := json.Unmarshal(data, &texts); err != nil {
		return fmt.Errorf("fxmodule: config: %w", err)
	}
	for name, text := range texts {
		if err := c.read(name, text); err != nil {
			return fmt.Errorf("fxmodule: config: %w", err)
		}
	}
	return nil
}

// read takes over one field.
func (c *Config) read(name string, text json.RawMessage) error {
	err := fmt.Errorf("unknown field %q", name)
	switch name {
	case "rulesFile":
		err = inField(name, json.Unmarshal(text, &c.RulesFile))
	case "followRules":
		err = inField(name, json.Unmarshal(text, &c.FollowRules))
	}
	if n, ok := c.counts()[name]; ok {
		err = inField(name, json.Unmarshal(text, n))
	}
	for _, f := range c.fields() {
		if f.name == name {
			err = inField(name, parseDuration(text, f.value))
		}
	}
	return err
}

func inField(name string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func parseDuration(text json.RawMessage, to *time.Duration) error {
	var s string
	if err := json.Unmarshal(text, &s); err != nil || bytes.Equal(text, []byte("null")) {
		return fmt.Errorf("%s is not a text such as \"200ms\"", text)
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return err
	}
	*to = d
	return nil
}
