package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/redlatch/redlatch/test/chaos/internal/check"
	"github.com/redlatch/redlatch/test/chaos/internal/history"
)

// Summary is what a run comes to.
type Summary struct {
	Flags
	End

	Attempts int                     `json:"attempts"`
	Outcomes map[history.Outcome]int `json:"outcomes"` // of attempts
	Grants   map[string]int          `json:"grants"`   // by mode, re-entries included
	Lost     int                     `json:"leasesLost"`
	Terms    int                     `json:"terms"`        // of leaders
	Kept     int                     `json:"minimumHolds"` // that outlasted their release
	Nested   int                     `json:"reentries"`
	Lowered  int                     `json:"lowered"`   // writers who read on
	Rare     int                     `json:"rareWaits"` // that rely on being woken
	Faults   map[string]int          `json:"faults"`

	Violations []check.Violation `json:"violations"`
	// Excused are overlaps at a time when Redis may have lost data.
	Excused int `json:"overlapsExcused"`
	// Passed are waiters of fair locks that others came before because they
	// were disturbed.
	Passed     int            `json:"fairPassed"`
	Histories  check.Verdicts `json:"histories"`
	Handoffs   int            `json:"handoffs"`         // inside a process
	Declined   int            `json:"handoffsDeclined"` // to callers who had given up
	Ghosts     int            `json:"unknownOwners"`
	Explained  int            `json:"refusalsOnlyTheyExplain"`
	Exits      int            `json:"cleanExits"`
	CheckTook  time.Duration  `json:"checkTook"`
	FaultTotal int            `json:"faultTotal"`
	Planned    int            `json:"faultsPlanned"`
	// MastersChanges are times in which masters changed, by a fault or by
	// themselves.
	MastersChanges int `json:"mastersChanges"`
}

func (s *Summary) judge(events []history.Event, faults []history.Fault, pictures string) error {
	start := time.Now()
	s.Outcomes, s.Grants, s.Faults = make(map[history.Outcome]int), make(map[string]int), make(map[string]int)
	slices.SortFunc(faults, func(a, b history.Fault) int { return cmp.Compare(a.From, b.From) })
	for _, f := range faults {
		if f.Kind == check.MastersChange {
			s.MastersChanges++
			continue
		}
		s.Faults[f.Kind]++
		s.FaultTotal++
	}
	for i := range events {
		s.count(&events[i])
	}
	t := check.NewTimeline(s.Settings, events, faults)
	s.Violations, s.Excused = t.Rules()
	unfair, passed := t.Fair()
	s.Passed = passed
	searched, err := t.Search(pictures)
	if err != nil {
		return err
	}
	s.Histories = searched
	s.Violations = slices.Concat(s.Violations, unfair, t.Liveness(), searched.Found)
	s.Histories.Found = nil
	s.Ghosts, s.Explained = t.Doubts()
	s.Handoffs, s.Declined = t.Handoffs()
	s.Broken = append(s.Broken, s.quiet()...)
	s.CheckTook = time.Since(start)
	return nil
}

// quiet says why a run proves nothing, although nothing went wrong: too little
// happened. It asks for no speed, as all that happens is compared with what
// else did.
func (s *Summary) quiet() (reasons []string) {
	grants := 0
	for _, n := range s.Grants {
		grants += n
	}
	if 2*s.FaultTotal < s.Planned {
		reasons = append(reasons, fmt.Sprintf("only %d of %d planned faults came about", s.FaultTotal, s.Planned))
	}
	if grants == 0 || grants < s.FaultTotal {
		reasons = append(reasons, fmt.Sprintf("only %d grants under %d faults", grants, s.FaultTotal))
	}
	if s.Handoff && s.Mode == "all" && s.Duration >= enough && s.Handoffs == 0 {
		reasons = append(reasons, "no hold was handed on")
	}
	if s.Mode == "all" && s.Duration >= enough && s.Terms == 0 {
		reasons = append(reasons, "nobody led")
	}
	if s.Keep > 0 && s.Duration >= enough && s.Kept == 0 {
		reasons = append(reasons, "no minimum hold outlasted its release")
	}
	if s.Mode == "all" && s.Duration >= enough && (s.Nested == 0 || s.Lowered == 0) {
		reasons = append(reasons, "nobody re-entered, or no writer read on")
	}
	if s.Mode == "all" && s.Duration >= enough && s.Rare == 0 {
		reasons = append(reasons, "no waiter relied on being woken")
	}
	return reasons
}

// enough time passes in a run for each of these.
const enough = 10 * time.Second

