package recipes_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/redlatch/redlatch/core/rule"
)

// inProse is a rule with options in the text of the manual.
var inProse = regexp.MustCompile("`(lock:[^` ]+ [^`]+)`")

func TestRulesOfTheManualAreRules(t *testing.T) {
	manual, err := os.ReadFile("../../docs/recipes.md")
	if err != nil {
		t.Fatal(err)
	}
	all := inProse.FindAllStringSubmatch(string(manual), -1)
	for _, found := range all {
		if _, err := rule.ParseRule(found[1]); err != nil {
			t.Error(err)
		}
	}
	if len(all) < 2 {
		t.Errorf("%d rules: the reader does not work", len(all))
	}
}
