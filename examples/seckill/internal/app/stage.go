package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redlatch/redlatch/examples/seckill/internal/stage"
	"github.com/redlatch/redlatch/examples/seckill/internal/voucher"
	"github.com/redlatch/redlatch/examples/seckill/internal/web"
)

var errStage = errors.New("the stage is for a service without a database or Redis of its own")

// openStage returns nil if there shall be none. It is the only place where a lane without
// guards comes from, and takes no address of a database.
func (a *App) openStage(ctx context.Context, c Config) (*stage.Stage, error) {
	if !c.Stage {
		return nil, nil
	}
	if c.DB != "" || c.Redis != "" {
		return nil, errStage
	}
	s, err := stage.Open(ctx)
	if err != nil {
		return nil, fmt.Errorf("stage: %w", err)
	}
	a.own("stage", s.Close)
	return s, nil
}

// newStage has the streams of the stage end with the drain.
func newStage(s *stage.Stage) func(*web.Health) *web.Stage {
	return func(health *web.Health) *web.Stage {
		if s == nil {
			return nil
		}
		return &web.Stage{Handler: s.Handler(web.StagePath, health.Drained()), Links: stage.Links()}
	}
}

// openSale puts something on sale, so that a page has something to order.
func openSale(ctx context.Context, sale voucher.Sale) error {
	now := time.Now()
	_, err := sale.Create(ctx, voucher.Draft{Title: "Half price", Stock: 500, BeginAt: now, EndAt: now.Add(24 * time.Hour)})
	return err
}
