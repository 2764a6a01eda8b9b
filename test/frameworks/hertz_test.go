package frameworks_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/cloudwego/hertz/pkg/app"
	"github.com/cloudwego/hertz/pkg/common/config"
	"github.com/cloudwego/hertz/pkg/route"

	"github.com/redlatch/redlatch/contrib/hertzlock"
	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/guardtest"
)

// onHertz is a route of Hertz behind the locks of the guard's rules.
func onHertz(g *guard.Guard, transfer app.HandlerFunc) *route.Engine {
	h := route.NewEngine(config.NewOptions(nil))
	h.POST("/transfers/:from/:to", hertzlock.Route(g, transferRoute), transfer)
	return h
}

func TestHertzTakesCrossingTransfersOneByOne(t *testing.T) {
	var accounts guardtest.Accounts
	g := transfers(t)
	h := onHertz(g, func(_ context.Context, c *app.RequestContext) {
		accounts.Transfer(strings.Clone(c.Param("from")), strings.Clone(c.Param("to")))
	})
	accounts.Crossing(t, 10_000, func(from, to string) error {
		c := h.NewContext()
		c.Request.Header.SetMethod(http.MethodPost)
		c.Request.SetRequestURI("/transfers/" + from + "/" + to)
		h.ServeHTTP(t.Context(), c)
		if c.Response.StatusCode() != http.StatusOK {
			return errors.New(string(c.Response.Body()))
		}
		return nil
	})
}

func TestARuleOfHertzThatNoRouteHasIsNoticed(t *testing.T) {
	g := transfers(t)
	h := route.NewEngine(config.NewOptions(nil))
	h.POST("/transfer/:from/:to", hertzlock.Route(g, "POST /transfer/:from/:to"), func(context.Context, *app.RequestContext) {})
	if err := g.Validate(); err == nil || !strings.Contains(err.Error(), "did you mean \"POST /transfer/:from/:to\"") {
		t.Errorf("got %v", err)
	}
}
