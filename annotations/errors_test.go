package annotations_test

import (
	"os"
	"strings"
	"testing"

	"github.com/redlatch/redlatch/annotations"
	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/core/rule"
)

// mistakes are what people do wrong without a generator.
var mistakes = map[string]func(*guard.Guard) error{
	"another spelling":   compiling("lock:order:<userId> onbusy=skip"),
	"another language":   compiling("lock:order:${userId}"),
	"no unit":            compiling("lock:order:<userId> wait=200"),
	"permits of what":    compiling("lock:order:<userId> mode=semaphore permits=3"),
	"template behind":    compiling("wait=1s lock:order:<userId>"),
	"spaces in a name":   compiling("lock:order:<userId> name=one order"),
	"two waits":          compiling("lock:a wait=1s", "lock:b wait=2s"),
	"one key, two modes": compiling("lock:<a>", "lock:<b> mode=read"),
	"one key, two sizes": compiling("lock:<a> mode=semaphore permits=1/3", "lock:<b> mode=semaphore permits=1/5"),
	"no field with the tag": func(g *guard.Guard) error {
		type Place struct {
			UserID int `lock:"userID"`
		}
		m, err := annotations.Compile(g, "place", "lock:order:<userId>")
		if err != nil {
			return err
		}
		return m.Check(Place{})
	},
	"no brackets": func(g *guard.Guard) error {
		type Place struct {
			_      struct{} `lock:"lock:order:userId"`
			UserID int      `lock:"userId"`
		}
		_, err := annotations.CompileFor[Place](g, "place")
		return err
	},
	"a field that is not exported": func(g *guard.Guard) error {
		type Place struct {
			_      struct{} `lock:"lock:order:<userId>"`
			userID int      `lock:"userId"`
		}
		_ = Place{userID: 1}
		_, err := annotations.CompileFor[Place](g, "place")
		return err
	},
	"a rule for a misspelled method": func(g *guard.Guard) error {
		if err := g.Replace([]rule.Rule{{Operation: "OrderService.Plcae", Key: "lock:order:<userId>"}}); err != nil {
			return err
		}
		if _, err := annotations.Compile(g, "OrderService.Place", "lock:order:<userId>"); err != nil {
			return err
		}
		return g.Validate()
	},
	"a rule that the method has no value for": func(g *guard.Guard) error {
		if err := g.Replace([]rule.Rule{{Operation: "OrderService.Place", Key: "lock:order:<tenant>"}}); err != nil {
			return err
		}
		annotations.NewCompiler(g).Method("OrderService.Place", "lock:order:<userId>")
		return g.Validate()
	},
	"a rule that the request has no value for": func(g *guard.Guard) error {
		type Place struct {
			_      struct{} `lock:"lock:order:<userId>"`
			UserID int      `lock:"userId"`
		}
		if err := g.Replace([]rule.Rule{{Operation: "place", Key: "lock:order:<tenant>"}}); err != nil {
			return err
		}
		if _, err := annotations.CompileFor[Place](g, "place"); err != nil {
			return err
		}
		return g.Validate()
	},
}

func compiling(directives ...string) func(*guard.Guard) error {
	return func(g *guard.Guard) error {
		_, err := annotations.Compile(g, "place", directives...)
		return err
	}
}

func TestTheManualQuotesTheErrorsOfAnnotations(t *testing.T) {
	var messages []string
	for name, mistake := range mistakes {
		err := mistake(guard.Must(guard.New(guardtest.Locker(t, memstore.New()))))
		if err == nil {
			t.Fatalf("%s: nothing is wrong", name)
		}
		messages = append(messages, err.Error())
	}
	guardtest.Quoted(t, "../docs/errors.md", "Annotations", messages)
}

func TestTheManualSortsEveryKindOfError(t *testing.T) {
	manual, err := os.ReadFile("../docs/annotations.md")
	if err != nil {
		t.Fatal(err)
	}
	names := map[guard.Kind]string{
		guard.Contended: "Contended", guard.Overloaded: "Overloaded", guard.BadKey: "BadKey", guard.Unavailable: "Unavailable",
		guard.Canceled: "Canceled", guard.Lost: "Lost", guard.Invalid: "Invalid",
		guard.Skipped: "", guard.Unauthenticated: "", // no error of a decorator
	}
	for _, kind := range guard.Kinds() {
		if name, known := names[kind.Kind]; !known || name != "" && !strings.Contains(string(manual), "\n| `"+name+"` | ") {
			t.Errorf("the table has no row for %v", kind.Kind)
		}
	}
}
