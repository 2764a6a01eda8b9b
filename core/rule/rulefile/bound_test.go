package rulefile_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/redlatch/redlatch/core/rule/rulefile"
)

// A file may be as large as MaxFile, whatever is in it. What it costs is counted in
// memory, which is the same on every machine.
func TestTheLargestFileCostsLittle(t *testing.T) {
	filled := func(head, part, tail string) string {
		return head + strings.Repeat(part, (rulefile.MaxFile-len(head)-len(tail))/len(part)) + tail
	}
	var distinct strings.Builder
	distinct.WriteString("rules:\n- operation: a\n")
	for i := 0; distinct.Len() < rulefile.MaxFile-20; i++ {
		fmt.Fprintf(&distinct, "  f%d: b\n", i)
	}
	for name, text := range map[string]string{
		"lists that are not closed":    filled("", "[", ""),
		"mappings that are not closed": filled("", "{", ""),
		"lists in lists":               filled("", "- ", ""),
		"keys of keys":                 filled("", "? ", ""),
		"one field, many times":        filled("rules:\n- operation: a\n", "  a: b\n", ""),
		"many unknown fields":          distinct.String(),
		"many items":                   filled("rules:\n", "- a: b\n", ""),
		"one rule, many times":         filled("rules:\n", "- {operation: a, key: b}\n", ""),
		"the same in one line":         filled("rules: [", "{operation: a, key: b},", "]"),
		"aliases":                      filled("rules: &a [", "*a,", "]"),
		"escapes":                      filled("rules: \"", "\\x41", "\""),
		"one template":                 filled("rules:\n- operation: a\n  key: ", "<", ""),
		"unlocked operations":          filled("rules: []\nunlocked: [", "a,", "]"),
		"unlocked of no kind":          filled("rules: []\nunlocked: [", "'*',", "]"),
		"unknown fields of the file":   filled("rules: []\n", "a: b\n", ""),
		"templates that are wrong":     filled("rules: [", "{operation: a, key: <},", "]"),
		"a long operation":             distinct.String()[:rulefile.MaxFile/2] + "\n  operation: " + strings.Repeat("a", rulefile.MaxFile/3),
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := rulefile.Parse([]byte(text))
			runtime.ReadMemStats(&after)
			if err == nil && name != "unlocked operations" {
				t.Error("it is accepted")
			}
			if perByte := (after.TotalAlloc - before.TotalAlloc) / uint64(len(text)); perByte > 1000 {
				t.Errorf("%d bytes of memory for each byte of the file", perByte)
			}
			if err != nil && len(err.Error()) > rulefile.MaxFile {
				t.Errorf("the error has %d bytes and ends with %q", len(err.Error()), err.Error()[len(err.Error())-200:])
			}
		})
	}
	if _, err := rulefile.Parse([]byte(strings.Repeat("#", rulefile.MaxFile+1))); err == nil || !strings.Contains(err.Error(), "is larger than") {
		t.Errorf("a larger one: got %.100v", err)
	}
}

// A file with more faults is another file: nobody reads them all.
func TestFiveHundredFaultsAreListed(t *testing.T) {
	repeat := func(format string, n int) string {
		text := "rules:\n"
		for i := range n {
			text += fmt.Sprintf(format, i)
		}
		return text
	}
	const wrong, item = "- {operation: a%d, key: <}\n", "- a%d\n"
	for name, test := range map[string]struct {
		text   string
		faults int
		last   string
	}{
		"one too many":       {repeat(wrong, 501), 501, `502:26: "a500": key: "<", column 1`},
		"wrong rules":        {repeat(wrong, 600), 501, "502:26: is the first of 100 more faults, which are not listed"},
		"what are no rules":  {repeat(item, 600), 501, "502:3: is not read, there are 500 faults before"},
		"after other faults": {repeat(wrong, 300) + strings.TrimPrefix(repeat(item, 600), "rules:\n"), 501, "502:3: is the first of 301 more faults"},
		"of unlocked":        {"rules: []\nunlocked:\n" + strings.Repeat("- '*'\n", 700), 501, "503:3: is the first of 200 more faults"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := rulefile.Parse([]byte(test.text))
			faults := wantFaults(t, err, test.faults)
			if last := faults[len(faults)-1].Error(); !strings.HasPrefix(last, test.last) {
				t.Errorf("the last one is %s\nwant %s", last, test.last)
			}
		})
	}
}
