package lock

import "time"

// agenda is when something is to be done about which hold, served by one timer for
// all of them. It is a heap. Locker.mu guards it.
type agenda struct {
	column column
	rows   []row
	now    func() time.Duration
	due    func() // what the timer runs
	timer  *time.Timer
	armed  bool          // the timer fires, or has and was not served
	fires  time.Duration // when
}

type row struct {
	at   time.Duration
	hold *hold
}

// column says where a hold keeps its place in an agenda.
type column uint8

const (
	ofTrust column = iota
	ofRenewal
	columns
)

// has reports whether h has a row.
func (g *agenda) has(h *hold) bool { return h.rows[g.column] > 0 }

// set makes at the time of h, a new one if need be.
func (g *agenda) set(h *hold, at time.Duration) {
	if !g.has(h) {
		g.rows = append(g.rows, row{})
		h.rows[g.column] = int32(len(g.rows))
	}
	g.place(int(h.rows[g.column])-1, row{at, h})
	g.arm()
}

func (g *agenda) remove(h *hold) {
	if !g.has(h) {
		return
	}
	i, last := int(h.rows[g.column])-1, len(g.rows)-1
	moved := g.rows[last]
	g.rows[last] = row{}
	g.rows = g.rows[:last]
	h.rows[g.column] = 0
	if i < last {
		g.place(i, moved)
	}
}

// replace gives the row of h to next.
func (g *agenda) replace(h, next *hold) {
	if g.has(h) {
		g.write(int(h.rows[g.column])-1, row{g.rows[h.rows[g.column]-1].at, next})
		h.rows[g.column] = 0
	}
}

// write makes r the row with index i.
func (g *agenda) write(i int, r row) {
	g.rows[i] = r
	r.hold.rows[g.column] = int32(i + 1)
}

// place writes r where the heap wants it, and closes the gap at i.
func (g *agenda) place(i int, r row) {
	for i > 0 && g.rows[(i-1)/2].at > r.at {
		g.write(i, g.rows[(i-1)/2])
		i = (i - 1) / 2
	}
	for {
		child := 2*i + 1
		if child+1 < len(g.rows) && g.rows[child+1].at < g.rows[child].at {
			child++
		}
		if child >= len(g.rows) || g.rows[child].at >= r.at {
			break
		}
		g.write(i, g.rows[child])
		i = child
	}
	g.write(i, r)
}

// next returns the first hold if its time has come, and else nil.
func (g *agenda) next(now time.Duration) *hold {
	if len(g.rows) == 0 || g.rows[0].at > now {
		return nil
	}
	return g.rows[0].hold
}

// arm sets the timer for the first row. One that fires earlier stays as it is: it
// arms again.
func (g *agenda) arm() {
	if len(g.rows) == 0 {
		return
	}
	at := g.rows[0].at
	if g.armed && g.fires <= at {
		return
	}
	g.armed, g.fires = true, at
	wait := max(0, at-g.now())
	if g.timer == nil {
		g.timer = time.AfterFunc(wait, g.due)
	} else {
		g.timer.Reset(wait)
	}
}

// served must be called when due has done what was to be done.
func (g *agenda) served() {
	g.armed = false
	g.arm()
}

func (g *agenda) stop() {
	if g.timer != nil {
		g.timer.Stop()
	}
}
