package schema_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v4"

	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/core/rule/rulefile"
)

// folder has the rule files that the tests of the parser read.
const folder = "../../core/rule/rulefile/testdata"

// editor is what an editor knows of rule files: the syntax, and the schema.
type editor struct{ *jsonschema.Schema }

func newEditor(t testing.TB) editor {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(rule.Schema()))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("rules.schema.json", document); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("rules.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return editor{schema}
}

// check returns what the editor underlines in text.
func (e editor) check(text []byte) error {
	var plain any
	if err := yaml.Unmarshal(text, &plain); err != nil {
		return err
	}
	compact, err := json.Marshal(plain)
	if err != nil {
		return err
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(compact))
	if err != nil {
		return err
	}
	return e.Validate(document)
}

func TestSchemaAcceptsWhatTheParserAccepts(t *testing.T) {
	e := newEditor(t)
	accepted := map[string]string{
		"empty list":      "rules: []",
		"a folded key":    "rules: [{operation: a, key: 'l:<header.X-User-Id|lower|sha256>'}]",
		"all characters":  "rules: [{operation: a-_.Z9, key: \"!#$&'()*+,-./09:;=?@AZ[]^_az|~{<x>}\"}]",
		"all units":       "rules: [{operation: a, key: b, wait: 1h2m3s4ms5us6ns, lease: 1.5s}, {operation: c, key: d, wait: 10µs, lease: .5h}, {operation: e, key: f, wait: 3.μs}]",
		"no time":         "rules: [{operation: a, key: b, wait: '0', lease: 0}]",
		"empty name":      "rules: [{operation: a, key: b, name: ''}]",
		"empty schema":    "{rules: [], $schema: ''}",
		"longest key":     "rules: [{operation: a, key: " + strings.Repeat("k", 256) + "}]",
		"largest numbers": "rules: [{operation: a, key: b, mode: semaphore, permits: 4096/4096, maxWaiters: 9007199254740993}]",
	}
	for _, file := range glob(t, folder+"/valid/*") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		accepted[file] = string(text)
	}
	for name, text := range accepted {
		t.Run(name, func(t *testing.T) {
			if _, err := rulefile.Parse([]byte(text)); err != nil {
				t.Fatalf("the parser refuses it: %v", err)
			}
			if err := e.check([]byte(text)); err != nil {
				t.Errorf("the schema refuses it: %v", err)
			}
		})
	}
}

