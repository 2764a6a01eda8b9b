package rule

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Assign sets a field from a value that a file has for it: a string, a bool, a
// [json.Number] or another number. Numbers are for counts, booleans for flags; all
// other fields are strings, so that 010 and 1e3 mean nothing else than they say.
// The error is a [Fault].
func (r *Rule) Assign(field string, value any) error {
	f, ok := fieldNamed(field)
	if !ok {
		return r.Set(field, "") // says what is known
	}
	s, reason := f.accept(value)
	if reason != "" {
		return Fault{Field: field, Reason: reason}
	}
	return r.Set(field, s)
}

// accept returns the string form of a value, or what is wrong with its type.
func (f *Field) accept(value any) (s, reason string) {
	switch v := value.(type) {
	case nil:
		return "", "has no value, add one or remove the field"
	case string:
		if f.Kind == Count {
			return "", "is a string, not a whole number"
		}
		if f.Kind == Flag {
			return "", "is a string, not true or false"
		}
		return v, ""
	case bool:
		if f.Kind == Flag {
			return strconv.FormatBool(v), ""
		}
	case map[string]any, []any:
	default:
		number := fmt.Sprint(v)
		if f.Kind == Count || f.Kind == Duration && !strings.ContainsAny(number, ".eE") { // 0, or a number without its unit
			return number, ""
		}
	}
	return "", f.mistaken(kindOf(value))
}

func (f *Field) mistaken(is string) string {
	switch f.Kind {
	case Count:
		return fmt.Sprintf("is %s, not a whole number", is)
	case Flag:
		return fmt.Sprintf("is %s, not true or false", is)
	}
	switch {
	case f.Kind == Choice:
		return fmt.Sprintf("is %s; use %s", is, either(f.Choices))
	case f.Kind == Permits:
		return fmt.Sprintf(`is %s, write how many permits of how many, such as "1/3"`, is)
	case f.Name == fieldKey && is == "a mapping": // {id}, as other languages write a variable
		return `is a mapping, not a string: put the template in quotes, and write its variables as in "lock:order:<id>"`
	case is == "a number" || is == "true or false":
		return fmt.Sprintf("is %s, not a string, put it in quotes", is)
	}
	return fmt.Sprintf("is %s, not a string", is)
}

// kindOf names the type of a value for people.
func kindOf(value any) string {
	switch value.(type) {
	case map[string]any:
		return "a mapping"
	case []any:
		return "a list"
	case bool:
		return "true or false"
	}
	return "a number"
}

// UnmarshalJSON reads a rule from an object with the fields of [Fields]. Unknown
// and repeated fields are errors.
func (r *Rule) UnmarshalJSON(data []byte) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return Fault{Reason: "is not an object with the fields operation and key"}
	}
	var read Rule
	var faults Faults
	seen := make(map[string]bool)
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		var value any
		if err := d.Decode(&value); err != nil {
			return err
		}
		field, _ := name.(string)
		if _, known := fieldNamed(field); known && seen[field] {
			faults = append(faults, Fault{Field: field, Reason: "is there twice, keep one"})
			continue
		}
		seen[field] = true
		faults = faults.add(read.Assign(field, value))
	}
	return r.take(read, faults)
}

// UnmarshalYAML reads a rule from a mapping with the fields of [Fields]. Decoders of
// YAML call it, whichever one the application uses.
func (r *Rule) UnmarshalYAML(unmarshal func(any) error) error {
	var values map[string]any
	if err := unmarshal(&values); err != nil {
		return err
	}
	var read Rule
	var faults Faults
	for _, name := range slices.Sorted(maps.Keys(values)) {
		faults = faults.add(read.Assign(name, values[name]))
	}
	return r.take(read, faults)
}

// MarshalJSON writes what [Rule.UnmarshalJSON] reads: the fields that aren't as
// they are by default.
func (r Rule) MarshalJSON() ([]byte, error) {
	out := []byte{'{'}
	for i := range fields {
		f := &fields[i]
		value := f.get(&r)
		if value == "" {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(strconv.AppendQuote(out, f.Name), ':')
		if f.Kind == Count || f.Kind == Flag {
			out = append(out, value...)
			continue
		}
		quoted, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		out = append(out, quoted...)
	}
	return append(out, '}'), nil
}

// MarshalYAML returns what [Rule.UnmarshalYAML] reads, as [Rule.MarshalJSON] does. It has
// the form that YAML libraries look for.
func (r Rule) MarshalYAML() (any, error) {
	values := make(map[string]any)
	for i := range fields {
		f := &fields[i]
		value := f.get(&r)
		switch {
		case value == "":
		case f.Kind == Count:
			n, err := strconv.Atoi(value)
			if err != nil {
				return nil, err
			}
			values[f.Name] = n
		case f.Kind == Flag:
			values[f.Name] = value == "true"
		default:
			values[f.Name] = value
		}
	}
	return values, nil
}

// take replaces the rule with the one that was read, unless something is wrong with
// that.
func (r *Rule) take(read Rule, faults Faults) error {
	for i := range faults {
		faults[i].Operation = read.Operation
	}
	if err := faults.err(); err != nil {
		return err
	}
	*r = read
	return nil
}

// add appends what an assignment found wrong.
func (f Faults) add(err error) Faults {
	var wrong Fault
	if errors.As(err, &wrong) {
		return append(f, wrong)
	}
	return f
}
