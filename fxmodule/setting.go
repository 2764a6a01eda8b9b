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

// setting is one field of a configuration, for code that handles all fields alike.
type setting struct {
	name  string
	value any           // a pointer to the field, or the settings of a section
	fault func() string // what is wrong with it, if anything; nil: nothing can be
	empty func() bool   // it is left out when it is written; nil: never
}

type settings []setting

// duration is a setting that is 0 or at least least.
func duration(name string, value *time.Duration, least time.Duration) setting {
	return setting{name: name, value: value, fault: func() string {
		switch {
		case *value != 0 && *value < least:
			return fmt.Sprintf("%v is too short, use at least %v, or 0 for the default", *value, least)
		case *value > lock.MaxDuration:
			return fmt.Sprintf("%v is too long, use at most %v (a year)", *value, lock.MaxDuration)
		}
		return ""
	}}
}

// count is a setting that is a limit.
func count(name string, value *int) setting {
	return setting{name: name, value: value, fault: func() string {
		if *value < 0 {
			return fmt.Sprintf("%d is negative, use 0 for no limit", *value)
		}
		return ""
	}}
}

// faults are those of all fields. section goes before their names.
func (s settings) faults(section string) (faults []error) {
	for _, field := range s {
		if field.fault != nil {
			if fault := field.fault(); fault != "" {
				faults = append(faults, fmt.Errorf("fxmodule: config: %s%s: %s", section, field.name, fault))
			}
		}
		if of, ok := field.value.(settings); ok {
			faults = append(faults, of.faults(field.name+".")...)
		}
	}
	return faults
}

// values are those of the fields as they are written.
func (s settings) values() map[string]any {
	values := make(map[string]any)
	for _, field := range s {
		if field.empty != nil && field.empty() {
			continue
		}
		switch value := field.value.(type) {
		case *time.Duration:
			values[field.name] = value.String()
		case settings:
			values[field.name] = value.values()
		default:
			values[field.name] = value
		}
	}
	return values
}

// unmarshal reports every field that it can't read. section goes before their
// names.
func (s settings) unmarshal(section string, data []byte) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return fmt.Errorf("fxmodule: config: %s%w", strings.Replace(section, ".", ": ", 1), typed(err, data, "a mapping"))
	}
	var faults []error
	for _, name := range repeated(data) {
		faults = append(faults, fmt.Errorf("fxmodule: config: %s%s: is there twice, keep one", section, name))
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		faults = append(faults, s.read(section, name, fields[name]))
	}
	return errors.Join(faults...)
}

// repeated returns the names that an object has more than once. Package json keeps
// the last of them.
func repeated(object []byte) []string {
	d := json.NewDecoder(bytes.NewReader(object))
	_, _ = d.Token() // its brace; the object is known to be one, or null
	seen := make(map[string]int)
	var names []string
	for d.More() {
		name, err := d.Token()
		var value json.RawMessage
		if errors.Join(err, d.Decode(&value)) != nil {
			break
		}
		text, _ := name.(string)
		if seen[text]++; seen[text] == 2 {
			names = append(names, text)
		}
	}
	return names
}

// read sets one field.
func (s settings) read(section, name string, value json.RawMessage) (err error) {
	at := slices.IndexFunc(s, func(field setting) bool { return field.name == name })
	if at < 0 {
		names := s.names()
		return fmt.Errorf("fxmodule: config: %s%s: unknown field%s, known are %s", section, name, rule.DidYouMean(name, names), strings.Join(names, ", "))
	}
	switch to := s[at].value.(type) {
	case settings:
		return to.unmarshal(name+".", value)
	case *time.Duration:
		err = parseDuration(value, to)
	default:
		if err = json.Unmarshal(value, to); err == nil && bytes.Equal(value, []byte("null")) {
			err = errors.New("has no value, add one or remove the field")
		}
		err = typed(err, value, kindOf(to))
	}
	if err != nil {
		return fmt.Errorf("fxmodule: config: %s%s: %w", section, name, err)
	}
	return nil
}

// typed returns err in the words of a configuration if the value is of another type than
// the field, which wants one of that kind.
func typed(err error, value json.RawMessage, kind string) error {
	if wrong := (*json.UnmarshalTypeError)(nil); !errors.As(err, &wrong) {
		return err
	}
	return fmt.Errorf("%.40s is not %s", value, kind)
}

// kindOf says in the words of a configuration what a field takes.
func kindOf(field any) string {
	switch field.(type) {
	case *int:
		return "a whole number"
	case *bool:
		return "true or false"
	case *string:
		return "a string, put it in quotes"
	}
	return "a list of rules"
}

// names are those of all fields.
func (s settings) names() []string {
	names := make([]string, len(s))
	for i, field := range s {
		names[i] = field.name
	}
	slices.Sort(names)
	return names
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
