package machine

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	all    = flag.Bool("explore", false, "explore all states of all scopes but the long ones")
	long   = flag.Bool("long", false, "explore the long scopes as well")
	only   = flag.String("scope", "", "explore only the scopes whose names begin with one of these, separated by |")
	most   = flag.Int("most", 0, "the most states of a scope; 0 means all")
	every  = flag.Int("audit", 0, "compare the successors of each so many merged states")
	keep   = flag.String("keep", "", "keep the trace of what is found in this file")
	report = flag.String("report", "", "write the table of the scopes into this file, between its marks")
)

// glance is how many states of each scope go test looks at without a flag.
const glance = 1500

func (sc *scope) chosen() bool {
	return matches(sc.name, *only) && (*long || !sc.long || sc.name+"$" == *only)
}

// matches says whether a name begins with one of these, separated by |; one that ends
// with $ is a whole name.
func matches(name, these string) bool {
	for o := range strings.SplitSeq(these, "|") {
		if strings.HasPrefix(name+"$", o) {
			return true
		}
	}
	return false
}

// result is a row of the table of the scopes.
type result struct {
	states, moves int
	took          time.Duration
}

func TestExplore(t *testing.T) {
	states := *most
	if !*all && !*long && *only == "" {
		states = glance
	}
	var mu sync.Mutex
	seen, results := transitions{}, map[string]result{}
	began, peak := time.Now(), uint64(0)
	list := scopes()
	t.Run("scopes", func(t *testing.T) {
		for _, sc := range list {
			if !sc.chosen() {
				continue
			}
			t.Run(sc.name, func(t *testing.T) {
				t.Parallel()
				x, took := explored(t, sc, states)
				mu.Lock()
				defer mu.Unlock()
				maps.Copy(seen, x.seen)
				results[sc.name] = result{len(x.parent), x.moves, took}
				var mem runtime.MemStats
				runtime.ReadMemStats(&mem)
				peak = max(peak, mem.HeapSys)
			})
		}
	})
	if t.Failed() || *only != "" || *every > 0 {
		return
	}
	checkTransitions(t, seen, states == 0, *long)
	if *report != "" {
		writeReport(t, list, results, time.Since(began), peak)
	}
}

// explored explores one scope, and fails the test if something is found.
func explored(t *testing.T, sc *scope, states int) (*explorer, time.Duration) {
	t.Helper()
	began := time.Now()
	x := sc.explore(states, *every)
	took := time.Since(began)
	t.Logf("%d states, %d moves, %.2fs", len(x.parent), x.moves, took.Seconds())
	if *every > 0 {
		checked, wrong, example := x.audit()
		t.Logf("audit: %d merged states compared", checked)
		if wrong > 0 {
			t.Errorf("audit: %d of %d merged states have other successors %s", wrong, checked, example)
		}
	}
	if x.bad != "" {
		steps, w := x.trace()
		text := fmt.Sprintf("# scope: %s\n# found: %s\n%s\n", sc.name, x.bad, strings.Join(steps, "\n"))
		if *keep != "" {
			if err := os.WriteFile(*keep, []byte(text), 0o600); err != nil {
				t.Error(err)
			}
		}
		t.Fatalf("found after %d states and %d moves: %s\n%s%s", len(x.parent), len(steps), x.bad, text, w)
	}
	x.states, x.spare, x.table, x.edges, x.parent = nil, nil, table{}, nil, x.parent[:len(x.parent):len(x.parent)]
	return x, took
}

const tableBegins, tableEnds = "<!-- written by make explore-docs -->", "<!-- end -->"

// writeReport writes the table of the scopes into a document.
func writeReport(t *testing.T, list []*scope, results map[string]result, took time.Duration, peak uint64) {
	t.Helper()
	text, err := os.ReadFile(*report)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), tableBegins)
	_, after, ok2 := strings.Cut(rest, tableEnds)
	if !ok || !ok2 {
		t.Fatalf("%s has no marks", *report)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n| scope | states | moves | seconds |\n|---|---|---|---|\n", tableBegins)
	var sum result
	for _, sc := range list {
		r, ok := results[sc.name]
		if !ok {
			continue
		}
		fmt.Fprintf(&b, "| %s | %d | %d | %.1f |\n", sc.name, r.states, r.moves, r.took.Seconds())
		sum.states, sum.moves = sum.states+r.states, sum.moves+r.moves
	}
	fmt.Fprintf(&b, "| **%d scopes** | **%d** | **%d** | **%.0f**, %d cores, %d MB |\n\n%s", len(results), sum.states, sum.moves, took.Seconds(), runtime.GOMAXPROCS(0), peak>>20, tableEnds)
	if err := os.WriteFile(*report, []byte(before+b.String()+after), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestScopesHaveNames is that each has its own.
func TestScopesHaveNames(t *testing.T) {
	var names []string
	for _, sc := range scopes() {
		names = append(names, sc.name)
	}
	slices.Sort(names)
	if n := len(slices.Compact(names)); n != len(scopes()) {
		t.Errorf("%d scopes have %d names", len(scopes()), n)
	}
}
