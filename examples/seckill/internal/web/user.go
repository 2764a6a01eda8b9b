package web

import (
	"github.com/gin-gonic/gin"

	"github.com/redlatch/redlatch/examples/seckill/internal/voucher"
)

const (
	// userHeader is set by the gateway that authenticates users. The gateway
	// must remove it from what clients send.
	userHeader = "X-User-Id"
	// userKey is where the user's id is in the gin context. The template of
	// the lock, "lock:order:<userId>", finds it there.
	userKey = "userId"
)

// authenticate lets requests pass that say who the user is.
func authenticate(c *gin.Context) {
	values := c.Request.Header.Values(userHeader)
	if len(values) != 1 || !voucher.IsUser(values[0]) {
		refuse(c, unauthenticated)
		return
	}
	c.Set(userKey, values[0])
}
