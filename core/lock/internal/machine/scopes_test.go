package machine

func one(as Terms) script {
	if as.Watchdog == 0 && as.Lease == 0 {
		as.Watchdog = 4
	}
	return script{as: as, rounds: 1, inside: -1}
}

func (s script) times(n int8) script   { s.rounds = n; return s }
func (s script) within(i int8) script  { s.inside = i; return s }
func (s script) leaver() script        { s.leaves = true; return s }
func (s script) decliner() script      { s.declines = true; return s }
func (s script) limited(d Time) script { s.wait = d; return s }
func (s script) extends(d Time) script { s.extend = d; return s }
func (s script) lasts(d Time) script   { s.as.Watchdog = d; return s }

func many(s script, n int) (l []script) {
	for range n {
		l = append(l, s)
	}
	return l
}

// forEver makes scripts whose leases never expire.
func forEver(l ...script) []script {
	for i := range l {
		if l[i].as.Lease == 0 {
			l[i].as.Watchdog = Never
		}
	}
	return l
}

// untimed are the settings of scopes in which nothing expires and waiters rely on hints: a
// hold that is left or a hint that is lost blocks the scope for ever.
func untimed() Params {
	return Params{
		Timeout: 1, Life: 1, MaxTTL: Never, ReadRenew: Never, Poll: Never, Watch: true,
		Tries: 2, Patience: 2, BackoffMin: 1, BackoffMax: 1, UndoBackoff: 1, Abreast: 2,
		Spaced: true, Ordered: true, Handoffs: 1, HandoffTime: Never,
		PlacePoll: Never, PlaceLook: Never, PlaceTTL: Never, PlacePause: 1, MaxPlaces: 4,
	}
}

// timed are the settings of scopes with leases of a few ticks.
func timed() Params {
	p := untimed()
	p.Margin, p.MaxTTL, p.Poll, p.Watch, p.Tries, p.Patience = 1, 100, 2, false, 1, 1
	p.PlacePoll, p.PlaceLook, p.PlaceTTL = 2, 1, 6
	return p
}

// alone are the settings of scopes in which callers of a shared mode call one by one.
func alone() Params { return untimed().with(func(p *Params) { p.Abreast = 1 }) }

func (p Params) with(f func(p *Params)) Params { f(&p); return p }

var (
	x        = one(Terms{Mode: Exclusive})
	try      = one(Terms{Mode: Exclusive, Once: true})
	fair     = one(Terms{Mode: Fair})
	fairTry  = one(Terms{Mode: Fair, Once: true})
	reads    = one(Terms{Mode: Read})
	writes   = one(Terms{Mode: Write})
	permit   = one(Terms{Mode: Semaphore, Permits: 1, Size: 2})
	permits2 = one(Terms{Mode: Semaphore, Permits: 2, Size: 2})
	fixed    = one(Terms{Mode: Exclusive, Lease: 4})
	minimum  = one(Terms{Mode: Exclusive, Min: 3})
	maximum  = one(Terms{Mode: Exclusive, Max: 3})
)

// hints are scopes in which nothing expires.
func hints(sc scope, procs ...[]script) *scope {
	if sc.p.Tries == 0 {
		sc.p = untimed()
	}
	for i := range procs {
		procs[i] = forEver(append([]script(nil), procs[i]...)...)
	}
	sc.procs, sc.grace, sc.loses = procs, Never, sc.loses || !sc.breaks && !sc.denies
	return &sc
}

// clocks are scopes in which leases end.
func clocks(sc scope, procs ...[]script) *scope {
	if sc.p.Tries == 0 {
		sc.p = timed()
	}
	sc.procs, sc.loses = procs, sc.loses || !sc.breaks && !sc.denies
	if sc.grace == 0 {
		sc.grace = 2
	}
	return &sc
}

