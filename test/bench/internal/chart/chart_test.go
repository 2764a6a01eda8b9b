package chart_test

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redlatch/redlatch/test/bench/internal/chart"
	"github.com/redlatch/redlatch/test/bench/internal/peer"
	"github.com/redlatch/redlatch/test/bench/internal/result"
)

func TestChartsShowWhoWasMeasured(t *testing.T) {
	table := &result.Table{}
	for round := range 3 {
		for i, name := range []string{peer.Redlatch, peer.Floor, peer.Redsync} {
			figures := map[string]float64{result.Rate: float64(1000 * (i + 1 + round)), result.ClientCPU: 20, result.RedisCPU: 10}
			table.Add(round, "R1", name, figures)
			table.Add(round, "R3", name, figures)
		}
		table.Add(round, "R6", peer.Redlatch, map[string]float64{result.Rate: 100_000, result.Jain: 1, result.P99: 3})
		table.Add(round, "R6", peer.Bsm, map[string]float64{result.Rate: 0, result.Jain: 0.1}) // nobody was served
	}
	dir := filepath.Join(t.TempDir(), "new")
	files, err := chart.Write(table, dir)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{
		"uncontended.svg": {"redlatch", "redsync", "floor", "1 goroutine", "128"},
		"cpu.svg":         {"redlatch", "µs per cycle"},
		"hot.svg":         {"redlatch", "1 process × 100"},
		"fairness.svg":    {"redlatch", "bsm/redislock"},
		"waits.svg":       {"redlatch"},
	}
	for file, parts := range maps.Clone(want) {
		want[chart.Dark(file)] = parts
	}
	if len(files) != len(want) {
		t.Errorf("wrote %q, want %d files", files, len(want))
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		svg := string(text)
		if !strings.Contains(svg, "<svg") || !strings.HasSuffix(strings.TrimSpace(svg), "</svg>") {
			t.Errorf("%s is no picture", file)
		}
		for _, part := range want[filepath.Base(file)] {
			if !strings.Contains(svg, part) {
				t.Errorf("%s does not show %q", file, part)
			}
		}
		if light, dark := strings.Contains(svg, "#FFFFFF"), strings.HasSuffix(file, "-dark.svg"); light == dark {
			t.Errorf("%s has a white page: %v", file, light)
		}
		if strings.Contains(svg, "rueidislock") || strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
			t.Errorf("%s shows what was not measured", file)
		}
	}
}

func TestNothingMeasuredIsNoChart(t *testing.T) {
	if files, err := chart.Write(&result.Table{}, t.TempDir()); err != nil || len(files) != 0 {
		t.Errorf("wrote %q, %v", files, err)
	}
}
