package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redlatch/redlatch/test/bench/internal/peer"
	"github.com/redlatch/redlatch/test/bench/internal/plan"
	"github.com/redlatch/redlatch/test/bench/internal/report"
	"github.com/redlatch/redlatch/test/bench/internal/result"
)

// Each series measures what its table shows.
func TestEverySeriesMeasuresSomething(t *testing.T) {
	needRedis(t)
	for _, series := range plan.Scaling(50) {
		size := series.Sizes[0]
		t.Run(series.Name, func(t *testing.T) {
			t.Parallel()
			metrics, err := plan.Measure(t.Context(), t.TempDir(), size.Scenario, size.Peers[0])
			if err != nil {
				t.Fatal(err)
			}
			for _, metric := range append(series.Metrics, result.Seconds) {
				if _, ok := metrics[metric]; !ok {
					t.Errorf("no %s", metric)
				}
			}
			if metrics[result.Failures] != 0 {
				t.Errorf("%v failures", metrics[result.Failures])
			}
		})
	}
}

// A cluster has the counters of all its masters.
func TestShardsAreCountedTogether(t *testing.T) {
	needRedis(t)
	t.Parallel()
	for _, series := range plan.Scaling(20) {
		if series.Name != "shards" {
			continue
		}
		size := series.Sizes[1]
		metrics, err := plan.Measure(t.Context(), t.TempDir(), size.Scenario, peer.Redlatch)
		if err != nil {
			t.Fatal(err)
		}
		if calls := metrics[result.Calls]; calls < 1 || metrics[result.Failures] != 0 {
			t.Errorf("%v commands for lock and unlock, %v failures", calls, metrics[result.Failures])
		}
		return
	}
	t.Error("there is no series of shards")
}

func TestDocumentsQuoteSeries(t *testing.T) {
	dir := t.TempDir()
	csv, doc := filepath.Join(dir, csvName), filepath.Join(dir, "doc.md")
	table := &result.Table{}
	table.Add(0, "waiters 10", peer.Redlatch, map[string]float64{result.Rate: 4321, result.Seconds: 3})
	rewrite(t, csv, table)
	for text, code := range map[string]int{
		"<!-- bench scale waiters -->\n<!-- end -->": 0, "<!-- bench scale keys -->\n<!-- end -->": exitFailed, "<!-- bench scale none -->\n<!-- end -->": exitFailed,
	} {
		if err := os.WriteFile(doc, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, out := bench(t, "docs", "--from="+csv, doc); got != code {
			t.Errorf("%q: exit code %d: %s", text, got, out)
		}
	}
}

func TestATableOfASeriesHasItsSizes(t *testing.T) {
	series := plan.Scaling(1)[0]
	table := &result.Table{}
	for _, size := range series.Sizes {
		table.Add(0, size.ID, size.Peers[0], map[string]float64{result.PerLock: 777})
	}
	text := report.Series(table, series).RenderCSV()
	if n := strings.Count(text, "777"); n != len(series.Sizes) || !strings.Contains(text, "100000,") {
		t.Errorf("%d rows:\n%s", n, text)
	}
}

func TestAnUnknownSeriesIsRefused(t *testing.T) {
	if code, out := bench(t, "scale", "--only=none", "--dir="+t.TempDir()); code == 0 || !strings.Contains(out, "none") {
		t.Errorf("exit code %d: %s", code, out)
	}
}
