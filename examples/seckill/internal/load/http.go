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
	"strconv"
	"time"
)

const maxAnswer = 1 << 20

// httpClient is an instance over HTTP.
type httpClient struct {
	url    string
	client *http.Client
}

func newHTTPClient(url string, connections int) *httpClient {
	return &httpClient{url, &http.Client{
		Timeout: requestTimeout,
		Transport: &http.Transport{
			DialContext:         (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
			MaxIdleConns:        0,
			MaxIdleConnsPerHost: connections,
			IdleConnTimeout:     time.Minute,
		},
	}}
}

func (c *httpClient) close() error {
	c.client.CloseIdleConnections()
	return nil
}

// httpAnswer is what the service said.
type httpAnswer struct {
	status int
	code   string // of a problem document
	body   []byte
}

// reason is the code, or the status where there is none.
func (a httpAnswer) reason() string {
	if a.code != "" {
		return a.code
	}
	return "HTTP_" + strconv.Itoa(a.status)
}

// final reports whether the same request would get the same answer again.
func (a httpAnswer) final() bool {
	switch a.code {
	case "LOCK_CONTENDED", "LOCK_LOST":
		return false
	}
	switch a.status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return false
	}
	return true
}

// err is the answer as an error.
func (a httpAnswer) err() error {
	if a.code != "" {
		return fmt.Errorf("HTTP %d %s", a.status, a.code)
	}
	return fmt.Errorf("HTTP %d", a.status)
}

func (c *httpClient) createVoucher(ctx context.Context, o offer) (string, error) {
	draft, err := json.Marshal(map[string]any{
		"title": o.title, "stock": o.stock,
		"beginAt": o.beginAt.Format(time.RFC3339), "endAt": o.endAt.Format(time.RFC3339),
	})
	if err != nil {
		return "", err
	}
	a, err := c.do(ctx, http.MethodPost, "/api/vouchers", "", draft)
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

func (c *httpClient) order(ctx context.Context, voucherID, user string) (answer, error) {
	a, err := c.do(ctx, http.MethodPost, "/api/vouchers/"+voucherID+"/orders", user, nil)
	if err != nil {
		return answer{}, err
	}
	return answer{placed: a.status == http.StatusCreated, final: a.final(), reason: a.reason()}, nil
}

func (c *httpClient) report(ctx context.Context, voucherID string) (Report, error) {
	return c.ask(ctx, "/api/vouchers/"+voucherID+"/report")
}

func (c *httpClient) count(ctx context.Context, voucherID string) (Report, error) {
	return c.ask(ctx, "/api/vouchers/"+voucherID+"/count")
}

func (c *httpClient) ask(ctx context.Context, path string) (Report, error) {
	a, err := c.do(ctx, http.MethodGet, path, "", nil)
	switch {
	case err != nil:
		return Report{}, err
	case a.status == http.StatusNotFound && a.code != "VOUCHER_NOT_FOUND":
		return Report{}, errNoCount
	case a.status == http.StatusTooManyRequests:
		return Report{}, errCounting
	case a.status != http.StatusOK:
		return Report{}, a.err()
	}
	var r Report
	if err := json.Unmarshal(a.body, &r); err != nil {
		return Report{}, fmt.Errorf("answer: %w", err)
	}
	return r, nil
}

func (c *httpClient) do(ctx context.Context, method, path, user string, body []byte) (httpAnswer, error) {
	request, err := http.NewRequestWithContext(ctx, method, c.url+path, bytes.NewReader(body))
	if err != nil {
		return httpAnswer{}, err
	}
	if user != "" {
		request.Header.Set("X-User-Id", user)
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := c.client.Do(request)
	if err != nil {
		return httpAnswer{}, err
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return httpAnswer{}, err
	}
	a := httpAnswer{status: response.StatusCode, body: text}
	if a.status >= http.StatusBadRequest {
		var problem struct{ Code string }
		if json.Unmarshal(text, &problem) == nil {
			a.code = problem.Code
		}
	}
	return a, nil
}
