package world

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/test/sim/internal/judge"
)

// ledger knows the leases of all processes.
type ledger struct {
	mu       sync.Mutex
	held     []*held
	excused  map[string]bool      // owners whose hold the server may have forgotten
	amnesia  time.Time            // when it last may have
	granted  map[string]time.Time // when owners called for their first lease
	outlived map[string]bool      // owners whose hold or place only its TTL ends
	forced   map[string]time.Time // the same, by key
	kept     map[string]promise   // by key
	refuted  map[unit]time.Time   // when a renewal was answered that the hold is not there
	limits   map[unit]limit
}

// unit is one hold, in whatever mode.
type unit struct{ key, owner string }

func (h *held) unit() unit { return unit{h.lease.Key(), h.lease.Owner()} }

// covers says whether a hold lasts for as long as a re-entry asks for, as it is or as it is
// renewed.
func (h *held) covers(t term) bool {
	renewed := !t.fixed && !h.term.fixed && t.lasts <= h.term.lasts
	return renewed || t.lasts <= time.Until(h.lease.Deadline())
}

// promise says that a released key stays held.
type promise struct {
	owner string // who had it
	until time.Time
}

// limit is how long a hold may last, and so until when.
type limit struct {
	began time.Time // the acquisition
	most  time.Duration
	until time.Time
}

// held is a lease that somebody works under.
type held struct {
	lease         *lock.Lease
	process       *process
	began         time.Time // the acquisition
	permits, size int
	minHold       time.Duration
	maxHold       time.Duration
	term          term
}

func newLedger() *ledger {
	return &ledger{
		excused: make(map[string]bool), forced: make(map[string]time.Time), granted: make(map[string]time.Time), outlived: make(map[string]bool), kept: make(map[string]promise),
		refuted: make(map[unit]time.Time), limits: make(map[unit]limit),
	}
}

// keep notes a hold that was released, and that stays for its minimum.
func (l *ledger) keep(h *held) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key, owner := h.lease.Key(), h.lease.Owner()
	if !l.excused[owner] && h.began.After(l.amnesia) && h.began.After(l.forced[key]) {
		l.keepUntil(key, owner, l.granted[owner].Add(h.minHold)) // the store was called later
	}
}

// keptBy notes what a release in the server has promised.
func (l *ledger) keptBy(key, owner string, until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.keepUntil(key, owner, until)
}

func (l *ledger) keepUntil(key, owner string, until time.Time) {
	if l.kept[key].until.Before(until) {
		l.kept[key] = promise{owner, until}
	}
}

// isKept says until when a key must stay as it is.
func (l *ledger) isKept(key string) promise {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.kept[key]
}

// add notes a lease. granted is when the server gave its owner the hold. If that was before
// it forgot things, the owner is excused for as long as it has the hold, unless a renewal
// was answered since that the hold is not there. The server may have forgotten while no
// lease of the owner was here yet: its first caller waits for the length of its lease.
// A killed process has no leases, though its callers may re-enter until they end.
func (l *ledger) add(h *held, granted time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h.process.dead.Load() {
		return
	}
	l.held = append(l.held, h)
	if h.maxHold > 0 {
		l.limits[h.unit()] = limit{h.began, h.maxHold, time.Now().Add(h.maxHold)}
	}
	owner, began := h.lease.Owner(), h.began
	if _, again := l.granted[owner]; !again {
		l.granted[owner] = began
	}
	if _, refuted := l.refuted[h.unit()]; !refuted && !granted.IsZero() && granted.Before(began) {
		began = granted
	}
	if h.lease.Key() != quorumKey && !began.After(l.amnesia) || !h.began.After(l.forced[h.lease.Key()]) {
		l.excused[owner] = true
	}
}

// remove forgets a lease, which has been released.
func (l *ledger) remove(h *held) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = slices.DeleteFunc(l.held, func(other *held) bool { return other == h })
}

// bury forgets the leases of a process that is dead.
func (l *ledger) bury(p *process) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = slices.DeleteFunc(l.held, func(h *held) bool { return h.process == p })
}

// forget says that the server may have lost what it granted.
func (l *ledger) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.amnesia = time.Now()
	clear(l.kept)
	for _, h := range l.held {
		if h.lease.Key() != quorumKey {
			l.excused[h.lease.Owner()] = true
		}
	}
}

// taken returns the leases of a process that ended as the store no longer had their hold,
// each hold once.
func (l *ledger) taken(p *process, key string) (leases []judge.Lease) {
	l.mu.Lock()
	candidates := slices.Clone(l.held)
	l.mu.Unlock()
	for _, h := range candidates {
		if h.process != p || h.lease.Key() != key || l.isExcused(h.lease.Owner()) {
			continue
		}
		if errors.Is(lock.AssertHeld(h.lease.Context(), key), lock.ErrTaken) {
			leases = append(leases, h.about())
		}
	}
	return leases
}

