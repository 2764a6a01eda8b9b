package key_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/redlatch/redlatch/core/key"
)

func TestParseReadsTheGrammar(t *testing.T) {
	tests := map[string]struct {
		template string
		vars     []key.Var
		shape    string
	}{
		"no variable": {
			"lock:global", []key.Var{}, "lock:global",
		},
		"bare name": {
			"lock:order:<userId>",
			[]key.Var{{Name: "userId", Column: 12}},
			"lock:order:<>",
		},
		"source": {
			"lock:stock:<path.id>",
			[]key.Var{{Source: "path", Name: "id", Column: 12}},
			"lock:stock:<>",
		},
		"field path behind a source": {
			"<body.user.id>:x",
			[]key.Var{{Source: "body", Name: "user.id", Column: 1}},
			"<>:x",
		},
		"header name with hyphens": {
			"l:<header.X-User-Id>",
			[]key.Var{{Source: "header", Name: "X-User-Id", Column: 3}},
			"l:<>",
		},
		"filters in order": {
			"l:<query.q|lower|sha256>",
			[]key.Var{{Source: "query", Name: "q", Filters: []string{"lower", "sha256"}, Column: 3}},
			"l:<>",
		},
		"two variables": {
			"l:<path.id|int>:<userId>",
			[]key.Var{
				{Source: "path", Name: "id", Filters: []string{"int"}, Column: 3},
				{Name: "userId", Column: 17},
			},
			"l:<>:<>",
		},
		"separator among harmless bytes": {
			"<a>-x/y-<b>",
			[]key.Var{{Name: "a", Column: 1}, {Name: "b", Column: 9}},
			"<>-x/y-<>",
		},
		"brace as separator": {
			"<a>{<b>}",
			[]key.Var{{Name: "a", Column: 1}, {Name: "b", Column: 5}},
			"<>{<>}",
		},
		"deliberate hash tag": {
			"lock:{order:<userId>}:x",
			[]key.Var{{Name: "userId", Column: 13}},
			"lock:{order:<>}:x",
		},
		"one variable twice": {
			"<a>:<a|lower>",
			[]key.Var{{Name: "a", Column: 1}, {Name: "a", Filters: []string{"lower"}, Column: 5}},
			"<>:<>",
		},
		"a bare name may be the word of a source": {
			"l:<path>", []key.Var{{Name: "path", Column: 3}}, "l:<>",
		},
		"underscore and digits in a name": {
			"l:<_a1_b-2>", []key.Var{{Name: "_a1_b-2", Column: 3}}, "l:<>",
		},
		"every literal byte": {
			"!#$&'()*+,-./09:;=?@AZ[]^_az|~{x}",
			[]key.Var{},
			"!#$&'()*+,-./09:;=?@AZ[]^_az|~{x}",
		},
		"exactly 256 bytes": {
			strings.Repeat("x", 256), []key.Var{}, strings.Repeat("x", 256),
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := key.Parse(tt.template)
			if err != nil {
				t.Fatal(err)
			}
			if got.String() != tt.template {
				t.Errorf("String() = %q, want %q", got.String(), tt.template)
			}
			if !reflect.DeepEqual(got.Vars(), tt.vars) {
				t.Errorf("Vars() = %+v, want %+v", got.Vars(), tt.vars)
			}
			if got.Shape() != tt.shape {
				t.Errorf("Shape() = %q, want %q", got.Shape(), tt.shape)
			}
		})
	}
}

func TestParseAcceptsEverySourceAndFilter(t *testing.T) {
	for _, source := range strings.Fields("path query header cookie form body ctx md req") {
		vars := key.MustParse("l:<" + source + ".x>").Vars()
		if vars[0].Source != source || vars[0].Name != "x" || vars[0].String() != source+".x" {
			t.Errorf("source %s: got %+v", source, vars[0])
		}
	}
	for _, filter := range strings.Fields("int uuid lower sha256") {
		vars := key.MustParse("l:<x|" + filter + ">").Vars()
		if !reflect.DeepEqual(vars[0].Filters, []string{filter}) {
			t.Errorf("filter %s: got %+v", filter, vars[0])
		}
	}
}

