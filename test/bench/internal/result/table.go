// Package result keeps what was measured, in rows that can be written to a file
// and read again.
package result

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/redlatch/redlatch/test/bench/internal/stat"
)

// Row is one figure of one measurement.
type Row struct {
	Round    int
	Scenario string
	Peer     string
	Metric   string
	Value    float64
}

// Names of metrics.
const (
	Rate        = "ops/s"              // lock and unlock, a grant, a refusal or a request
	Calls       = "commands/op"        // that the library sent, without those inside scripts
	Commands    = "commands/s"         // the same in a second
	RedisCPU    = "redis CPU µs/op"    // of the server's main thread
	RedisTime   = "redis script µs/op" // inside the commands
	ClientCPU   = "client CPU µs/op"
	Allocs      = "allocs/op"
	Jain        = "Jain"
	Worst       = "worst served"
	Best        = "best served"
	P50         = "wait p50 ms"
	P99         = "wait p99 ms"
	Max         = "wait max ms"
	FarRate     = "far ops/s" // of the process that is farther away
	FarShare    = "far %"
	FarMax      = "far wait max ms"
	Changes     = "owner changes/s"
	Overlaps    = "overlaps"
	Inversions  = "inversions"
	Stuck       = "stuck"
	Failures    = "failures"
	Goroutines  = "goroutines added"
	Memory      = "bytes added"
	PerLock     = "bytes/lock"
	Slowdown    = "foreground p99 × idle"
	RedisShare  = "redis CPU %"
	ClientShare = "client CPU %"
	Seconds     = "measured for s"
	KeysLeft    = "keys left"
	SubsLeft    = "subscriptions left"
)

// Table is all rows of a run.
type Table struct{ Rows []Row }

// Add adds the metrics of one measurement.
func (t *Table) Add(round int, scenario, peer string, metrics map[string]float64) {
	for metric, value := range metrics {
		t.Rows = append(t.Rows, Row{Round: round, Scenario: scenario, Peer: peer, Metric: metric, Value: value})
	}
}

// Rounds is the number of rounds.
func (t *Table) Rounds() int {
	rounds := 0
	for _, row := range t.Rows {
		rounds = max(rounds, row.Round+1)
	}
	return rounds
}

// Has reports whether anything was measured in the scenario.
func (t *Table) Has(scenario string) bool {
	return slices.ContainsFunc(t.Rows, func(r Row) bool { return r.Scenario == scenario })
}

// Get returns one figure of one round.
func (t *Table) Get(round int, scenario, peer, metric string) (float64, bool) {
	for _, row := range t.Rows {
		if row.Round == round && row.Scenario == scenario && row.Peer == peer && row.Metric == metric {
			return row.Value, true
		}
	}
	return 0, false
}

// Spread returns the spread of a figure over the rounds; its N is 0 where it
// wasn't measured.
func (t *Table) Spread(scenario, peer, metric string) stat.Spread {
	var values []float64
	for _, row := range t.Rows {
		if row.Scenario == scenario && row.Peer == peer && row.Metric == metric {
			values = append(values, row.Value)
		}
	}
	return stat.Of(values)
}

var header = []string{"round", "scenario", "peer", "metric", "value"}

// Write writes the rows as CSV, sorted.
func (t *Table) Write(w io.Writer) error {
	lines := make([][]string, 0, len(t.Rows))
	for _, row := range t.Rows {
		lines = append(lines, []string{
			strconv.Itoa(row.Round), row.Scenario, row.Peer, row.Metric, strconv.FormatFloat(row.Value, 'g', 8, 64),
		})
	}
	slices.SortStableFunc(lines, slices.Compare)
	out := csv.NewWriter(w)
	if err := out.WriteAll(append([][]string{header}, lines...)); err != nil {
		return fmt.Errorf("result: %w", err)
	}
	return nil
}

// Read reads what Write wrote.
func Read(r io.Reader) (*Table, error) {
	lines, err := csv.NewReader(r).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("result: %w", err)
	}
	if len(lines) == 0 || !slices.Equal(lines[0], header) {
		return nil, fmt.Errorf("result: the first line is not %q", header)
	}
	t := &Table{}
	for i, line := range lines[1:] {
		round, err := strconv.Atoi(line[0])
		if err != nil {
			return nil, fmt.Errorf("result: line %d: %w", i+2, err)
		}
		value, err := strconv.ParseFloat(line[4], 64)
		if err != nil {
			return nil, fmt.Errorf("result: line %d: %w", i+2, err)
		}
		t.Rows = append(t.Rows, Row{Round: round, Scenario: line[1], Peer: line[2], Metric: line[3], Value: value})
	}
	return t, nil
}
