package app

import (
	"go.uber.org/fx"

	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/examples/seckill/internal/rpc"
	"github.com/redlatch/redlatch/examples/seckill/internal/web"
	"github.com/redlatch/redlatch/fxmodule"
)

// lockRules are those of the file, if there is one.
func lockRules(c Config) fx.Option {
	switch {
	case c.Variant.OrderLock != nil: // which takes no lock
		return fx.Options()
	case c.Rules != "":
		return fxmodule.FollowRulesFile(c.Rules)
	}
	return fxmodule.AsRules(ownRules(c)...)
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
