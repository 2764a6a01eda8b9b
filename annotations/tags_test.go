package annotations_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redlatch/redlatch/annotations"
	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/core/key"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/rule"
)

type level int8

func (level) String() string { return "a level" }

// both writes itself in two ways, the better one with a pointer.
type both struct{ text string }

func (b both) String() string                { return "for people: " + b.text }
func (b *both) MarshalText() ([]byte, error) { return []byte(b.text), nil }

type base struct {
	ID uint64 `lock:"id"`
}

type node struct {
	Name string `lock:"node"`
	Next *node
}

type request struct {
	_ struct{} // without a tag it is no lock

	*base

	Text    string       `lock:"text"`
	Level   level        `lock:"level"`
	Flag    bool         `lock:"flag"`
	Maybe   *int         `lock:"maybe"`
	IP      net.IP       `lock:"ip4"`
	Addr    netip.Addr   `lock:"addr"`
	Both    both         `lock:"both"`
	BothPtr *both        `lock:"bothPtr"`
	Face    fmt.Stringer `lock:"face"`
	Nested  struct {
		Deep *struct {
			ID string `lock:"deep"`
		}
	}
	Node   node
	Left   struct{ Out chan int } `lock:"-"`
	Hidden chan int
	inner  struct {
		ID string `lock:"text"` // not exported, so not searched
	}
}

func TestVarsOfFindsTaggedFields(t *testing.T) {
	seven := 7
	full := request{
		base: &base{ID: 1 << 63}, Text: "a b", Level: -3, Flag: true, Maybe: &seven, IP: net.IPv4(10, 0, 0, 1),
		Addr: netip.MustParseAddr("::1"), Both: both{"x"}, BothPtr: &both{"y"}, Face: level(1),
		Node: node{Name: "n", Next: &node{Name: "m"}},
	}
	full.inner.ID = "another"
	full.Nested.Deep = &struct {
		ID string `lock:"deep"`
	}{"d"}
	pointer := &full
	for name, want := range map[string]string{
		"id": "9223372036854775808", "text": "a b", "level": "-3", "flag": "true", "maybe": "7", "ip4": "10.0.0.1",
		"addr": "::1", "both": "x", "bothPtr": "y", "face": "1", "deep": "d", "node": "n",
	} {
		for _, v := range []any{full, &full, &pointer} {
			for _, source := range []string{"", "req"} {
				got, err := annotations.VarsOf(v)(key.Var{Source: source, Name: name})
				if err != nil || got != want {
					t.Errorf("%T: <%s> is %q, %v: want %q", v, name, got, err, want)
				}
			}
		}
	}
}

func TestVarsOfTellsNilFromUnknown(t *testing.T) {
	for name, test := range map[string]struct {
		of   any
		v    key.Var
		want error
	}{
		"nil pointer":            {(*request)(nil), key.Var{Name: "text"}, key.ErrMissing},
		"nil embedded":           {request{}, key.Var{Name: "id"}, key.ErrMissing},
		"nil on the way":         {request{}, key.Var{Name: "deep"}, key.ErrMissing},
		"nil field":              {request{}, key.Var{Name: "maybe"}, key.ErrMissing},
		"nil interface":          {request{}, key.Var{Name: "face"}, key.ErrMissing},
		"nil slice":              {request{}, key.Var{Name: "ip4"}, key.ErrMissing},
		"no such tag":            {request{}, key.Var{Name: "Text"}, guard.ErrUnresolvable},
		"another source":         {request{}, key.Var{Source: "query", Name: "text"}, guard.ErrUnresolvable},
		"nil":                    {nil, key.Var{Name: "text"}, guard.ErrUnresolvable},
		"no struct":              {7, key.Var{Name: "text"}, guard.ErrUnresolvable},
		"not in a map":           {map[string]string{"a": "b"}, key.Var{Name: "text"}, key.ErrMissing},
		"of a source, not there": {key.Vars{"id": "b"}, key.Var{Source: "path", Name: "id"}, key.ErrMissing},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := annotations.VarsOf(test.of)(test.v); !errors.Is(err, test.want) {
				t.Errorf("got %q, %v, want %v", got, err, test.want)
			}
		})
	}
}

type wrongTags struct {
	A string  `lock:"a"`
	B string  `lock:"a"`
	C float64 `lock:"c"`
	d string  `lock:"d"`
	E string  `lock:"e|int"`
	F string  `lock:""`
	G string  `lock:"method"`
	H struct {
		I []byte `lock:"i"`
	}
	J **string `lock:"j"`
}

func TestTypesWithUnusableTagsAreRefused(t *testing.T) {
	m := compile(t, guardtest.Guard(t), "lock:<a>")
	_ = wrongTags{d: ""}
	_, first := annotations.VarsOf(wrongTags{})(key.Var{Name: "a"})
	check := m.Check(&wrongTags{})
	if !errors.Is(first, guard.ErrUnresolvable) || !errors.Is(check, rule.ErrInvalid) {
		t.Fatalf("got %v and %v, want ErrUnresolvable and ErrInvalid", first, check)
	}
	for _, part := range []string{
		`wrongTags.B: the tag lock:"a" is that of A already`,
		"wrongTags.C: a float64 cannot be part of a key",
		`wrongTags.d: the field has the tag lock:"d", but is not exported`,
		`wrongTags.E: the tag lock:"e|int" is no name`,
		`wrongTags.F: the tag lock:"" is no name`,
		`wrongTags.G: the tag lock:"method" is no name`,
		"wrongTags.H.I: a []uint8 cannot be part of a key",
		"wrongTags.J: a **string cannot be part of a key",
	} {
		if !strings.Contains(first.Error(), part) || !strings.Contains(check.Error(), part) {
			t.Errorf("%q is missing in:\n%v", part, first)
		}
	}
}

