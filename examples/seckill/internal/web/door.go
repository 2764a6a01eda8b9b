package web

import (
	"context"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/examples/seckill/internal/voucher"
	"github.com/redlatch/redlatch/ginlock"
)

// OrderLock is the template of the lock in front of an order: one request of
// a user at a time, whatever is ordered.
const OrderLock = "lock:order:<userId>"

// Door is what stands in front of an order.
type Door struct {
	enter gin.HandlerFunc
	// fence says what the request may show to the database; false means that
	// it came past the door without a lock.
	fence func(context.Context) (voucher.Fence, bool)
}

// Locked is the door that takes [OrderLock], waiting up to wait for it.
func Locked(g *guard.Guard, wait time.Duration) Door {
	return Door{
		enter: ginlock.New(g, OrderLock, ginlock.WithWait(wait), ginlock.WithErrorHandler(refuseLock)),
		fence: voucher.FenceOf,
	}
}

// refuseLock is the default answer of the middleware, seen by the metrics.
func refuseLock(c *gin.Context, e *guard.Error) {
	c.Set(codeKey, e.Kind.Code())
	ginlock.Problem(c, e)
}
