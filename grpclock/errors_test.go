package grpclock_test

import (
	"context"
	"testing"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/grpclock"
)

// mistakes are what people do wrong, each with a rule for Plain unless it says
// otherwise.
var mistakes = map[string]struct {
	rule  rule.Rule
	opts  []grpclock.Option
	wrong func(*grpclock.Locks, grpclock.Registry) // instead of making both interceptors and attaching the server
}{
	"misspelled method":     {rule: rule.Rule{Operation: "/redlatch.test.v1.OrderService/Plian", Key: "lock:order:<user_id>"}},
	"without the slash":     {rule: rule.Rule{Operation: "redlatch.test.v1.OrderService/Plain", Key: "lock:order:<user_id>"}},
	"with dots only":        {rule: rule.Rule{Operation: "redlatch.test.v1.OrderService.Plain", Key: "lock:order:<user_id>"}},
	"misspelled field":      {rule: rule.Rule{Key: "lock:order:<userld>"}},
	"another language":      {rule: rule.Rule{Key: "lock:order:${user_id}"}},
	"no brackets":           {rule: rule.Rule{Key: "lock:order:user_id"}},
	"a path parameter":      {rule: rule.Rule{Key: "lock:order:<path.id>"}},
	"a message":             {rule: rule.Rule{Operation: refill, Key: "lock:refill:<buyer>"}},
	"a stream of requests":  {rule: rule.Rule{Operation: upload, Key: "lock:upload:<user_id>"}},
	"permits alone":         {opts: []grpclock.Option{grpclock.WithRule(plain, rule.Rule{Key: "lock:x", Permits: 2})}},
	"WithRule, misspelled":  {opts: []grpclock.Option{grpclock.WithRule("/redlatch.test.v1.OrderService/Plian", rule.Rule{Key: "lock:x"})}},
	"WithVar, misspelled":   {rule: rule.Rule{Key: "lock:order:<userId>"}, opts: []grpclock.Option{grpclock.WithVar("usrId", func(context.Context, any) (string, error) { return "", nil })}},
	"server not attached":   {wrong: func(i *grpclock.Locks, _ grpclock.Registry) { i.UnaryServerInterceptor() }},
	"no stream interceptor": {wrong: func(i *grpclock.Locks, s grpclock.Registry) { i.UnaryServerInterceptor(); i.Attach(s) }},
}

func TestTheManualQuotesTheErrorsOfGRPC(t *testing.T) {
	var messages []string
	for _, m := range mistakes {
		messages = append(messages, mistake(t, m.rule, m.opts, m.wrong).Error())
	}
	guardtest.Quoted(t, "../docs/errors.md", "gRPC", messages)
}

// mistake is the error of a program with one mistake.
func mistake(t *testing.T, r rule.Rule, opts []grpclock.Option, wrong func(*grpclock.Locks, grpclock.Registry)) error {
	t.Helper()
	var rules []rule.Rule
	if r.Key != "" {
		if r.Operation == "" {
			r.Operation = plain
		}
		rules = append(rules, r)
	}
	g, err := guard.New(guardtest.Locker(t, memstore.New()), rules...)
	if err != nil {
		return err
	}
	locks, err := grpclock.New(g, opts...)
	if err != nil {
		return err
	}
	server := grpclock.Unseen(registered(ordersService))
	if wrong != nil {
		wrong(locks, server)
	} else {
		locks.UnaryServerInterceptor()
		locks.StreamServerInterceptor()
		locks.Attach(server)
	}
	if err := g.Validate(); err != nil {
		return err
	}
	t.Fatal("nothing is wrong")
	return nil
}
