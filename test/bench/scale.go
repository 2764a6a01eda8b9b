package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/redlatch/redlatch/test/bench/internal/plan"
	"github.com/redlatch/redlatch/test/bench/internal/report"
	"github.com/redlatch/redlatch/test/bench/internal/result"
)

// scaleCommand measures how cost grows.
type scaleCommand struct {
	Rounds int      `default:"1" help:"Rounds. Figures are their medians."`
	Quick  bool     `help:"Windows and numbers of keys a tenth as large, for a look."`
	Only   []string `help:"Series to measure, such as waiters,processes. Default: all."`
	Dir    string   `default:".tmp/scale" help:"Folder for the CSV file."`
}

// Run measures and prints tables.
func (c *scaleCommand) Run(ctx context.Context, to streams) error {
	chosen, err := c.series()
	if err != nil {
		return err
	}
	var scenarios []plan.Scenario
	for _, s := range chosen {
		scenarios = append(scenarios, s.Scenarios()...)
	}
	o := options{Rounds: c.Rounds, Quick: c.Quick, Dir: c.Dir}
	if err := o.saveMachine(ctx, "", redisAlone); err != nil {
		return err
	}
	table, err := o.run(ctx, to, scenarios)
	for _, s := range chosen {
		fmt.Fprintf(to.out, "%s: %s\n%s\n\n", s.Name, s.Title, report.Series(table, s).Render())
	}
	fmt.Fprintln(to.out, "wrote", filepath.Join(c.Dir, csvName))
	return err
}

// series returns the chosen ones.
func (c *scaleCommand) series() ([]plan.Series, error) {
	divisor := 1
	if c.Quick {
		divisor = 10
	}
	all := plan.Scaling(divisor)
	for _, name := range c.Only {
		if !slices.ContainsFunc(all, func(s plan.Series) bool { return s.Name == name }) {
			return nil, fmt.Errorf("no series %q", name)
		}
	}
	return slices.DeleteFunc(all, func(s plan.Series) bool { return len(c.Only) > 0 && !slices.Contains(c.Only, s.Name) }), nil
}

// scaled is the table of a series, for a document.
func scaled(name string, table *result.Table) (string, error) {
	for _, s := range plan.Scaling(1) {
		if s.Name != name {
			continue
		}
		if !table.Has(s.Sizes[0].ID) {
			return "", errors.New(name + " was not measured")
		}
		return report.Series(table, s).RenderMarkdown(), nil
	}
	return "", fmt.Errorf("no series %q", name)
}