func (s *Summary) count(e *history.Event) {
	switch e.Kind {
	case history.Acquire:
		s.Attempts++
		s.Outcomes[e.Outcome]++
		if e.Outcome == history.OK {
			s.Grants[e.Mode]++
			if strings.HasPrefix(e.Key, history.Offices) {
				s.Terms++
			}
			if e.Nested {
				s.Nested++
			}
		}
	case history.Waiting:
		if strings.Contains(e.Key, history.Rare) {
			s.Rare++
		}
	case history.Lowered:
		if e.Outcome == history.OK {
			s.Lowered++
		}
	case history.Freed:
		if e.Keep > e.Return && e.Outcome == history.OK {
			s.Kept++
		}
	case history.Release:
		if e.Outcome == history.Lost || e.Outcome == history.NotHeld {
			s.Lost++
		}
	case history.Exit:
		s.Exits++
		if e.Outcome != history.OK {
			s.Leaks = append(s.Leaks, fmt.Sprintf("worker %d: %s", e.Worker, e.Note))
		}
	default:
	}
}

// Sound says whether every promise held, and the run as such worked.
func (s *Summary) Sound() bool {
	return len(s.Violations) == 0 && len(s.Leaks) == 0 && len(s.Broken) == 0 && s.End.Lost == 0
}

// Rules are the names of the rules that are broken, sorted.
func (s *Summary) Rules() []string {
	rules := make(map[string]bool)
	for _, v := range s.Violations {
		rules[v.Rule] = true
	}
	return slices.Sorted(maps.Keys(rules))
}

// Print writes the summary as a table, and what is wrong below it.
func (s *Summary) Print(w io.Writer) {
	t := table.NewWriter()
	t.SetStyle(table.StyleRounded)
	t.SetColumnConfigs([]table.ColumnConfig{{Number: 2, Align: text.AlignRight}})
	row := func(name string, value any) { t.AppendRow(table.Row{name, value}) }
	row("attempts", s.Attempts)
	for _, outcome := range slices.Sorted(maps.Keys(s.Outcomes)) {
		row("  "+string(outcome), s.Outcomes[outcome])
	}
	for _, mode := range slices.Sorted(maps.Keys(s.Grants)) {
		row("grants: "+mode, s.Grants[mode])
	}
	row("handed on, declined", fmt.Sprintf("%d, %d", s.Handoffs, s.Declined))
	row("minimum holds, terms of leaders", fmt.Sprintf("%d, %d", s.Kept, s.Terms))
	row("re-entries, writers who read on", fmt.Sprintf("%d, %d", s.Nested, s.Lowered))
	row("waits that rely on being woken", s.Rare)
	row("leases lost", s.Lost)
	t.AppendSeparator()
	row("faults", fmt.Sprintf("%d of %d", s.FaultTotal, s.Planned))
	for _, kind := range slices.Sorted(maps.Keys(s.Faults)) {
		row("  "+kind, s.Faults[kind])
	}
	row("masters changed", s.MastersChanges)
	t.AppendSeparator()
	row("fenced writes", s.Fenced)
	row("fenced writes lost", s.End.Lost)
	row("stale requests refused", s.Stale)
	row("unfenced writes", s.Plain)
	row("unfenced writes lost", fmt.Sprintf("%d (%.2f %%)", s.PlainLost, 100*float64(s.PlainLost)/float64(max(s.Plain, 1))))
	t.AppendSeparator()
	row("histories Ok", s.Histories.OK)
	row("histories Illegal", s.Histories.Illegal)
	row("histories Unknown", s.Histories.Unknown)
	row("  set aside, data may be lost", s.Histories.Aside)
	row("  operations, most in one", fmt.Sprintf("%d, %d", s.Histories.Operations, s.Histories.Largest))
	row("  unknown owners, refusals only by them", fmt.Sprintf("%d, %d", s.Ghosts, s.Explained))
	row("overlaps excused, data lost", s.Excused)
	row("fair waiters passed, disturbed", s.Passed)
	t.AppendSeparator()
	row("violations", len(s.Violations))
	row("leaks", len(s.Leaks))
	row("elapsed, checks", fmt.Sprintf("%v, %v", s.Elapsed.Round(time.Millisecond), s.CheckTook.Round(time.Millisecond)))
	fmt.Fprintln(w, t.Render())
	for i, v := range s.Violations {
		if i == 20 {
			fmt.Fprintf(w, "... and %d more, see summary.json\n", len(s.Violations)-i)
			break
		}
		fmt.Fprintln(w, "VIOLATION", v)
	}
	for _, leak := range s.Leaks {
		fmt.Fprintln(w, "LEAK", leak)
	}
	for _, broken := range s.Broken {
		fmt.Fprintln(w, "INVALID RUN", broken)
	}
}
