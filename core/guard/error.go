package guard

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/redlatch/redlatch/core/key"
	"github.com/redlatch/redlatch/core/rule"
)

// Error says why an operation didn't run. If its kind is [Lost], the operation ran,
// but lost its lock meanwhile.
//
// Its message has neither a rendered key nor an owner nor a message of the store,
// so it may be logged and shown. It has the name of the rule, which is the template
// unless the rule says otherwise: a template without variables is a key, and such a
// rule needs a name if its key must not be shown. Err, which [errors.Is] and [errors.As] see, may
// have all of them: it is for the operator alone.
type Error struct {
	Kind      Kind
	Operation string // as in the [Call]
	Name      string // of the rule
	Err       error
}

// Error names the operation, the rule and what happened.
func (e *Error) Error() string {
	text := "guard: "
	if e.Operation != "" {
		text += e.Operation + ": "
	}
	text += e.Kind.String()
	if e.Name != "" {
		text += ": lock " + strconv.Quote(e.Name)
	}
	if reason := e.reason(); reason != "" {
		text += ": " + reason
	}
	return text
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// reason describes the cause without quoting from it. A fault of the rules is
// quoted in full, because it's the program's own.
func (e *Error) reason() string {
	var value *key.ValueError
	if e.Kind == Invalid && errors.Is(e.Err, rule.ErrInvalid) {
		if errors.As(e.Err, &value) {
			return fmt.Sprintf("<%s>: %v", value.Var, value.Err)
		}
		return e.Err.Error()
	}
	if errors.As(e.Err, &value) && !errors.Is(e.Err, ErrUnresolvable) {
		return value.Error()
	}
	text := ""
	for _, d := range decisions {
		if errors.Is(e.Err, d.err) {
			text = d.err.Error()
			break
		}
	}
	if value != nil && value.Var != "" {
		text += ": <" + value.Var + ">"
		if e.Kind == Invalid {
			text += ", correct its name or bind it with WithVar"
		}
	}
	return text
}

// Ran marks err as the error of work that ran under its locks, for integrations that
// return it to their caller. [KindOf] is [None] for the result, and errors.As finds no
// [*Error] in it. Without the mark, the refusal of another call or the end of a context
// would say that the work didn't run and may be tried again. errors.Is and errors.As
// find everything else. Ran returns an error of kind None or [Lost] as it is.
func Ran(err error) error {
	if kind := KindOf(err); kind == None || kind == Lost {
		return err
	}
	return ran{err}
}

// ran has no Unwrap, which would lead to an *Error.
type ran struct{ err error }

func (r ran) Error() string        { return r.err.Error() }
func (r ran) Is(target error) bool { return errors.Is(r.err, target) }

func (r ran) As(target any) bool {
	if _, refusal := target.(**Error); refusal {
		return false
	}
	return errors.As(r.err, target)
}