func TestCheckFindsVariablesWithoutAField(t *testing.T) {
	m := compile(t, guardtest.Guard(t), "lock:<text>:<txet>", "lock:x:<req.deep>:<path.id>")
	err := m.Check(request{})
	if !errors.Is(err, rule.ErrInvalid) {
		t.Fatalf("got %v, want ErrInvalid", err)
	}
	if text := err.Error(); !strings.Contains(text, `column 13: no field of annotations_test.request has the tag lock:"txet"`) ||
		!strings.Contains(text, `lock:"path.id"`) || strings.Contains(text, `lock:"text"`) || strings.Contains(text, "deep\"") {
		t.Errorf("got %v", err)
	}
	if err := compile(t, guardtest.Guard(t), "lock:<text>:<req.deep>").Check(&request{}); err != nil {
		t.Errorf("all are there: %v", err)
	}
}

type (
	twice[T any]   struct{ A, B *T }
	sixteen[T any] struct{ In twice[twice[twice[twice[T]]]] }
	// many has T at the end of 2^36 ways.
	many[T any] struct {
		In sixteen[sixteen[sixteen[sixteen[sixteen[sixteen[sixteen[sixteen[sixteen[T]]]]]]]]]
	}
)

// The types of a database's tables know each other: there may be more ways through them
// than a call has time for.
func TestARequestMayContainTypesWithManyWays(t *testing.T) {
	type plain struct{ Name string }
	type tagged struct {
		Name string `lock:"name"`
	}
	type locked struct {
		_ struct{} `lock:"lock:a"`
	}
	type request[T any] struct {
		ID   string `lock:"id"`
		Many many[T]
	}
	read := make(chan [3]error, 1)
	go func() {
		_, plain := annotations.VarsOf(request[plain]{ID: "7"})(key.Var{Name: "id"})
		_, twice := annotations.VarsOf(request[tagged]{ID: "7"})(key.Var{Name: "id"})
		_, locks := annotations.VarsOf(request[locked]{ID: "7"})(key.Var{Name: "id"})
		read <- [3]error{plain, twice, locks}
	}()
	select {
	case <-time.After(20 * time.Second):
		t.Fatal("it searches all of them")
	case got := <-read:
		if got[0] != nil {
			t.Errorf("without another tag: %v", got[0])
		}
		if !errors.Is(got[1], guard.ErrUnresolvable) || !strings.Contains(got[1].Error(), "is that of Many.In.In.A.A.A.A") {
			t.Errorf("with a tag that is there too often: %.300v", got[1])
		}
		if !errors.Is(got[2], guard.ErrUnresolvable) || !strings.Contains(got[2].Error(), "more than 100 locks") {
			t.Errorf("with a lock that is there too often: %.300v", got[2])
		}
	}
}

func TestVarsOfIsForManyGoroutines(t *testing.T) {
	type fresh struct {
		ID string `lock:"id"`
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if got, err := annotations.VarsOf(fresh{"7"})(key.Var{Name: "id"}); got != "7" || err != nil {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
	all.Wait()
}

// hostileRequest has values of every kind that a caller can fill with anything.
type hostileRequest struct {
	Text  string  `lock:"text"`
	Bytes written `lock:"bytes"`
	Maybe *string `lock:"maybe"`
	N     int64   `lock:"n"`
}

// written writes whatever it holds.
type written []byte

func (w written) MarshalText() ([]byte, error) { return w, nil }

// FuzzHostileRequest calls a method with any values. Either the call is refused, or
// the work holds the one lock whose key is made of these values, each in its place.
func FuzzHostileRequest(f *testing.F) {
	for _, value := range []string{"a", "", "a:b", "{a}", "a\x00b\r\n", "%3A%", "\xff\xfe", "<x>", strings.Repeat("é", 200)} {
		f.Add(value, []byte(value), int64(-1), true)
	}
	f.Add("a", []byte(nil), int64(0), false)
	m := compile(f, guardtest.Guard(f), "lock:<text>:<bytes>:<maybe>:<n>")
	f.Fuzz(func(t *testing.T, text string, bytes []byte, n int64, has bool) {
		req := hostileRequest{Text: text, Bytes: bytes, N: n}
		if has {
			req.Maybe = &text
		}
		ran := false
		err := annotations.Do(t.Context(), m, annotations.VarsOf(req), func(ctx context.Context) error {
			ran = true
			lease, _ := lock.FromContext(ctx)
			guardtest.WantParts(t, lease.Key(), "lock", text, string(bytes), text, strconv.FormatInt(n, 10))
			return nil
		})
		if ran && (text == "" || len(bytes) == 0 || !has) {
			t.Error("it ran without all of its values")
		}
		if ran != (err == nil) || err != nil && guard.KindOf(err) != guard.BadKey {
			t.Errorf("got %v", err)
		}
	})
}
