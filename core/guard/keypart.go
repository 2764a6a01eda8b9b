package guard

import (
	"encoding"
	"fmt"
	"reflect"
	"strconv"

	"github.com/redlatch/redlatch/core/key"
	"github.com/redlatch/redlatch/core/rule"
)

// KeyPart returns the string that stands for a value in a key: an argument, a field
// of a request, a value of a context. All integrations use it, so that a value has
// the same string everywhere.
//
// Strings, integers, booleans, and types based on them are formatted by their
// underlying value, even if they have a String method, so that no two values become
// one string. Other types need a MarshalText or a String method; MarshalText is
// preferred. A pointer stands for what it points to. A nil value or pointer is
// [key.ErrMissing]; any other type is [ErrUnresolvable].
func KeyPart(value any) (string, error) {
	if value == nil {
		return "", key.ErrMissing
	}
	v := reflect.ValueOf(value)
	if v.Kind() == reflect.Pointer && !v.IsNil() && isPlain(v.Type().Elem().Kind()) {
		v = v.Elem()
	}
	switch {
	case v.Kind() == reflect.String:
		return v.String(), nil
	case v.Kind() == reflect.Bool:
		return strconv.FormatBool(v.Bool()), nil
	case v.CanInt():
		return strconv.FormatInt(v.Int(), 10), nil
	case v.CanUint():
		return strconv.FormatUint(v.Uint(), 10), nil
	case isNil(v):
		return "", key.ErrMissing
	}
	return byMethod(v)
}

// Unset is the error of a lookup of a value that the program sets in front of the lock, such
// as one in a context, and that isn't there. It is a fault of the program, and so of kind
// [Invalid], unless the value says who the caller is ([Identify]).
func Unset(name any) error {
	text, ok := name.(string)
	if !ok {
		text = fmt.Sprintf("%T", name)
	}
	return unset(text)
}

// unset is the name of a value.
type unset string

func (u unset) Error() string {
	return fmt.Sprintf("nothing in front of the lock has set %q: put what sets it in front, or correct the name; "+
		"if it is not set for unknown callers, name the variable in WithIdentity", string(u))
}

func (unset) Unwrap() []error { return []error{rule.ErrInvalid, ErrUnresolvable, key.ErrMissing} }

// IsKeyPart reports whether [KeyPart] accepts values of type t.
func IsKeyPart(t reflect.Type) bool {
	inner := t
	if t.Kind() == reflect.Pointer {
		inner = t.Elem()
	}
	if isPlain(inner.Kind()) {
		return true
	}
	if t.Kind() != reflect.Interface && t.Kind() != reflect.Pointer {
		t = reflect.PointerTo(t) // it has all methods
	}
	return t.Implements(marshaler) || t.Implements(stringer)
}

var (
	marshaler = reflect.TypeFor[encoding.TextMarshaler]()
	stringer  = reflect.TypeFor[fmt.Stringer]()
)

func isPlain(k reflect.Kind) bool {
	return k == reflect.String || k == reflect.Bool || reflect.Int <= k && k <= reflect.Uintptr
}

func isNil(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Chan, reflect.Func, reflect.Map, reflect.Pointer, reflect.Slice:
		return v.IsNil()
	}
	return false
}

// byMethod calls the method that writes a value. A value has those of its pointer
// as well.
func byMethod(v reflect.Value) (string, error) {
	value := v.Interface()
	if t := v.Type(); t.Kind() != reflect.Pointer && !t.Implements(marshaler) {
		p := reflect.New(t)
		p.Elem().Set(v)
		v = p
	}
	switch value := v.Interface().(type) {
	case encoding.TextMarshaler:
		written, err := value.MarshalText()
		return string(written), err
	case fmt.Stringer:
		return value.String(), nil
	}
	return "", fmt.Errorf("%w: %w: a %T can't be part of a key: use a string, an integer, a boolean, or a type with a String or MarshalText method",
		rule.ErrInvalid, ErrUnresolvable, value)
}
