package load

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"
	"time"
)

const (
	requestTimeout = 30 * time.Second
	maxAnswer      = 1 << 20
)

// client speaks the contract of the service.
type client struct{ http *http.Client }

func newClient(connections int) *client {
	return &client{&http.Client{
		Timeout: requestTimeout,
		Transport: &http.Transport{
			DialContext:         (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
			MaxIdleConns:        0,
			MaxIdleConnsPerHost: connections,
			IdleConnTimeout:     time.Minute,
		},
	}}
}

func (c *client) close() { c.http.CloseIdleConnections() }

// answer is what the service said.
type answer struct {
	status int
	code   string // of a problem document
	body   []byte
}

// err is the answer as an error.
func (a answer) err() error {
	if a.code != "" {
		return fmt.Errorf("HTTP %d %s", a.status, a.code)
	}
	return fmt.Errorf("HTTP %d", a.status)
}

// createVoucher puts stock vouchers on sale and returns their id.
func (c *client) createVoucher(ctx context.Context, target string, stock int64) (string, error) {
	now := time.Now()
	draft, err := json.Marshal(map[string]any{
		"title": "Load " + now.Format(time.DateTime), "stock": stock,
		// The clocks of the targets may differ.
		"beginAt": now.Add(-time.Hour).Format(time.RFC3339), "endAt": now.Add(24 * time.Hour).Format(time.RFC3339),
	})
	if err != nil {
		return "", err
	}
	a, err := c.do(ctx, http.MethodPost, target+"/api/vouchers", "", draft)
	if err != nil {
		return "", err
	}
	if a.status != http.StatusCreated {
		return "", a.err()
	}
	// Servers may number their vouchers.
	var created struct{ ID any }
	decoder := json.NewDecoder(bytes.NewReader(a.body))
	decoder.UseNumber()
	if err := decoder.Decode(&created); err != nil {
		return "", fmt.Errorf("answer: %w", err)
	}
	switch id := created.ID.(type) {
	case string:
		return id, nil
	case json.Number:
		return id.String(), nil
	default:
		return "", errors.New("answer: no id")
	}
}

// order clicks once.
func (c *client) order(ctx context.Context, target, voucherID, user string) (answer, error) {
	return c.do(ctx, http.MethodPost, target+"/api/vouchers/"+voucherID+"/orders", user, nil)
}

// Report is what the service says about the sale.
type Report struct {
	Stock           int64 `json:"stock"`
	Sold            int64 `json:"sold"`
	Orders          int64 `json:"orders"`
	DistinctUsers   int64 `json:"distinctUsers"`
	Oversold        bool  `json:"oversold"`
	DuplicateOrders int64 `json:"duplicateOrders"`
}

func (c *client) report(ctx context.Context, target, voucherID string) (Report, error) {
	a, err := c.do(ctx, http.MethodGet, target+"/api/vouchers/"+voucherID+"/report", "", nil)
	if err != nil {
		return Report{}, err
	}
	if a.status != http.StatusOK {
		return Report{}, a.err()
	}
	var r Report
	if err := json.Unmarshal(a.body, &r); err != nil {
		return Report{}, fmt.Errorf("answer: %w", err)
	}
	return r, nil
}

func (c *client) do(ctx context.Context, method, url, user string, body []byte) (answer, error) {
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	if user != "" {
		request.Header.Set("X-User-Id", user)
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := c.http.Do(request)
	if err != nil {
		return answer{}, err
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return answer{}, err
	}
	a := answer{status: response.StatusCode, body: text}
	if a.status >= http.StatusBadRequest {
		var problem struct{ Code string }
		if json.Unmarshal(text, &problem) == nil {
			a.code = problem.Code
		}
	}
	return a, nil
}

// neverSent reports whether the service certainly has not seen the request.
func neverSent(err error) bool {
	var op *net.OpError
	return errors.Is(err, syscall.ECONNREFUSED) || errors.As(err, &op) && op.Op == "dial"
}
