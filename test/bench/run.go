package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/redlatch/redlatch/test/bench/internal/chart"
	"github.com/redlatch/redlatch/test/bench/internal/peer"
	"github.com/redlatch/redlatch/test/bench/internal/plan"
	"github.com/redlatch/redlatch/test/bench/internal/report"
	"github.com/redlatch/redlatch/test/bench/internal/result"
	"github.com/redlatch/redlatch/test/bench/internal/verdict"
)

// errFailed is what a run ends with in which redlatch failed. Others may.
var errFailed = errors.New("redlatch failed in a measurement")

// errMissed is what a check ends with that found something.
var errMissed = errors.New("a requirement is missed")

// csvName is the file with all figures.
const csvName = "bench.csv"

// options are common to all that measures.
type options struct {
	Rounds int      `help:"Rounds. Figures are their medians. Default: 5, 2 of quick ones."`
	Quick  bool     `help:"Short measurements, for a look."`
	Only   []string `help:"Requirements to measure, such as R1,R6. Default: all."`
	Dir    string   `default:".tmp/bench" help:"Folder for the CSV file and the charts."`
}

type runCommand struct {
	options
}

// Run measures and shows.
func (c *runCommand) Run(ctx context.Context, to streams) error {
	table, err := c.measure(ctx, to)
	if table == nil {
		return err
	}
	return errors.Join(err, c.show(table, to)) // also what there is of an unfinished run
}

type checkCommand struct {
	options

	From string `help:"Judge this CSV file instead of measuring." type:"existingfile"`
}

// Run judges a run.
func (c *checkCommand) Run(ctx context.Context, to streams) error {
	table, err := c.table(ctx, to)
	if table == nil {
		return err
	}
	lines := verdict.Judge(table)
	fmt.Fprintln(to.out, report.Verdict(lines).Render())
	if verdict.Missed(lines) {
		err = errors.Join(err, errMissed)
	}
	return err
}

func (c *checkCommand) table(ctx context.Context, to streams) (*result.Table, error) {
	if c.From != "" {
		file, err := os.Open(c.From)
		if err != nil {
			return nil, err
		}
		defer file.Close() //nolint:errcheck // nothing was written
		return result.Read(file)
	}
	table, err := c.measure(ctx, to)
	if table == nil {
		return nil, err
	}
	return table, errors.Join(err, c.show(table, to))
}

// scenarios returns the chosen ones.
func (o *options) scenarios() ([]plan.Scenario, error) {
	scale := plan.Full
	if o.Quick {
		scale = plan.Quick
	}
	return o.chosen(plan.Scenarios(scale))
}

func (o *options) chosen(all []plan.Scenario) ([]plan.Scenario, error) {
	if len(o.Only) == 0 {
		return all, nil
	}
	var chosen []plan.Scenario
	for _, id := range o.Only {
		found := slices.DeleteFunc(slices.Clone(all), func(s plan.Scenario) bool { return s.Requirement() != id && s.ID != id })
		if len(found) == 0 {
			return nil, fmt.Errorf("no scenario %q", id)
		}
		chosen = append(chosen, found...)
	}
	return chosen, nil
}

func (o *options) rounds() int {
	switch {
	case o.Rounds > 0:
		return o.Rounds
	case o.Quick:
		return 2
	default:
		return 5
	}
}

// measure runs the rounds and writes the CSV file, also of an unfinished run.
func (o *options) measure(ctx context.Context, to streams) (*result.Table, error) {
	scenarios, err := o.scenarios()
	if err != nil {
		return nil, err
	}
	windows := "; windows: 2 s without contention, 10 s with"
	if o.Quick {
		windows = "; windows: short ones: 0.5 s without contention, 1.5 s with"
	}
	if err := o.saveMachine(ctx, windows, redisAlone); err != nil {
		return nil, err
	}
	return o.run(ctx, to, scenarios)
}

func (o *options) run(ctx context.Context, to streams, scenarios []plan.Scenario) (*result.Table, error) {
	rounds := o.rounds()
	bar := progressbar.NewOptions(
		rounds*len(plan.Steps(scenarios)),
		progressbar.OptionSetWriter(to.errs), progressbar.OptionShowCount(), progressbar.OptionSetWidth(30),
		progressbar.OptionSetPredictTime(true), progressbar.OptionThrottle(time.Second), progressbar.OptionClearOnFinish(),
	)
	var failures []error
	var ours error
	table, err := plan.Run(ctx, scenarios, rounds, plan.Observer{
		Begin: func(step plan.Step) {
			bar.Describe(fmt.Sprintf("%-16s %-16s", step.Scenario.ID, step.Peer))
			_ = bar.Add(1) // fails only past its end
		},
		Fail: func(step plan.Step, err error) {
			failures = append(failures, err)
			if peer.Ours(step.Peer) {
				ours = errFailed
			}
		},
	})
	_ = bar.Finish()
	for _, failure := range failures {
		fmt.Fprintln(to.errs, "bench: not measured:", failure)
	}
	return table, errors.Join(err, ours, o.save(table))
}

func (o *options) save(table *result.Table) error {
	if err := os.MkdirAll(o.Dir, 0o750); err != nil {
		return err
	}
	file, err := os.Create(filepath.Join(o.Dir, csvName))
	if err != nil {
		return err
	}
	return errors.Join(table.Write(file), file.Close())
}

// show prints the tables and draws the charts.
func (o *options) show(table *result.Table, to streams) error {
	scenarios, err := o.scenarios()
	if err != nil {
		return err
	}
	for _, s := range scenarios {
		fmt.Fprintf(to.out, "%s\n%s\n\n", report.Title(s), report.Table(table, s).Render())
	}
	files, err := chart.Write(table, o.Dir)
	for _, file := range append(files, filepath.Join(o.Dir, csvName)) {
		fmt.Fprintln(to.out, "wrote", file)
	}
	return err
}
