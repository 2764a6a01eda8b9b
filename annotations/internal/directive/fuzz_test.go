package directive_test

import (
	"go/ast"
	"slices"
	"strings"
	"testing"

	"github.com/redlatch/redlatch/annotations/internal/directive"
)

// FuzzParse holds the parser to what lockgen relies on: it never panics, each
// fault and each variable has a place in the text, and what it accepts is a
// good rule that reads the same again, also as part of a comment.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"", "lock:a", "lock:<id|int> wait=1s lease=10s mode=fair onBusy=skip name=x", "lock:<a.b.c>:<req.x> mode=semaphore permits=2/3",
		"lock:{a:<b>} wait=", "wait=1s", "<a.b><c.d>", "lock:<<a.b>", "lock:<a.b|int|int>", "lock:\t<ctx.x>", "lock:<req.req.a>:<a.req.b>",
		"lock:x name=\x80", "lock:<é.a>", "lock:<a.>",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, faults := directive.Parse(text)
		if d == nil {
			t.Fatalf("%q: got none, and %v", text, faults)
		}
		if !slices.IsSortedFunc(faults, func(a, b directive.Fault) int { return a.Column - b.Column }) {
			t.Errorf("%q: %v are not in order", text, faults)
		}
		for _, f := range faults {
			if f.Column < 1 || f.Column > len(text)+1 || f.Reason == "" {
				t.Errorf("%q: %+v has no place", text, f)
			}
		}
		for _, v := range d.Vars {
			if !strings.HasPrefix(text[v.At-1:], v.Path) || v.String() != v.Path && v.String() != "req."+v.Path {
				t.Errorf("%q: %+v is not there", text, v)
			}
		}
		if len(faults) > 0 {
			return
		}
		if _, err := d.Rule.Compile(); err != nil {
			t.Errorf("%q: %v", text, err)
		}
		again, faults := directive.Parse(d.Source)
		if len(faults) > 0 || again.Rule != d.Rule || again.Source != d.Source {
			t.Errorf("%q: reads as %q, and then as %+v, %v", text, d.Source, again, faults)
		}
		if strings.ContainsAny(d.Source, "\r\n") {
			return // lockgen never sees such a one
		}
		if comment, ok := ast.ParseDirective(1, "//redlatch:lock "+d.Source); !ok || comment.Args != d.Source {
			t.Errorf("%q: as a comment it is %q", text, comment.Args)
		}
	})
}
