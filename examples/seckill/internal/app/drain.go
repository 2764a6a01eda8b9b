package app

import (
	"context"
	"time"

	"go.uber.org/fx"

	"github.com/redlatch/redlatch/examples/seckill/internal/web"
)

// drain is the first step of stopping: the servers go on for a while after
// they said that they aren't ready, so that balancers notice.
type drain struct{}

// newDrain needs the servers, so that its hook runs before theirs.
func newDrain(lc fx.Lifecycle, c Config, health *web.Health, _ *server, _ *rpcServer) drain {
	lc.Append(fx.StopHook(func(ctx context.Context) {
		health.Drain()
		c.Log.Info("draining")
		select {
		case <-time.After(c.DrainDelay):
		case <-ctx.Done():
		}
	}))
	return drain{}
}
