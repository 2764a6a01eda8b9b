package rule

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// ErrInvalid is what every fault of a rule is: errors.Is(err, ErrInvalid).
var ErrInvalid = errors.New("invalid rule")

// Fault is one thing that is wrong with a rule, and where.
type Fault struct {
	Source       string // the file, or "rules[2]" for a rule from Go; empty for [Parse]
	Line, Column int    // in the YAML, from 1; 0 for a rule from Go
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
		fmt.Fprintf(&line, "%q: ", f.Operation)
	}
	if f.Field != "" {
		line.WriteString(f.Field + ": ")
	}
	line.WriteString(f.Reason)
	return line.String()
}

// Unwrap makes every Fault an [ErrInvalid].
func (f Fault) Unwrap() error { return ErrInvalid }

func (f Fault) place() string {
	if f.Line == 0 {
		return f.Source
	}
	position := fmt.Sprintf("%d:%d", f.Line, f.Column)
	if f.Source == "" {
		return position
	}
	return f.Source + ":" + position
}

// Faults are all faults of a set of rules, in the order of their places.
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

// keepInside brings back columns that are behind the end of their line: the
// parser counts a tab within quotes twice.
func (f Faults) keepInside(data []byte) {
	if len(f) == 0 {
		return
	}
	lines := strings.Split(lineEnds.Replace(string(data)), "\n")
	for i := range f {
		if n := f[i].Line; n >= 1 && n <= len(lines) {
			f[i].Column = min(f[i].Column, utf8.RuneCountInString(lines[n-1])+1)
		}
	}
}

var lineEnds = strings.NewReplacer("\r\n", "\n", "\r", "\n")

func (f Faults) sortByPlace() {
	slices.SortStableFunc(f, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}

// err is f as an error, nil when there is no fault.
func (f Faults) err() error {
	if len(f) == 0 {
		return nil
	}
	return f
}
