package guard_test

import (
	"encoding"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/key"
)

type (
	userID string
	level  int
)

// String makes all levels look alike.
func (level) String() string { return "level" }

// written has its methods on the pointer, the better one as well.
type written struct{ of string }

func (w *written) String() string               { return "for people: " + w.of }
func (w *written) MarshalText() ([]byte, error) { return []byte(w.of), nil }

func TestKeyPartOfAValue(t *testing.T) {
	var none *netip.Addr
	var noIP net.IP
	seven, three := 7, level(3)
	var face fmt.Stringer = three
	for name, test := range map[string]struct {
		value any
		want  string
		err   error
	}{
		"text":             {"a:b", "a:b", nil},
		"own text":         {userID("42"), "42", nil},
		"number":           {-7, "-7", nil},
		"byte":             {byte(7), "7", nil},
		"largest":          {^uint64(0), "18446744073709551615", nil},
		"what it holds":    {level(3), "3", nil},
		"boolean":          {true, "true", nil},
		"pointer":          {&seven, "7", nil},
		"pointer to own":   {&three, "3", nil},
		"in an interface":  {face, "3", nil},
		"by its pointer":   {written{"w"}, "w", nil},
		"pointer writes":   {&written{"w"}, "w", nil},
		"nil slice":        {noIP, "", key.ErrMissing},
		"nil number":       {(*int)(nil), "", key.ErrMissing},
		"pointer twice":    {new(*string), "", guard.ErrUnresolvable},
		"that writes":      {netip.MustParseAddr("::1"), "::1", nil},
		"with a String":    {time.UTC, "UTC", nil},
		"empty":            {"", "", nil},
		"nil":              {nil, "", key.ErrMissing},
		"nil pointer":      {none, "", key.ErrMissing},
		"fraction":         {1.0, "", guard.ErrUnresolvable},
		"list":             {[]string{"a"}, "", guard.ErrUnresolvable},
		"nothing writable": {struct{ ID int }{1}, "", guard.ErrUnresolvable},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := guard.KeyPart(test.value)
			if got != test.want || !errors.Is(err, test.err) {
				t.Errorf("got %q, %v; want %q, %v", got, err, test.want, test.err)
			}
			if test.value == nil || err != nil && test.err == key.ErrMissing { //nolint:errorlint // it is the table's
				return
			}
			if has := guard.IsKeyPart(reflect.TypeOf(test.value)); has != (err == nil) {
				t.Errorf("IsKeyPart is %v", has)
			}
		})
	}
}

func TestATypeOfValuesThatDifferIsAKeyPartIfAllAre(t *testing.T) {
	for of, want := range map[reflect.Type]bool{
		reflect.TypeFor[fmt.Stringer]():           true,
		reflect.TypeFor[encoding.TextMarshaler](): true,
		reflect.TypeFor[any]():                    false,
		reflect.TypeFor[error]():                  false,
	} {
		if got := guard.IsKeyPart(of); got != want {
			t.Errorf("IsKeyPart(%v) is %v", of, got)
		}
	}
}
