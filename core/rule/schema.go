package rule

import (
	"encoding/json"
	"strings"
)

// Schema returns the JSON Schema (draft 7) of a rule file, for editors that
// complete and check the file. It accepts every file that package rulefile accepts,
// and finds wrong shapes; only rulefile finds all faults. It is made from [Fields];
// rules.schema.json is a copy for editors.
func Schema() []byte {
	properties := make(map[string]any, len(fields))
	for i := range fields {
		properties[fields[i].Name] = fields[i].schema()
	}
	schema := map[string]any{
		"$schema": "http://json-schema.org/draft-07/schema#",
		"$id":     "https://github.com/redlatch/redlatch/raw/main/core/rule/rules.schema.json",
		"title":   "redlatch rules",
		"description": "Which operation takes which lock, and how. The schema knows the shape of a file; the program that loads it " +
			"also refuses what a schema cannot tell: an operation with two rules or that nothing serves, templates that overlap.",
		"type":                 "object",
		"required":             []string{"rules"},
		"additionalProperties": false,
		"properties": map[string]any{
			"$schema": map[string]any{
				"description": "Where editors find this schema, in JSON. In YAML a comment in the first line does: # yaml-language-server: $schema=<address>.",
				"type":        "string",
			},
			"rules": map[string]any{
				"description": "The rules, at most one for each operation. Operations without a rule run without a lock.",
				"type":        "array",
				"items":       map[string]any{"$ref": "#/definitions/rule"},
			},
			"unlocked": map[string]any{
				"description": "Operations that had a rule and are meant to run without a lock from now on. Without it, a running " +
					"program refuses a file that takes the rule of an operation away.",
				"type":  "array",
				"items": map[string]any{"type": "string", "minLength": 1},
			},
		},
		"definitions": map[string]any{
			"rule": map[string]any{
				"title":                "rule",
				"description":          "The lock of one operation.",
				"type":                 "object",
				"required":             []string{fieldOperation, fieldKey},
				"additionalProperties": false,
				"properties":           properties,
				"if": map[string]any{
					"properties": map[string]any{fieldMode: map[string]any{"const": "semaphore"}},
					"required":   []string{fieldMode},
				},
				"then": map[string]any{"required": []string{fieldPermits}},
				"else": map[string]any{"properties": map[string]any{fieldPermits: false}},
			},
		},
	}
	out, err := json.MarshalIndent(schema, "", "  ")
	if err != nil {
		return nil // strings, maps and booleans: cannot fail
	}
	return append([]byte(strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(out))), '\n')
}

const (
	oneLine      = `^([^\s\x00-\x1f\x7f]([^\x00-\x1f\x7f]*[^\s\x00-\x1f\x7f])?)?$`
	durationForm = `^(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$`
	permitsForm  = `^[0-9]+/[0-9]+$`
	templateForm = `^([!#$&-;=?-\[\]-_a-~]|<[A-Za-z0-9_.|-]+>)+$`
)

// schema returns the JSON Schema of the field's value.
func (f *Field) schema() map[string]any {
	s := map[string]any{"description": f.Doc}
	switch f.Kind {
	case Duration:
		s["anyOf"] = []any{
			map[string]any{"type": "string", "pattern": durationForm},
			map[string]any{"type": "integer", "const": 0},
		}
		s["default"] = 0
	case Count:
		s["type"], s["minimum"] = "integer", 1
	case Permits:
		s["type"], s["pattern"], s["examples"] = "string", permitsForm, []string{"1/3"}
	case Choice:
		s["enum"], s["default"] = f.Choices, f.Default
	case Flag:
		s["type"], s["default"] = "boolean", false
	default:
		s["type"], s["pattern"] = "string", oneLine
	}
	switch f.Name {
	case fieldKey:
		s["minLength"], s["maxLength"], s["pattern"] = 1, 256, templateForm
		s["examples"] = []string{"lock:order:<userId>", "lock:stock:<path.id|int>", "lock:{order:<userId>}"}
	case fieldOperation:
		s["minLength"] = 1
		s["examples"] = []string{"POST /vouchers/:id/orders", "/shop.v1.Stock/Refill"}
	}
	return s
}
