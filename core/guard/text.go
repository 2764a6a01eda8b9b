package guard

import (
	"encoding"
	"fmt"
	"reflect"
	"strconv"

	"github.com/redlatch/redlatch/core/key"
)

// Text writes a value that the program has for a variable: one from a context,
// an argument, a field. Texts, integers and booleans, types that are made of
// them included, count by what they hold, so that two values do not become one
// text; other types need a MarshalText or String method. Nil is
// [key.ErrMissing], and a type that is no part of a key is [ErrUnresolvable].
func Text(value any) (string, error) {
	if value == nil {
		return "", key.ErrMissing
	}
	switch v := reflect.ValueOf(value); v.Kind() {
	case reflect.String:
		return v.String(), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return strconv.FormatInt(v.Int(), 10), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return strconv.FormatUint(v.Uint(), 10), nil
	case reflect.Bool:
		return strconv.FormatBool(v.Bool()), nil
	case reflect.Pointer:
		if v.IsNil() {
			return "", key.ErrMissing
		}
	}
	switch v := value.(type) {
	case encoding.TextMarshaler:
		written, err := v.MarshalText()
		return string(written), err
	case fmt.Stringer:
		return v.String(), nil
	}
	return "", fmt.Errorf("%w: a %T is no part of a key", ErrUnresolvable, value)
}
