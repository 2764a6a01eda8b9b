package app

import (
	"time"

	"github.com/redlatch/redlatch/examples/seckill/internal/store"
	"github.com/redlatch/redlatch/examples/seckill/internal/voucher"
)

// Wrap has the service use its database through what wrap returns.
func (c *Config) Wrap(wrap func(*store.Store) voucher.Store) { c.wrap = wrap }

// SetStopTimeout makes the service give up sooner what doesn't stop.
func (a *App) SetStopTimeout(d time.Duration) { a.stopTimeout = d }

// StopTimeout is how long the service may take to stop.
func (a *App) StopTimeout() time.Duration { return a.stopTimeout }
