package annotations

import (
	"encoding"
	"fmt"
	"strconv"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/key"
)

// What generated code writes values with. A type counts by what it holds, not
// by what it prints: two values must not become one text.

// String is a value that is text.
func String[T ~string](v T) (string, error) { return string(v), nil }

// Int is a value that is an integer.
func Int[T ~int | ~int8 | ~int16 | ~int32 | ~int64](v T) (string, error) {
	return strconv.FormatInt(int64(v), 10), nil
}

// Uint is a value that is an unsigned integer.
func Uint[T ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr](v T) (string, error) {
	return strconv.FormatUint(uint64(v), 10), nil
}

// Bool is a value that is true or false.
func Bool[T ~bool](v T) (string, error) { return strconv.FormatBool(bool(v)), nil }

// Text is a value that writes itself as text. An error of it is the caller's
// fault, as a bad value is.
func Text(v encoding.TextMarshaler) (string, error) {
	text, err := v.MarshalText()
	return string(text), err
}

// Stringer is a value that writes itself for people.
func Stringer(v fmt.Stringer) (string, error) { return v.String(), nil }

// Missing is a value that is not there: a pointer on the way is nil.
func Missing() (string, error) { return "", key.ErrMissing }

// Unknown is the value of a variable that the method does not have.
func Unknown() (string, error) { return "", guard.ErrUnresolvable }
