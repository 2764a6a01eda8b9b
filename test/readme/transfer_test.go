package readme_test

import (
	"net/http"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/core/guard/httpguard"
	"github.com/redlatch/redlatch/ginlock"
)

func TestTheTransferOfTheRecipesHoldsBothAccounts(t *testing.T) {
	g := guardtest.Guard(t)
	r := gin.New()
	transfer := func(c *gin.Context) {
		guardtest.AssertHeld(t, c.Request.Context(), "lock:account:7")
		guardtest.AssertHeld(t, c.Request.Context(), "lock:account:8")
		c.Status(http.StatusCreated)
	}
	r.POST("/transfers", ginlock.New(g, "lock:account:<body.from> wait=1s", httpguard.WithRule("lock:account:<body.to>")), transfer)
	if w := guardtest.Send(r, "POST", "/transfers", `{"from":"8","to":"7"}`, "Content-Type", "application/json"); w.Code != http.StatusCreated {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}
