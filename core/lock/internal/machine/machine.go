package machine

// Params are the same for all keys of a locker.
type Params struct {
	Margin  Time // trust ends so much, and one per cent of the TTL, before the store's TTL
	Timeout Time // of a call
	Life    Time // how long after its timeout a call may still run in the store

	MaxTTL    Time // the longest TTL that an acquire writes
	ReadRenew Time // how often a read hold is renewed at least

	Poll      Time // how long a waiter relies on hints, and a hold that others wait for isn't verified
	KeepWatch Time // how long a subscription without waiters stays
	Watch     bool // the store has subscriptions

	Tries                  int32 // calls of a caller that has seen no answer yet
	Patience               Time  // how long a caller that waits for another owner rides out an outage
	BackoffMin, BackoffMax Time  // between calls
	UndoBackoff            Time  // the longest pause between calls that undo, and the pause after one without an answer
	UndoSoon               Time  // what an acquire without an answer may have left is removed once more after that
	Linger                 Time  // a removal without an answer is repeated so long at least: the store's clock may leap
	Jitter                 bool  // spread the pauses
	Seed                   uint64

	Abreast int32 // callers in a shared mode that call side by side

	Spaced      bool // fences leave room for hand-offs
	Ordered     bool // fences are in the order of the grants
	Handoffs    Fence
	HandoffTime Time
	// A yield lets other lockers call first. It begins with YieldMin and grows to YieldMax
	// for as long as they come too late.
	YieldMin, YieldMax Time
	YieldPause         Time // at least, after several that nobody used

	PlacePoll  Time  // a place in the store's queue is named that often
	PlaceLook  Time  // places are looked at that often, unless they are new
	PlaceTTL   Time  // how long a place lasts
	PlacePause Time  // how long a place that is being removed keeps the next waiter from calling
	MaxPlaces  int32 // that one call names
}

// margin is how long before the end of a TTL trust ends.
func (p *Params) margin(ttl Time) Time {
	if ttl >= Never {
		return 0
	}
	return ttl/100 + p.Margin
}

// Machine is one key in one locker. The zero value is not ready; see [Machine.Init].
type Machine struct {
	*Params
	facts

	callers []caller
	claims  []claim
	agenda  agenda
	touched []int32
	ids     []int32 // that are due
	places  []Owner // that the last acquire names
}

// facts are what a machine knows, besides its callers and its claims.
type facts struct {
	queue queue
	free  Slot // the first unused claim; they are linked

	phases  [phases]int32 // callers by phase; of absent: minus the number of all others
	held    [modes]int32  // claims in stage held, by mode
	ending  [modes]int32  // the same for Ending
	open    int32         // acquires without an answer
	holds   int32         // claims in stages held and ending
	undoing int32         // claims in stage Undoing
	live    int32         // claims that are not Free
	waiting int32         // callers that have had to wait
	overdue int32         // callers whose limit has passed, and that wait for an answer
	trying  int32         // tries that are queued
	abreast int32         // how many may call side by side now

	owners   Owner  // the last that was made
	seqs     uint32 // of calls
	order    uint32 // of grants
	epoch    uint32 // suspensions: what was sent in an earlier one says nothing about now
	arrivals uint64 // of callers
	seen     uint64 // the callers up to this one know that another owner had the key

	draining, ended, closed bool
	perOwner                bool // each owner needs its own subscription

	watch subscription
	yield yield

	heardSince int32 // wake-ups since the last release of a hold was sent

	callAt    Time // when the next caller calls without a hint
	verifyAt  Time // when the holds that the head waits for are verified
	verified  Time // when they were, or the last was granted
	looked    Time // when the places were looked at
	leaving   int32
	leaveTill Time // until then the places of callers that left keep the next head from calling
	pauseTill Time // and this one

	naming Slot // the claims that an acquire of another owner without an answer names; they are linked
}

