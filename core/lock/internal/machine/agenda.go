package machine

// entry is when a caller or a claim is due. The lowest bit of its id says which: 0 for a
// caller, 1 for a claim. The other bits are its slot.
type entry struct {
	at Time
	id int32
}

// agenda is a heap of entries, the earliest first. Callers and claims know their place.
type agenda []entry

func (a agenda) first() Time {
	if len(a) == 0 {
		return Never
	}
	return a[0].at
}

// due appends the ids that are due to ids. They are the top of the heap.
func (a agenda) due(now Time, ids []int32) []int32 {
	return a.below(0, now, ids)
}

func (a agenda) below(i int, now Time, ids []int32) []int32 {
	if i >= len(a) || a[i].at > now {
		return ids
	}
	return a.below(2*i+2, now, a.below(2*i+1, now, append(ids, a[i].id)))
}

// row is the place of an id in the agenda, -1 if it has none.
func (m *Machine) row(id int32) *int32 {
	if id&1 == 0 {
		return &m.callers[id>>1].row
	}
	return &m.claims[id>>1].row
}

// touch has the due time of a caller or a claim looked at after the step.
func (m *Machine) touch(id int32, touched *bool) {
	if !*touched {
		*touched = true
		m.touched = append(m.touched, id)
	}
}

// schedule brings the agenda up to date with what the step has touched.
func (m *Machine) schedule() {
	for _, id := range m.touched {
		if id&1 == 0 {
			c := &m.callers[id>>1]
			c.touched = false
			m.put(id, c.row, c.due())
		} else {
			cl := &m.claims[id>>1]
			cl.touched = false
			m.put(id, cl.row, cl.due())
		}
	}
}

// put sets when id is due, which has place i.
func (m *Machine) put(id, i int32, at Time) {
	switch {
	case i < 0 && at >= Never:
	case i >= 0 && m.agenda[i].at == at:
	case at >= Never:
		last := len(m.agenda) - 1
		moved := m.agenda[last]
		m.agenda = m.agenda[:last]
		*m.row(id) = -1
		if int(i) < last {
			m.place(i, moved)
			m.sift(i)
		}
	case i < 0:
		m.agenda = append(m.agenda, entry{at, id})
		m.sift(int32(len(m.agenda) - 1)) //nolint:gosec // slots are small
	default:
		m.agenda[i].at = at
		m.sift(i)
	}
}

func (m *Machine) place(i int32, e entry) {
	m.agenda[i] = e
	*m.row(e.id) = i
}

// sift moves the entry in place i to where it belongs.
func (m *Machine) sift(i int32) {
	e := m.agenda[i]
	for i > 0 {
		up := (i - 1) / 2
		if m.agenda[up].at <= e.at {
			break
		}
		m.place(i, m.agenda[up])
		i = up
	}
	for {
		down := 2*i + 1
		if int(down) >= len(m.agenda) {
			break
		}
		if r := down + 1; int(r) < len(m.agenda) && m.agenda[r].at < m.agenda[down].at {
			down = r
		}
		if m.agenda[down].at >= e.at {
			break
		}
		m.place(i, m.agenda[down])
		i = down
	}
	m.place(i, e)
}
