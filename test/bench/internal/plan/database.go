package plan

import (
	"fmt"

	"github.com/redlatch/redlatch/test/bench/internal/load"
	"github.com/redlatch/redlatch/test/bench/internal/peer"
	"github.com/redlatch/redlatch/test/bench/internal/result"
)

// IDs of scenarios with a database that the requirements name.
const (
	DatabaseOwn16 = "D2"
	DatabaseHot   = "D4"
	DatabaseHeld  = "D6"
)

// Column is a scenario as one column of a table.
type Column struct {
	Scenario

	Metric string
}

// Databases returns the scenarios of [peer.Databases], and the figure that counts in each.
func Databases(scale Scale) []Column {
	var all []string
	for _, p := range peer.Databases {
		all = append(all, p.Name)
	}
	held := min(lease, 10*scale.Contended)
	columns := []Column{
		{Scenario{ID: "D1", Title: "one caller", Kind: load.Cycle, Goroutines: 1}, result.Rate},
		{Scenario{ID: DatabaseOwn16, Title: "16 callers, a key each", Kind: load.Cycle, Goroutines: 16}, result.Rate},
		{Scenario{ID: "D3", Title: "8 processes with 16 callers, a key each", Kind: load.Cycle, Processes: 8, Goroutines: 16}, result.Rate},
		{
			Scenario{ID: DatabaseHot, Title: "8 processes with 16 callers, one key", Kind: load.Cycle, Processes: 8, Goroutines: 16, Hot: true, Window: scale.Contended},
			result.Rate,
		},
		{
			Scenario{ID: "D5", Title: "hand-off between two processes", Kind: load.HandOff, Processes: 2, Goroutines: 1, Hot: true, Window: scale.Contended / 2},
			result.P50,
		},
		{
			// A third of the lease is the time between two renewals.
			Scenario{ID: DatabaseHeld, Title: fmt.Sprintf("%d locks held", scale.Held), Kind: load.Hold, Count: scale.Held, Lease: held, Window: held * 2 / 5},
			result.Commands,
		},
	}
	for i := range columns {
		c := &columns[i]
		c.Peers = all
		if c.Kind == load.Hold { // what needs a connection for each lock can't
			c.Peers = without(without(all, peer.Session), peer.ForUpdate)
		}
		c.complete(scale)
	}
	return columns
}

// DatabaseScenarios are the scenarios of [Databases].
func DatabaseScenarios(scale Scale) []Scenario {
	var all []Scenario
	for _, c := range Databases(scale) {
		all = append(all, c.Scenario)
	}
	return all
}
