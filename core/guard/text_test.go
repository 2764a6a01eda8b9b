package guard_test

import (
	"errors"
	"net/netip"
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

func TestTextOfAValue(t *testing.T) {
	var none *netip.Addr
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
			got, err := guard.Text(test.value)
			if got != test.want || !errors.Is(err, test.err) {
				t.Errorf("got %q, %v; want %q, %v", got, err, test.want, test.err)
			}
		})
	}
}
