package rule

import (
	"errors"
	"fmt"
	"strings"
)

// ErrInvalid is wrapped by every fault of a rule.
var ErrInvalid = errors.New("invalid rule")

// Fault is one thing that is wrong with a rule, and where.
type Fault struct {
	Source       string // the file, "rules[2]" for a rule from Go, or the string that was read
	Line, Column int    // from 1; 0 where there is none, as in Go; a string has a Column only
	Operation    string // of the rule, as far as it is known
	Field        string // "key", "wait", ...; empty for the rule as a whole
	Reason       string // what is wrong and how to put it right
}

// Error writes the fault in one line: source:line:column: "operation": field: reason.
func (f Fault) Error() string {
	var line strings.Builder
	if place := f.place(); place != "" {
		line.WriteString(place + ": ")
	}
	if f.Operation != "" {
		fmt.Fprintf(&line, "%.300q: ", f.Operation)
	}
	if f.Field != "" {
		line.WriteString(f.Field + ": ")
	}
	line.WriteString(f.Reason)
	return line.String()
}

// Unwrap returns [ErrInvalid].
func (f Fault) Unwrap() error { return ErrInvalid }

func (f Fault) place() string {
	switch {
	case f.Line == 0 && f.Column == 0:
		return f.Source
	case f.Line == 0:
		return fmt.Sprintf("%s, column %d", f.Source, f.Column)
	}
	position := fmt.Sprintf("%d:%d", f.Line, f.Column)
	if f.Source == "" {
		return position
	}
	return f.Source + ":" + position
}

// Faults lists all faults of a set of rules, in the order of their places.
type Faults []Fault

// Error writes one line for each fault.
func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i, fault := range f {
		lines[i] = fault.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the faults one by one.
func (f Faults) Unwrap() []error {
	errs := make([]error, len(f))
	for i, fault := range f {
		errs[i] = fault
	}
	return errs
}

// Err returns f as an error, nil when there is no fault.
func (f Faults) Err() error { return f.err() }

func (f Faults) err() error {
	if len(f) == 0 {
		return nil
	}
	return f
}
