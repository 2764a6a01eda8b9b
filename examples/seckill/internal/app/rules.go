package app

import (
	"time"

	"go.uber.org/fx"

	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/examples/seckill/internal/rpc"
	"github.com/redlatch/redlatch/examples/seckill/internal/web"
	"github.com/redlatch/redlatch/fxmodule"
)

// lockRules are those of the file, if there is one.
func lockRules(c Config) fx.Option {
	if c.Rules != "" {
		return fxmodule.FollowRulesFile(c.Rules)
	}
	return fxmodule.AsRules(ownRules(c.LockWait)...)
}

// ownRules are the locks in front of orders. That of gRPC stands in the .proto;
// a rule takes its place when it has to say more.
func ownRules(wait time.Duration) []rule.Rule {
	if wait == 0 {
		return []rule.Rule{web.OrderRule(0)}
	}
	return []rule.Rule{web.OrderRule(wait), rpc.OrderRule(wait)}
}
