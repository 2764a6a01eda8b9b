package machine

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the table of transitions and the table of the scopes anew")

var (
	phaseNames = [...]string{"absent", "queued", "calling", "resting", "retrying", "sharing", "joining", "holding", "extending", "releasing", "lost"}
	stageNames = [...]string{"free", "asking", "held", "ending", "lapsed", "undoing"}
	kindNames  = [...]string{
		"arrive", "leave", "release", "extend", "commit", "acquired", "released", "lowered", "renewed", "forced", "watched",
		"hint", "check", "timer", "force", "suspended", "drain", "end", "close",
	}
)

func (p phase) String() string { return phaseNames[p] }
func (s stage) String() string { return stageNames[s] }

// transition is a change of a caller's phase, or of a claim's stage, by an event.
type transition struct {
	claim    bool
	from, to uint8
	kind     Kind
}

type transitions map[transition]bool

// observe makes a step and records what it has changed.
func (x *explorer) observe(m *Machine, e *Event, now Time, out []Effect) []Effect {
	type was struct {
		stage stage
		owner Owner
	}
	var phases [maxCallers]phase
	var stages [16]was
	for s := range m.callers {
		phases[s] = m.callers[s].phase
	}
	for i := range m.claims {
		stages[i] = was{m.claims[i].stage, m.claims[i].owner}
	}
	out = m.Step(e, now, out)
	for s := range m.callers {
		if from, to := phases[s], m.callers[s].phase; from != to {
			x.seen[transition{false, uint8(from), uint8(to), e.Kind}] = true
		}
	}
	for i := range m.claims {
		from, to := stages[i], m.claims[i].stage
		if to != free && from.owner != m.claims[i].owner {
			if from.stage != free {
				x.seen[transition{true, uint8(from.stage), uint8(free), e.Kind}] = true
			}
			from.stage = free
		}
		if from.stage != to {
			x.seen[transition{true, uint8(from.stage), uint8(to), e.Kind}] = true
		}
	}
	return out
}

// compare orders transitions as the tables do.
func (t transition) compare(u transition) int {
	if t.claim != u.claim {
		if u.claim {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(t.from, u.from), cmp.Compare(t.to, u.to), cmp.Compare(t.kind, u.kind))
}

// rows writes transitions as rows of the package comment: one for each pair of phases, or
// of stages, with the events that lead from one to the other.
func (all transitions) rows(claim bool) (rows []string) {
	names := phaseNames[:]
	if claim {
		names = stageNames[:]
	}
	last := ""
	for _, t := range slices.SortedFunc(maps.Keys(all), transition.compare) {
		if t.claim != claim {
			continue
		}
		pair := fmt.Sprintf("//\t%-9s  %-9s  ", names[t.from], names[t.to])
		if pair != last {
			rows = append(rows, pair+kindNames[t.kind])
		} else {
			rows[len(rows)-1] += " " + kindNames[t.kind]
		}
		last = pair
	}
	return rows
}

// The tables stand in doc.go behind these lines.
const (
	phaseTable = "//\tphase      next       events"
	stageTable = "//\tstage      next       events"
)

// documented reads a table of doc.go.
func documented(text, head string) (rows []string) {
	_, table, _ := strings.Cut(text, head+"\n")
	for line := range strings.Lines(table) {
		if !strings.HasPrefix(line, "//\t") {
			break
		}
		rows = append(rows, strings.TrimRight(line, "\n"))
	}
	return rows
}

// checkTransitions compares what the explorer has seen with the tables in doc.go. A run
// that saw all must have seen each row.
func checkTransitions(t *testing.T, seen transitions, all bool) {
	t.Helper()
	source, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	text := string(source)
	for _, table := range []struct {
		head  string
		claim bool
	}{{phaseTable, false}, {stageTable, true}} {
		want, got := documented(text, table.head), seen.rows(table.claim)
		if *update {
			text = strings.Replace(text, strings.Join(append([]string{table.head}, want...), "\n"), strings.Join(append([]string{table.head}, got...), "\n"), 1)
			continue
		}
		known := map[string]bool{}
		for _, row := range want {
			pair := row[:len("//\t")+22]
			for kind := range strings.FieldsSeq(row[len(pair):]) {
				known[pair+kind] = true
			}
		}
		for _, row := range got {
			pair := row[:len("//\t")+22]
			for kind := range strings.FieldsSeq(row[len(pair):]) {
				if !known[pair+kind] {
					t.Errorf("not in the table of doc.go: %s%s", pair, kind)
				}
			}
		}
		if all && !slices.Equal(got, want) {
			t.Errorf("doc.go has\n%s\nand the explorer has seen\n%s", strings.Join(want, "\n"), strings.Join(got, "\n"))
		}
	}
	if *update {
		if err := os.WriteFile("doc.go", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
