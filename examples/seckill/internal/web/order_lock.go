package web

import (
	"context"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/httpguard"
	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/examples/seckill/internal/voucher"
	"github.com/redlatch/redlatch/ginlock"
)

// OrderOperation is the request to order, as rules name it.
const OrderOperation = "POST /api/vouchers/:id/orders"

// OrderRule is the lock in front of an order: one request of a user at a time,
// whatever is ordered. A request waits up to wait for it.
func OrderRule(wait time.Duration) rule.Rule {
	return rule.Rule{Operation: OrderOperation, Key: "lock:order:<userId>", Wait: wait}
}

// OrderLock is the lock in front of an order.
type OrderLock struct {
	// enter makes the middleware of a route of the engine.
	enter func(*gin.Engine) gin.HandlerFunc
	// fence says what the request may show to the database, if it holds the lock.
	fence func(context.Context) (voucher.Fence, error)
}

// Locked takes the lock that g has a rule for. Without a rule, nothing is sold.
func Locked(g *guard.Guard) OrderLock {
	return OrderLock{
		enter: func(engine *gin.Engine) gin.HandlerFunc {
			return ginlock.Rules(g, engine, httpguard.WithProvided(userKey), httpguard.WithErrorHandler(refuseLock))
		},
		fence: voucher.FenceOf,
	}
}

// refuseLock is the default answer of the middleware, seen by the metrics.
func refuseLock(w http.ResponseWriter, q httpguard.Request, e *guard.Error) {
	ginlock.Context(q).Set(codeKey, e.Kind.Code())
	httpguard.Problem(w, q, e)
}
