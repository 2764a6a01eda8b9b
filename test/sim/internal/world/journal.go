package world

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redlatch/redlatch/test/sim/internal/judge"
)

const (
	// kept is how many lines of a world's journal there are at most.
	kept = 2000
	// more is how many of them come after the first finding.
	more = 10
)

// journal is what happened, as far as anybody wants to know.
type journal struct {
	start  time.Time
	until  string // a rule
	enough func() // called when it is broken

	mu      sync.Mutex
	lines   []string // a ring
	next    int
	left    int  // lines that are still taken, after the first finding
	broken  bool // something grave was found
	found   []judge.Finding
	grants  []judge.Grant
	waits   []judge.Wait
	counted map[string]int
}

func newJournal() *journal {
	return &journal{start: time.Now(), lines: make([]string, 0, kept), counted: make(map[string]int)}
}

// tell adds a line.
func (j *journal) tell(format string, args ...any) {
	text := fmt.Sprintf("%10s  ", time.Since(j.start).Round(10*time.Microsecond)) + fmt.Sprintf(format, args...)
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.broken {
		if j.left--; j.left < 0 {
			return
		}
	}
	if len(j.lines) < kept {
		j.lines = append(j.lines, text)
		return
	}
	j.lines[j.next] = text
	j.next = (j.next + 1) % kept
}

// last returns the lines that are kept, in order.
func (j *journal) last() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Concat(j.lines[j.next:], j.lines[:j.next])
}

// count notes that something was met.
func (j *journal) count(what string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.counted[what]++
}

// report adds findings. The journal ends a little after the first of them.
func (j *journal) report(found []judge.Finding) {
	if len(found) == 0 {
		return
	}
	for _, f := range found {
		j.tell("FOUND      %s: %s", f.Rule, f.Detail)
		if f.Rule == j.until {
			j.enough()
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.broken && slices.ContainsFunc(found, judge.Finding.Grave) {
		j.broken, j.left = true, more
	}
	j.found = append(j.found, found...)
}

func (j *journal) granted(g judge.Grant) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.grants = append(j.grants, g)
}

func (j *journal) waited(w judge.Wait) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.waits = append(j.waits, w)
}
