package machine

// Rest is a machine that has one hold of one lease, and nothing else to know. It is a
// fraction of the size of the machine: the shell keeps it for as long as nothing happens.
type Rest struct {
	owner    Owner
	fence    Fence
	granted  Time
	trust    Time
	expiry   Time
	gone     Time
	lasts    Time
	watchdog Time
	limit    Time
	least    Time // of the lease: Terms.Min
	renewAt  Time
	verified Time
	seqs     uint32
	order    uint32
	epoch    uint32
	permits  int32
	size     int32
	mode     Mode
	flags    restFlags
}

type restFlags uint8

const (
	restFixed restFlags = 1 << iota
	restPart
	restExtended
	restPerOwner
	restDraining
)

func (f restFlags) has(g restFlags) bool { return f&g != 0 }

func (f *restFlags) set(g restFlags, on bool) {
	if on {
		*f |= g
	}
}

// Due is [Machine.Due].
func (r *Rest) Due() Time { return min(r.trust, r.renewAt) }

// Rests says whether a Rest has all that the machine knows.
func (m *Machine) Rests() bool {
	if m.phases[absent] != -1 || m.live != 1 || m.callers[0].phase != holding {
		return false
	}
	c := &m.callers[0]
	switch h := &m.claims[c.claim]; {
	case m.ended, m.watch.state != watchNone, m.naming != None, m.abreast != m.Abreast, m.yield != yield{length: m.YieldMin}:
		return false
	case h.lowering, h.order != m.order, h.out != OpNone, h.open > 0, h.unknown, h.named > 0, h.dirty, h.suspect, h.renewing, h.keep > 0, h.spent:
		return false
	case c.Lease > 0:
		return h.watchdog == 0
	default:
		return h.watchdog == c.Watchdog
	}
}

// Rest returns what [Machine.Wake] needs. The machine must rest.
func (m *Machine) Rest() Rest {
	c := &m.callers[0]
	h := &m.claims[c.claim]
	r := Rest{
		owner: h.owner, fence: h.fence, granted: h.granted, trust: h.trust, expiry: h.expiry, gone: h.gone, lasts: h.lasts,
		watchdog: c.Watchdog, limit: h.limit, least: c.Min, renewAt: h.renewAt, verified: m.verified,
		seqs: m.seqs, order: h.order, epoch: m.epoch, permits: h.permits, size: h.size, mode: h.mode,
	}
	r.flags.set(restFixed, c.Lease > 0)
	r.flags.set(restPart, c.Part)
	r.flags.set(restExtended, h.extended)
	r.flags.set(restPerOwner, m.perOwner)
	r.flags.set(restDraining, m.draining)
	return r
}

// Wake makes m, which is as Init has made it, the machine that has rested. Its caller and
// its claim have slot 0.
func (m *Machine) Wake(r *Rest) {
	m.seqs, m.order, m.epoch, m.verified = r.seqs, r.order, r.epoch, r.verified
	m.perOwner, m.draining = r.flags.has(restPerOwner), r.flags.has(restDraining)
	m.live, m.arrivals, m.seen = 1, 1, 1
	m.phases[absent], m.phases[holding] = -1, 1
	m.held[r.mode], m.holds = 1, 1
	terms := Terms{Mode: r.mode, Part: r.flags.has(restPart), Permits: r.permits, Size: r.size, Watchdog: r.watchdog, Min: r.least}
	watchdog := r.watchdog
	if r.flags.has(restFixed) {
		terms.Lease, watchdog = r.lasts, 0
	}
	writes := int32(0)
	if r.mode == Write {
		writes = 1
	}
	m.callers = append(m.callers, caller{Terms: terms, phase: holding, claim: 0, prev: None, next: None, row: -1, number: 1})
	m.claims = append(m.claims, claim{
		stage: held, mode: r.mode, extended: r.flags.has(restExtended), asker: None, first: 0, returning: None,
		leases: 1, writes: writes, permits: r.permits, size: r.size, row: -1, order: r.order, owner: r.owner, fence: r.fence,
		gone: r.gone, placed: -1, granted: r.granted, trust: r.trust, expiry: r.expiry, lasts: r.lasts,
		watchdog: watchdog, limit: r.limit, at: Never, renewAt: r.renewAt,
	})
	m.put(1, -1, m.claims[0].due())
}

// Owner is that of the hold.
func (r *Rest) Owner() Owner { return r.owner }
