package web

import (
	"net/http"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/redlatch/redlatch/examples/seckill/internal/voucher"
)

type orderBody struct {
	OrderID   string `json:"orderId"`
	VoucherID string `json:"voucherId"`
	UserID    string `json:"userId"`
	// Fence is text: JSON numbers lose digits in many clients.
	Fence     string    `json:"fence"`
	CreatedAt time.Time `json:"createdAt"`
}

func orderOf(o voucher.Order) orderBody {
	return orderBody{o.ID, o.VoucherID, o.UserID, strconv.FormatUint(o.Fence.Fence, 10), o.CreatedAt}
}

func (s *site) placeOrder(c *gin.Context) {
	ctx := c.Request.Context()
	fence, err := s.lock.fence(ctx)
	if err != nil {
		fail(c, err)
		return
	}
	o, err := s.sale.Place(ctx, c.Param("id"), c.GetString(userKey), fence)
	if err != nil {
		fail(c, err)
		return
	}
	c.Header("Location", "/api/orders/"+o.ID)
	c.JSON(http.StatusCreated, orderOf(o))
}

func (s *site) cancelOrder(c *gin.Context) {
	if err := s.sale.Cancel(c.Request.Context(), c.Param("id"), c.GetString(userKey)); err != nil {
		fail(c, err)
		return
	}
	c.Status(http.StatusNoContent)
}

func (s *site) order(c *gin.Context) {
	o, err := s.sale.Order(c.Request.Context(), c.Param("id"))
	if err != nil {
		fail(c, err)
		return
	}
	c.JSON(http.StatusOK, orderOf(o))
}

func (s *site) orders(c *gin.Context) {
	list, err := s.sale.Orders(c.Request.Context(), c.Param("id"), limitOf(c))
	if err != nil {
		fail(c, err)
		return
	}
	bodies := make([]orderBody, len(list))
	for i, o := range list {
		bodies[i] = orderOf(o)
	}
	c.JSON(http.StatusOK, bodies)
}