func TestParseErrorPointsAtTheColumn(t *testing.T) {
	tests := map[string]struct {
		template string
		column   int
		reason   string // a part of it
	}{
		"empty":                          {"", 1, "empty"},
		"too long":                       {strings.Repeat("x", 257), 257, "longer than 256 bytes"},
		"no literal":                     {"<a>", 1, "no literal"},
		"space":                          {"lock :<a>", 5, "not allowed"},
		"tab":                            {"lock\t", 5, "0x09"},
		"line feed at the end":           {"lock:<a>\n", 9, "0x0A"},
		"NUL":                            {"l\x00", 2, "0x00"},
		"DEL":                            {"l\x7f", 2, "0x7F"},
		"not ASCII":                      {"lock:é", 6, "0xC3"},
		"invalid UTF-8":                  {"l\xff", 2, "0xFF"},
		"percent":                        {"a%41", 2, "escaped"},
		"double quote":                   {`a"`, 2, `'"'`},
		"backquote":                      {"a`", 2, "'`'"},
		"backslash":                      {`a\`, 2, `'\\'`},
		"stray closing bracket":          {"lock:a>", 7, "closes no variable"},
		"doubled closing bracket":        {"lock:<a>>", 9, "closes no variable"},
		"unclosed variable":              {"lock:<a", 6, "not closed"},
		"bare opening bracket":           {"lock:<", 6, "not closed"},
		"opening bracket in a variable":  {"lock:<a<b>", 8, "'<'"},
		"no name":                        {"lock:<>", 7, "name is missing"},
		"no source before the dot":       {"lock:<.a>", 7, "name is missing"},
		"no name after the dot":          {"lock:<path.>", 12, "name is missing"},
		"no name between dots":           {"lock:<path.a..b>", 14, "name is missing"},
		"no name before the filter":      {"lock:<|int>", 7, "name is missing"},
		"no name before source's filter": {"lock:<path.|int>", 12, "name is missing"},
		"name starts with a digit":       {"lock:<1a>", 7, "starts with a letter"},
		"name starts with a hyphen":      {"lock:<-a>", 7, "starts with a letter"},
		"second word starts with digit":  {"lock:<path.a.1>", 14, "starts with a letter"},
		"name is not ASCII":              {"lock:<é>", 7, "0xC3"},
		"space in a name":                {"lock:<a b>", 8, "' '"},
		"space before a name":            {"lock:< a>", 7, "' '"},
		"colon in a name":                {"lock:<path:id>", 11, "':'"},
		"brace in a name":                {"lock:<{a}>", 7, "'{'"},
		"unknown source":                 {"lock:<cokie.a>", 7, `unknown source "cokie"`},
		"source in capitals":             {"lock:<Path.a>", 7, `unknown source "Path"`},
		"dotted name without a source":   {"lock:<user.id>", 7, `unknown source "user"`},
		"unknown filter":                 {"lock:<a|upper>", 9, `unknown filter "upper"`},
		"filter in capitals":             {"lock:<a|INT>", 9, `unknown filter "INT"`},
		"empty filter":                   {"lock:<a|>", 9, "filter is missing"},
		"empty second filter":            {"lock:<a|int|>", 13, "filter is missing"},
		"empty first filter":             {"lock:<a||int>", 9, "filter is missing"},
		"space before a filter":          {"lock:<a| int>", 9, "' '"},
		"argument of a filter":           {"lock:<a|int(1)>", 12, "'('"},
		"dotted filter":                  {"lock:<a|int.x>", 12, "'.'"},
		"filter twice":                   {"lock:<a|lower|lower>", 15, "twice"},
		"int of a hash":                  {"lock:<a|sha256|int>", 16, "never accepts"},
		"uuid of an int":                 {"lock:<a|int|uuid>", 13, "never accepts"},
		"adjacent variables":             {"lock:<a><b>", 9, "nothing separates"},
		"separated by a hyphen":          {"lock:<a>-<b>", 10, `"-" does not separate`},
		"separated by a dot":             {"lock:<a>.<b>", 10, `"." does not separate`},
		"separated by letters":           {"lock:<a>and<b>", 12, `"and" does not separate`},
		"separated by all unreserved":    {"lock:<a>aZ09-._~<b>", 17, "does not separate"},
		"second pair not separated":      {"<a>:<b>_<c>", 9, `"_" does not separate`},
		"unclosed hash tag":              {"lock:{<a>", 6, "not closed"},
		"hash tag closed only":           {"lock:<a>}", 9, "closes no hash tag"},
		"hash tag the wrong way round":   {"lock:}<a>{", 6, "closes no hash tag"},
		"empty hash tag":                 {"lock:{}<a>", 7, "hash tag is empty"},
		"second hash tag":                {"lock:{<a>}{b}", 11, "second"},
		"nested hash tag":                {"lock:{{<a>}}", 7, "second"},
		"hash tag closed twice":          {"lock:{<a>}}", 11, "second"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := key.Parse(tt.template)
			if got != nil || err == nil {
				t.Fatalf("Parse = %v, %v; want an error", got, err)
			}
			var syntax *key.SyntaxError
			if !errors.As(err, &syntax) || !errors.Is(err, key.ErrSyntax) {
				t.Fatalf("Parse error is %T, want *SyntaxError and ErrSyntax", err)
			}
			if syntax.Template != tt.template {
				t.Errorf("Template = %q, want %q", syntax.Template, tt.template)
			}
			if syntax.Column != tt.column {
				t.Errorf("Column = %d, want %d (%v)", syntax.Column, tt.column, err)
			}
			if !strings.Contains(syntax.Reason, tt.reason) {
				t.Errorf("Reason = %q, want it to say %q", syntax.Reason, tt.reason)
			}
		})
	}
}

func TestSyntaxErrorIsOneShortPrintableLine(t *testing.T) {
	_, err := key.Parse("lock:\n\x1b" + strings.Repeat("x", 1<<20))
	if text := err.Error(); len(text) > 1024 || strings.ContainsAny(text, "\n\x1b") {
		t.Errorf("error of %d bytes, want one short printable line: %.80q", len(text), text)
	}
}

func TestMustParsePanicsWithTheSyntaxError(t *testing.T) {
	defer func() {
		err, ok := recover().(error)
		if !ok || !errors.Is(err, key.ErrSyntax) {
			t.Errorf("MustParse panicked with %v, want an ErrSyntax", err)
		}
	}()
	key.MustParse("lock:<")
}

func TestVarsIsACopy(t *testing.T) {
	template := key.MustParse("l:<a|lower>")
	vars := template.Vars()
	vars[0].Name, vars[0].Filters[0] = "b", "int"
	if got := template.Vars()[0]; got.Name != "a" || got.Filters[0] != "lower" {
		t.Errorf("changing the result of Vars changed the template: %+v", got)
	}
}

func TestReservedNamesAreBareOnly(t *testing.T) {
	tests := map[string]bool{
		"l:<method>": true, "l:<route>": true, "l:<ip>": true, "l:<service>": true,
		"l:<ip|lower>": true, "l:<path.ip>": false, "l:<userId>": false, "l:<IP>": false,
	}
	for template, want := range tests {
		if got := key.MustParse(template).Vars()[0].Reserved(); got != want {
			t.Errorf("%s: Reserved() = %v, want %v", template, got, want)
		}
	}
}

func TestTemplatesThatOverlapHaveOneShape(t *testing.T) {
	a, b := key.MustParse("lock:order:<userId>"), key.MustParse("lock:order:<path.orderId|int>")
	if a.Shape() != b.Shape() {
		t.Errorf("shapes %q and %q, want the same", a.Shape(), b.Shape())
	}
	c := key.MustParse("lock:orders:<userId>")
	if a.Shape() == c.Shape() {
		t.Errorf("%s and %s have the same shape %q", a, c, a.Shape())
	}
}
