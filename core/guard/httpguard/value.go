package httpguard

import (
	"encoding"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"strconv"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/key"
)

// Only is the single value of a list. A second one is refused, even one that
// is the same: the handler may read the other.
func Only(values []string) (string, error) {
	switch len(values) {
	case 0:
		return "", key.ErrMissing
	case 1:
		return values[0], nil
	}
	return "", key.ErrAmbiguous
}

// Cookie is the only cookie of that name, unescaped as in a query.
func Cookie(r *http.Request, name string) (string, error) {
	cookies := r.CookiesNamed(name)
	if len(cookies) > 1 {
		return "", key.ErrAmbiguous
	}
	if len(cookies) == 0 {
		return "", key.ErrMissing
	}
	value, err := url.QueryUnescape(cookies[0].Value)
	if err != nil {
		return "", key.ErrInvalid
	}
	return value, nil
}

// Text writes a value that the program set. Texts, integers and booleans are
// taken as they are, also those of the program's own types: two values must
// not become one text. Other types need a MarshalText or String method;
// without one they are [guard.ErrUnresolvable].
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
	return "", fmt.Errorf("%w: a %T is no part of a key", guard.ErrUnresolvable, value)
}
