package key_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/redlatch/redlatch/core/key"
)

// The ways in which lock keys built from request values go wrong, one test each.

func TestTrapDelimiterInjection(t *testing.T) {
	template := key.MustParse("lock:<a>:<b>")
	forged := render(t, template, key.Vars{"a": "x:y", "b": "z"})
	honest := render(t, template, key.Vars{"a": "x", "b": "y:z"})
	if forged == honest {
		t.Errorf("two tuples share the key %q", forged)
	}
	if forged != "lock:x%3Ay:z" {
		t.Errorf("got %q", forged)
	}
}

func TestTrapEscapeInjection(t *testing.T) {
	template := key.MustParse("lock:<a>")
	raw := render(t, template, key.Vars{"a": ":"})
	escaped := render(t, template, key.Vars{"a": "%3A"})
	if raw == escaped {
		t.Errorf("a colon and its escape share the key %q", raw)
	}
}

func TestTrapWeakSeparator(t *testing.T) {
	for _, separator := range []string{"", "-", ".", "_", "~", "x", "0", "-.-"} {
		_, err := key.Parse("lock:<a>" + separator + "<b>")
		if !errors.Is(err, key.ErrSyntax) {
			t.Errorf("separator %q: got %v, want ErrSyntax", separator, err)
		}
	}
}

func TestTrapHashTagInjection(t *testing.T) {
	plain := key.MustParse("lock:<a>:<b>")
	for _, value := range []string{"{x}", "{", "}", "}{", "{}"} {
		got := render(t, plain, key.Vars{"a": value, "b": value})
		if strings.ContainsAny(got, "{}") {
			t.Errorf("value %q put a brace into %q", value, got)
		}
	}
	tagged := key.MustParse("lock:{order:<a>}:<b>")
	got := render(t, tagged, key.Vars{"a": "1}{2", "b": "{3}"})
	if got != "lock:{order:1%7D%7B2}:%7B3%7D" {
		t.Errorf("the hash tag moved: %q", got)
	}
}

func TestTrapControlBytes(t *testing.T) {
	got := render(t, key.MustParse("lock:<a>"), key.Vars{"a": "a\x00b\r\nDEL x\x7f\xff"})
	if got != "lock:a%00b%0D%0ADEL%20x%7F%FF" {
		t.Errorf("got %q", got)
	}
}

func TestTrapAmbiguousAndRepeatedValuesFail(t *testing.T) {
	_, err := key.MustParse("lock:<userId>").Resolve(func(key.Var) (string, error) {
		return "1", key.ErrAmbiguous
	})
	wantValueError(t, err, key.ErrAmbiguous, "userId")
}

func TestTrapNonCanonicalNumbers(t *testing.T) {
	template := key.MustParse("lock:<path.id|int>")
	for _, value := range []string{"07", "+7", " 7", "7 ", "7.0", "7e0", "-0", "0x7", "7\x00"} {
		if got, err := template.Render(key.Vars{"path.id": value}); !errors.Is(err, key.ErrInvalid) {
			t.Errorf("%q: got %q, %v; want ErrInvalid", value, got, err)
		}
	}
}

func TestTrapCaseIsNeverFoldedSilently(t *testing.T) {
	plain, folded := key.MustParse("lock:<a>"), key.MustParse("lock:<a|lower>")
	if render(t, plain, key.Vars{"a": "Bob"}) == render(t, plain, key.Vars{"a": "bob"}) {
		t.Error("without a filter, Bob and bob share a key")
	}
	if render(t, folded, key.Vars{"a": "Bob"}) != render(t, folded, key.Vars{"a": "bob"}) {
		t.Error("with |lower, Bob and bob have two keys")
	}
}

func TestTrapUnicodeFormsStayApart(t *testing.T) {
	template := key.MustParse("lock:<a>")
	if render(t, template, key.Vars{"a": "\u00e9"}) == render(t, template, key.Vars{"a": "e\u0301"}) {
		t.Error("NFC and NFD share a key")
	}
}

func TestTrapMissingOrEmptyIsAnError(t *testing.T) {
	for _, filter := range []string{"", "|int", "|uuid", "|lower", "|sha256"} {
		template := key.MustParse("lock:<a" + filter + ">")
		for name, vars := range map[string]key.Vars{"missing": {}, "empty": {"a": ""}} {
			got, err := template.Render(vars)
			if got != "" || !errors.Is(err, key.ErrMissing) {
				t.Errorf("%s with %s: got %q, %v; want ErrMissing", template, name, got, err)
			}
		}
	}
	// A value that says "null" is a value; there is no other way to make that key.
	if got := render(t, key.MustParse("lock:<a>"), key.Vars{"a": "null"}); got != "lock:null" {
		t.Errorf("got %q", got)
	}
}

