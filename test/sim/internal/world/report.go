package world

import (
	"fmt"
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

// shown is how many findings a report spells out: one fault has many signs.
const shown = 8

// String is what somebody needs who is to find the cause.
func (r *Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d, features %s: %d findings\n", r.Seed, r.Features, len(r.Findings))
	for _, f := range r.Findings[:min(shown, len(r.Findings))] {
		fmt.Fprintf(&b, "  %v %s: %s\n", f.At.Sub(r.Start), f.Rule, f.Detail)
	}
	b.WriteString("the last events:\n")
	for _, line := range r.Lines {
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
