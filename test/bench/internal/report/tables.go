// Package report prints what was measured.
package report

import (
	"fmt"
	"math"
	"slices"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/redlatch/redlatch/test/bench/internal/load"
	"github.com/redlatch/redlatch/test/bench/internal/peer"
	"github.com/redlatch/redlatch/test/bench/internal/plan"
	"github.com/redlatch/redlatch/test/bench/internal/result"
	"github.com/redlatch/redlatch/test/bench/internal/stat"
	"github.com/redlatch/redlatch/test/bench/internal/verdict"
)

var costs = []string{result.Calls, result.RedisCPU, result.ClientCPU, result.Allocs, result.Failures}

// exceptions are metrics that have a column only if there were any.
var exceptions = []string{result.Failures, result.Stuck, result.Inversions}

// columns are the metrics that a table of the scenario shows.
func columns(s plan.Scenario) []string {
	switch {
	case s.Far > 0:
		return []string{
			result.Rate, result.FarRate, result.FarShare, result.FarMax, result.Calls, result.Changes, result.Max, result.Overlaps, result.Failures,
		}
	case s.Kind == load.Cycle && s.Hot:
		return []string{
			result.Rate, result.Calls, result.Jain, result.Worst, result.Best, result.Changes, result.P50, result.P99, result.Max,
			result.RedisTime, result.Overlaps, result.Inversions, result.Failures,
		}
	case s.Kind == load.Cycle:
		return slices.Concat([]string{result.Rate}, costs, []string{result.Stuck})
	case s.Kind == load.Hold:
		return []string{result.Goroutines, result.PerLock, result.Commands, result.P99, result.Slowdown, result.Failures}
	case s.Kind == load.HandOff:
		return []string{result.P50, result.P99, result.Calls, result.Overlaps, result.Failures}
	case s.Kind == load.Keys:
		return []string{result.Rate, result.Calls, result.ClientCPU, result.KeysLeft, result.Goroutines, result.SubsLeft, result.Memory}
	case s.Kind == load.Handler:
		return []string{result.ClientCPU, result.Allocs}
	default:
		return slices.Concat([]string{result.Rate}, costs)
	}
}

// Title heads the table of a scenario.
func Title(s plan.Scenario) string { return s.ID + ": " + s.Title }

// Table is one scenario: a peer a row, medians with their quartiles.
func Table(t *result.Table, s plan.Scenario) table.Writer {
	out := table.NewWriter()
	metrics := slices.DeleteFunc(columns(s), func(metric string) bool {
		return !slices.ContainsFunc(s.Peers, func(name string) bool {
			spread := t.Spread(s.ID, name, metric)
			return spread.N > 0 && (spread.Max != 0 || !slices.Contains(exceptions, metric))
		})
	})
	head := table.Row{""}
	configs := []table.ColumnConfig{}
	for i, metric := range metrics {
		head = append(head, metric)
		configs = append(configs, table.ColumnConfig{Number: i + 2, Align: text.AlignRight, AlignHeader: text.AlignRight})
	}
	out.AppendHeader(head)
	out.SetColumnConfigs(configs)
	for _, name := range s.Peers {
		row := table.Row{name}
		for _, metric := range metrics {
			row = append(row, cell(t.Spread(s.ID, name, metric)))
		}
		out.AppendRow(row)
	}
	plain(out)
	return out
}

// Series is one load, a size a row.
func Series(t *result.Table, s plan.Series) table.Writer {
	out := table.NewWriter()
	metrics := append(slices.Clone(s.Metrics), result.Seconds)
	head, configs := table.Row{s.Of}, []table.ColumnConfig{{Number: 1, Align: text.AlignRight, AlignHeader: text.AlignRight}}
	for i, metric := range metrics {
		head = append(head, metric)
		configs = append(configs, table.ColumnConfig{Number: i + 2, Align: text.AlignRight, AlignHeader: text.AlignRight})
	}
	out.AppendHeader(head)
	out.SetColumnConfigs(configs)
	for _, size := range s.Sizes {
		row := table.Row{size.N}
		for _, metric := range metrics {
			row = append(row, cell(t.Spread(size.ID, size.Peers[0], metric)))
		}
		out.AppendRow(row)
	}
	plain(out)
	return out
}

// Databases is all scenarios with a database: a peer a row, medians with their quartiles.
func Databases(t *result.Table, columns []plan.Column) table.Writer {
	out := table.NewWriter()
	head, configs := table.Row{""}, []table.ColumnConfig{}
	for i, c := range columns {
		head = append(head, c.Title+", "+c.Metric)
		configs = append(configs, table.ColumnConfig{Number: i + 2, Align: text.AlignRight, AlignHeader: text.AlignRight, WidthMax: 16, WidthMaxEnforcer: text.WrapSoft})
	}
	out.AppendHeader(head)
	out.SetColumnConfigs(configs)
	for _, p := range peer.Databases {
		row := table.Row{p.Name}
		for _, c := range columns {
			row = append(row, cell(t.Spread(c.ID, p.Name, c.Metric)))
		}
		out.AppendRow(row)
	}
	plain(out)
	return out
}

// Verdict is the list of requirements.
func Verdict(lines []verdict.Line) table.Writer {
	out := table.NewWriter()
	out.AppendHeader(table.Row{"", "figure", "median (quartiles)", "must", "aim", ""})
	out.SetColumnConfigs([]table.ColumnConfig{{Number: 3, Align: text.AlignRight}})
	for _, line := range lines {
		says := "ok"
		switch {
		case line.Missed:
			says = "MISSED"
		case line.Aim != "" && line.Aimed:
			says = "ok, aim reached"
		}
		out.AppendRow(table.Row{line.ID, line.What, cell(line.Value), line.Must, line.Aim, says})
	}
	plain(out)
	return out
}

func plain(out table.Writer) {
	out.SetStyle(table.StyleLight)
	out.Style().Format.Header = text.FormatDefault
}

// cell writes a spread; one without width as a single number.
func cell(s stat.Spread) string {
	if s.N == 0 {
		return ""
	}
	median, q1, q3 := number(s.Median), number(s.Q1), number(s.Q3)
	if q1 == median && q3 == median {
		return median
	}
	return fmt.Sprintf("%s (%s–%s)", median, q1, q3)
}

// number has three digits, and thousands as k.
func number(x float64) string {
	size := math.Abs(x)
	switch {
	case math.IsInf(x, 1):
		return "∞"
	case x == math.Trunc(x) && size < 1000:
		return fmt.Sprintf("%.0f", x)
	case size >= 999_500:
		return fmt.Sprintf("%.2fM", x/1e6)
	case size >= 99_950:
		return fmt.Sprintf("%.0fk", x/1e3)
	case size >= 9_995:
		return fmt.Sprintf("%.1fk", x/1e3)
	case size >= 100:
		return fmt.Sprintf("%.0f", x)
	case size >= 10:
		return fmt.Sprintf("%.1f", x)
	case size >= 0.01:
		return fmt.Sprintf("%.2f", x)
	default:
		return fmt.Sprintf("%.2g", x)
	}
}
