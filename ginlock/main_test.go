package ginlock_test

import (
	"net/http"
	"os"
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

func readFile(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