// Init makes m the machine of a free key. Its owners are base+1 and following: the shell
// keeps the bases of its machines far enough apart, and calls [Machine.Rebase] in time.
func (m *Machine) Init(p *Params, base Owner) {
	const few = 8
	if cap(m.callers) > few || cap(m.claims) > few { // the room of a crowd
		m.callers, m.claims, m.agenda, m.touched, m.ids, m.places = nil, nil, nil, nil, nil, nil
	}
	m.Params, m.facts = p, facts{
		owners: base, abreast: p.Abreast, free: None, naming: None, callAt: Never, verifyAt: Never, looked: -Never, verified: -Never,
		queue: queue{None, None, None}, yield: yield{length: p.YieldMin},
	}
	m.callers, m.claims, m.agenda, m.touched, m.ids = m.callers[:0], m.claims[:0], m.agenda[:0], m.touched[:0], m.ids[:0]
}

// Rebase makes the next owners base+1 and following.
func (m *Machine) Rebase(base Owner) { m.owners = base }

// Step is the machine: it changes the state by one event, and appends what is to be
// done to out. It allocates nothing once m has had as many callers and claims before.
func (m *Machine) Step(e *Event, now Time, out []Effect) []Effect {
	m.touched = m.touched[:0]
	out = m.lapse(now, out)
	switch e.Kind {
	case EvArrive:
		out = m.arrive(e, now, out)
	case EvLeave:
		out = m.giveIn(e.Caller, now, out)
	case EvRelease:
		out = m.release(e, now, out)
	case EvExtend:
		out = m.extend(e, now, out)
	case EvCommit:
		m.callers[e.Caller].Part = false
	case EvAcquired:
		out = m.acquired(e, now, out)
	case EvReleased:
		out = m.released(e, now, out)
	case EvLowered:
		out = m.lowered(e, now, out)
	case EvRenewed:
		out = m.renewed(e, now, out)
	case EvForced:
		out = m.forced(e, now, out)
	case EvWatched:
		m.watched(e, now)
	case EvHint:
		m.turned(now)
		m.hint()
	case EvCheck:
		m.check(now)
	case EvTimer:
		out = m.timer(e.TTL, now, out)
	case EvForce:
		out = m.force(e, now, out)
	case EvSuspended:
		m.suspended(now)
	case EvDrain:
		out = m.drain(now, out)
	case EvEnd:
		out = m.end(now, out)
	case EvClose:
		out = m.close(now, out)
	}
	out = m.advance(e, now, out)
	out = m.keepWatch(now, out)
	m.schedule()
	return out
}

// Due returns when the machine needs an EvTimer, or Never.
func (m *Machine) Due() Time {
	return min(m.agenda.first(), m.callAt, m.verifyAt, m.watch.due())
}

// Empty says whether the machine may be dropped: nothing waits, is held or is to be
// undone. Answers that are still due mean nothing then.
func (m *Machine) Empty() bool {
	return m.watch.state == watchNone && m.phases[absent] == 0 && m.live == 0
}

// timer serves what is due. What would be renewed within slack is renewed along with it.
func (m *Machine) timer(slack, now Time, out []Effect) []Effect {
	out = m.watchTimer(now, out)
	m.ids = m.agenda.due(now+slack, m.ids[:0])
	for _, id := range m.ids {
		if id&1 == 0 {
			out = m.callerTimer(Slot(id>>1), now, out)
		} else {
			out = m.claimTimer(Slot(id>>1), slack, now, out)
		}
	}
	if now >= m.verifyAt {
		out = m.verify(now, out)
	}
	return out
}

