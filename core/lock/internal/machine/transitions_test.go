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

// parsed reads the tables of doc.go, as rows writes them.
func parsed(text string) transitions {
	all := transitions{}
	for _, table := range []struct {
		head  string
		claim bool
		names []string
	}{{phaseTable, false, phaseNames[:]}, {stageTable, true, stageNames[:]}} {
		for _, row := range documented(text, table.head) {
			words := strings.Fields(strings.TrimPrefix(row, "//"))
			from, to := slices.Index(table.names, words[0]), slices.Index(table.names, words[1])
			for _, kind := range words[2:] {
				all[transition{table.claim, uint8(from), uint8(to), Kind(slices.Index(kindNames[:], kind))}] = true //nolint:gosec // few
			}
		}
	}
	return all
}

// pairs are the changes, by whatever event.
func (all transitions) pairs() transitions {
	pairs := transitions{}
	for t := range all {
		t.kind = 0
		pairs[t] = true
	}
	return pairs
}

// without returns the transitions that other doesn't have, as rows.
func (all transitions) without(other transitions) (rows []string) {
	rest := transitions{}
	for t := range all {
		if !other[t] {
			rest[t] = true
		}
	}
	return append(rest.rows(false), rest.rows(true)...)
}

// checkTransitions compares what the explorer has seen with the tables in doc.go. A run of
// all states must have seen each change of phase or stage there, and one of the long scopes
// as well each event that makes it.
func checkTransitions(t *testing.T, seen transitions, all, longer bool) {
	t.Helper()
	source, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	text := string(source)
	known := parsed(text)
	if *update {
		writeTransitions(t, text, seen, known, longer)
		return
	}
	for _, row := range seen.without(known) {
		t.Errorf("not in the table of doc.go: %s", row)
	}
	switch {
	case all && longer:
		for _, row := range known.without(seen) {
			t.Errorf("the explorer has not seen: %s", row)
		}
	case all:
		for _, row := range known.pairs().without(seen.pairs()) {
			t.Errorf("the explorer has not seen, by any event: %s", row)
		}
	}
}

// writeTransitions writes the tables. A run without the long scopes takes no event out of a
// row that it has seen.
func writeTransitions(t *testing.T, text string, seen, known transitions, longer bool) {
	t.Helper()
	for of := range known {
		pair := of
		pair.kind = 0
		if !longer && seen.pairs()[pair] {
			seen[of] = true
		}
	}
	for _, table := range []struct {
		head  string
		claim bool
	}{{phaseTable, false}, {stageTable, true}} {
		was, is := documented(text, table.head), seen.rows(table.claim)
		text = strings.Replace(text, strings.Join(append([]string{table.head}, was...), "\n"), strings.Join(append([]string{table.head}, is...), "\n"), 1)
	}
	if err := os.WriteFile("doc.go", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
