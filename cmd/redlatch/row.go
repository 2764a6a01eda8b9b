package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/redlatch/redlatch/core/lock"
)

// row is one hold of a key, as ls, show and watch print it.
type row struct {
	Key      string     `json:"key"`
	Mode     string     `json:"mode"`
	Service  string     `json:"service,omitempty"`
	Host     string     `json:"host,omitempty"`
	PID      int        `json:"pid,omitempty"`
	Owner    string     `json:"owner"`
	Holds    int        `json:"holds"`
	Since    *time.Time `json:"since,omitempty"`
	LeftMS   int64      `json:"leftMs"` // negative: without an end
	Fence    uint64     `json:"fence,omitempty"`
	Waiting  int        `json:"waiting"` // negative: not known
	Zombie   bool       `json:"zombie,omitempty"`
	Kept     bool       `json:"kept,omitempty"`
	Format   string     `json:"format,omitempty"` // of other software
	More     int        `json:"more,omitempty"`   // holds that aren't listed
	identity string
}

// rows are the holds of a key.
func rows(l lock.Listed) (all []row) {
	for _, o := range l.State.Owners {
		r := row{
			Key: l.Key, Mode: l.State.Mode.String(), Owner: o.Owner, Holds: o.Holds, LeftMS: l.State.TTL.Milliseconds(),
			Fence: o.Fence, Waiting: l.Waiting, Zombie: l.State.Zombie(o.Owner), Kept: o.Kept, Format: format(l.State, o.Owner), More: l.State.MoreOwners,
		}
		if l.State.TTL < 0 {
			r.LeftMS = -1
		}
		if !o.Since.IsZero() {
			r.Since = &o.Since
		}
		if who, ok := l.State.Holder(o.Owner); ok {
			r.Service, r.Host, r.PID, r.identity = who.Service, who.Host, who.PID, who.String()
		}
		all = append(all, r)
	}
	if len(all) == 0 && l.State.Held {
		all = append(all, row{Key: l.Key, Mode: l.State.Mode.String(), LeftMS: l.State.TTL.Milliseconds(), Waiting: l.Waiting, More: l.State.MoreOwners})
	}
	return all
}

// format says what has made a hold, if it isn't this kit.
func format(s lock.State, owner string) string {
	const version = len("00000000-0000-")
	switch locker := lock.LockerOf(owner); {
	case s.Mode == lock.Semaphore && locker == "": // an id of a permit
		return "Redisson"
	case len(locker) == 36 && locker[version] == '8':
		return ""
	case len(locker) == 36 && strings.Count(locker, "-") == 4:
		return "Redisson"
	default:
		return "SETNX"
	}
}

// holder says who has the key, in words.
func (r row) holder() string {
	switch {
	case r.Kept:
		return "nobody, kept for its minimum hold"
	case r.identity != "":
		return r.identity
	case r.Format != "":
		return r.Format + " " + r.Owner
	case r.Zombie:
		return "zombie " + r.Owner
	default:
		return r.Owner
	}
}

func (r row) since(now time.Time) string {
	if r.Since == nil {
		return "-"
	}
	return short(now.Sub(*r.Since))
}

func (r row) left() string {
	if r.LeftMS < 0 {
		return "no end"
	}
	return short(time.Duration(r.LeftMS) * time.Millisecond)
}

func (r row) fence() string {
	if r.Fence == 0 {
		return "-"
	}
	return strconv.FormatUint(r.Fence, 10)
}

func (r row) waiting() string {
	if r.Waiting < 0 {
		return "-"
	}
	return strconv.Itoa(r.Waiting)
}

// short is a duration as people read it.
func short(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d < 24*time.Hour:
		return d.Round(time.Second).String()
	default:
		return fmt.Sprintf("%dd%dh", int(d.Hours())/24, int(d.Hours())%24)
	}
}

// printer writes rows, in pages, as a table or as JSON lines.
type printer struct {
	out    io.Writer
	json   bool
	begun  bool
	widths [7]int
}

var header = [...]string{"KEY", "MODE", "HOLDER", "SINCE", "LEFT", "FENCE", "WAITING"}

func (p *printer) print(page []row, now time.Time) error {
	if len(page) == 0 {
		return nil
	}
	if p.json {
		enc := json.NewEncoder(p.out)
		for _, r := range page {
			if err := enc.Encode(r); err != nil {
				return err
			}
		}
		return nil
	}
	t := table.NewWriter()
	t.SetStyle(plain)
	columns := make([]table.ColumnConfig, len(header))
	var lines []table.Row
	for _, r := range page {
		lines = append(lines, table.Row{printable(r.Key), r.Mode, printable(r.holder()), r.since(now), r.left(), r.fence(), r.waiting()})
	}
	for i := range header {
		if !p.begun {
			p.widths[i] = len(header[i])
		}
		for _, line := range lines {
			p.widths[i] = max(p.widths[i], text.StringWidthWithoutEscSequences(line[i].(string)))
		}
		columns[i] = table.ColumnConfig{Number: i + 1, WidthMin: p.widths[i]}
	}
	t.SetColumnConfigs(columns)
	if !p.begun {
		head := make(table.Row, len(header))
		for i, name := range header {
			head[i] = name
		}
		t.AppendHeader(head)
	}
	p.begun = true
	t.AppendRows(lines)
	for line := range strings.Lines(t.Render() + "\n") {
		if _, err := fmt.Fprintln(p.out, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

// plain has no lines between rows, so that other tools read it as well.
var plain = func() table.Style {
	s := table.StyleDefault
	s.Options = table.OptionsNoBordersAndSeparators
	s.Box.PaddingLeft, s.Box.PaddingRight = "", "  "
	s.Format.Header = text.FormatDefault
	return s
}()

// printable shows what a terminal would obey: keys come from strangers.
func printable(s string) string {
	quoted := strconv.Quote(s)
	if quoted == `"`+s+`"` {
		return s
	}
	return quoted
}
