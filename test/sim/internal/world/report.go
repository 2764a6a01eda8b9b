package world

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redlatch/redlatch/test/sim/internal/judge"
)

// Report is what became of a world.
type Report struct {
	Config
	Findings []judge.Finding
	Lines    []string // the last of the journal
	Counts   map[string]int
	Virtual  time.Duration
	Start    time.Time
}

const (
	// shown is how many findings a report spells out: one fault has many signs.
	shown = 8
	// listed is how many events it lists.
	listed = 70
)

// String is what somebody needs who is to find the cause.
func (r *Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d, features %s: %d findings\n", r.Seed, r.Features, len(r.Findings))
	r.Findings = slices.SortedStableFunc(slices.Values(r.Findings), func(a, b judge.Finding) int {
		return cmp.Compare(gravity(a), gravity(b))
	})
	for _, f := range r.Findings[:min(shown, len(r.Findings))] {
		fmt.Fprintf(&b, "  %v %s: %s\n", f.At.Sub(r.Start), f.Rule, f.Detail)
	}
	b.WriteString("the last events:\n")
	lines := r.relevant()
	for _, line := range lines[max(0, len(lines)-listed):] {
		b.WriteString("  " + line + "\n")
	}
	return b.String()
}

// Rules are the rules that were broken, each once.
func (r *Report) Rules() map[string]int {
	rules := make(map[string]int)
	for _, f := range r.Findings {
		rules[f.Rule]++
	}
	return rules
}

// relevant are the events that concern the key of the first finding, and what
// disturbed it. A finding begins with its key.
func (r *Report) relevant() []string {
	if len(r.Findings) == 0 {
		return r.Lines
	}
	key, _, _ := strings.Cut(r.Findings[0].Detail, ":")
	lines := slices.DeleteFunc(slices.Clone(r.Lines), func(line string) bool {
		return !strings.Contains(line, key) && !strings.Contains(line, " fault ") && !strings.Contains(line, "FOUND") &&
			!strings.Contains(line, "connection cut") && !strings.Contains(line, "closed")
	})
	if len(lines) < shown {
		return r.Lines
	}
	return lines
}

func gravity(f judge.Finding) int {
	if f.Grave() {
		return 0
	}
	return 1
}
