package app_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/redlatch/redlatch/examples/seckill/internal/app"
)

// scrape returns the series of a service: histograms by how many measurements
// they have, all others by their value.
func scrape(t *testing.T, a *app.App) map[string]float64 {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, a.URL()+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for name, family := range families {
		for _, one := range family.GetMetric() {
			var labels []string
			for _, label := range one.GetLabel() {
				labels = append(labels, label.GetName()+"="+label.GetValue())
			}
			slices.Sort(labels)
			all[name+"{"+strings.Join(labels, " ")+"}"] = one.GetCounter().GetValue() + one.GetGauge().GetValue() +
				float64(one.GetHistogram().GetSampleCount())
		}
	}
	return all
}

// own are the series of the service and its locks, without those of the
// runtime and the process.
func own(all map[string]float64) (names []string) {
	for name := range all {
		if strings.HasPrefix(name, "seckill_") || strings.HasPrefix(name, "redlatch_") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func TestMetricsTellOfTheLocksOfASale(t *testing.T) {
	a := start(t, config())
	defer stop(t, a)
	sale(t, crowd(a.URL()))
	got := scrape(t, a)
	const template = " redlatch_template=lock:order:<userId>}"
	granted := got["redlatch_acquire_duration_seconds{redlatch_mode=exclusive redlatch_outcome=acquired"+template]
	contended := got["redlatch_acquire_duration_seconds{redlatch_mode=exclusive redlatch_outcome=contended"+template]
	released := got["redlatch_hold_duration_seconds{redlatch_mode=exclusive redlatch_outcome=released"+template]
	if released == 0 || granted < released {
		t.Errorf("%v locks were granted and %v released", granted, released)
	}
	if held, counted := got["redlatch_held_count{redlatch_template=lock:order:<userId>}"]; !counted || held != 0 {
		t.Errorf("%v locks are held after the sale (counted: %v)", held, counted)
	}
	// The service's own metrics agree: every request to order that wasn't
	// turned away held the lock once, however often it was entered.
	var orders float64
	for name, value := range got {
		if strings.HasPrefix(name, "seckill_order_requests_total{") {
			orders += value
		}
	}
	if placed := got["seckill_order_requests_total{outcome=placed}"]; placed != 25 {
		t.Errorf("%v orders placed, want 25", placed)
	}
	if busy := got["seckill_order_requests_total{outcome=LOCK_CONTENDED}"]; busy != contended || orders-busy != released {
		t.Errorf("%v requests to order, %v of them contended; but %v locks were contended and %v held", orders, busy, contended, released)
	}
}

func TestTenThousandUsersAddNoSeries(t *testing.T) {
	a := start(t, config())
	defer stop(t, a)
	sale(t, crowd(a.URL()))
	order(t, a, 1)
	_ = scrape(t, a)
	before := own(scrape(t, a)) // now the scrape is among the routes
	order(t, a, 10_000)
	after := own(scrape(t, a))
	if !slices.Equal(before, after) {
		t.Errorf("%d series, and after ten thousand users %d:\n%s\n\n%s", len(before), len(after),
			strings.Join(before, "\n"), strings.Join(after, "\n"))
	}
	if !slices.ContainsFunc(after, func(name string) bool { return strings.HasPrefix(name, "redlatch_") }) {
		t.Error("the locks are not among the metrics")
	}
}

// order has that many users, each with their own lock, try to order what
// isn't for sale.
func order(t *testing.T, a *app.App, users int) {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 8}
	defer transport.CloseIdleConnections()
	client := http.Client{Transport: transport}
	next := make(chan int)
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for user := range next {
				if status := orderAs(t, &client, a, user); status != http.StatusNotFound {
					t.Errorf("user %d: status %d, want 404", user, status)
				}
			}
		})
	}
	for user := range users {
		next <- user
	}
	close(next)
	workers.Wait()
}

func orderAs(t *testing.T, client *http.Client, a *app.App, user int) (status int) {
	t.Helper()
	const nothing = "/api/vouchers/0195f7a2-0000-7000-8000-000000000000/orders"
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, a.URL()+nothing, nil)
	if err != nil {
		t.Error(err)
		return 0
	}
	request.Header.Set("X-User-Id", fmt.Sprint("user-", user))
	response, err := client.Do(request)
	if err != nil {
		t.Error(err)
		return 0
	}
	_, _ = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
	return response.StatusCode
}
