package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/redlatch/redlatch/test/bench/internal/chart"
	"github.com/redlatch/redlatch/test/bench/internal/plan"
	"github.com/redlatch/redlatch/test/bench/internal/report"
	"github.com/redlatch/redlatch/test/bench/internal/result"
	"github.com/redlatch/redlatch/test/bench/internal/verdict"
)

// docsCommand renews what a document quotes of a run.
type docsCommand struct {
	From  string   `required:"" type:"existingfile" help:"The CSV file of a run."`
	Files []string `arg:"" type:"existingfile" help:"Documents with parts between <!-- bench R1 --> and <!-- end -->. Charts go into the folder 'benchmarks', in which the documents are or which is next to them."`
}

// chartFolder is where charts are.
const chartFolder = "benchmarks"

// charts returns the folder of the charts that a document shows, and the way to it from
// the document.
func charts(document string) (dir, link string) {
	dir = filepath.Dir(document)
	if filepath.Base(dir) == chartFolder {
		return dir, ""
	}
	return filepath.Join(dir, chartFolder), chartFolder + "/"
}

// quoted is a part of a document that a run writes: the table of a scenario by
// its ID, that of a series by "scale" and its name, "chart" and a name, "databases", "verdict" or "machine".
var quoted = regexp.MustCompile(`(?s)<!-- bench ([^>]+?) -->\n.*?<!-- end -->`)

// Run replaces the parts, and draws the charts.
func (c *docsCommand) Run() error {
	file, err := os.Open(c.From)
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // nothing was written
	table, err := result.Read(file)
	if err != nil {
		return err
	}
	for _, name := range c.Files {
		old, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		dir, link := charts(name)
		text, err := quote(old, c.From, link, table)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := os.WriteFile(name, text, 0o644); err != nil {
			return err
		}
		if _, err := chart.Write(table, dir); err != nil {
			return err
		}
	}
	return nil
}

func quote(document []byte, from, link string, table *result.Table) ([]byte, error) {
	var failures []error
	text := quoted.ReplaceAllFunc(document, func(part []byte) []byte {
		name := string(quoted.FindSubmatch(part)[1])
		body, err := quotation(name, from, link, table)
		failures = append(failures, err)
		return fmt.Appendf(nil, "<!-- bench %s -->\n%s\n<!-- end -->", name, body)
	})
	if len(failures) == 0 {
		return nil, errors.New("it quotes nothing")
	}
	return text, errors.Join(failures...)
}

func quotation(name, from, link string, table *result.Table) (string, error) {
	if file, ok := strings.CutPrefix(name, "chart "); ok {
		title, ok := chart.Title(file)
		if !ok {
			return "", fmt.Errorf("no chart %q", file)
		}
		light := link + file + ".svg"
		return fmt.Sprintf("<picture>\n  <source media=\"(prefers-color-scheme: dark)\" srcset=\"%s\">\n  <img alt=\"%s\" src=\"%s\">\n</picture>",
			chart.Dark(light), title, light), nil
	}
	switch name {
	case "verdict":
		return report.Verdict(verdict.Judge(table)).RenderMarkdown(), nil
	case "machine":
		text, err := os.ReadFile(filepath.Join(filepath.Dir(from), machineName))
		return strings.TrimSpace(string(text)), err
	}
	if series, ok := strings.CutPrefix(name, "scale "); ok {
		return scaled(series, table)
	}
	if name == "databases" {
		columns := plan.Databases(plan.Full)
		if !table.Has(columns[0].ID) {
			return "", errors.New("the column of databases was not measured")
		}
		return report.Databases(table, columns).RenderMarkdown(), nil
	}
	scenarios := plan.Scenarios(plan.Full)
	i := slices.IndexFunc(scenarios, func(s plan.Scenario) bool { return s.ID == name })
	if i < 0 {
		return "", fmt.Errorf("no scenario %q", name)
	}
	if !table.Has(name) {
		return "", fmt.Errorf("%s was not measured", name)
	}
	return report.Table(table, scenarios[i]).RenderMarkdown(), nil
}
