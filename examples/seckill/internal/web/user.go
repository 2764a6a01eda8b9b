package web

import (
	"strings"

	"github.com/gin-gonic/gin"
)

const (
	// userHeader is set by the gateway that authenticates users. The gateway
	// must remove it from what clients send.
	userHeader = "X-User-Id"
	// userKey is where the user's id is in the gin context. The template of
	// the lock, "lock:order:<userId>", finds it there.
	userKey = "userId"

	maxUser = 64
)

// authenticate lets requests pass that say who the user is.
func authenticate(c *gin.Context) {
	values := c.Request.Header.Values(userHeader)
	if len(values) != 1 || !isUser(values[0]) {
		refuse(c, unauthenticated)
		return
	}
	c.Set(userKey, values[0])
}

// isUser reports whether id is 1 to 64 visible ASCII characters. One spelling
// is one user: nothing is trimmed or folded.
func isUser(id string) bool {
	hidden := func(r rune) bool { return r < '!' || r > '~' }
	return id != "" && len(id) <= maxUser && !strings.ContainsFunc(id, hidden)
}
