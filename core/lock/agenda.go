//go:build !machine

package lock

import "time"

// agenda is when something is to be done about which hold or call, served by one timer
// for all of them. It is a heap. A mutex guards it.
type agenda[T planned] struct {
	column column
	rows   []row[T]
	now    func() time.Duration
	due    func() // what the timer runs
	timer  *time.Timer
	armed  bool          // the timer fires, or has and was not served
	fires  time.Duration // when
}

type row[T planned] struct {
	at time.Duration
	of T
}

// planned is what an agenda can have.
type planned interface {
	comparable
	// row is where it keeps the number of its row in an agenda, counted from 1; 0: it
	// isn't there.
	row(c column) *int32
}

// column is one of the agendas that something can be in.
type column uint8

const (
	ofTrust column = iota
	ofRenewal
	columns

	ofPatience column = 0 // of a call, which is in one only
)

// has reports whether x has a row.
func (g *agenda[T]) has(x T) bool { return *x.row(g.column) > 0 }

// at returns the time of x, which has a row.
func (g *agenda[T]) at(x T) time.Duration { return g.rows[*x.row(g.column)-1].at }

// set makes at the time of x, a new one if need be.
func (g *agenda[T]) set(x T, at time.Duration) {
	n := x.row(g.column)
	if *n == 0 {
		g.rows = append(g.rows, row[T]{})
		*n = int32(len(g.rows))
	}
	g.place(int(*n)-1, row[T]{at, x})
	g.arm()
}

func (g *agenda[T]) remove(x T) {
	n := x.row(g.column)
	if *n == 0 {
		return
	}
	i, last := int(*n)-1, len(g.rows)-1
	moved := g.rows[last]
	g.rows[last] = row[T]{}
	g.rows = g.rows[:last]
	*n = 0
	if i < last {
		g.place(i, moved)
	}
}

// replace gives the row of x to next.
func (g *agenda[T]) replace(x, next T) {
	if n := x.row(g.column); *n > 0 {
		g.write(int(*n)-1, row[T]{g.at(x), next})
		*n = 0
	}
}

// write makes r the row with index i.
func (g *agenda[T]) write(i int, r row[T]) {
	g.rows[i] = r
	*r.of.row(g.column) = int32(i + 1)
}

// place writes r where the heap wants it, and closes the gap at i.
func (g *agenda[T]) place(i int, r row[T]) {
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

// next returns the first if its time has come, and else nothing.
func (g *agenda[T]) next(now time.Duration) (first T) {
	if len(g.rows) > 0 && g.rows[0].at <= now {
		first = g.rows[0].of
	}
	return first
}

// arm sets the timer for the first row. One that fires earlier stays as it is: it
// arms again.
func (g *agenda[T]) arm() {
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
func (g *agenda[T]) served() {
	g.armed = false
	g.arm()
}

func (g *agenda[T]) stop() {
	if g.timer != nil {
		g.timer.Stop()
	}
}
