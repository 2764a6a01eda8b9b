package rule_test

import (
	"bytes"
	"flag"
	"os"
	"testing"

	"github.com/redlatch/redlatch/core/rule"
)

var update = flag.Bool("update", false, "write the schema")

func TestSchemaIsTheFileThatEditorsRead(t *testing.T) {
	const file = "rules.schema.json"
	if *update {
		if err := os.WriteFile(file, rule.Schema(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	written, err := os.ReadFile(file)
	if err != nil || !bytes.Equal(written, rule.Schema()) {
		t.Errorf("%s differs from rule.Schema, run this test with -update (%v)", file, err)
	}
}

func TestSchemaBelongsToItsCaller(t *testing.T) {
	clear(rule.Schema())
	if rule.Schema()[0] != '{' {
		t.Error("a caller can change the schema")
	}
}
