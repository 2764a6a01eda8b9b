package key

import (
	"errors"
	"fmt"
)

// What can be wrong with a template or with a value for it.
var (
	// ErrSyntax says that the string isn't a template. It comes as a [*SyntaxError].
	ErrSyntax = errors.New("key: bad template")

	// ErrMissing says that a variable has no value, or an empty one.
	ErrMissing = errors.New("key: missing or empty value")

	// ErrInvalid says that a filter refused the value: it isn't a canonical
	// integer or not a UUID.
	ErrInvalid = errors.New("key: value refused by filter")

	// ErrTooLong says that a value is longer than [MaxValue] (or [MaxHashed], in
	// front of sha256), or the rendered key longer than [MaxKey].
	ErrTooLong = errors.New("key: too long")

	// ErrAmbiguous is for a [Lookup] to return when a variable has more than one
	// value: a repeated query parameter, or two sources that disagree.
	ErrAmbiguous = errors.New("key: ambiguous value")

	// ErrUnknown says that [Template.Render] got a name the template doesn't have.
	ErrUnknown = errors.New("key: unknown variable")
)

// SyntaxError says what is wrong with a template and where.
type SyntaxError struct {
	Template string
	Column   int // byte in Template, from 1; len(Template)+1 points at its end
	Reason   string

	more []*SyntaxError // what else is wrong
}

// All returns the error and all others of the template, in the order of their columns.
func (e *SyntaxError) All() []*SyntaxError { return append([]*SyntaxError{e}, e.more...) }

// Error names the template, the column and the reason.
func (e *SyntaxError) Error() string {
	const shown = 2 * MaxTemplate
	text, more := e.Template, ""
	if len(text) > shown {
		text, more = text[:shown], "..."
	}
	return fmt.Sprintf("%v %q%s, column %d: %s", ErrSyntax, text, more, e.Column, e.Reason)
}

// Unwrap returns [ErrSyntax].
func (e *SyntaxError) Unwrap() error { return ErrSyntax }

// ValueError says which variable of which template couldn't be rendered and why.
//
// Its message never contains the value. Nor does it repeat the message of an
// error of a [Lookup], which may quote the value. errors.Is and errors.As still
// see that error.
type ValueError struct {
	Template string
	Var      string // as [Var.String] writes it; empty: the key as a whole
	Err      error  // one of the errors of this package, or what the [Lookup] returned
}

// Error names the template, the variable and the kind of fault.
func (e *ValueError) Error() string {
	subject := "the whole key"
	if e.Var != "" {
		subject = fmt.Sprintf("variable %q", e.Var)
	}
	return fmt.Sprintf("%s: %s of template %q", e.kind(), subject, e.Template)
}

// Unwrap returns the cause.
func (e *ValueError) Unwrap() error { return e.Err }

func (e *ValueError) kind() string {
	for _, known := range []error{ErrMissing, ErrInvalid, ErrTooLong, ErrAmbiguous, ErrUnknown} {
		if errors.Is(e.Err, known) {
			return known.Error()
		}
	}
	return "key: lookup failed"
}
