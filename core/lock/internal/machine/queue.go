package machine

// queue is the callers that wait, in the order in which they came.
type queue struct {
	head, tail Slot
	last       Slot // the last that leads
}

// push makes s the last.
func (q *queue) push(callers []caller, s Slot) {
	c := &callers[s]
	c.prev, c.next, c.leading = q.tail, None, false
	if q.tail != None {
		callers[q.tail].next = s
	} else {
		q.head = s
	}
	q.tail = s
	q.lead(callers)
}

// lead makes the head, and the callers right behind it in its mode, lead. It returns
// whether one does that did not before.
func (q *queue) lead(callers []caller) (joined bool) {
	s := q.head
	if q.last != None {
		s = callers[q.last].next
	}
	for s != None && callers[s].Mode == callers[q.head].Mode {
		callers[s].leading, q.last, joined = true, s, true
		s = callers[s].next
	}
	return joined
}

// remove takes s out.
func (q *queue) remove(callers []caller, s Slot) (joined bool) {
	c := &callers[s]
	if q.last == s {
		q.last = c.prev
	}
	if c.prev != None {
		callers[c.prev].next = c.next
	} else {
		q.head = c.next
	}
	if c.next != None {
		callers[c.next].prev = c.prev
	} else {
		q.tail = c.prev
	}
	c.prev, c.next, c.leading = None, None, false
	return q.lead(callers)
}
