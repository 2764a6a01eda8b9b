package integration_test

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/redlatch/redlatch/test/internal/sqltest"
)

// Watching a sale costs the same for all who watch; here is what that leaves of the orders of
// another. Rates next to other tests say nothing.
func TestWatchingASaleDoesNotSlowAnother(t *testing.T) {
	if os.Getenv("REDLATCH_VIEWERS") == "" {
		t.Skip("measures rates: run make viewers")
	}
	binary := seckillBinary(t)
	file := filepath.Join(t.TempDir(), "sale.db")
	postgres := sqltest.Postgres(t)
	for _, tt := range []struct{ name, url, driver, dsn string }{
		{"SQLite", "sqlite:" + file + "?synchronous=normal", "sqlite", file},
		{"PostgreSQL", postgres, "pgx", postgres},
	} {
		t.Run(tt.name, func(t *testing.T) {
			shop := serve(t, binary, "--db", tt.url)
			watched := path.Base(shop.voucher(t, 100_000))
			sell(t, tt.driver, tt.dsn, watched, 50_000)
			other := shop.voucher(t, 1_000_000) + "/orders"
			var ratios []float64
			for round := range 5 {
				alone := ordersPerSecond(t, shop, other, fmt.Sprint("alone", round))
				leave := watchSale(t, shop, watched, 64)
				amid := ordersPerSecond(t, shop, other, fmt.Sprint("watched", round))
				leave()
				t.Logf("round %d: %.0f orders/s alone, %.0f with 64 viewers", round+1, alone, amid)
				ratios = append(ratios, amid/alone)
			}
			slices.Sort(ratios)
			t.Logf("ratios %.2f, median %.2f", ratios, ratios[2])
			if ratios[3] < 0.9 { // the upper quartile
				t.Errorf("with 64 viewers orders go at %.2f of what they do without, want 0.9", ratios[2])
			}
		})
	}
}

// sell puts orders of a voucher into a database, as if they had been placed.
func sell(t *testing.T, driver, dsn, voucher string, orders int) {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	const batch = 1000
	for first := 0; first < orders; first += batch {
		var rows strings.Builder
		for n := first; n < first+batch; n++ {
			fmt.Fprintf(&rows, ",('00000000-0000-7000-8000-%012d','%s','sold-%d',1,'2026-01-01 00:00:00')", n, voucher, n)
		}
		if _, err := tx.ExecContext(t.Context(), "INSERT INTO orders (id, voucher_id, user_id, fence, created_at) VALUES "+rows.String()[1:]); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := tx.ExecContext(t.Context(), fmt.Sprintf("UPDATE vouchers SET remaining = remaining - %[1]d, orders = %[1]d, buyers = %[1]d WHERE id = '%[2]s'", orders, voucher)); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
}

// watchSale opens pages until leave is called.
func watchSale(t *testing.T, shop *instance, voucher string, pages int) (leave func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	var open sync.WaitGroup
	for range pages {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, shop.url+"/events?voucher="+voucher, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err != nil || response.StatusCode != http.StatusOK {
			t.Fatalf("page: %v %v", response, err)
		}
		open.Go(func() {
			defer response.Body.Close()
			_, _ = io.Copy(io.Discard, response.Body)
		})
	}
	return func() {
		cancel()
		open.Wait()
	}
}

// ordersPerSecond orders with 16 clients for a second or so.
func ordersPerSecond(t *testing.T, shop *instance, orders, prefix string) float64 {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}
	defer client.CloseIdleConnections()
	var placed, next atomic.Int64
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
	defer cancel()
	var clients sync.WaitGroup
	for range 16 {
		clients.Go(func() {
			for ctx.Err() == nil {
				request, err := http.NewRequestWithContext(ctx, http.MethodPost, shop.url+orders, nil)
				if err != nil {
					t.Error(err)
					return
				}
				request.Header.Set("X-User-Id", prefix+strconv.FormatInt(next.Add(1), 10))
				response, err := client.Do(request)
				if err != nil {
					return // the time is up
				}
				_, _ = io.Copy(io.Discard, response.Body)
				_ = response.Body.Close()
				if response.StatusCode == http.StatusCreated {
					placed.Add(1)
				}
			}
		})
	}
	clients.Wait()
	return float64(placed.Load()) / time.Since(began).Seconds()
}
