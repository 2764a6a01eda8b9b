package web_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/examples/seckill/internal/web"
)

// listen serves until all streams of the test are closed.
func listen(t *testing.T, s *shop) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(s.handler)
	t.Cleanup(server.Close)
	return server
}

// stream is a page that is open.
type stream struct {
	response *http.Response
	lines    *bufio.Scanner
}

// watch opens a page. The deadline ends what hangs.
func watch(t *testing.T, server *httptest.Server, query string) *stream {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 30 * time.Second}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/events"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = response.Body.Close() })
	return &stream{response, bufio.NewScanner(response.Body)}
}

// next returns the next event; an empty kind is the end of the stream.
func (s *stream) next() (kind, data string) {
	for s.lines.Scan() {
		field, value, _ := strings.Cut(s.lines.Text(), ": ")
		switch field {
		case "event":
			kind = value
		case "data":
			data = value
		case "":
			return kind, data
		}
	}
	return "", ""
}

// shown is a part of what the page gets.
type shown struct {
	Away     []string
	Vouchers []struct{ ID string }
	Voucher  *struct {
		ID    string
		Title string
	}
	Report  *struct{ Stock, Sold int }
	Answers map[string]int
	Latency struct{ P50, P99 *float64 }
}

// until reads states until one is as it should be.
func (s *stream) until(t *testing.T, right func(shown) bool) {
	t.Helper()
	for {
		kind, data := s.next()
		if kind == "" {
			t.Fatal("the stream ended")
		}
		var now shown
		if err := json.Unmarshal([]byte(data), &now); err != nil {
			t.Fatalf("%s %q: %v", kind, data, err)
		}
		if kind == "state" && right(now) {
			return
		}
	}
}

func TestAPageFollowsTheSale(t *testing.T) {
	s := openShop(t, memstore.New(), sqliteStore(t))
	server := listen(t, s)
	page := watch(t, server, "")
	if kind := page.response.Header.Get("Content-Type"); kind != "text/event-stream" {
		t.Errorf("content type %q", kind)
	}
	page.until(t, func(now shown) bool {
		return now.Voucher == nil && len(now.Vouchers) == 0 && now.Latency.P50 == nil && now.Latency.P99 == nil
	})
	id := s.onSale(t, 3, -1, 1)
	page.until(t, func(now shown) bool {
		return now.Voucher != nil && now.Voucher.ID == id && now.Report.Stock == 3 && now.Report.Sold == 0
	})
	s.send(t, "POST", "/api/vouchers/"+id+"/orders", "", "ann")
	s.send(t, "POST", "/api/vouchers/"+id+"/orders", "", "ann")
	page.until(t, func(now shown) bool {
		return now.Report.Sold == 1 && now.Answers["placed"] == 1 && now.Answers["ALREADY_ORDERED"] == 1 &&
			*now.Latency.P50 > 0 && *now.Latency.P99 >= *now.Latency.P50
	})
	newer := s.onSale(t, 4, -1, 1)
	page.until(t, func(now shown) bool { return now.Voucher.ID == newer && len(now.Vouchers) == 2 })
	watch(t, server, "?voucher="+id).until(t, func(now shown) bool { return now.Voucher.ID == id })
	s.health.Drain()
	for kind, _ := page.next(); kind != ""; kind, _ = page.next() {
	}
}

func TestAPageFollowsItsSaleHoweverManyAreNewer(t *testing.T) {
	s := openShop(t, memstore.New(), sqliteStore(t))
	first := s.onSale(t, 5, -1, 1)
	var newest string
	for range 20 {
		newest = s.onSale(t, 5, -1, 1)
	}
	server := listen(t, s)
	for id, want := range map[string]string{first: first, "": newest, "nonsense": newest} {
		watch(t, server, "?voucher="+id).until(t, func(now shown) bool {
			offered := slices.ContainsFunc(now.Vouchers, func(v struct{ ID string }) bool { return v.ID == want })
			if now.Voucher.ID != want || !offered {
				t.Errorf("for %q the page shows, and orders from, %s (offered: %v), want %s", id, now.Voucher.ID, offered, want)
			}
			return true
		})
	}
}

func TestAPageKnowsThatTheDatabaseIsAway(t *testing.T) {
	orders := sqliteStore(t)
	server := listen(t, openShop(t, memstore.New(), orders))
	page := watch(t, server, "")
	page.until(t, func(shown) bool { return true })
	if err := orders.Close(); err != nil {
		t.Fatal(err)
	}
	if kind, data := page.next(); kind != "away" || strings.Contains(data, "sql") {
		t.Errorf("got %s %s", kind, data)
	}
}

func TestAPageSaysWhatIsAway(t *testing.T) {
	s := openShop(t, memstore.New(), sqliteStore(t),
		web.Probe{Name: "database", Check: func(context.Context) error { return nil }},
		web.Probe{Name: "lock store", Check: func(context.Context) error { return errors.New("secret") }})
	watch(t, listen(t, s), "").until(t, func(now shown) bool {
		if !slices.Equal(now.Away, []string{"lock store"}) {
			t.Errorf("away: %q", now.Away)
		}
		return true
	})
}

func TestPagesAreBoundedAndMakeRoom(t *testing.T) {
	s := openShop(t, memstore.New(), sqliteStore(t))
	server := listen(t, s)
	var last *stream
	for range 64 {
		last = watch(t, server, "")
		last.until(t, func(shown) bool { return true })
	}
	wantProblem(t, s.send(t, "GET", "/events", ""), "/events", 503, "TOO_MANY_VIEWERS")
	_ = last.response.Body.Close()
	deadline := time.Now().Add(30 * time.Second)
	for watch(t, server, "").response.StatusCode != http.StatusOK {
		if time.Now().After(deadline) {
			t.Fatal("a page that was closed makes no room")
		}
	}
	s.health.Drain()
	wantProblem(t, s.send(t, "GET", "/events", ""), "/events", 503, "DRAINING")
}