func TestTrapLengthIsRefusedNeverCut(t *testing.T) {
	repeat := func(n int) string { return strings.Repeat("x", n) }
	tests := map[string]struct {
		template string
		value    string
		fits     bool
		name     string
	}{
		"longest value":            {"l:<v>", repeat(key.MaxValue), true, ""},
		"value one too long":       {"l:<v>", repeat(key.MaxValue + 1), false, "v"},
		"lower one too long":       {"l:<v|lower>", repeat(key.MaxValue + 1), false, "v"},
		"int one too long":         {"l:<v|int>", strings.Repeat("1", key.MaxValue+1), false, "v"},
		"sha256 shortens":          {"l:<v|sha256>", repeat(key.MaxValue + 1), true, ""},
		"sha256 behind lower":      {"l:<v|lower|sha256>", repeat(key.MaxHashed), true, ""},
		"longest hashed":           {"l:<v|sha256>", repeat(key.MaxHashed), true, ""},
		"hashed one too long":      {"l:<v|sha256>", repeat(key.MaxHashed + 1), false, "v"},
		"longest key":              {"<v>:" + repeat(249) + "<v>", repeat(131), true, ""},
		"key one too long":         {"<v>:" + repeat(248) + "<v>", repeat(132), false, ""},
		"longest key by escapes":   {"<v>:<v>/", strings.Repeat("é", 42) + "xyz", true, ""},
		"key too long by escapes":  {"<v>:<v>//", strings.Repeat("é", 42) + "xyz", false, ""},
		"one value, key too long":  {"l:<v>", strings.Repeat("é", 128), false, ""},
		"literal behind too long":  {"<v>:<v>" + repeat(10), repeat(251), false, ""},
		"literal behind just fits": {"<v>:<v>" + repeat(9), repeat(251), true, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := key.MustParse(tt.template).Render(key.Vars{"v": tt.value})
			if tt.fits {
				if err != nil || len(got) > key.MaxKey {
					t.Errorf("got %d bytes, %v", len(got), err)
				}
				return
			}
			if got != "" {
				t.Errorf("got the key %.40q with an error", got)
			}
			wantValueError(t, err, key.ErrTooLong, tt.name)
		})
	}
}

func TestTrapSecretsHashOutOfTheKey(t *testing.T) {
	const token = "Bearer abcdef"
	got := render(t, key.MustParse("lock:<header.Authorization|sha256>"), key.Vars{"header.Authorization": token})
	if strings.Contains(got, "abcdef") || len(got) != len("lock:")+64 {
		t.Errorf("got %q", got)
	}
}

// TestNoTwoHostileTuplesShareAKey renders every pair of values that ever fooled a
// key builder through templates with every kind of separator.
func TestNoTwoHostileTuplesShareAKey(t *testing.T) {
	values := []string{
		"x", "y", "xy", "x:y", ":", "::", "x:", ":x", "/", "|", "#", "-", ".", "..", "_", "~", "--",
		"%", "%3A", "%3a", "%25", "%253A", "{", "}", "{}", "{x}", "}{", "<", ">", "<a>", "<b>",
		" ", "x ", " x", "\x00", "\r\n", "\t", "\x7f", "\xff", "\xc3", "é", "e\u0301", "É", "\u212a", "K", "k",
		"0", "7", "07", "+7", "-7", "-0", "null", "nil", "NULL", "lock", "order:", "a", "b", "\\", `"`, "`", "*", "?", "[a]",
	}
	templates := []string{
		"lock:<a>:<b>", "<a>:<b>", "<a>/<b>", "<a>|<b>", "<a>#<b>", "<a>,<b>", "<a>@<b>", "<a>=<b>",
		"lock:{<a>}:<b>", "lock:{<a>:<b>}", "<a>{<b>}", "{<a>}<b>", "<a>x:y<b>", "<a>--:--<b>", "<a>.::.<b>", "<a>:order:<b>",
	}
	for _, text := range templates {
		template := key.MustParse(text)
		seen := make(map[string]string, len(values)*len(values))
		for _, a := range values {
			for _, b := range values {
				got := render(t, template, key.Vars{"a": a, "b": b})
				tuple := fmt.Sprintf("%q, %q", a, b)
				if other, taken := seen[got]; taken {
					t.Fatalf("%s: (%s) and (%s) share the key %q", text, tuple, other, got)
				}
				seen[got] = tuple
			}
		}
	}
}

func render(t *testing.T, template *key.Template, vars key.Vars) string {
	t.Helper()
	got, err := template.Render(vars)
	if err != nil {
		t.Fatalf("%s: %v", template, err)
	}
	return got
}
