package console

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

// row is one hold, as the page shows it. Fences don't fit JavaScript's numbers.
type row struct {
	Key     string     `json:"key"`
	Mode    string     `json:"mode"`
	Holder  string     `json:"holder"` // empty: not known
	Owner   string     `json:"owner"`
	Since   *time.Time `json:"since,omitempty"`
	LeftMS  int64      `json:"leftMs"` // negative: no end
	Fence   string     `json:"fence,omitempty"`
	Waiting int        `json:"waiting"` // negative: not known
	More    int        `json:"more,omitempty"`
	Problem string     `json:"problem,omitempty"` // endless, foreign, zombie
	Kept    bool       `json:"kept,omitempty"`
}

// look is what all viewers see.
type look struct {
	At       time.Time `json:"at"`
	Held     []row     `json:"held"`
	Cut      bool      `json:"cut"` // there are more
	Waiting  []ranked  `json:"waiting"`
	Hottest  []ranked  `json:"hottest"`
	Losses   []event   `json:"losses"`
	Error    string    `json:"error,omitempty"` // the class of a failure
	Releases bool      `json:"releases"`
}

// snapshot looks at the store, and at what the recorder has.
func (c *Console) snapshot() []byte {
	ctx, cancel := context.WithTimeout(c.ctx, lookTimeout)
	defer cancel()
	l := look{At: time.Now().UTC(), Held: []row{}, Releases: c.permit != nil}
	for listed, err := range c.locker.List(ctx, c.pattern, lock.MaxPage) {
		if err != nil {
			l.Error = cmp.Or(lock.ClassOf(err), "the store can't be listed")
			break
		}
		rows := rowsOf(listed)
		if len(l.Held)+len(rows) > maxRows {
			l.Cut = true
			break
		}
		l.Held = append(l.Held, rows...)
	}
	slices.SortFunc(l.Held, compareRows)
	l.Waiting, l.Hottest, l.Losses = c.recorder.rankings()
	text, err := json.Marshal(l)
	if err != nil {
		return []byte(`{"error":"` + strconv.Quote(err.Error()) + `"}`)
	}
	return text
}

// compareRows puts problems first, and then what is held longest.
func compareRows(a, b row) int {
	switch {
	case (a.Problem == "") != (b.Problem == ""):
		if a.Problem != "" {
			return -1
		}
		return 1
	case a.Since != nil && b.Since != nil && !a.Since.Equal(*b.Since):
		return a.Since.Compare(*b.Since)
	case (a.Since == nil) != (b.Since == nil):
		if a.Since != nil {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Owner, b.Owner))
}

func rowsOf(l lock.Listed) []row {
	rows := []row{} // never null, for the page
	left := l.State.TTL.Milliseconds()
	if l.State.TTL < 0 {
		left = -1
	}
	for _, o := range l.State.Owners {
		r := row{
			Key: l.Key, Mode: l.State.Mode.String(), Owner: o.Owner, LeftMS: left, Waiting: l.Waiting, More: l.State.MoreOwners, Kept: o.Kept,
		}
		if who, ok := l.State.Holder(o.Owner); ok {
			r.Holder = who.String()
		}
		if o.Fence > 0 {
			r.Fence = strconv.FormatUint(o.Fence, 10)
		}
		if !o.Since.IsZero() {
			r.Since = &o.Since
		}
		switch {
		case left < 0:
			r.Problem = "endless"
		case l.State.Foreign:
			r.Problem = "foreign"
		case !o.Kept && l.State.Zombie(o.Owner):
			r.Problem = "zombie"
		}
		rows = append(rows, r)
	}
	return rows
}

// detail is one key.
type detail struct {
	Key      string   `json:"key"`
	Held     bool     `json:"held"`
	Mode     string   `json:"mode"`
	Rows     []row    `json:"rows"`
	Queue    []string `json:"queue"`
	Timeline []event  `json:"timeline"`
	Releases bool     `json:"releases"`
}

func (c *Console) detail(ctx context.Context, key string) (detail, error) {
	state, err := c.locker.Inspect(ctx, key)
	if err != nil {
		return detail{}, err
	}
	d := detail{
		Key: key, Held: state.Held, Mode: state.Mode.String(), Queue: []string{}, Releases: c.permit != nil,
		Rows: rowsOf(lock.Listed{Key: key, State: state, Waiting: len(state.Waiters) + state.MoreWaiters}), Timeline: c.recorder.timeline(key),
	}
	for _, w := range state.Waiters {
		name := w
		if who, ok := state.Holder(w); ok {
			name = who.String()
		}
		d.Queue = append(d.Queue, name)
	}
	return d, nil
}
