// Package ruletest helps to test code that reads rules.
package ruletest

import (
	"testing"

	"github.com/redlatch/redlatch/core/rule/internal/extra"
)

// AddField adds a field of that name to the table of rules until the test ends. It
// holds a duration, which becomes the rule's Timeout. The table belongs to the whole
// process: a test that calls AddField must not run in parallel with others.
func AddField(t testing.TB, name string) {
	t.Helper()
	t.Cleanup(extra.Add(name))
}
