//go:build seckill_unguarded

package web

import (
	"context"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/redlatch/redlatch/core/fence"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/examples/seckill/internal/voucher"
)

// nobody is what a request shows without a lock: a fence of this moment, as a lock's is. So
// the database takes it for newer than the locks that were granted before, such as those
// of cancellations.
func nobody() voucher.Fence {
	return fence.New(uint64(time.Now().UnixMicro())*lock.FenceStep, "nobody")
}

// Unlocked takes no lock.
func Unlocked() OrderLock {
	return OrderLock{
		enter: func(*gin.Engine) gin.HandlerFunc { return func(*gin.Context) {} },
		fence: func(context.Context) (voucher.Fence, error) { return nobody(), nil },
	}
}
