package ruletest_test

import (
	"testing"
	"time"

	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/core/rule/ruletest"
)

// testEveryField is what a test of your package does.
func testEveryField(t *testing.T) { //nolint:thelper // it is a test
	ruletest.AddField(t, "newField")
	r, err := rule.ParseRule("lock:order:<id> newField=50ms") // or your reader
	if err != nil || r.Timeout != 50*time.Millisecond {
		t.Errorf("got %+v, %v", r, err)
	}
}

// A package that reads rules in another form shows that it knows every field,
// also one that's added later.
func ExampleAddField() { _ = testEveryField }
