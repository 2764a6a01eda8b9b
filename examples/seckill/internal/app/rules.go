package app

import (
	"errors"
	"fmt"
	"slices"

	"go.uber.org/fx"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/examples/seckill/internal/rpc"
	"github.com/redlatch/redlatch/examples/seckill/internal/seckillpb"
	"github.com/redlatch/redlatch/examples/seckill/internal/web"
	"github.com/redlatch/redlatch/fxmodule"
)

// lockRules are those of the file, if there is one.
func lockRules(c Config) fx.Option {
	if c.Rules != "" {
		return fxmodule.FollowRulesFile(c.Rules)
	}
	return fxmodule.AsRules(ownRules(c)...)
}

// cancelOperation is the cancellation of an order, as rules name it.
const cancelOperation = "Sale.Cancel"

// needOrderRule refuses rules with which nothing is sold over HTTP. A file that is
// followed may come to that.
func needOrderRule(file string, rules []*rule.Compiled) error {
	if slices.ContainsFunc(rules, func(r *rule.Compiled) bool { return r.Operation == web.OrderOperation }) {
		return nil
	}
	return fmt.Errorf("--rules: %s has no rule for %q, and nothing is sold without a lock", file, web.OrderOperation)
}

// checkRules refuses rules with which the sale can't do what it promises.
func checkRules(file string, rules []*rule.Compiled) error {
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("--rules: %s %s", file, fmt.Sprintf(format, args...)))
	}
	for _, r := range rules {
		switch r.Operation {
		case web.OrderOperation, seckillpb.SeckillService_PlaceOrder_FullMethodName, cancelOperation:
			if r.Mode == lock.Read || r.Mode == lock.Semaphore {
				fault("has a rule for %q with mode: %s, which gives orders no fence to show to the database", r.Operation, r.Mode)
			}
			if r.OnBusy == rule.Skip {
				fault("has a rule for %q with onBusy: %s, which reports success for what wasn't done", r.Operation, r.OnBusy)
			}
		}
	}
	return errors.Join(faults...)
}

// ownRules are the locks in front of orders. The one of gRPC is in the .proto; a
// rule replaces it when it has to say more.
func ownRules(c Config) []rule.Rule {
	rules := []rule.Rule{web.OrderRule(c.LockWait)}
	if c.LockWait != 0 && c.GRPC != "" {
		rules = append(rules, rpc.OrderRule(c.LockWait))
	}
	return rules
}
