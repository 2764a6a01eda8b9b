package report

import (
	"math"
	"strings"
	"testing"

	"github.com/redlatch/redlatch/test/bench/internal/plan"
	"github.com/redlatch/redlatch/test/bench/internal/result"
	"github.com/redlatch/redlatch/test/bench/internal/stat"
	"github.com/redlatch/redlatch/test/bench/internal/verdict"
)

func TestNumbersHaveThreeDigits(t *testing.T) {
	for x, want := range map[float64]string{
		0: "0", 3: "3", 999: "999", 0.123: "0.12", 0.0012: "0.0012", 1.005: "1.00", 12.34: "12.3", 123.4: "123", 1234.5: "1234",
		12345: "12.3k", 123456: "123k", 1234567: "1.23M", math.Inf(1): "∞", -12.34: "-12.3",
	} {
		if got := number(x); got != want {
			t.Errorf("%v is %q, want %q", x, got, want)
		}
	}
}

func TestCellsHaveTheirSpread(t *testing.T) {
	for want, s := range map[string]stat.Spread{
		"":            {},
		"5":           {Q1: 5, Median: 5, Q3: 5, N: 3},
		"5 (4–6)":     {Q1: 4, Median: 5, Q3: 6, N: 3},
		"12.3k (∞–∞)": {Q1: math.Inf(1), Median: 12345, Q3: math.Inf(1), N: 3},
	} {
		if got := cell(s); got != want {
			t.Errorf("%+v is %q, want %q", s, got, want)
		}
	}
}

func TestATableHasItsPeersAndWhatHappened(t *testing.T) {
	s := plan.Scenarios(plan.Quick)[0]
	table := &result.Table{}
	for _, name := range s.Peers {
		table.Add(0, s.ID, name, map[string]float64{result.Rate: 1000, result.Failures: 0})
	}
	text := Table(table, s).Render()
	for _, part := range append(s.Peers, result.Rate, "1000") {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in\n%s", part, text)
		}
	}
	if title := Title(s); !strings.HasPrefix(title, s.ID) || !strings.HasSuffix(title, s.Title) {
		t.Errorf("title %q", title)
	}
	if strings.Contains(text, result.Failures) || strings.Contains(text, result.Allocs) {
		t.Errorf("columns without anything in them:\n%s", text)
	}
	table.Add(1, s.ID, s.Peers[0], map[string]float64{result.Failures: 3})
	if text := Table(table, s).Render(); !strings.Contains(text, result.Failures) {
		t.Errorf("failures are hidden:\n%s", text)
	}
}

func TestAVerdictSaysWhatIsMissed(t *testing.T) {
	text := Verdict([]verdict.Line{
		{ID: "R1", What: "× floor", Value: stat.Of([]float64{0.5}), Must: "≥ 0.8", Aim: "≥ 0.95", Missed: true},
		{ID: "R2", What: "× redsync", Value: stat.Of([]float64{2}), Must: "≥ 1.5", Aim: "≥ 1.8", Aimed: true},
	}).Render()
	for _, part := range []string{"R1", "≥ 0.8", "MISSED", "× redsync", "aim reached"} {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in\n%s", part, text)
		}
	}
}
