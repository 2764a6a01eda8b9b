package load

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// Print writes the result as a table.
func (r *Result) Print(w io.Writer) error {
	t := table.NewWriter()
	t.SetStyle(table.StyleRounded)
	t.SetColumnConfigs([]table.ColumnConfig{{Number: 2, Align: text.AlignRight}})

	t.AppendRow(table.Row{"clicks", r.Clicks})
	t.AppendRow(table.Row{"requests", r.Requests})
	t.AppendRow(table.Row{"orders", r.Orders})
	counts(t, "refused: ", r.Refused)
	counts(t, "retried: ", r.Retried)
	counts(t, "no answer: ", r.Failures)
	t.AppendSeparator()
	t.AppendRow(table.Row{"latency p50", brief(r.P50)})
	t.AppendRow(table.Row{"latency p95", brief(r.P95)})
	t.AppendRow(table.Row{"latency p99", brief(r.P99)})
	t.AppendRow(table.Row{"orders/s", fmt.Sprintf("%.0f", r.OrdersPerSecond)})
	t.AppendRow(table.Row{"requests/s", fmt.Sprintf("%.0f", float64(r.Requests)/r.Elapsed.Seconds())})
	t.AppendRow(table.Row{"elapsed", brief(r.Elapsed)})
	t.AppendSeparator()
	t.AppendRow(table.Row{"report: stock", r.Report.Stock})
	t.AppendRow(table.Row{"report: sold", r.Report.Sold})
	t.AppendRow(table.Row{"report: orders", r.Report.Orders})
	t.AppendRow(table.Row{"report: distinct users", r.Report.DistinctUsers})
	t.AppendRow(table.Row{"report: oversold", r.Report.Oversold})
	t.AppendRow(table.Row{"report: duplicate orders", r.Report.DuplicateOrders})
	t.AppendSeparator()
	for _, i := range r.Invariants {
		verdict := "holds"
		if !i.Holds {
			verdict = "BROKEN: " + i.Detail
		}
		t.AppendRow(table.Row{i.Name, verdict})
	}
	_, err := fmt.Fprintf(w, "%d users × %d clicks, stock %d\n%s\n", r.Config.Users, r.Config.Clicks, r.Config.Stock, t.Render())
	return err
}

func counts(t table.Writer, prefix string, by map[string]int64) {
	for _, name := range slices.Sorted(maps.Keys(by)) {
		t.AppendRow(table.Row{prefix + name, by[name]})
	}
}

// brief keeps three digits or so.
func brief(d time.Duration) string {
	switch {
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	default:
		return d.Round(time.Microsecond).String()
	}
}
