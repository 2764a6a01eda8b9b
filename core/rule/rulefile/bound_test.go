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
		})
	}
	if _, err := rulefile.Parse([]byte(strings.Repeat("#", rulefile.MaxFile+1))); err == nil || !strings.Contains(err.Error(), "is larger than") {
		t.Errorf("a larger one: got %.100v", err)
	}
}
