package app

import (
	"time"

	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/examples/seckill/internal/rpc"
	"github.com/redlatch/redlatch/examples/seckill/internal/web"
)

// rules are the locks in front of orders. That of gRPC stands in the .proto; a
// rule takes its place when it has to say more.
func rules(wait time.Duration) []rule.Rule {
	if wait == 0 {
		return []rule.Rule{web.OrderRule(0)}
	}
	return []rule.Rule{web.OrderRule(wait), rpc.OrderRule(wait)}
}
