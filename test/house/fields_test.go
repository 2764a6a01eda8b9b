package house_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/redlatch/redlatch/annotations"
	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/core/rule/rulefile"
	"github.com/redlatch/redlatch/core/rule/ruletest"
	"github.com/redlatch/redlatch/fxmodule"
	"github.com/redlatch/redlatch/ginlock"
	"github.com/redlatch/redlatch/httplock"
)

// A row in the table of fields is all that a new field needs. The option of a .proto
// is read the same way: see the tests of grpclock.
func TestAFieldReachesEveryFormOfARule(t *testing.T) {
	const field, text = "testField", "lock:order:<id> testField=50ms"
	locker := lock.New(memstore.New())
	t.Cleanup(func() { _ = locker.Close(context.Background()) })
	g := guard.Must(guard.New(locker))
	forms := map[string]func() (rule.Rule, error){
		"string": func() (rule.Rule, error) { return rule.ParseRule(text) },
		"YAML": func() (rule.Rule, error) {
			set, err := rulefile.Parse([]byte("rules:\n- {operation: a, key: 'lock:order:<id>', testField: 50ms}"))
			return firstOf(set, err)
		},
		"JSON": func() (rule.Rule, error) {
			set, err := rulefile.Parse([]byte(`{"rules":[{"operation":"a","key":"lock:order:<id>","testField":"50ms"}]}`))
			return firstOf(set, err)
		},
		"fx configuration in JSON": func() (rule.Rule, error) {
			var c fxmodule.Config
			err := json.Unmarshal([]byte(`{"rules":[{"operation":"a","key":"lock:order:<id>","testField":"50ms"}]}`), &c)
			return only(c.Rules, err)
		},
		"fx configuration in YAML": func() (rule.Rule, error) {
			var c fxmodule.Config
			err := yaml.Unmarshal([]byte("rules: [{operation: a, key: 'lock:order:<id>', testField: 50ms}]"), &c)
			return only(c.Rules, err)
		},
		"directive": func() (rule.Rule, error) {
			m, err := annotations.Compile(g, "Orders.Place", text)
			if err != nil {
				return rule.Rule{}, err
			}
			return m.Rules()[0], nil
		},
		"struct tag": func() (rule.Rule, error) {
			m, err := annotations.CompileFor[request](g, "Orders.Cancel")
			if err != nil {
				return rule.Rule{}, err
			}
			return m.Rules()[0], nil
		},
		"Gin": func() (rule.Rule, error) {
			_, err := ginlock.Build(g, text)
			return rule.Rule{Timeout: 50 * time.Millisecond}, err
		},
		"net/http": func() (rule.Rule, error) {
			_, err := httplock.Build(g, text)
			return rule.Rule{Timeout: 50 * time.Millisecond}, err
		},
	}
	for name, read := range forms {
		if _, err := read(); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: got %v before the field exists, want it named", name, err)
		}
	}
	ruletest.AddField(t, field)
	if !strings.Contains(string(rule.Schema()), `"testField": {`) {
		t.Error("the schema does not have it")
	}
	for name, read := range forms {
		if r, err := read(); err != nil || r.Timeout != 50*time.Millisecond {
			t.Errorf("%s: got %+v, %v", name, r, err)
		}
	}
}

// request declares its lock.
type request struct {
	_  struct{} `lock:"lock:order:<id> testField=50ms"`
	ID string   `lock:"id"`
}

func firstOf(set *rule.Set, err error) (rule.Rule, error) {
	if err != nil {
		return rule.Rule{}, err
	}
	return set.Rules()[0], nil
}

func only(rules []rule.Rule, err error) (rule.Rule, error) {
	if err != nil || len(rules) != 1 {
		return rule.Rule{}, err
	}
	return rules[0], nil
}
