package plan

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"

	"github.com/redlatch/redlatch/test/bench/internal/result"
)

// Step is one measurement of a round.
type Step struct {
	Scenario Scenario
	Peer     string
}

// Steps are the measurements of one round, in the order of the scenarios.
func Steps(scenarios []Scenario) []Step {
	var steps []Step
	for _, s := range scenarios {
		for _, name := range s.Peers {
			steps = append(steps, Step{Scenario: s, Peer: name})
		}
	}
	return steps
}

// Observer sees the steps of a run.
type Observer struct {
	Begin func(Step)
	// Fail gets what couldn't be measured because a peer failed or hung: the
	// run goes on.
	Fail func(Step, error)
}

// Run measures every scenario for every peer in each round, in a random order,
// so that what disturbs the machine for a while disturbs all of them alike.
func Run(ctx context.Context, scenarios []Scenario, rounds int, o Observer) (*result.Table, error) {
	table := &result.Table{}
	for round := range rounds {
		steps := Steps(scenarios)
		rand.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
		for _, step := range steps {
			o.Begin(step)
			metrics, err := inFolder(func(dir string) (map[string]float64, error) {
				return Measure(ctx, dir, step.Scenario, step.Peer)
			})
			switch {
			case err == nil:
				table.Add(round, step.Scenario.ID, step.Peer, metrics)
			case ctx.Err() != nil:
				return table, err
			default:
				o.Fail(step, err)
			}
		}
	}
	return table, nil
}

// inFolder calls do with a folder that exists as long as the call.
func inFolder(do func(dir string) (map[string]float64, error)) (map[string]float64, error) {
	dir, err := os.MkdirTemp("", "redlatch-bench-")
	if err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it is a temporary one
	return do(dir)
}
