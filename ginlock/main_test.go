package ginlock_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/gin-gonic/gin"
	"go.uber.org/goleak"

	"github.com/redlatch/redlatch/core/lock"
)

func TestMain(m *testing.M) {
	gin.SetMode(gin.TestMode)
	goleak.VerifyTestMain(m)
}

// tellKey is a handler that answers with the key it runs under.
func tellKey(c *gin.Context) {
	lease, ok := lock.FromContext(c.Request.Context())
	if !ok {
		c.String(http.StatusOK, "no lock")
		return
	}
	c.String(http.StatusCreated, lease.Key())
}

// withValue is for templates, which name values by strings.
func withValue(ctx context.Context, key string, value any) context.Context {
	return context.WithValue(ctx, key, value) //nolint:revive,staticcheck // see above
}