// about is what judges see of a lease.
func (h *held) about() judge.Lease {
	return judge.Lease{
		Key: h.lease.Key(), Owner: h.lease.Owner(), Mode: h.lease.Mode(), Fence: h.lease.Fence(), Process: h.process.number,
		Permits: h.permits, Size: h.size, Deadline: h.lease.Deadline(),
	}
}

// force says that somebody took the key away from the owners of these fields. The
// ids of permits don't name their owners.
func (l *ledger) force(key string, fields []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forced[key] = time.Now()
	delete(l.kept, key)
	for _, h := range l.held {
		owner := h.lease.Owner()
		named := h.lease.Mode() == lock.Semaphore || slices.Contains(fields, owner) || slices.Contains(fields, owner+":write")
		if h.lease.Key() == key && named {
			l.excused[h.lease.Owner()] = true
		}
	}
}

// refute notes that a renewal was answered that the hold is not there.
func (l *ledger) refute(u unit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, again := l.refuted[u]; !again {
		l.refuted[u] = time.Now()
	}
}

// endExcuses ends those of owners who have had the time to hear that their hold is lost.
// calm is since when nothing has disturbed a process.
func (l *ledger) endExcuses(now time.Time, calm func(*process) time.Time, patience time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.refuted) == 0 {
		return
	}
	for _, h := range l.held {
		since, ok := l.refuted[h.unit()]
		if ok && now.Sub(since) > patience && now.Sub(calm(h.process)) > patience {
			delete(l.excused, h.lease.Owner())
		}
	}
}

// deceived says whether p works under a hold of the key that the server no longer
// has. It notices when it renews or releases, and its callers wait until then.
func (l *ledger) deceived(p *process, key string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.held, func(h *held) bool {
		return h.process == p && h.lease.Key() == key && l.excused[h.lease.Owner()]
	})
}

// wasGranted says whether an owner ever had a lease.
func (l *ledger) wasGranted(owner string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, granted := l.granted[owner]
	return granted
}

// lost returns the owners in a process whose lease is lost, and not released. The context
// of a lease says so only if its parent did not end before.
func (l *ledger) lost(p *process) map[string]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	owners := make(map[string]bool)
	for _, h := range l.held {
		over := !time.Now().Before(h.lease.Deadline()) || errors.Is(context.Cause(h.lease.Context()), lock.ErrLost)
		if h.process == p && over {
			owners[h.lease.Owner()] = true
		}
	}
	return owners
}

// outlive notes a hold, or a place in a queue, that only its TTL ends.
func (l *ledger) outlive(owner string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.outlived[owner] = true
}

// hasOutlived says whether only its TTL ends what an owner has.
func (l *ledger) hasOutlived(owner string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.outlived[owner]
}

// limited says whether a hold has a maximum.
func (l *ledger) limited(u unit) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.limits[u].most > 0
}

// answersFor says whether somebody works under a lease of an owner, or nobody
// has to. One who only reads has no write hold. Nobody works for longer than WithMaxHold
// says.
func (l *ledger) answersFor(o orphan) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	limit := l.limits[o.unit]
	switch {
	case l.outlived[o.owner]:
		return true
	case limit.most > 0 && time.Now().After(limit.until):
		return false
	}
	return slices.ContainsFunc(l.held, func(h *held) bool {
		return h.lease.Owner() == o.owner && (!o.write || h.lease.Mode() == lock.Write)
	})
}

// patience is how long a hold may be there that nobody has. Its TTL ends one that has
// reached its limit, and is no longer than that where a late call has set it. What a
// writer has may have to be undone. calm is since when nothing has disturbed the process.
func (l *ledger) patience(o orphan, calm time.Time, callTimeout time.Duration) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	limit := l.limits[o.unit]
	switch {
	case limit.most == 0, o.write:
		return judge.Patience(callTimeout)
	case calm.After(limit.began):
		return limit.most + 2*sampleEvery
	}
	return 2 * sampleEvery
}

// isExcused says whether the server may have forgotten what an owner has.
func (l *ledger) isExcused(owner string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.excused[owner]
}

// trusted returns the leases that are trusted now and not excused, each hold
// once. Trust never comes back, so all that are in the answer were trusted
// together when it was begun.
func (l *ledger) trusted(match func(h *held) bool) (leases []judge.Lease) {
	l.mu.Lock()
	candidates := slices.Clone(l.held)
	l.mu.Unlock()
	type hold struct {
		owner string
		mode  lock.Mode
		fence uint64
	}
	seen := make(map[hold]bool)
	for _, h := range candidates {
		id := hold{h.lease.Owner(), h.lease.Mode(), h.lease.Fence()}
		if seen[id] || !match(h) || l.isExcused(id.owner) || !trusts(h.lease) {
			continue
		}
		seen[id] = true
		leases = append(leases, h.about())
	}
	return leases
}

// trusts says whether the holder of a lease may work under it.
func trusts(lease *lock.Lease) bool {
	return lock.AssertHeld(lease.Context(), lease.Key()) == nil
}