func scopes() []*scope {
	l := func(s ...script) []script { return s }
	return []*scope{
		hints(scope{name: "two wait", foreign: 1, faults: 1, leaves: 1}, many(x.leaver(), 2)),
		hints(scope{name: "two rounds", foreign: 1, leaves: 1}, many(x.leaver().times(2), 2)),
		hints(scope{name: "three tries", foreign: 2, leaves: 1}, many(try.leaver(), 3)),
		hints(scope{name: "three tries, one again", foreign: 1, leaves: 1}, l(try.leaver().times(2), try, try)),
		hints(scope{name: "tries, a fault", foreign: 1, faults: 1, leaves: 1}, many(try.leaver(), 3)),
		hints(scope{name: "a waiter and tries", foreign: 1, faults: 1}, l(x.leaver(), try, try)),
		hints(scope{name: "re-entry", foreign: 1, faults: 1}, l(x, x.within(0), x.leaver())),
		hints(scope{name: "a writer reads", foreign: 1, mode: Read, faults: 1, leaves: 1}, l(writes, reads.within(0), reads.leaver())),
		hints(scope{name: "a writer reads, a writer waits", foreign: 1, mode: Write, faults: 1}, l(writes, reads.within(0), writes)),
		hints(scope{name: "readers and a writer", foreign: 1, mode: Write, leaves: 1}, l(reads.leaver(), reads.leaver(), writes.leaver())),
		hints(scope{name: "fair, one process", foreign: 1, faults: 1, leaves: 1}, l(fair.leaver(), fair)),
		hints(scope{name: "fair, three", foreign: 1, leaves: 1}, many(fair.leaver(), 3)),
		hints(scope{name: "fair, two processes", leaves: 1}, many(fair.leaver(), 2), many(fair.leaver(), 1)),
		hints(scope{name: "permits", size: 2, foreign: 1, mode: Semaphore, leaves: 1}, l(permit.leaver(), permit.leaver(), permits2.leaver())),
		hints(scope{name: "two permits, a fault", size: 2, faults: 1}, l(permit, permits2)),
		hints(scope{name: "permits and a try", p: alone(), size: 2, foreign: 1, mode: Semaphore, leaves: 1}, l(permit, permit.leaver(), one(Terms{Mode: Semaphore, Permits: 1, Size: 2, Once: true}))),
		hints(scope{name: "readers and a try", p: alone(), foreign: 1, mode: Write, leaves: 1}, l(reads.leaver(), reads, one(Terms{Mode: Read, Once: true}))),
		hints(scope{name: "permits, two processes", size: 2}, l(permit, permits2), l(permits2)),
		hints(scope{name: "two processes", faults: 1}, many(x, 2), many(x, 1)),
		hints(scope{name: "two processes of two", symmetric: true}, many(x, 2), many(x, 2)),
		hints(scope{name: "two processes, a writer reads", faults: 1}, l(writes, reads.within(0)), l(reads)),
		hints(scope{name: "drain", foreign: 1, faults: 1, drain: 1}, l(x, x.within(0), x)),
		hints(scope{name: "close", foreign: 1, faults: 1, shut: 1}, l(x, x.within(0), x)),
		hints(scope{name: "errors", foreign: 1, faults: 1, leaves: 1, breaks: true}, l(x.leaver(), x)),
		hints(scope{name: "tries, errors", p: untimed().with(func(p *Params) { p.Tries = 1 }), foreign: 1, faults: 1, breaks: true, leaves: 1}, many(try.leaver(), 2)),
		hints(scope{name: "fair, errors", foreign: 1, faults: 1, breaks: true}, many(fair, 2)),
		hints(scope{name: "a writer reads, errors", foreign: 1, mode: Read, faults: 1, breaks: true}, l(writes, reads.within(0), reads)),

		clocks(scope{name: "time: errors", foreign: 1, faults: 2, breaks: true}, l(x, x.within(0))),
		clocks(scope{name: "time: one, two faults", foreign: 1, faults: 2}, l(x)),
		clocks(scope{name: "time: slow answers", p: slowly(), foreign: 1, faults: 3}, l(x.lasts(5))),
		clocks(scope{name: "time: late timers, re-entry", foreign: 1, faults: 1, lazy: 1}, l(x, x.within(0))),
		clocks(scope{name: "time: suspended", foreign: 1, faults: 1, suspends: 1}, l(x, x)),
		clocks(scope{name: "time: suspended, slow answers", p: slowly(), foreign: 1, faults: 2, suspends: 1, leaves: 1}, l(x.lasts(5).leaver())),
		hints(scope{name: "fair, force", forces: 1}, many(fair, 3)),
		clocks(scope{name: "time: two", faults: 1, leaves: 1}, l(x.leaver(), x)),
		clocks(scope{name: "time: late timers", faults: 1, lazy: 1, symmetric: true}, l(x), l(x)),
		clocks(scope{name: "time: extend", faults: 1}, l(fixed.extends(6)), l(x)),
		clocks(scope{name: "time: extend, renewed", foreign: 1, faults: 1}, l(x.extends(8))),
		clocks(scope{name: "time: extend, a caller waits", faults: 1}, l(x.extends(8), x)),
		clocks(scope{name: "time: re-entry is longer", foreign: 1, faults: 1}, l(fixed, one(Terms{Mode: Exclusive, Lease: 6}).within(0))),
		clocks(scope{name: "time: re-entry has a watchdog", foreign: 1, faults: 1}, l(fixed, x.within(0).lasts(6))),
		clocks(scope{name: "time: minimum", foreign: 1, faults: 1}, l(minimum, x)),
		clocks(scope{name: "time: maximum", foreign: 1, faults: 1}, l(maximum, x)),
		clocks(scope{name: "time: wait limits", p: short(), foreign: 1, faults: 1}, l(x.lasts(3), x.lasts(3).limited(1))),
		clocks(scope{name: "time: wait limits of readers", foreign: 0}, l(reads.lasts(Never), writes.lasts(3), reads.lasts(3).limited(1))),
		clocks(scope{name: "time: a writer reads", faults: 1}, l(writes, reads.within(0)), l(reads)),
		clocks(scope{name: "time: crash", p: short(), faults: 1, crash: 1, symmetric: true}, l(x.lasts(3)), l(x.lasts(3))),
		clocks(scope{name: "time: force", forces: 1}, l(x, x), l(x)),
		clocks(scope{name: "time: force of fixed leases", foreign: 1, forces: 1}, l(one(Terms{Mode: Exclusive, Lease: 8}), x)),

		// Features that cross.
		clocks(scope{name: "long leases", p: timed().with(func(p *Params) { p.MaxTTL = 3 }), foreign: 1, faults: 1, leaves: 1}, l(one(Terms{Mode: Exclusive, Lease: 6}).leaver(), x.lasts(3))),
		clocks(scope{name: "patience", p: timed().with(func(p *Params) { p.Tries, p.Patience, p.BackoffMax = 2, 2, 2 }), foreign: 1, faults: 1, breaks: true}, l(x, x.limited(2))),
		clocks(scope{name: "a store that refuses", foreign: 1, faults: 1, denies: true}, l(x, x, x.within(0))),
		clocks(scope{name: "a down store, a waiter", p: timed().with(func(p *Params) { p.Patience = 3 }), foreign: 1, faults: 1, denies: true, leaves: 1}, l(x.leaver(), x)),
		hints(scope{name: "limited crowd", foreign: 1, most: 1, leaves: 1}, many(x.leaver(), 3)),
		hints(scope{name: "limited crowd of readers", foreign: 1, mode: Write, most: 1, leaves: 1}, l(reads.leaver(), reads, writes)),
		hints(scope{name: "full ledger", foreign: 1, faults: 1, leaves: 1, ledger: 1}, many(x.leaver(), 2)),
		clocks(scope{name: "declined", foreign: 1, faults: 1}, l(minimum.decliner(), x.decliner())),
		clocks(scope{name: "groups", foreign: 1, faults: 1, shut: 1}, l(one(Terms{Mode: Exclusive, Min: 3, Part: true}))),
		clocks(scope{name: "yield", p: timed().with(func(p *Params) { p.Watch, p.Poll, p.YieldMin, p.YieldMax, p.YieldPause = true, 4, 1, 2, 2 })}, l(x, x, x), l(x)),

		clocks(scope{name: "readers are renewed", p: timed().with(func(p *Params) { p.ReadRenew = 2 }), foreign: 1, mode: Write, faults: 1}, l(one(Terms{Mode: Read, Lease: 7}), writes)),
		clocks(scope{name: "checked", foreign: 1, forces: 1, checks: 1, leaves: 0}, l(one(Terms{Mode: Exclusive, Lease: 8}), x)),
		clocks(scope{name: "fences in no order", p: timed().with(func(p *Params) { p.Ordered = false }), forces: 1}, many(fair, 2)),
		clocks(scope{name: "kept subscription", p: timed().with(func(p *Params) { p.Watch, p.KeepWatch, p.Poll = true, 1, 3 }), foreign: 1, leaves: 1, faults: 1}, l(x.leaver(), x)),
		clocks(scope{name: "mixed modes", mixed: true, p: timed().with(func(p *Params) { p.Watch = true }), foreign: 1, leaves: 0}, l(x.leaver(), fair, reads)),
		clocks(scope{name: "fair and time", foreign: 1, faults: 1, leaves: 1}, l(fair.leaver(), fair)),
		clocks(scope{name: "fair, two processes and time", faults: 1, symmetric: true}, l(fair), l(fair)),
		clocks(scope{name: "fair, force and time", p: timed().with(func(p *Params) { p.Tries, p.Patience = 2, 2 }), foreign: 1, forces: 1, faults: 1}, l(fair.lasts(6))),
		clocks(scope{name: "fair, crash", crash: 1, leaves: 0}, l(fair.leaver(), fair), l(fair)),
		hints(scope{name: "fair, one call for few places", p: untimed().with(func(p *Params) { p.MaxPlaces = 2 }), foreign: 1, leaves: 1}, many(fair.leaver(), 3)),
		hints(scope{name: "fair and exclusive", foreign: 1, leaves: 1}, l(fair.leaver(), x.leaver(), fair)),
		hints(scope{name: "fair tries", foreign: 1, leaves: 1}, l(fair.leaver(), fairTry, fairTry.leaver())),
		hints(scope{name: "hints for owners", perOwner: true, foreign: 1, mode: Fair, leaves: 1, faults: 0}, many(fair.leaver(), 2)),
		hints(scope{name: "drain, a group", foreign: 1, drain: 1, leaves: 1}, l(x, x.within(0).leaver(), x)),
		clocks(scope{name: "permits and time", size: 2, foreign: 1, mode: Semaphore, faults: 1, leaves: 1}, l(permit.leaver(), permits2)),
		clocks(scope{name: "hints and time", p: timed().with(func(p *Params) { p.Watch = true }), foreign: 1, faults: 1}, l(x, x)),
		clocks(scope{name: "writers and time", faults: 1}, l(writes, reads.within(0), writes)),
		clocks(scope{name: "close and time", foreign: 1, faults: 1, shut: 1}, l(x, x)),
		hints(scope{name: "close, a writer reads", foreign: 1, mode: Write, faults: 1, shut: 1, breaks: true}, l(writes, reads.within(0))),
		hints(scope{name: "close, fair", foreign: 1, faults: 1, shut: 1, breaks: true}, l(fair)),
		clocks(scope{name: "drain and time", foreign: 1, drain: 1}, l(x, x.within(0), x)),
		clocks(scope{name: "minimum and close", foreign: 1, faults: 1, shut: 1}, l(minimum, x)),
		clocks(scope{name: "minimum, errors", foreign: 1, faults: 1, breaks: true}, l(minimum, x)),
		clocks(scope{name: "suspended, fixed", foreign: 1, suspends: 1}, l(fixed, x)),
		clocks(scope{name: "suspended, a writer reads", faults: 1, suspends: 1, breaks: true}, l(writes, reads.within(0))),
		clocks(scope{name: "tries and time", foreign: 1, faults: 1}, l(x, try)),
		clocks(scope{name: "force, a writer reads", forces: 1, faults: 1}, l(writes, reads.within(0))),
		clocks(scope{name: "force, errors", forces: 1, faults: 1, breaks: true}, l(x, x)),
		clocks(scope{name: "two tries each", p: timed().with(func(p *Params) { p.Tries = 2 }), foreign: 1, faults: 1, leaves: 1}, l(x.leaver(), x)),
		clocks(scope{name: "yield, nobody listens", p: timed().with(func(p *Params) { p.Watch, p.Poll, p.YieldMin, p.YieldMax, p.YieldPause = true, 4, 1, 2, 2 })}, l(x.times(2), x, x)),
		clocks(scope{name: "hand-offs in time", p: timed().with(func(p *Params) { p.Handoffs, p.HandoffTime = 5, 2 }), faults: 1}, l(x.lasts(6).times(2), x.lasts(6).times(2))),
		clocks(scope{name: "verified for long", p: timed().with(func(p *Params) { p.Poll = 1 }), foreign: 1}, l(x.lasts(9), x.lasts(9))),
		clocks(scope{name: "a writer with a minimum reads", foreign: 1, mode: Write, faults: 1}, l(one(Terms{Mode: Write, Min: 3}), reads.within(0), reads)),
		clocks(scope{name: "a reader with a minimum in a writer", foreign: 1, mode: Write, faults: 1}, l(writes, one(Terms{Mode: Read, Min: 3}).within(0), writes)),
		hints(scope{name: "few calls", foreign: 1, leaves: 1, calls: 8}, l(fair.leaver(), fair)),
		clocks(scope{name: "few calls and time", foreign: 1, calls: 6}, l(x, x.within(0), x)),
		hints(scope{name: "a writer reads and writes again", faults: 1}, l(writes, reads.within(0), writes.within(1))),
		clocks(scope{name: "maximum, renewed", foreign: 1, faults: 1}, l(one(Terms{Mode: Exclusive, Max: 6}), x)),
		hints(scope{name: "errors, repeated", p: untimed().with(func(p *Params) { p.Timeout = 2 }), foreign: 1, faults: 1, breaks: true}, l(x, x)),
		clocks(scope{name: "suspended, two faults", faults: 2, suspends: 1}, l(x)),
		hints(scope{long: true, name: "fair, two processes of two", leaves: 1}, l(fair.leaver(), fair), l(fair, fair)),
		clocks(scope{name: "maximum, suspended", faults: 2, suspends: 1}, l(one(Terms{Mode: Exclusive, Max: 12}))),
		clocks(scope{name: "renewed early", foreign: 1, faults: 1, slack: 1}, l(x.lasts(6), x)),
		hints(scope{name: "one waits", foreign: 1, faults: 1}, l(x)),
		clocks(scope{name: "private timeouts", p: slowly(), faults: 1}, l(one(Terms{Mode: Exclusive, Timeout: 1}), x)),
		hints(scope{name: "kept subscription, no polls", p: untimed().with(func(p *Params) { p.KeepWatch = 1 }), foreign: 2, leaves: 1}, l(x.leaver().times(2))),
		hints(scope{name: "kept subscription, fair", p: untimed().with(func(p *Params) { p.KeepWatch = 1 }), foreign: 1, leaves: 1}, l(fair.leaver().times(2), fair)),
		hints(scope{name: "fair and permits", mixed: true, size: 1, faults: 1, leaves: 1}, l(fair.leaver(), one(Terms{Mode: Semaphore, Permits: 1, Size: 1}))),
		clocks(scope{name: "close, a long lease", p: timed().with(func(p *Params) { p.MaxTTL = 3 }), foreign: 1, faults: 1, shut: 1}, l(one(Terms{Mode: Exclusive, Lease: 6}))),
		hints(scope{name: "close, one waits", foreign: 1, shut: 1}, l(x)),
		hints(scope{name: "close, removed soon", p: untimed().with(func(p *Params) { p.UndoSoon = 1 }), faults: 2, shut: 1}, l(x)),
		clocks(scope{name: "late grants", p: timed().with(func(p *Params) { p.Patience = 4 }), foreign: 1, faults: 2}, l(x.lasts(3))),
		clocks(scope{name: "suspended, one fixed", suspends: 1}, l(one(Terms{Mode: Exclusive, Lease: 8}))),
		clocks(scope{name: "limits behind a hold", foreign: 1}, l(x, x.limited(1), x.limited(1))),

		// Scopes for longer runs.
		clocks(scope{long: true, name: "long: suspended, fixed", foreign: 1, faults: 1, suspends: 1}, l(fixed, x)),
		clocks(scope{long: true, name: "long: suspended, a writer reads", foreign: 1, mode: Write, faults: 1, suspends: 1, breaks: true}, l(writes, reads.within(0))),
		clocks(scope{long: true, name: "long: tries and time", foreign: 1, faults: 1}, l(x, try, try)),
		clocks(scope{long: true, name: "long: force, a writer reads", forces: 1, faults: 1}, l(writes, reads.within(0), reads)),
		clocks(scope{long: true, name: "long: limits behind a hold", foreign: 1, faults: 1}, l(x, x.limited(1), x.limited(1))),
		clocks(scope{long: true, name: "long: minimum, errors", foreign: 1, faults: 2, breaks: true}, l(minimum, x)),
		hints(scope{long: true, name: "long: close, fair", foreign: 1, faults: 1, shut: 1, breaks: true}, l(fair, fair)),
		clocks(scope{long: true, name: "long: force, errors", foreign: 1, forces: 1, faults: 1, breaks: true}, l(x, x)),
		clocks(scope{long: true, name: "long: yield", p: timed().with(func(p *Params) { p.Watch, p.Poll, p.YieldMin, p.YieldMax, p.YieldPause = true, 4, 1, 2, 2 })}, l(x.times(2), x), l(x)),
		clocks(scope{long: true, name: "long: yield, a fault", p: timed().with(func(p *Params) { p.Watch, p.Poll, p.YieldMin, p.YieldMax, p.YieldPause = true, 4, 1, 2, 2 }), faults: 1}, l(x, x), l(x)),
		clocks(scope{long: true, name: "long: checked", foreign: 1, forces: 1, checks: 1, faults: 1}, l(one(Terms{Mode: Exclusive, Lease: 8}), x)),
		clocks(scope{long: true, name: "long: fences in no order", p: timed().with(func(p *Params) { p.Ordered = false }), forces: 1}, many(fair, 3)),
		clocks(scope{long: true, name: "long: fair, crash", crash: 1, leaves: 1}, l(fair.leaver(), fair), l(fair)),
		clocks(scope{long: true, name: "long: mixed modes", mixed: true, p: timed().with(func(p *Params) { p.Watch = true }), foreign: 1, leaves: 1}, l(x.leaver(), fair, reads)),
		clocks(scope{long: true, name: "long: time: force", forces: 1}, l(x.times(2), x), l(x)),
		clocks(scope{long: true, name: "long: a down store, a waiter", p: timed().with(func(p *Params) { p.Patience = 3 }), foreign: 1, faults: 2, denies: true, leaves: 1}, l(x.leaver(), x)),
		clocks(scope{long: true, name: "long: patience", p: timed().with(func(p *Params) { p.Tries, p.Patience, p.BackoffMax = 2, 2, 2 }), foreign: 1, faults: 2, breaks: true}, l(x, x.limited(2))),
		clocks(scope{long: true, name: "long: two tries each", p: timed().with(func(p *Params) { p.Tries = 2 }), foreign: 1, faults: 2, leaves: 1}, l(x.leaver(), x)),
		hints(scope{long: true, name: "long: three tries", foreign: 1, leaves: 1}, many(try.leaver().times(2), 3)),
		hints(scope{long: true, name: "long: fair, one process", foreign: 1, faults: 1, leaves: 1}, many(fair.leaver(), 2)),
		hints(scope{long: true, name: "long: hints for owners", perOwner: true, foreign: 1, mode: Fair, leaves: 1, faults: 1}, many(fair.leaver(), 2)),
		hints(scope{long: true, name: "long: two processes of two, a fault", faults: 1, symmetric: true}, many(x, 2), many(x, 2)),
		clocks(scope{long: true, name: "long: two processes of two, time", symmetric: true}, many(x, 2), many(x, 2)),
		hints(scope{long: true, name: "long: three wait", foreign: 1, faults: 1, leaves: 1}, many(x.leaver(), 3)),
		hints(scope{long: true, name: "long: two wait, two faults", foreign: 1, faults: 2, leaves: 1}, many(x.leaver(), 2)),
		hints(scope{long: true, name: "long: readers and a writer, a fault", foreign: 1, mode: Write, faults: 1, leaves: 1}, l(reads.leaver(), reads.leaver(), writes.leaver())),
		hints(scope{long: true, name: "long: fair, two processes, a fault", faults: 1, leaves: 1}, many(fair.leaver(), 2), many(fair.leaver(), 1)),
		clocks(scope{long: true, name: "long: time, two processes, two faults", faults: 2}, l(x, x.within(0)), l(x)),
		hints(scope{long: true, name: "long: permits, a fault", size: 2, foreign: 1, mode: Semaphore, faults: 1, leaves: 1}, l(permit.leaver(), permit.leaver(), permits2.leaver())),
		hints(scope{long: true, name: "long: four wait", foreign: 1, leaves: 1}, many(x.leaver(), 4)),
	}
}

// slowly are timed settings in which calls take up to two ticks.
func slowly() Params { return timed().with(func(p *Params) { p.Timeout = 2 }) }

// short are timed settings with a shorter poll interval.
func short() Params { return timed().with(func(p *Params) { p.Poll = 1 }) }
