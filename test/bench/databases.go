package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/redlatch/redlatch/test/bench/internal/plan"
	"github.com/redlatch/redlatch/test/bench/internal/report"
	"github.com/redlatch/redlatch/test/bench/internal/verdict"
)

// databasesCommand compares locks in databases.
type databasesCommand struct {
	options
}

// Run measures, prints a table, and fails where a requirement is missed.
func (c *databasesCommand) Run(ctx context.Context, to streams) error {
	scale := plan.Full
	if c.Quick {
		scale = plan.Quick
	}
	scenarios, err := c.chosen(plan.DatabaseScenarios(scale))
	if err != nil {
		return err
	}
	if err := c.saveMachine(ctx, "", databases); err != nil {
		return err
	}
	table, err := c.run(ctx, to, scenarios)
	lines := verdict.Judge(table)
	fmt.Fprintf(to.out, "%s\n%s\nwrote %s\n",
		report.Databases(table, plan.Databases(scale)).Render(), report.Verdict(lines).Render(), filepath.Join(c.Dir, csvName))
	if verdict.Missed(lines) {
		err = errors.Join(err, errMissed)
	}
	return err
}
