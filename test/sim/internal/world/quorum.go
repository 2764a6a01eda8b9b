package world

import (
	"context"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/quorum"
	"github.com/redlatch/redlatch/test/sim/internal/judge"
)

const (
	// quorumKey is held by a majority of separate servers.
	quorumKey = "q0"
	nodes     = 3
	majority  = nodes/2 + 1
	// votesLast is how long lost votes may be in the way, until the last attempt to
	// remove them has been made and the vote was repeated.
	votesLast = 5 * time.Second
)

// member is the part of a process that locks by a quorum.
type member struct {
	*caller
	clients []*redis.Client
	store   *quorum.Store
	locker  *lock.Locker
	id      int
}

// join makes a process a member.
func (w *World) join(p *process, rng *rand.Rand) *member {
	m := &member{caller: &caller{process: p, number: w.callers + 1, rng: rng}, id: int(w.lockers.Add(1))}
	stores := make([]lock.Store, 0, nodes)
	for _, node := range w.nodes {
		rdb := p.client(node)
		m.clients, stores = append(m.clients, rdb), append(stores, newStore(rdb))
	}
	m.store, _ = quorum.New(stores...) // three, so it does not fail
	m.locker = lock.New(m.store)
	return m
}

// run uses the key until the process stops.
func (m *member) run() {
	for m.process.ctx.Err() == nil {
		m.use()
		m.rest()
	}
}

func (m *member) use() {
	world, began := m.world(), time.Now()
	options := []lock.Option{lock.WithWatchdog(watchdogs[m.rng.IntN(len(watchdogs))])}
	if m.chance(30) {
		options = []lock.Option{lock.WithLease(m.between(500*time.Millisecond, 10*time.Second))}
	}
	if m.chance(30) {
		options = append(options, lock.WithWait(m.between(time.Millisecond, 4*time.Second)))
	}
	done := world.waits(quorumKey, lock.Exclusive, m.process, began)
	lease, err := m.locker.Acquire(m.process.ctx, quorumKey, options...)
	done()
	world.journal.count("quorum: " + outcome(err))
	if err != nil {
		pause(m.process.ctx, m.between(time.Millisecond, 50*time.Millisecond))
		return
	}
	h := &held{lease: lease, process: m.process, began: began}
	m.granted(h, false, m.id)
	pause(lease.Context(), m.between(time.Microsecond, m.long()))
	if m.chance(20) {
		err := lease.Extend(m.process.ctx, m.between(time.Second, 20*time.Second))
		world.journal.count("quorum extend: " + outcome(err))
		pause(lease.Context(), m.between(time.Microsecond, m.long()))
	}
	err = lease.Release(context.Background())
	world.ledger.remove(h)
	world.journal.count("quorum release: " + outcome(err))
}

// close ends the member, within ctx.
func (m *member) close(ctx context.Context) {
	_ = m.locker.Close(ctx)
	_ = m.store.Close(ctx)
	for _, rdb := range m.clients {
		_ = rdb.Close()
	}
}

// harass disturbs one node after the other: a minority may be away.
func (w *World) harass(rng *rand.Rand) {
	between := func(least, most time.Duration) time.Duration {
		return least + time.Duration(rng.Int64N(int64(most-least)))
	}
	for {
		pause(w.ctx, between(500*time.Millisecond, 5*time.Second))
		if w.ctx.Err() != nil {
			return
		}
		i, d := rng.IntN(nodes), between(100*time.Millisecond, 4*time.Second)
		node := w.nodes[i]
		w.journal.tell("           fault node %d, %v", i, d.Round(time.Millisecond))
		switch {
		case w.Features[Refuse] && rng.IntN(3) == 0:
			w.journal.count("fault: node refuses")
			node.refuse(d)
		case rng.IntN(2) == 0:
			w.journal.count("fault: node stalls")
			node.stall(d)
		default:
			w.journal.count("fault: node restarts")
			node.restart()
			if w.Bug == Forgetful {
				w.forgetNodes()
			}
			time.AfterFunc(d, func() { node.down.Store(false) })
		}
		pause(w.ctx, d)
	}
}

// forgetNodes is what must not happen: nodes lose what they granted.
func (w *World) forgetNodes() {
	for _, node := range w.nodes {
		node.mu.Lock()
		node.keys.Clear()
		node.mu.Unlock()
	}
}

// lookAtNodes judges the key of the quorum: each trusted lease has its hold on a
// majority of the nodes until its deadline, and a free key finds its waiters.
func (w *watch) lookAtNodes() {
	ofQuorum := func(h *held) bool { return h.lease.Key() == quorumKey }
	before := w.world.ledger.trusted(ofQuorum)
	holds := make([]map[string]time.Time, 0, nodes)
	free := 0
	for _, node := range w.world.nodes {
		found := node.votes()
		holds = append(holds, found)
		if len(found) == 0 {
			free++
		}
	}
	after := make(map[string]bool)
	for _, l := range w.world.ledger.trusted(ofQuorum) {
		after[l.Owner] = true
	}
	for _, l := range before {
		found := judge.Backed(time.Now(), []judge.Backing{backedByNodes(l, holds)})
		if after[l.Owner] && len(found) > 0 && w.world.once(found[0].Rule+l.Owner) { // it was trusted all the time
			w.world.journal.report(found)
		}
	}
	if free < majority {
		w.taken(quorumKey)
		return
	}
	w.judge(time.Now(), quorumKey, false)
}

// votes are the holds of the key by the owners for whom a node has voted.
func (s *server) votes() map[string]time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys.SetTime(s.clock())
	found := make(map[string]time.Time)
	at, _, _ := s.keys.Expires(quorumKey)
	for field := range s.keys.Hash(quorumKey) {
		owner, _, _ := strings.Cut(field, "#")
		found[owner] = at
	}
	return found
}

// backedByNodes is what a majority of the nodes has for a lease.
func backedByNodes(l judge.Lease, holds []map[string]time.Time) judge.Backing {
	b := judge.Backing{Lease: l}
	present, lasting := 0, 0
	for _, found := range holds {
		until, ok := found[l.Owner]
		if ok {
			present++
		}
		if ok && !until.Before(l.Deadline) {
			lasting++
		}
		if until.After(b.Until) {
			b.Until = until
		}
	}
	if lasting < majority {
		b.Until = l.Deadline.Add(-time.Millisecond)
	}
	b.Present = present >= majority
	return b
}