func TestSchemaRefusesTheShapesThatTheParserRefuses(t *testing.T) {
	const op = "rules:\n- operation: a\n"
	e := newEditor(t)
	for name, text := range map[string]string{
		"not YAML":              "rules: [",
		"root is a list":        "- operation: a",
		"root is text":          "rules",
		"no rules":              "{}",
		"rules is empty":        "rules:",
		"rules is a mapping":    "rules: {operation: a}",
		"rules is text":         "rules: all",
		"unknown root field":    "rules: []\nversion: 2",
		"schema is a list":      "rules: []\n$schema: []",
		"item is text":          "rules: [a]",
		"item is a list":        "rules: [[a]]",
		"item is empty":         "rules:\n- \n",
		"no operation":          "rules: [{key: a}]",
		"empty operation":       "rules: [{operation: '', key: a}]",
		"operation is a number": "rules: [{operation: 5, key: a}]",
		"operation in spaces":   "rules: [{operation: ' a', key: a}]",
		"operation in lines":    "rules: [{operation: \"a\\nb\", key: a}]",
		"no key":                op,
		"empty key":             op + "  key: ''",
		"key is a number":       op + "  key: 5",
		"key is a list":         op + "  key: [b]",
		"key without a value":   op + "  key:",
		"key is not closed":     op + "  key: lock:<a",
		"key closes nothing":    op + "  key: lock:a>",
		"key with a space":      op + "  key: lock a",
		"key not in ASCII":      op + "  key: lock:é",
		"key with an escape":    op + "  key: lock:%41",
		"key with a backslash":  op + "  key: 'lock:\\'",
		"key is too long":       op + "  key: " + strings.Repeat("k", 257),
		"unknown field":         op + "  key: b\n  wiat: 5s",
		"field in capitals":     op + "  key: b\n  onbusy: skip",
		"unknown mode":          op + "  key: b\n  mode: shared",
		"empty mode":            op + "  key: b\n  mode: ''",
		"mode is a number":      op + "  key: b\n  mode: 1",
		"unknown onBusy":        op + "  key: b\n  onBusy: run",
		"onBusy is a list":      op + "  key: b\n  onBusy: [skip]",
		"wait without a unit":   op + "  key: b\n  wait: 5",
		"wait in words":         op + "  key: b\n  wait: 5 seconds",
		"wait is empty":         op + "  key: b\n  wait: ''",
		"wait is negative":      op + "  key: b\n  wait: -5s",
		"wait with a plus":      op + "  key: b\n  wait: +5s",
		"wait is a fraction":    op + "  key: b\n  wait: 1.5",
		"wait is a point":       op + "  key: b\n  wait: .s",
		"wait without a value":  op + "  key: b\n  wait:",
		"lease without a unit":  op + "  key: b\n  lease: 5",
		"lease is negative":     op + "  key: b\n  lease: -5s",
		"waiters of nothing":    op + "  key: b\n  maxWaiters: 0",
		"waiters in a text":     op + "  key: b\n  maxWaiters: '5'",
		"hold without a unit":   op + "  key: b\n  maxHold: 5",
		"least without a unit":  op + "  key: b\n  minHold: 5",
		"name is a number":      op + "  key: b\n  name: 5",
		"name in lines":         op + "  key: b\n  name: \"a\\nb\"",
		"overlaps is text":      op + "  key: b\n  overlaps: allow",
		"semaphore, no size":    op + "  key: b\n  mode: semaphore",
		"permits of one number": op + "  key: b\n  mode: semaphore\n  permits: '5'",
		"permits is a number":   op + "  key: b\n  mode: semaphore\n  permits: 5",
		"permits in words":      op + "  key: b\n  mode: semaphore\n  permits: one/3",
		"permits of a reader":   op + "  key: b\n  mode: read\n  permits: 1/5",
		"key twice":             op + "  key: b\n  key: c",
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := rulefile.Parse([]byte(text)); err == nil {
				t.Error("the parser accepts it")
			}
			if err := e.check([]byte(text)); err == nil {
				t.Error("the schema accepts it")
			}
		})
	}
}

func FuzzSchemaAcceptsWhatTheParserAccepts(f *testing.F) {
	e := newEditor(f)
	for _, file := range append(glob(f, folder+"/valid/*"), folder+"/ten-faults.yaml", folder+"/ten-faults.json") {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if _, err := rulefile.Parse(text); err != nil {
			return
		}
		if err := e.check(text); err != nil {
			t.Errorf("the parser accepts %q, the schema does not: %v", text, err)
		}
	})
}

func TestSchemaHasTheFieldsOfARule(t *testing.T) {
	var fields []string
	for _, field := range rule.Fields() {
		fields = append(fields, field.Name)
	}
	_, err := rulefile.Parse([]byte("rules: [{other: x}]"))
	_, list, _ := strings.Cut(err.Error(), "known are ")
	list, _, _ = strings.Cut(list, "\n")
	if list != strings.Join(fields, ", ") {
		t.Errorf("the parser names %v, a rule has %v", list, fields)
	}
	slices.Sort(fields)
	properties := newEditor(t).Properties["rules"].Items.(*jsonschema.Schema).Ref.Properties
	if known := slices.Sorted(maps.Keys(properties)); !slices.Equal(known, fields) {
		t.Errorf("the schema has %v, a rule %v", known, fields)
	}
}

func TestSchemaDescribesEveryField(t *testing.T) {
	var described int
	var look func(path string, s *jsonschema.Schema)
	look = func(path string, s *jsonschema.Schema) {
		for name, field := range s.Properties {
			described++
			if field.Description == "" || !strings.HasSuffix(field.Description, ".") {
				t.Errorf("%s.%s has no description", path, name)
			}
			if list, ok := field.Items.(*jsonschema.Schema); ok && list.Ref != nil {
				look(path+"."+name, list.Ref)
			}
		}
	}
	look("", newEditor(t).Schema)
	if want := 3 + len(rule.Fields()); described != want {
		t.Errorf("looked at %d fields, want %d", described, want)
	}
}

func glob(t testing.TB, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %v, %v", pattern, files, err)
	}
	return files
}
