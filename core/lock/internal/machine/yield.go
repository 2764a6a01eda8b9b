package machine

// yield lets other lockers call first when a run of hand-offs has ended: the callers here
// know of the release before any message can reach the others, and would win each time.
// It lasts as long as the others need, which is seen from whether they came.
type yield struct {
	until   Time // nobody here calls before
	after   Time // no yield begins before
	length  Time // of the next
	unused  int32
	pending bool // nobody knows yet whether it was used
}

const (
	// maxUnused yields in a row may come too early for the others before there are fewer.
	maxUnused = 3
	// maxPause is how often the pause between them is doubled.
	maxPause = 5
)

// yieldTo begins a yield if a hold ends a run, and others listen. Where nobody knows, it is
// a short one.
func (m *Machine) yieldTo(h *claim, others int32, now Time) {
	y := &m.yield
	if !h.spent || others == 0 || y.length == 0 || now < y.after {
		return
	}
	length := y.length
	if others < 0 {
		length = m.YieldMin
	}
	y.until, y.pending = after(now, length), true
}

// yielded sees by the answer to the first acquire after a yield whether another locker has
// used it. One that was too late says that the others need longer, not that they want
// nothing.
func (m *Machine) yielded(e *Event, now Time) {
	y := &m.yield
	if !y.pending || e.Call.Sent < y.until || e.Answer.failed() {
		return
	}
	y.pending = false
	if e.Answer == AnsBusy {
		y.unused = 0
		y.length = max(m.YieldMin, y.length-y.length/8)
		return
	}
	y.length = min(2*y.length, m.YieldMax)
	y.unused = min(y.unused+1, maxUnused+maxPause)
	if y.unused > maxUnused {
		y.after = after(now, m.YieldPause<<(y.unused-maxUnused))
	}
}
