package check

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/redlatch/redlatch/test/chaos/internal/history"
)

const patience = 30 * time.Second

func (s Settings) patience() time.Duration { return cmp.Or(s.Patience, patience) }

// Verdicts count searches by their results.
type Verdicts struct {
	OK, Illegal, Unknown int
	// Aside are histories that no model can tell: Redis may have lost data.
	Aside int
	// Operations is how many the searched histories have, Largest the most in
	// one.
	Operations, Largest int
	Found               []Violation
}

// Search compares every life with the model of its mode. Pictures of lives that
// fit none, and of the largest one that does, go to dir; none if that is empty.
func (t *Timeline) Search(dir string) (Verdicts, error) {
	var v Verdicts
	var sample *life
	for _, key := range t.keys() {
		l := t.lives[key]
		if l.doubtful {
			v.Aside++
			continue
		}
		ops := t.searchable(l)
		v.Operations += len(ops)
		if len(ops) > v.Largest {
			v.Largest, sample = len(ops), l
		}
		result := porcupine.CheckOperationsTimeout(models[l.mode], ops, t.patience())
		switch result {
		case porcupine.Ok:
			v.OK++
			continue
		case porcupine.Illegal:
			v.Illegal++
		case porcupine.Unknown:
			v.Unknown++
		}
		v.Found = append(v.Found, Violation{
			Rule: "model " + strings.ToLower(string(result)), Key: key, At: l.span().from,
			Detail: fmt.Sprintf("%d operations fit no order", len(ops)),
		})
		if err := t.draw(l, dir); err != nil {
			return v, err
		}
	}
	if sample != nil && v.Illegal+v.Unknown == 0 {
		return v, t.draw(sample, dir)
	}
	return v, nil
}

// searchable are the operations that say something about the key for certain.
func (t *Timeline) searchable(l *life) []porcupine.Operation {
	clients, turns := make(map[string]int), l.turns()
	var all []porcupine.Operation
	for i, o := range l.ops {
		o.turn = turns[i]
		if o.Kind == history.Acquire && o.Outcome == history.Busy && t.explained(l, o) {
			continue
		}
		name := fmt.Sprintf("%d.%d.%d %v", o.Worker, o.Life, o.Client, o.Kind == history.Renew)
		if _, known := clients[name]; !known {
			clients[name] = len(clients)
		}
		all = append(all, porcupine.Operation{ClientId: clients[name], Input: o, Call: o.from, Return: max(o.to, o.from+1)})
	}
	return all
}

// turns are those of the operations that have one.
func (l *life) turns() map[int]int {
	var grants []int
	for i, o := range l.ops {
		if o.first() {
			grants = append(grants, i)
		}
	}
	slices.SortStableFunc(grants, func(a, b int) int { return cmp.Compare(l.ops[a].Fence, l.ops[b].Fence) })
	turns := make(map[int]int, len(grants))
	for turn, i := range grants {
		turns[i] = turn
	}
	return turns
}

// explained says whether a refusal needs no holder: somebody unknown may have
// the key, another one may be next in the queue, of the store or of the process, the
// process may not know yet that its writer only reads, or votes were split.
func (t *Timeline) explained(l *life, o op) bool {
	return l.mode == "fair" || t.Topology == "quorum" || l.haunted(o.span) || l.behind(o) || l.unaware(o)
}

func (l *life) haunted(s span) bool {
	return slices.ContainsFunc(l.ghosts, func(g ghost) bool { return g.overlaps(s) })
}

// draw writes the picture of a life, with the faults in a separate lane.
func (t *Timeline) draw(l *life, dir string) error {
	if dir == "" {
		return nil
	}
	ops := t.searchable(l)
	// Enough for a picture of how far it got.
	_, info := porcupine.CheckOperationsVerbose(models[l.mode], ops, t.patience())
	all := l.span()
	var notes []porcupine.Annotation
	for _, f := range t.faults {
		if f.Overlaps(all.from, all.to) {
			notes = append(notes, porcupine.Annotation{
				Tag: "nemesis", Start: f.From, End: f.To, Description: f.Kind + " " + f.Target, BackgroundColor: "#ffd9b3",
			})
		}
	}
	for _, g := range l.ghosts {
		notes = append(notes, porcupine.Annotation{
			Tag: "unknown owner", Start: g.from, End: g.to, Description: "may be held", BackgroundColor: "#dddddd",
		})
	}
	info.AddAnnotations(notes)
	path := filepath.Join(dir, strings.Map(fileSafe, l.key)+".html")
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("check: %w", err)
	}
	defer file.Close() //nolint:errcheck // Visualize has reported what it could not write
	return porcupine.Visualize(models[l.mode], info, file)
}

func fileSafe(r rune) rune {
	if strings.ContainsRune("/\\:{}", r) {
		return '_'
	}
	return r
}

// Doubts is how many owners there may have been of whom nobody knows, and how
// many refusals nobody else can explain.
func (t *Timeline) Doubts() (ghosts, explained int) {
	for _, l := range t.lives {
		ghosts += len(l.ghosts)
		for _, o := range l.ops {
			if o.Kind == history.Acquire && o.Outcome == history.Busy && l.haunted(o.span) && !l.taken(o.span) {
				explained++
			}
		}
	}
	return ghosts, explained
}

// Handoffs is how many holds were handed on to callers who got them, and to ones who
// had given up.
func (t *Timeline) Handoffs() (taken, declined int) { return t.handoffs, t.declined }

// taken says whether an owner that is known may have had the key.
func (l *life) taken(s span) bool {
	return slices.ContainsFunc(l.holds, func(h *hold) bool {
		return s.overlaps(span{h.granted.from, max(cmp.Or(h.final, h.expLo+epsilon), h.keptHi+epsilon)})
	})
}