// advance lets those callers call that may. It follows every event, so that no event has
// to care about who is next.
func (m *Machine) advance(e *Event, now Time, out []Effect) []Effect {
	m.callAt, m.verifyAt = Never, Never
	abreast, unanswered := int32(0), m.phases[retrying]
	for s := m.queue.head; s != None && m.mayCall(s, abreast); {
		c := &m.callers[s]
		if c.phase == retrying {
			unanswered--
		}
		if c.phase == calling {
			abreast = m.beside(c, abreast)
			s = c.next
			continue
		}
		if c.phase == sharing {
			s = c.next
			continue
		}
		if at := m.callsAt(c, now); at > now {
			m.callAt = min(m.callAt, at)
			if unanswered == 0 {
				break
			}
			// Callers called side by side, and the first may wait for the hold of one behind
			// it whose call had no answer.
			for s = c.next; m.callers[s].phase != retrying; {
				s = m.callers[s].next
			}
			continue
		}
		switch {
		case !m.blocked(c):
			next := c.next
			out = m.call(s, e.LedgerFull, now, out)
			if m.callers[s].phase == calling {
				abreast = m.beside(&m.callers[s], abreast)
				s = next
				continue
			}
		case c.Once: // it was granted to another caller of this process
			out = m.leave(s, ResBusy, now, out)
		default:
			c.saw = true
			m.enter(s, queued)
			if m.conflicting(&m.held, c.Mode) > 0 {
				m.verifyAt = after(m.verified, m.poll(c))
			}
			return out
		}
		s, abreast, unanswered = m.queue.head, 0, m.phases[retrying]
	}
	return out
}

// beside adds a caller to the number of callers that call. Permits that one was refused are
// not given to the callers behind it.
func (m *Machine) beside(c *caller, abreast int32) int32 {
	if c.Mode == Semaphore && c.refused {
		return m.Abreast
	}
	return abreast + 1
}

// mayCall says whether s, behind so many callers that call, may do so as well: nobody is
// before it, or only callers of the same shared mode, or it has called before.
func (m *Machine) mayCall(s Slot, abreast int32) bool {
	c := &m.callers[s]
	if s == m.queue.head || c.phase == sharing || c.phase == retrying {
		return true
	}
	return c.leading && c.Mode.shared() && abreast < m.abreast
}

// callsAt is when a caller that may call does so.
func (m *Machine) callsAt(c *caller, now Time) Time {
	var at Time
	switch {
	case c.phase == resting && !c.hint, c.phase == retrying:
		at = c.askAt
	}
	if c.Once {
		return at
	}
	if m.yield.until > now {
		at = max(at, m.yield.until)
	}
	if c.Mode == Fair && m.leaving > 0 && m.pauseTill > now {
		at = max(at, m.pauseTill)
	}
	return at
}

// blocked says whether a hold of this process is in the way. A fair caller calls all the
// same, as its place is in the store, and of permits there may be more.
func (m *Machine) blocked(c *caller) bool {
	if c.Mode == Fair || c.Mode == Semaphore {
		return false
	}
	return m.takenBy(c) > 0
}

// takenBy counts the holds of this process that exclude one of the caller.
func (m *Machine) takenBy(c *caller) int32 {
	n := m.conflicting(&m.held, c.Mode)
	if !c.Once { // a try of a key that is being released calls
		n += m.conflicting(&m.ending, c.Mode)
	}
	return n
}

// conflicting counts the claims that exclude a hold in that mode.
func (m *Machine) conflicting(by *[modes]int32, mode Mode) int32 {
	switch mode {
	case Semaphore:
		return 0
	case Read:
		return by[Exclusive] + by[Fair] + by[Write]
	}
	return by[Exclusive] + by[Fair] + by[Write] + by[Read]
}

// poll is how long a caller relies on hints.
func (m *Machine) poll(c *caller) Time {
	if c.Poll > 0 {
		return c.Poll
	}
	return m.Poll
}

// backoff is the pause after so many failures, at most most.
func (m *Machine) backoff(failures int32, most Time) Time {
	d := min(m.BackoffMin<<min(failures, 10), most)
	if m.Jitter {
		m.seqs++
		d -= Time((uint64(m.seqs)^m.Seed)*0x9e3779b97f4a7c15>>33) % (d/2 + 1)
	}
	return max(d, 1)
}
