package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/redlatch/redlatch/examples/seckill/internal/voucher"
)

const maxBody = 64 << 10

type voucherBody struct {
	ID        string    `json:"id"`
	Title     string    `json:"title"`
	Stock     int64     `json:"stock"`
	Remaining int64     `json:"remaining"`
	BeginAt   time.Time `json:"beginAt"`
	EndAt     time.Time `json:"endAt"`
}

func voucherOf(v voucher.Voucher) voucherBody {
	return voucherBody{v.ID, v.Title, v.Stock, v.Remaining, v.BeginAt, v.EndAt}
}

type reportBody struct {
	Stock           int64 `json:"stock"`
	Sold            int64 `json:"sold"`
	Orders          int64 `json:"orders"`
	DistinctUsers   int64 `json:"distinctUsers"`
	Oversold        bool  `json:"oversold"`
	DuplicateOrders int64 `json:"duplicateOrders"`
}

func reportOf(r voucher.Report) reportBody {
	return reportBody{r.Stock, r.Sold, r.Orders, r.DistinctUsers, r.Oversold(), r.DuplicateOrders()}
}

func (s *site) createVoucher(c *gin.Context) {
	var body struct {
		Title   string `json:"title"`
		Stock   int64  `json:"stock"`
		BeginAt string `json:"beginAt"`
		EndAt   string `json:"endAt"`
	}
	if !decode(c, &body) {
		return
	}
	v, err := s.sale.Create(c.Request.Context(), voucher.Draft{
		Title: body.Title, Stock: body.Stock,
		// What is no time stays zero, which the service refuses by name,
		// together with everything else that is wrong.
		BeginAt: parseTime(body.BeginAt), EndAt: parseTime(body.EndAt),
	})
	if err != nil {
		fail(c, err)
		return
	}
	c.Header("Location", "/api/vouchers/"+v.ID)
	c.JSON(http.StatusCreated, voucherOf(v))
}

func (s *site) voucher(c *gin.Context) {
	v, err := s.sale.Voucher(c.Request.Context(), c.Param("id"))
	if err != nil {
		fail(c, err)
		return
	}
	c.JSON(http.StatusOK, voucherOf(v))
}

func (s *site) vouchers(c *gin.Context) {
	list, err := s.sale.Vouchers(c.Request.Context(), limitOf(c))
	if err != nil {
		fail(c, err)
		return
	}
	bodies := make([]voucherBody, len(list))
	for i, v := range list {
		bodies[i] = voucherOf(v)
	}
	c.JSON(http.StatusOK, bodies)
}

// reportAge is the header that says how old a report is.
const reportAge = "X-Report-Age"

func (s *site) report(c *gin.Context) {
	v, at, err := s.sale.Look(c.Request.Context(), c.Param("id"), 0)
	if err != nil {
		fail(c, err)
		return
	}
	// How old it is: it was read since the request arrived, for all requests that came together.
	c.Header(reportAge, time.Since(at).Round(time.Microsecond).String())
	c.JSON(http.StatusOK, reportOf(v.Report()))
}

// count is the report by the orders, counted one by one.
func (s *site) count(c *gin.Context) {
	r, err := s.sale.Count(c.Request.Context(), c.Param("id"))
	if err != nil {
		fail(c, err)
		return
	}
	c.JSON(http.StatusOK, reportOf(r))
}

// errSeveral: a body goes on behind its JSON.
var errSeveral = errors.New("more than one value")

// decode reads the body into v, or answers what is wrong with it.
func decode(c *gin.Context, v any) bool {
	decoder := json.NewDecoder(c.Request.Body)
	err := decoder.Decode(v)
	if err == nil {
		if _, err = decoder.Token(); errors.Is(err, io.EOF) {
			return true
		}
		if err == nil {
			err = errSeveral
		}
	}
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, &wrong) && wrong.Field != "":
		refuseFaults(c, fault{wrong.Field, fmt.Sprintf("must be %s, is %s", jsonName(wrong), wrong.Value)})
	case errors.As(err, &wrong):
		refuseFaults(c, fault{"body", "must be a JSON object, is " + wrong.Value})
	default:
		refuseFaults(c, fault{"body", "must be one JSON object: " + complaint(err)})
	}
	return false
}

func jsonName(wrong *json.UnmarshalTypeError) string {
	if strings.HasPrefix(wrong.Type.String(), "int") {
		return "a whole number"
	}
	return "a " + wrong.Type.String()
}

// complaint is what the client may know of an error.
func complaint(err error) string {
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		return fmt.Sprintf("%v (at byte %d)", syntax, syntax.Offset)
	case errors.Is(err, io.EOF):
		return "it is empty"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "it ends too early"
	case errors.Is(err, errSeveral):
		return errSeveral.Error()
	default: // whole has read it
		return "it could not be read"
	}
}

// parseTime reads RFC 3339, and returns the zero time for anything else.
func parseTime(text string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}
	}
	return t
}

// limitOf reads ?limit=. What is no number is 0, which the sale refuses.
func limitOf(c *gin.Context) int {
	text, given := c.GetQuery("limit")
	if !given {
		return voucher.DefaultLimit
	}
	limit, err := strconv.Atoi(text)
	if err != nil {
		return 0
	}
	return limit
}
