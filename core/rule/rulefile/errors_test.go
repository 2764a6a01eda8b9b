package rulefile_test

import (
	"path/filepath"
	"testing"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/core/rule/rulefile"
)

// mistakes are files with what people do wrong, besides testdata/ten-faults.yaml.
var mistakes = map[string]string{
	"no rules":                 "rule: []\n",
	"tabs":                     "rules:\n\t- operation: POST /orders\n",
	"a colon":                  "rules:\n- operation: POST /orders\n  key: lock: <id>\n",
	"no brackets":              "rules:\n- operation: POST /orders/:id\n  key: lock:order:id\n",
	"another language":         "rules:\n- operation: POST /orders\n  key: lock:order:{id}\n",
	"nothing in between":       "rules:\n- operation: POST /orders\n  key: lock:<tenant><id>\n",
	"too short":                "rules:\n- operation: POST /orders\n  key: lock:order:<id>\n  lease: 1ms\n",
	"two sizes":                "rules:\n- operation: POST /a\n  key: lock:x\n  mode: semaphore\n  permits: 1/3\n- operation: POST /b\n  key: lock:x\n  mode: semaphore\n  permits: 1/5\n",
	"a semaphore and a lock":   "rules:\n- operation: POST /a\n  key: lock:x\n- operation: POST /b\n  key: lock:x\n  mode: semaphore\n  permits: 1/3\n",
	"a number as an operation": "rules:\n- operation: 5\n  key: lock:order:<id>\n",
	"method in lower case":     "rules:\n- operation: post /orders\n  key: lock:order:<id>\n",
	"path without method":      "rules:\n- operation: /orders\n  key: lock:order:<id>\n",
	"method and no blank":      "rules:\n- operation: POST/orders\n  key: lock:order:<id>\n",
	"path without slash":       "rules:\n- operation: POST orders\n  key: lock:order:<id>\n",
	"gRPC without slash":       "rules:\n- operation: shop.v1.Stock/Refill\n  key: lock:stock:<id>\n",
	"gRPC with too many":       "rules:\n- operation: /shop.v1/Stock/Refill\n  key: lock:stock:<id>\n",
	"unlocked and locked":      "unlocked: [POST /orders]\nrules:\n- operation: POST /orders\n  key: lock:order:<id>\n",
	"a list alone":             "- operation: POST /orders\n  key: lock:order\n",
	"one rule":                 "rules:\n  operation: POST /orders\n  key: lock:order\n",
	"braces":                   "rules:\n- operation: POST /orders/:id\n  key: {id}\n",
	"onBusy true":              "rules:\n- operation: POST /orders\n  key: lock:order\n  onBusy: true\n",
	"permits of no number":     "rules:\n- operation: POST /orders\n  key: lock:order\n  permits: 3\n",
	"a comma":                  "rules:\n- operation: POST /orders/:id\n  key: 'lock:l:<id>,'\n",
	"unlocked as a string":     "unlocked: POST /orders\nrules: []\n",
}

// served are mistakes that only the program's operations show.
var served = map[string]string{
	"not served": "rules:\n- operation: POST /orders\n  key: lock:order:<userId>\n- operation: POST /odrers\n  key: lock:odrer\n",
	"unlocking":  "rules: []\n",
}

func TestTheManualQuotesTheErrorsOfRuleFiles(t *testing.T) {
	manual, err := filepath.Abs("../../../docs/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	_, err = rulefile.Load("testdata/ten-faults.yaml")
	_ = wantFaults(t, err, 10)
	t.Chdir("testdata")
	_, err = rulefile.Load("ten-faults.yaml")
	messages := []string{err.Error()}
	t.Chdir(t.TempDir())
	for name, document := range mistakes {
		write(t, "rules.yaml", document)
		_, err := rulefile.Load("rules.yaml")
		if err == nil {
			t.Errorf("%s: nothing is wrong", name)
			continue
		}
		messages = append(messages, err.Error())
	}
	for name, document := range served {
		if err := replacing(t, document); err != nil {
			messages = append(messages, err.Error())
		} else {
			t.Errorf("%s: nothing is wrong", name)
		}
	}
	guardtest.Quoted(t, manual, "Rule files", messages)
}

// replacing is the error of a guard that serves POST /orders, and shall have the
// rules of the document from now on.
func replacing(t *testing.T, document string) error {
	t.Helper()
	const before = "rules:\n- operation: POST /orders\n  key: lock:order:<userId>\n"
	old, err := rulefile.Parse([]byte(before))
	if err != nil {
		t.Fatal(err)
	}
	g := guard.Must(guard.New(guardtest.Locker(t, memstore.New()), old.Rules()...))
	g.Serve("a test", "POST /orders")
	if err := g.Validate(); err != nil {
		t.Fatal(err)
	}
	set, err := rulefile.Parse([]byte(document))
	if err != nil {
		t.Fatal(err)
	}
	return set.Locate(old, g.Replace(set.Rules(), set.Unlocked()...))
}
