package rulefile_test

import (
	_ "embed" // the file of every field
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/core/rule/rulefile"
)

var everyField = []rule.Rule{
	{
		Operation: "POST /vouchers/:id/orders", Key: "lock:{order:<userId>}", Mode: lock.Fair,
		Wait: 200 * time.Millisecond, Lease: 90 * time.Second, OnBusy: rule.Skip, Name: "order", Overlaps: true,
		MaxWaiters: 50, MinHold: time.Minute, MaxHold: 10 * time.Minute,
	},
	{Operation: "/shop.v1.Stock/Refill", Key: "lock:stock:<req.voucher_id>", Name: "lock:stock:<req.voucher_id>"},
}

//go:embed testdata/valid/every-field.yaml
var everyFieldYAML string

func TestParseReadsEveryField(t *testing.T) {
	const compact = `{"$schema":"./rules.schema.json","rules":[{"operation":"POST /vouchers/:id/orders","key":"lock:{order:\u003cuserId\u003e}","mode":"fair",` +
		`"wait":"200ms","maxWaiters":50,"lease":"90s","minHold":"60s","maxHold":"600s","onBusy":"skip","name":"order","overlaps":true},` +
		`{"operation":"\/shop.v1.Stock\/Refill","key":"lock:stock:<req.voucher_id>"}]}`
	documents := map[string]string{
		"YAML":                  everyFieldYAML,
		"YAML with CRLF":        strings.ReplaceAll(everyFieldYAML, "\n", "\r\n"),
		"YAML with BOM":         "\ufeff" + everyFieldYAML,
		"YAML with a document":  "---\n" + everyFieldYAML + "...\n",
		"flow YAML":             `rules: [{operation: POST /vouchers/:id/orders, key: "lock:{order:<userId>}", mode: fair, wait: 200ms, maxWaiters: 50, lease: 90s, minHold: 1m, maxHold: 10m, onBusy: skip, name: order, overlaps: true}, {operation: /shop.v1.Stock/Refill, key: "lock:stock:<req.voucher_id>"}]`,
		"folded YAML":           strings.Replace(everyFieldYAML, "key: \"lock:stock:<req.voucher_id>\"", "key: >-\n      lock:stock:<req.voucher_id>", 1),
		"other words for true":  strings.NewReplacer("overlaps: true", "overlaps: True", "overlaps: false", "overlaps: FALSE").Replace(everyFieldYAML),
		"compact JSON":          compact,
		"JSON with BOM":         "\ufeff" + compact,
		"a comment of any sign": "# \ufffd é 漢\n" + everyFieldYAML,
		"JSON with tabs":        indent(t, compact),
	}
	for name, text := range documents {
		t.Run(name, func(t *testing.T) {
			set, err := rulefile.Parse([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(set.Rules(), everyField) {
				t.Errorf("got %+v\nwant %+v", set.Rules(), everyField)
			}
		})
	}
}

func TestParseReadsASemaphore(t *testing.T) {
	set, err := rulefile.Parse([]byte("rules: [{operation: a, key: b, mode: semaphore, permits: 2/5}]"))
	if err != nil {
		t.Fatal(err)
	}
	want := rule.Rule{Operation: "a", Key: "b", Name: "b", Mode: lock.Semaphore, Permits: 2, Size: 5}
	if got := set.Rules()[0]; got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestParseReadsAnEmptyList(t *testing.T) {
	set, err := rulefile.Parse([]byte("rules: []"))
	if err != nil || len(set.All()) != 0 {
		t.Errorf("got %v, %v", set, err)
	}
}

func TestParseFaultHasLineAndColumn(t *testing.T) {
	const op = "rules:\n- operation: a\n" // then line 3
	tests := map[string]struct {
		text string
		want string // the beginning of the one fault
	}{
		"nothing":              {"", `1:1: there are no rules`},
		"comment only":         {"# rules:\n", `1:1: there are no rules`},
		"null":                 {"~", `1:1: there are no rules`},
		"not YAML":             {"rules:\n- a: [1\nb: {", `3:2: is not YAML: `},
		"tab as indentation":   {"rules:\n\t- operation: a", `2:1: is not YAML: `},
		"colon in plain text":  {op + "  key: lock: <a>", `3:12: is not YAML: `},
		"not UTF-8":            {"rules:\n- opé: \xff", `2:8: is not UTF-8`},
		"not UTF-8 at once":    {"\xff", `1:1: is not UTF-8`},
		"root is a list":       {"- operation: a", `1:1: is a list, not a mapping`},
		"root is text":         {"rules", `1:1: is a string, not a mapping`},
		"no rules":             {"{}", `1:1: field "rules" is missing`},
		"rules is empty":       {"rules:\n", `1:1: rules is empty, not a list`},
		"rules is a mapping":   {"rules:\n  operation: a\n  key: b\n", `2:3: rules is a mapping, not a list`},
		"rules is text":        {"rules: all", `1:8: rules is a string, not a list`},
		"rules twice":          {"rules: []\nrules: []", `2:1: field "rules" is there twice`},
		"unknown root field":   {"rules: []\nrule: []", `2:1: unknown field "rule", did you mean "rules"?; known are rules, unlocked and $schema`},
		"schema twice":         {"$schema: a\nrules: []\n$schema: a", `3:1: field "$schema" is there twice`},
		"schema is a list":     {"$schema: [a]\nrules: []", `1:10: $schema: is a list, not a string`},
		"schema alone":         {"$schema: a", `1:1: field "rules" is missing`},
		"second document":      {"rules: []\n---\nrules: []", `3:1: a second document is not read`},
		"second is not YAML":   {"rules: []\n---\na: [", `3:5: is not YAML: `},
		"item is text":         {"rules:\n- a", `2:3: is a string, not a rule`},
		"item is a list":       {"rules:\n- - a", `2:3: is a list, not a rule`},
		"item is empty":        {"rules:\n- \n", `2:2: is empty, not a rule`},
		"item has an anchor":   {"rules:\n- &a {operation: a, key: b}\n", `2:3: is an anchor, an alias or a tag`},
		"list has an anchor":   {"rules: &a []\n", `1:8: rules is an anchor`},
		"no operation":         {"rules:\n- key: lock:a", `2:3: operation: is missing`},
		"empty operation":      {"rules:\n- key: lock:a\n  operation: ''", `3:14: operation: is missing`},
		"no key":               {"rules:\n- operation: a", `2:3: "a": key: is missing`},
		"unknown field":        {op + "  key: b\n  wiat: 5s", `4:3: "a": unknown field "wiat", did you mean "wait"?; known are operation, key, mode, permits, wait, timeout, maxWaiters, lease, minHold, maxHold, onBusy, name, overlaps, also, optional`},
		"field in capitals":    {op + "  key: b\n  onbusy: skip", `4:3: "a": unknown field "onbusy"`},
		"number as a field":    {op + "  key: b\n  1: x", `4:3: "a": unknown field "1"`},
		"merge key":            {op + "  key: b\n  <<: x", `4:3: "a": unknown field "<<"`},
		"field twice":          {op + "  key: b\n  key: c", `4:3: "a": key: is there twice`},
		"field before its op":  {"rules:\n- wiat: 5s\n  key: b\n  operation: a", `2:3: "a": unknown field "wiat"`},
		"operation is number":  {"rules:\n- operation: 5\n  key: b", `2:14: operation: is a number, not a string, put it in quotes`},
		"key is true":          {op + "  key: true", `3:8: "a": key: is true or false, not a string, put it in quotes`},
		"key is a list":        {op + "  key: [b]", `3:8: "a": key: is a list, not a string`},
		"key is a mapping":     {op + "  key: {b: c}", `3:8: "a": key: is a mapping, not a string`},
		"key is empty":         {op + "  key:\n", `3:3: "a": key: has no value, add one or remove the field`},
		"key is null":          {op + "  key: ~", `3:8: "a": key: has no value`},
		"unknown, an anchor":   {op + "  key: b\n  wiat: &w 5s", `4:3: "a": unknown field "wiat", did you mean "wait"?`},
		"key has an anchor":    {op + "  key: &k b", `3:8: "a": key: is an anchor`},
		"name has an anchor":   {op + "  &k key: b", `3:3: "a": a name is an anchor, an alias or a tag`},
		"name has a tag":       {op + "  !!str key: b", `3:3: "a": a name is an anchor`},
		"rules has an anchor":  {"&r rules: []", `1:1: a name is an anchor`},
		"key has a tag":        {op + "  key: !!str b", `3:8: "a": key: is an anchor, an alias or a tag`},
		"key has a bare tag":   {op + "  key: ! b", `3:8: "a": key: is an anchor, an alias or a tag`},
		"name has a bare tag":  {op + "  ! key: b", `3:3: "a": a name is an anchor, an alias or a tag`},
		"rule has a bare tag":  {"rules: [! {operation: a, key: b}]", `1:9: is an anchor, an alias or a tag`},
		"rules has a bare tag": {"rules: ! []", `1:8: rules is an anchor, an alias or a tag`},
		"file has a bare tag":  {"! {rules: []}", `1:1: is an anchor, an alias or a tag`},
		"unlocked has a tag":   {"rules: []\nunlocked: [! 5]", `2:12: unlocked: is an anchor, an alias or a tag`},
		"key in plain text":    {op + "  key: lock:<a", `3:13: "a": key: "lock:<a", column 6: the variable is not closed`},
		"key in double quotes": {op + "  key: \"lock:<a\"", `3:14: "a": key: "lock:<a", column 6`},
		"key in single quotes": {op + "  key: 'lock:<a'", `3:14: "a": key: "lock:<a", column 6`},
		"key with an escape":   {op + "  key: \"lock:\\u003ca\"", `3:8: "a": key: "lock:<a", column 6`},
		"key over two lines":   {op + "  key: |\n    lock:<a>\n    x", `3:8: "a": key: "lock:<a>\nx", column 9`},
		"key ends too early":   {op + "  key: '<a><b>'", `3:12: "a": key: "<a><b>", column 4: nothing separates`},
		"unknown mode":         {op + "  key: b\n  mode: shared", `4:9: "a": mode: unknown "shared"; use exclusive, fair, read, write or semaphore`},
		"mode is number":       {op + "  key: b\n  mode: 1", `4:9: "a": mode: is a number`},
		"semaphore of nothing": {op + "  key: b\n  mode: semaphore", `2:3: "a": permits: is missing, say how many permits of how many`},
		"permits is a number":  {op + "  key: b\n  mode: semaphore\n  permits: 5", `5:12: "a": permits: is a number, write how many permits of how many`},
		"permits of one":       {op + "  key: b\n  mode: semaphore\n  permits: '5'", `5:12: "a": permits: "5" does not say how many permits of how many, write it as 1/3`},
		"permits of too few":   {op + "  key: b\n  mode: semaphore\n  permits: 3/2", `5:12: "a": permits: 3 of 2 cannot be taken, use 1 to 2`},
		"waiters in words":     {op + "  key: b\n  maxWaiters: many", `4:15: "a": maxWaiters: is a string, not a whole number`},
		"waiters in hex":       {op + "  key: b\n  maxWaiters: 0x5", `4:15: "a": maxWaiters: "0x5" is not a whole number in decimal digits`},
		"waiters in octal":     {op + "  key: b\n  maxWaiters: 010", `4:15: "a": maxWaiters: "010" is not a whole number in decimal digits`},
		"waiters of nothing":   {op + "  key: b\n  maxWaiters: 0", `4:15: "a": maxWaiters: 0 is too few, use at least 1`},
		"unlocked and locked":  {op + "  key: b\nunlocked: [a]", `4:12: "a": unlocked: has a rule as well`},
		"unlocked is no route": {"rules: []\nunlocked: [post /a]", `2:12: "post /a": unlocked: "post /a" does not spell the method as HTTP does, write "POST /a"`},
		"unlocked is a string": {"rules: []\nunlocked: a", `2:11: unlocked: is a string, not a list of operations`},
		"mode is empty":        {op + "  key: b\n  mode: ''", `4:9: "a": mode: has no value`},
		"onBusy is empty":      {op + "  key: b\n  onBusy: ''", `4:11: "a": onBusy: has no value`},
		"overlaps is text":     {op + "  key: b\n  overlaps: allow", `4:13: "a": overlaps: is a string, not true or false`},
		"overlaps is a number": {op + "  key: b\n  overlaps: 1", `4:13: "a": overlaps: is a number, not true or false`},
		"key overlaps":         {op + "  key: b:<x>\n- operation: b\n  key: b:<y>", `5:8: "b": key: "b:<y>" can make the same key as "b:<x>" of the rule in line 2, use another prefix`},
		"unknown onBusy":       {op + "  key: b\n  onBusy: run", `4:11: "a": onBusy: unknown "run"; use reject or skip`},
		"wait without unit":    {op + "  key: b\n  wait: 5", `4:9: "a": wait: "5" is not a duration`},
		"wait is a word":       {op + "  key: b\n  wait: forever", `4:9: "a": wait: "forever" is not a duration, write a number and its unit, such as "200ms" or "5s"`},
		"wait is a fraction":   {op + "  key: b\n  wait: 1.5", `4:9: "a": wait: is a number, not a string`},
		"wait is empty":        {op + "  key: b\n  wait: ''", `4:9: "a": wait: has no value`},
		"wait is too large":    {op + "  key: b\n  wait: 9999999h", `4:9: "a": wait: "9999999h" is not a duration`},
		"wait with a plus":     {op + "  key: b\n  wait: +5s", `4:9: "a": wait: "+5s" is not a duration`},
		"wait of minus zero":   {op + "  key: b\n  wait: -0s", `4:9: "a": wait: "-0s" is not a duration`},
		"wait is negative":     {op + "  key: b\n  wait: -5s", `4:9: "a": wait: -5s is negative`},
		"lease is negative":    {op + "  key: b\n  lease: -5s", `4:10: "a": lease: -5s is negative`},
		"lease is too short":   {op + "  key: b\n  lease: 1ms", `4:10: "a": lease: 1ms is too short`},
		"name over two lines":  {op + "  key: b\n  name: |\n    x\n    y", `4:9: "a": name: "x\ny" has a control byte`},
		"operation twice":      {op + "  key: b\n- key: c\n  operation: a", `5:14: "a": operation: has a rule already, the rule in line 2`},
		"after CRLF":           {"# c\r\nrules:\r\n- operation: a\r\n  key: <\r\n", `4:8: "a": key: "<", column 1`},
		"after other letters":  {"# é\nrules: [{operation: e, key: <}]", `2:29: "e": key: "<", column 1`},
		"in JSON with a BOM":   {"\ufeff{\"rules\":[{\"operation\":\"a\",\"key\":\"lock:<a\"}]}", `1:40: "a": key: "lock:<a", column 6`},
		"in JSON":              {"{\"rules\":[{\"operation\":\"a\",\"key\":\"lock:<a\"}]}", `1:40: "a": key: "lock:<a", column 6`},
		"in JSON with tabs":    {"{\n\t\"rules\": [\n\t\t{\n\t\t\t\"operation\": \"a\",\n\t\t\t\"key\": \"lock:<a\"\n\t\t}\n\t]\n}", `5:17: "a": key: "lock:<a", column 6`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			set, err := rulefile.Parse([]byte(tt.text))
			if set != nil || err == nil {
				t.Fatalf("got %v, %v; want a fault", set, err)
			}
			_ = wantFaults(t, err, 1)
			if !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("got  %v\nwant %s...", err, tt.want)
			}
		})
	}
}

func TestParseReportsEveryFaultInOrder(t *testing.T) {
	const text = `version: 2
rules:
  - key: lock:<a
    wiat: 5s
    mode: shared
  - operation: POST /b
    key: lock:b
    wait: 5
    lease: 1ms
    onBusy: [skip]
  - just text
  - operation: POST /b
    key: lock:b
    key: lock:c
`
	_, err := rulefile.Parse([]byte(text))
	_ = wantFaults(t, err, 11)
	const want = `1:1: unknown field "version"; known are rules, unlocked and $schema
3:5: operation: is missing, name the route or method that takes the lock
3:15: key: "lock:<a", column 6: the variable is not closed, add ">"
4:5: unknown field "wiat", did you mean "wait"?; known are operation, key, mode, permits, wait, timeout, maxWaiters, lease, minHold, maxHold, onBusy, name, overlaps, also, optional
5:11: mode: unknown "shared"; use exclusive, fair, read, write or semaphore
8:11: "POST /b": wait: "5" is not a duration, write a number and its unit, such as "200ms" or "5s"
9:12: "POST /b": lease: 1ms is too short, use at least 10ms, or 0 for a lease that the watchdog keeps alive
10:13: "POST /b": onBusy: is a list; use reject or skip
11:5: is a string, not a rule with the fields operation and key
12:16: "POST /b": operation: has a rule already, the rule in line 6, keep one of them, or say also: true if it takes both locks
14:5: "POST /b": key: is there twice, keep one`
	if err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

func TestFaultsOfOneOperationKeepTheirPlaces(t *testing.T) {
	for text, want := range map[string]string{
		"rules:\n- operation: a\n  key: b\n  wait: -5s\nunlocked: [b, a]": `4:9: "a": wait: -5s is negative, use 0 to try once or the longest time to wait
5:15: "a": unlocked: has a rule as well, keep one of the two`,
		"rules:\n- operation: &x a\n  key: *x": `2:14: operation: is an anchor, an alias or a tag (which rules do not have), write the value itself
3:8: key: is an anchor, an alias or a tag (which rules do not have), write the value itself`,
		"rules:\n- operation: a\n  key: b\n  x: 1\n  x: 1\n  wait: 1s\n  wait: x": `4:3: "a": unknown field "x"; known are operation, key, mode, permits, wait, timeout, maxWaiters, lease, minHold, maxHold, onBusy, name, overlaps, also, optional
5:3: "a": unknown field "x"; known are operation, key, mode, permits, wait, timeout, maxWaiters, lease, minHold, maxHold, onBusy, name, overlaps, also, optional
7:3: "a": wait: is there twice, keep one`,
	} {
		if _, err := rulefile.Parse([]byte(text)); err == nil || err.Error() != want {
			t.Errorf("%q: got\n%v\nwant\n%s", text, err, want)
		}
	}
}

func TestParseReadsWhatIsUnlocked(t *testing.T) {
	set, err := rulefile.Parse([]byte("rules: [{operation: a, key: b}]\nunlocked: [POST /orders/:id, nightly]"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"POST /orders/:id", "nightly"}
	got := set.Unlocked()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	clear(got)
	if got := set.Unlocked(); !reflect.DeepEqual(got, want) {
		t.Errorf("a caller can change the set: %q", got)
	}
}

func TestTenFaultsGiveTenLines(t *testing.T) {
	for _, path := range []string{"testdata/ten-faults.yaml", "testdata/ten-faults.json"} {
		t.Run(filepath.Ext(path), func(t *testing.T) {
			_, err := rulefile.Load(path)
			_ = wantFaults(t, err, 10)
			want, readErr := os.ReadFile(path + ".want")
			if readErr != nil {
				t.Fatal(readErr)
			}
			if got := err.Error() + "\n"; got != string(want) {
				t.Errorf("got\n%swant\n%s", got, want)
			}
		})
	}
}

func TestOverlapsInAFileMustBeMeant(t *testing.T) {
	for name, test := range map[string]struct {
		rules  string
		faults int
	}{
		"by accident":              {`a k:<x>; b k:<y>`, 1},
		"meant by the first":       {`a k:<x> +; b k:<y>`, 0},
		"meant by the second":      {`a k:<x>; b k:<y> +`, 0},
		"meant by both":            {`a k:<x> +; b k:<y> +`, 0},
		"a third, not meant":       {`a k:<x>; b k:<y> +; c k:<z>`, 1},
		"each with the first":      {`a k:<x>; b k:<y>; c k:<z>`, 2},
		"filter and source differ": {`a k:<x>; b k:<path.x|int>`, 1},
		"the same template":        {`a k:<x>; b k:<x>; c k:<x>`, 0},
		"two templates, twice":     {`a k:<x>; b k:<y>; c k:<x>; d k:<y>`, 2},
		"another prefix":           {`a k:<x>; b l:<y>; c k:<x>:b`, 0},
		"meant, without need":      {`a k:<x> +`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			text := "rules:\n"
			for line := range strings.SplitSeq(test.rules, ";") {
				fields := strings.Fields(line)
				text += "- {operation: " + fields[0] + ", key: \"" + fields[1] + "\"" + strings.Repeat(", overlaps: true", len(fields)-2) + "}\n"
			}
			set, err := rulefile.Parse([]byte(text))
			if test.faults > 0 {
				for _, f := range wantFaults(t, err, test.faults) {
					if f.Field != "key" || f.Line == 0 || !strings.Contains(f.Reason, "of the rule in line 2") || !strings.Contains(f.Reason, "overlaps: true") {
						t.Errorf("got %v, want the place of both rules and what to do", f)
					}
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if overlaps := set.Overlaps(); len(overlaps) != 0 {
				t.Errorf("warns of %v, which is meant", overlaps)
			}
		})
	}
}

func TestLoadNamesTheFileInEveryFault(t *testing.T) {
	path := filepath.Join(t.TempDir(), "locks.yaml")
	write(t, path, "rules:\n- operation: a\n  key: <\n- operation: b\n  key: <\n")
	_, err := rulefile.Load(path)
	for _, f := range wantFaults(t, err, 2) {
		if f.Source != path || !strings.HasPrefix(f.Error(), path+":") {
			t.Errorf("fault %v does not name %s", f, path)
		}
	}
}

func TestLoadReadsWhatParseReads(t *testing.T) {
	path := filepath.Join(t.TempDir(), "locks.yaml")
	write(t, path, everyFieldYAML)
	set, err := rulefile.Load(path)
	if err != nil || !reflect.DeepEqual(set.Rules(), everyField) {
		t.Errorf("got %v, %v", set, err)
	}
}

func TestLoadFailsOnFilesItCannotRead(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing.yaml")
	if _, err := rulefile.Load(missing); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), missing) {
		t.Errorf("missing file: got %v", err)
	}
	if _, err := rulefile.Load(t.TempDir()); err == nil || errors.Is(err, rule.ErrInvalid) {
		t.Errorf("folder: got %v", err)
	}
	large := filepath.Join(t.TempDir(), "large.yaml")
	write(t, large, strings.Repeat("#", rulefile.MaxFile+1))
	_, err := rulefile.Load(large)
	if f := wantFaults(t, err, 1)[0]; f.Source != large || !strings.Contains(f.Reason, "larger than") {
		t.Errorf("large file: got %v", err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func indent(t *testing.T, compact string) string {
	t.Helper()
	var value any
	if err := json.Unmarshal([]byte(compact), &value); err != nil {
		t.Fatal(err)
	}
	text, err := json.MarshalIndent(value, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The parser counts a tab within quotes twice.
func TestAFaultBehindTabsIsInsideItsLine(t *testing.T) {
	for _, line := range []string{"\"\t\t\t\\1\"", "- {operation: \"\t\t\t\t\", what: \"a\"}"} {
		_, err := rulefile.Parse([]byte("rules:\n" + line))
		var faults rule.Faults
		if !errors.As(err, &faults) {
			t.Fatalf("%q: %v", line, err)
		}
		for _, fault := range faults {
			if fault.Line > 2 || fault.Column > len(line)+1 {
				t.Errorf("%q: %v is behind its end", line, fault)
			}
		}
	}
}

func wantFaults(t *testing.T, err error, n int) rule.Faults {
	t.Helper()
	var faults rule.Faults
	if !errors.As(err, &faults) || !errors.Is(err, rule.ErrInvalid) {
		t.Fatalf("error is %T (%v), want Faults and ErrInvalid", err, err)
	}
	var first rule.Fault
	if !errors.As(err, &first) || first != faults[0] {
		t.Errorf("errors.As finds %+v, want the first fault", first)
	}
	if len(faults) != n {
		t.Fatalf("%d faults, want %d:\n%v", len(faults), n, err)
	}
	return faults
}

// A program may have rules among the settings that it reads by the library that it has.
func TestRulesAreReadByALibraryOfYAML(t *testing.T) {
	var settings struct {
		Rules []rule.Rule `yaml:"rules"`
	}
	if err := yaml.Unmarshal([]byte(everyFieldYAML), &settings); err != nil {
		t.Fatal(err)
	}
	want := slices.Clone(everyField)
	want[1].Name = "" // what a rule leaves out is filled in when it compiles
	if !reflect.DeepEqual(settings.Rules, want) {
		t.Errorf("got %+v\nwant %+v", settings.Rules, want)
	}
	for text, want := range map[string][]string{
		"{operation: a, key: b, wiat: 5s, lease: x}": {`"a": lease: "x" is not a duration`, `"a": unknown field "wiat", did you mean "wait"?`},
		"{operation: 5, maxWaiters: '5'}":            {`maxWaiters: is a string, not a whole number`, `operation: is a number, not a string, put it in quotes`},
		"{key: [b], optional: 1, wait: {a: b}}":      {`key: is a list, not a string`, `optional: is a number, not true or false`, `wait: is a mapping, not a string`},
	} {
		read := everyField[0]
		err := yaml.Unmarshal([]byte(text), &read)
		for _, fault := range want {
			if err == nil || !strings.Contains(err.Error(), fault) {
				t.Errorf("%s: got %v, want %s", text, err, fault)
			}
		}
		if read != everyField[0] {
			t.Errorf("%s changed the rule: %+v", text, read)
		}
	}
	var r rule.Rule
	if err := yaml.Unmarshal([]byte("[a]"), &r); err == nil || r != (rule.Rule{}) {
		t.Errorf("a list: got %+v, %v", r, err)
	}
}

// A program may write rules by the library that it has.
func TestRulesAreWrittenInYAMLAsTheyAreRead(t *testing.T) {
	permits := rule.Rule{Operation: "nightly", Key: "lock:nightly", Mode: lock.Semaphore, Permits: 1, Size: 3, Timeout: time.Second, Optional: true}
	for _, want := range append(everyField, permits) {
		text, err := yaml.Marshal(map[string]any{"rules": []rule.Rule{want}})
		if err != nil {
			t.Fatal(err)
		}
		set, err := rulefile.Parse(text)
		if err != nil {
			t.Errorf("%s\n%v", text, err)
			continue
		}
		compiled, err := want.Compile()
		if err != nil {
			t.Fatal(err)
		}
		if got := set.Rules()[0]; got != compiled.Rule {
			t.Errorf("%s\nis %+v, want %+v", text, got, compiled.Rule)
		}
	}
}

// policy is an error of a program that wraps what it refuses.
type policy struct{ error }

func (p policy) Error() string { return "policy 7: " + p.error.Error() }
func (p policy) Unwrap() error { return p.error }

// What a program says of a new version reaches its caller as it is. Only
// the places are added.
func TestLocateAddsPlacesAndKeepsTheError(t *testing.T) {
	parse := func(operation string) *rule.Set {
		set, err := rulefile.ParseFile("locks.yaml", []byte("rules:\n- operation: "+operation+"\n  key: lock:x\n"))
		if err != nil {
			t.Fatal(err)
		}
		return set
	}
	before, set := parse("old"), parse("new")
	fault := func(operation string) rule.Fault { return rule.Fault{Operation: operation, Reason: "is forbidden"} }
	plain := errors.New("the database is away")
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"nothing to add":      {plain, "the database is away"},
		"a sentinel":          {fmt.Errorf("not here: %w", rule.ErrInvalid), "not here: invalid rule"},
		"a fault":             {fault("new"), `locks.yaml:2:14: "new": is forbidden`},
		"faults":              {rule.Faults{fault("new"), fault("other")}, `locks.yaml:2:14: "new": is forbidden` + "\n" + `"other": is forbidden`},
		"of the one before":   {fault("old"), `locks.yaml: "old": is forbidden (it was in line 2 of the version before)`},
		"of another type":     {policy{fault("new")}, `policy 7: locks.yaml:2:14: "new": is forbidden`},
		"joined":              {errors.Join(policy{fault("new")}, plain), `policy 7: locks.yaml:2:14: "new": is forbidden` + "\nthe database is away"},
		"located before":      {before.Locate(nil, errors.Join(fault("old"), fault("new"))), `locks.yaml:2:14: "old": is forbidden` + "\n" + `locks.yaml:2:14: "new": is forbidden`},
		"wrapped by a string": {fmt.Errorf("mine: %w", fault("new")), `mine: locks.yaml:2:14: "new": is forbidden`},
	} {
		t.Run(name, func(t *testing.T) {
			got := set.Locate(before, test.err)
			if got.Error() != test.want {
				t.Errorf("got  %v\nwant %s", got, test.want)
			}
			if faults, _ := errors.AsType[rule.Faults](test.err); len(faults) == 0 && !errors.Is(got, test.err) {
				t.Error("it isn't the error that was given")
			}
			if _, own := errors.AsType[policy](test.err); own {
				if _, kept := errors.AsType[policy](got); !kept {
					t.Error("its type is lost")
				}
			}
			if f, ok := errors.AsType[rule.Fault](got); ok && f.Operation == "new" && (f.Line != 2 || f.Column != 14 || f.Source != "locks.yaml") {
				t.Errorf("the fault has the place %s:%d:%d", f.Source, f.Line, f.Column)
			}
		})
	}
	if set.Locate(before, nil) != nil {
		t.Error("nil becomes an error")
	}
}
