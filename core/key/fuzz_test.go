package key_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/url"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/redlatch/redlatch/core/key"
)

var seeds = []string{
	"", "<", ">", "lock:order:<userId>", "lock:stock:<path.id|int>", "lock:{order:<userId>}", "{<a>}<b|lower>",
	"<a>:<b>", "<a>-<b>", "<a|uuid>/<b|lower|sha256>", "<header.X-Id>|<body.user.id>#<c>", "{}", "}{", "a%41", "<a.b>", "lock:é",
}

func FuzzParse(f *testing.F) {
	for _, seed := range seeds {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		template, err := key.Parse(text)
		if err != nil {
			var syntax *key.SyntaxError
			if !errors.As(err, &syntax) || !errors.Is(err, key.ErrSyntax) {
				t.Fatalf("Parse(%q): error is %T", text, err)
			}
			if syntax.Column < 1 || syntax.Column > len(text)+1 {
				t.Fatalf("Parse(%q): column %d is outside", text, syntax.Column)
			}
			if syntax.Reason == "" || strings.ContainsAny(err.Error(), "\r\n\x00") {
				t.Fatalf("Parse(%q): bad text %q", text, err)
			}
			return
		}
		if template.String() != text {
			t.Fatalf("String() = %q, want %q", template.String(), text)
		}
		if again := key.MustParse(template.String()); !reflect.DeepEqual(again.Vars(), template.Vars()) {
			t.Fatalf("%q parses to %v and then to %v", text, template.Vars(), again.Vars())
		}
		if got := compose(template); got != text {
			t.Fatalf("the parts of %q make %q", text, got)
		}
	})
}

// compose writes the template again from what Shape and Vars tell.
func compose(template *key.Template) string {
	parts := strings.Split(template.Shape(), "<>")
	text := parts[0]
	for i, v := range template.Vars() {
		if v.Column != len(text)+1 {
			return "a wrong column of " + v.String()
		}
		text += "<" + strings.Join(append([]string{v.String()}, v.Filters...), "|") + ">" + parts[i+1]
	}
	return text
}

func FuzzRender(f *testing.F) {
	for _, seed := range seeds {
		f.Add(seed, "x:y", "z", "x", "y:z")
		f.Add(seed, "7", "Bob", "07", "bob")
		f.Add(seed, "{x}", "%7B", "\x00", "0123ABCD-89ef-4567-89ab-cdef01234567")
	}
	f.Fuzz(func(t *testing.T, text, a1, b1, a2, b2 string) {
		template, err := key.Parse(text)
		if err != nil {
			return
		}
		first, ok1 := resolve(t, template, a1, b1)
		second, ok2 := resolve(t, template, a2, b2)
		if !ok1 || !ok2 {
			return
		}
		same := reflect.DeepEqual(filtered(template, a1, b1), filtered(template, a2, b2))
		if (first == second) != same {
			t.Fatalf("%s: (%q, %q) gives %q and (%q, %q) gives %q", text, a1, b1, first, a2, b2, second)
		}
	})
}

// resolve renders with a and b in turn, and checks the key on its own.
func resolve(t *testing.T, template *key.Template, a, b string) (string, bool) {
	t.Helper()
	i := 0
	got, err := template.Resolve(func(key.Var) (string, error) {
		i++
		return []string{a, b}[(i-1)%2], nil
	})
	if err != nil {
		var value *key.ValueError
		if !errors.As(err, &value) || got != "" {
			t.Fatalf("%s: got %q and a %T", template, got, err)
		}
		return "", false
	}
	if len(got) == 0 || len(got) > key.MaxKey {
		t.Fatalf("%s: key of %d bytes", template, len(got))
	}
	for i := range len(got) {
		if c := got[i]; c < '!' || c > '~' || strings.IndexByte("<>\"`\\", c) >= 0 {
			t.Fatalf("%s: byte 0x%02X in %q", template, c, got)
		}
	}
	for _, brace := range []string{"{", "}"} {
		if strings.Count(got, brace) != strings.Count(template.String(), brace) {
			t.Fatalf("%s: %q has another number of %s", template, got, brace)
		}
	}
	if back, want := unrender(t, template, got), filtered(template, a, b); !reflect.DeepEqual(back, want) {
		t.Fatalf("%s: %q reads back as %q, want %q", template, got, back, want)
	}
	return got, true
}

// unrender reads the values back out of a key, by other means than the package uses.
func unrender(t *testing.T, template *key.Template, rendered string) []string {
	t.Helper()
	pattern := strings.ReplaceAll(regexp.QuoteMeta(template.Shape()), "<>", "([A-Za-z0-9._~%-]+)")
	match := regexp.MustCompile("^" + pattern + "$").FindStringSubmatch(rendered)
	if match == nil {
		t.Fatalf("%s: %q has another shape", template, rendered)
	}
	values := match[1:]
	for i, value := range values {
		plain, err := url.PathUnescape(value)
		if err != nil {
			t.Fatalf("%s: %q: %v", template, rendered, err)
		}
		values[i] = plain
	}
	return values
}

// filtered is what the filters make of accepted values, by other means than the package uses.
func filtered(template *key.Template, a, b string) []string {
	values := []string{}
	for i, v := range template.Vars() {
		value := []string{a, b}[i%2]
		for _, filter := range v.Filters {
			switch filter {
			case "lower", "uuid":
				value = regexp.MustCompile("[A-Z]").ReplaceAllStringFunc(value, strings.ToLower)
			case "sha256":
				sum := sha256.Sum256([]byte(value))
				value = hex.EncodeToString(sum[:])
			}
		}
		values = append(values, value)
	}
	return values
}
