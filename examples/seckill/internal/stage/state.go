package stage

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

// State is what the page shows at one moment.
type State struct {
	At        time.Time   `json:"at"`
	Busy      string      `json:"busy"` // what runs: empty, "crowd" or a scene
	Run       run         `json:"run"`
	Locks     bool        `json:"locks"`     // the lock store answers
	Instances []bool      `json:"instances"` // which are up
	Lanes     []LaneState `json:"lanes"`
	Scene     *scene      `json:"scene"`
	Log       []line      `json:"log"`
}

// LaneState is a lane at one moment.
type LaneState struct {
	ID string `json:"id"`
	// Verdict is read from the database.
	Verdict verdict `json:"verdict"`
	Broken  bool    `json:"broken"`
	Placed  int     `json:"placed"`
	// Late is how many late writes the fence refused, Spared how many clicks were answered
	// without the database.
	Late    int            `json:"late"`
	Spared  int            `json:"spared"`
	Clicks  int            `json:"clicks"`
	Answers map[string]int `json:"answers"`
	P50     float64        `json:"p50"` // in milliseconds
	P99     float64        `json:"p99"`
	Held    []held         `json:"held"`
	Waiting []waiting      `json:"waiting"`
	Waiters int            `json:"waiters"`
}

// held is a key that an instance has.
type held struct {
	Key      string `json:"key"`
	Instance int    `json:"instance"`
	Fence    string `json:"fence"`
	LeftMs   int64  `json:"leftMs"` // until the key runs out
	Trusted  bool   `json:"trusted"`
}

// waiting is a key that an instance waits for.
type waiting struct {
	Key      string `json:"key"`
	Instance int    `json:"instance"`
	Waiters  int    `json:"waiters"`
}

// shownKeys is how many keys of a lane are shown.
const shownKeys = 4

// state looks at everything once, for all who watch.
func (s *Stage) state(ctx context.Context) (*State, error) {
	s.mu.Lock()
	now := &State{
		At: time.Now(), Busy: s.busy, Run: s.run, Locks: !s.outage.down.Load(),
		Instances: slices.Clone(s.up[:]), Log: slices.Clone(s.log),
	}
	if s.scene != nil {
		now.Scene = &scene{Name: s.scene.Name, Steps: slices.Clone(s.scene.Steps)}
	}
	s.mu.Unlock()
	for _, l := range s.lanes {
		lane, err := l.state(ctx)
		if err != nil {
			return nil, err
		}
		now.Lanes = append(now.Lanes, lane)
	}
	return now, nil
}

func (l *lane) state(ctx context.Context) (LaneState, error) {
	v, err := l.book.verdict(ctx)
	if err != nil {
		return LaneState{}, err
	}
	now := LaneState{ID: l.id, Verdict: v, Broken: v.Orders > v.Stock || v.Twice > 0} // page: broken
	l.tally.report(&now)
	l.keys(ctx, &now)
	return now, nil
}

func (t *tally) report(now *LaneState) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now.Answers = maps.Clone(t.answers)
	for _, n := range t.answers {
		now.Clicks += n
	}
	now.Placed, now.Late = t.answers[placed], t.answers[lateOne]
	now.Spared = t.answers["LOCK_CONTENDED"] + t.answers["LOCK_UNAVAILABLE"] // page: spared
	ms := func(q float64) float64 { return float64(t.took.ValueAtQuantile(q)) / 1000 }
	now.P50, now.P99 = ms(50), ms(99)
}

// keys adds the keys that are held, and the keys that are waited for.
func (l *lane) keys(ctx context.Context, now *LaneState) {
	l.mu.Lock()
	holders := maps.Clone(l.held)
	waiters := make(map[wait]int)
	for w := range l.waiting {
		waiters[*w]++
	}
	l.mu.Unlock()
	now.Held, now.Waiting = []held{}, []waiting{}
	for _, key := range slices.Sorted(maps.Keys(holders)) {
		h := holders[key]
		state, err := l.show.Inspect(ctx, key) // page: held
		if err != nil || !state.Held || !owns(state, h.lease) {
			l.forget(key, h)
			continue
		}
		if len(now.Held) < shownKeys {
			now.Held = append(now.Held, held{
				key, h.n, strconv.FormatUint(h.lease.Fence(), 10), max(0, state.TTL.Milliseconds()), h.lease.Context().Err() == nil,
			})
		}
	}
	for w, n := range waiters {
		now.Waiters += n
		now.Waiting = append(now.Waiting, waiting{w.key, w.n, n})
	}
	slices.SortFunc(now.Waiting, func(a, b waiting) int {
		if a.Waiters != b.Waiters {
			return b.Waiters - a.Waiters
		}
		return strings.Compare(a.Key+strconv.Itoa(a.Instance), b.Key+strconv.Itoa(b.Instance))
	})
	now.Waiting = now.Waiting[:min(len(now.Waiting), shownKeys)]
}

func owns(state lock.State, lease *lock.Lease) bool {
	return slices.ContainsFunc(state.Owners, func(o lock.OwnerHolds) bool { return o.Owner == lease.Owner() })
}

// forget drops the key of an instance that died, once it has run out.
func (l *lane) forget(key string, h holder) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held[key] == h {
		delete(l.held, key)
	}
}

// same reports whether two states show the same, whenever they were taken.
func same(a, b *State) bool {
	text := func(s *State) string {
		if s == nil {
			return ""
		}
		c := *s
		c.At = time.Time{}
		c.Lanes = slices.Clone(s.Lanes)
		for i := range c.Lanes {
			c.Lanes[i].Verdict.At = time.Time{}
		}
		text, err := json.Marshal(c)
		if err != nil { // cannot be: numbers, strings and times
			return err.Error()
		}
		return string(text)
	}
	return text(a) == text(b)
}
