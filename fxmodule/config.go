package fxmodule

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

// Config is the part of a locker's settings that belongs into a
// configuration. A field that is zero has its default. In YAML and JSON the
// durations are texts: "30s", "200ms".
type Config struct {
	// Watchdog is the lease that is renewed, every third of it, for as long
	// as a lock is held. Default 30s.
	Watchdog time.Duration `yaml:"watchdog" json:"watchdog"`
	// Poll bounds how long a waiter relies on wake-ups alone. Default 1s.
	Poll time.Duration `yaml:"poll" json:"poll"`
	// CallTimeout bounds one call to the store. Default 2s.
	CallTimeout time.Duration `yaml:"callTimeout" json:"callTimeout"`
	// CheckTimeout bounds the question at start whether the store is there.
	// Default 5s.
	CheckTimeout time.Duration `yaml:"checkTimeout" json:"checkTimeout"`
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		Watchdog:     lock.DefaultWatchdog,
		Poll:         lock.DefaultPoll,
		CallTimeout:  lock.DefaultCallTimeout,
		CheckTimeout: 5 * time.Second,
	}
}

// field is one setting, for what is done to all of them.
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
		{"checkTimeout", &c.CheckTimeout, time.Millisecond},
	}
}

// Validate reports every field that is neither zero nor in its range.
func (c Config) Validate() error {
	var faults []error
	for _, f := range c.fields() {
		if *f.value != 0 && *f.value < f.min {
			faults = append(faults, fmt.Errorf("fxmodule: config: %s: %v is too short, use at least %v, or 0 for the default",
				f.name, *f.value, f.min))
		}
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
	return []lock.Option{
		lock.WithWatchdog(c.Watchdog),
		lock.WithPoll(c.Poll),
		lock.WithCallTimeout(c.CallTimeout),
	}
}

// MarshalJSON writes the durations as texts. (YAML libraries do so by
// themselves.)
func (c Config) MarshalJSON() ([]byte, error) {
	texts := make(map[string]string)
	for _, f := range c.fields() {
		texts[f.name] = f.value.String()
	}
	return json.Marshal(texts)
}

// UnmarshalJSON reads the durations from texts. An unknown field is an error;
// a missing one is left as it is.
func (c *Config) UnmarshalJSON(data []byte) error {
	var texts map[string]json.RawMessage
	if err := json.Unmarshal(data, &texts); err != nil {
		return fmt.Errorf("fxmodule: config: %w", err)
	}
	for _, f := range c.fields() {
		text, ok := texts[f.name]
		if !ok {
			continue
		}
		delete(texts, f.name)
		if err := parseDuration(text, f.value); err != nil {
			return fmt.Errorf("fxmodule: config: %s: %w", f.name, err)
		}
	}
	for name := range texts {
		return fmt.Errorf("fxmodule: config: unknown field %q", name)
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
