package world

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/test/sim/internal/judge"
)

// Config is what makes a world.
type Config struct {
	Seed     uint64
	Features Features
	Load     time.Duration // virtual time under load
	Catalog  *Catalog
	Bug      string // planted, for controls
	Until    string // the load ends when this rule is broken; empty: after Load
}

// World is one fleet and its Redis.
type World struct {
	Config
	callTimeout, readTimeout time.Duration
	callers                  int // of each process
	crowd                    int // in all
	served                   atomic.Int64
	keys                     []string
	modes                    map[string]lock.Mode

	ctx     context.Context // of the load
	latch   latch
	journal *journal
	ledger  *ledger
	server  *server
	nodes   []*server // of the quorum
	watch   *watch
	plant   *plant

	births     atomic.Uint64 // of processes
	lockers    atomic.Int64  // that were made
	disturbed  atomic.Int64  // until when something disturbs everybody
	longest    atomic.Int64  // TTL that was asked for
	killed     atomic.Bool   // some process was
	unclosed   atomic.Bool   // some locker could not be closed
	prolonged  atomic.Bool   // a renewal came to a hold that only its TTL ends
	background sync.WaitGroup

	mu      sync.Mutex
	fleet   []*process
	adopted map[string]int      // locker by the first part of its owners
	homes   map[string]*process // process by the first part of its owners
	gone    map[int]time.Time   // closed lockers
	drained map[int]bool        // lockers
	told    map[string]bool     // findings that come again and again
	ordered int                 // grants whose fences must rise; -1: all
}

// Run makes a world and lives through it. It must be called in a bubble of
// testing/synctest.
func Run(c Config) (*Report, error) {
	rng := rand.New(rand.NewPCG(c.Seed, 3))
	w := &World{
		Config: c, modes: make(map[string]lock.Mode), journal: newJournal(), ledger: newLedger(),
		adopted: make(map[string]int), homes: make(map[string]*process), gone: make(map[int]time.Time), drained: make(map[int]bool), told: make(map[string]bool), ordered: -1,
	}
	w.callTimeout = []time.Duration{300 * time.Millisecond, lock.DefaultCallTimeout}[rng.IntN(2)]
	w.readTimeout = []time.Duration{500 * time.Millisecond, 3 * time.Second}[rng.IntN(2)]
	w.callers = 2 + rng.IntN(3)
	w.chooseKeys()
	var err error
	if w.plant, err = newPlant(c.Bug, w); err != nil {
		return nil, err
	}
	w.server = newServer(w, false)
	if c.Features[Pace] {
		w.callers, w.server.pace = shoppers, pace
	}
	if c.Features[Quorum] {
		w.nodes = []*server{newServer(w, true), newServer(w, true), newServer(w, true)}
	}
	w.watch = newWatch(w)
	w.live(2 + rng.IntN(2))
	w.end()
	return w.report(), nil
}

// chooseKeys makes a few keys of every mode that is on.
func (w *World) chooseKeys() {
	add := func(mode lock.Mode, keys ...string) {
		for _, key := range keys {
			w.keys, w.modes[key] = append(w.keys, key), mode
		}
	}
	add(lock.Exclusive, "x0")
	if w.Features[Pace] {
		add(lock.Exclusive, "x1", "x2", "x3", "x4", "x5", "x6", "x7")
	}
	if w.Features[Group] || w.Features[Tokens] || w.Features[SETNX] {
		add(lock.Exclusive, "x1", "x2")
	}
	if w.Features[Lead] {
		add(lock.Exclusive, leaderKey)
	}
	if w.Features[Fair] {
		add(lock.Fair, "f0")
		if w.Features[Twins] {
			add(lock.Fair, "{f0}")
		}
	}
	if w.Features[ReadWrite] {
		add(lock.Read, "rw0")
	}
	if w.Features[Semaphore] {
		add(lock.Semaphore, "s0")
		if w.Features[Twins] {
			add(lock.Semaphore, "{s0}")
		}
	}
}

// shared says whether another key has the same queue.
func (w *World) shared(key string) bool {
	_, twin := w.modes[tag(key)]
	return strings.HasPrefix(key, "{") || twin
}

// live puts the world under load.
func (w *World) live(processes int) {
	ctx, cancel := context.WithTimeout(context.Background(), w.Load)
	defer cancel()
	w.ctx, w.journal.until, w.journal.enough = ctx, w.Until, cancel
	w.crowd = processes * w.callers
	for n := range processes {
		w.fleet = append(w.fleet, w.startProcess(n))
	}
	w.background.Go(w.watch.run)
	w.background.Go((&nemesis{w, rand.New(rand.NewPCG(w.Seed, 4))}).run)
	if w.Features[Pace] {
		w.background.Go(w.rush)
	}
	if w.Features[Java] && w.Features[ReadWrite] {
		w.background.Go(newGuest(w).run)
	}
	if w.Features[Quorum] {
		w.background.Go(func() { w.harass(rand.New(rand.NewPCG(w.Seed, 5))) })
	}
	<-ctx.Done()
	w.background.Wait()
	for _, p := range w.processes() {
		p.live.Wait()
	}
}

// end heals everything, closes all lockers, and judges what is left after a
// quiet minute.
func (w *World) end() {
	over := time.Now()
	time.Sleep(judge.Patience(w.callTimeout)) //nolint:forbidigo // in a bubble
	w.deserted(over)
	time.Sleep(10 * time.Second) //nolint:forbidigo // in a bubble
	w.deaf(over)
	w.plant.uproot()
	var closing sync.WaitGroup
	for _, p := range w.processes() {
		closing.Go(func() {
			locker, id := p.current()
			p.closeLocker(locker, id)
			_ = p.rdb.Close()
			if p.member != nil {
				p.member.close(context.Background())
			}
		})
	}
	closing.Wait()
	time.Sleep(time.Minute) //nolint:forbidigo // in a bubble
	var most time.Duration
	if w.killed.Load() || w.unclosed.Load() || w.prolonged.Load() || w.Features[Failover] { // a replica may bring back what was released
		most = time.Duration(w.longest.Load())
	}
	queues, counters, others := w.server.leftovers()
	w.journal.report(judge.Empty(time.Now(), queuesLast, queues))
	w.journal.report(judge.Empty(time.Now(), time.Duration(w.longest.Load()), counters))
	w.journal.report(judge.Empty(time.Now(), most, others))
	for _, node := range w.nodes {
		_, _, left := node.leftovers()
		w.journal.report(judge.Empty(time.Now(), 0, left))
		node.scripts.Close()
	}
	w.server.scripts.Close()
}

// deserted judges that nobody is in a queue once all callers have left, at the time
// over, unless something disturbed the last of it, or the call that made the place
// arrived after it was undone. A replica that takes over may bring places back, as it
// may holds.
func (w *World) deserted(over time.Time) {
	if w.Features[Failover] {
		return
	}
	s := w.server
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys.SetTime(s.clock())
	for _, key := range w.keys {
		if w.modes[key] != lock.Fair || w.killed.Load() || w.unclosed.Load() {
			continue
		}
		calm := over
		for _, p := range w.fleet {
			if last := w.calm(p, lock.Fair); last.After(calm) {
				calm = last
			}
		}
		queue := slices.DeleteFunc(s.queue(key), func(p judge.Place) bool { return w.ledger.answersFor(orphan{unit: unit{owner: p.Owner}}) })
		w.journal.report(judge.Deserted(time.Now(), judge.Desertion{
			Key: key, Calm: calm, Clock: s.clock(), Patience: judge.Patience(w.callTimeout), Queue: queue,
		}))
	}
}

// deaf judges that nobody listens any longer. over is when the last caller had left.
func (w *World) deaf(over time.Time) {
	now := time.Now()
	for _, p := range w.processes() {
		for _, s := range append(slices.Clone(w.nodes), w.server) {
			calm := w.calm(p, lock.Exclusive)
			if over.After(calm) {
				calm = over
			}
			w.journal.report(judge.Unsubscribed(now, calm, p.number, s.channelsOf(p)))
		}
	}
}

// channelsOf returns the channels that a process is subscribed to, sorted.
func (s *server) channelsOf(p *process) (channels []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, session := range s.sessions {
		if session.process == p {
			channels = append(channels, session.channels...)
		}
	}
	slices.Sort(channels)
	return channels
}

// closedClean judges what a locker has whose Close returned no error. A replica that takes
// over may bring some back, and so may a late call. The hold of a lease that was lost before
// Close, and not released, ends with its TTL: lost are the owners of such leases.
func (w *World) closedClean(id int, lost map[string]bool) {
	if w.Features[Failover] {
		return
	}
	s := w.server
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys.SetTime(s.clock())
	for _, key := range w.keys {
		for field, count := range s.holders(key) {
			owner := ownerIn(field)
			given := w.modes[key] == lock.Fair && count == "0" || strings.Contains(field, keptMark)
			if !given && w.belongs(owner, id) && !w.ledger.hasOutlived(owner) && !lost[owner] && !s.back[owner] && s.alive(key, field) {
				w.journal.report(judge.Closed(time.Now(), key, readable([]string{field}), w.ledger.wasGranted(owner)))
			}
		}
	}
}

// belongs says whether an owner is one of a locker.
func (w *World) belongs(owner string, locker int) bool {
	client, _, _ := strings.Cut(owner, ":")
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.adopted[client] == locker
}

// queuesLast is how long the queue of a fair lock may last in which a place is
// left, by a dead waiter or by a call that arrived late: the patience of one that
// waits without a limit.
const queuesLast = 5 * time.Minute

// leftovers are all keys of the server but the ones that are meant to stay: the
// counters of Redisson's tokens, and the latch. The two keys of a semaphore last as long as the
// longest permit was to last, also if it is returned.
func (s *server) leftovers() (queues, counters, others []judge.Leftover) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys.SetTime(s.clock())
	for _, key := range s.keys.Keys() {
		if strings.HasPrefix(key, "redisson_lock_token:") || key == latchKey {
			continue
		}
		at, never, _ := s.keys.Expires(key)
		left := judge.Leftover{Key: key, Never: never, Left: at.Sub(s.clock())}
		switch {
		case strings.HasPrefix(key, "redisson_lock_"):
			queues = append(queues, left)
		case s.world.modes[key] == lock.Semaphore, strings.HasSuffix(key, ":timeout"):
			counters = append(counters, left)
		default:
			others = append(others, left)
		}
	}
	return queues, counters, others
}

func (w *World) report() *Report {
	j := w.journal
	grants := j.grants
	if w.ordered >= 0 { // the clock of the nodes goes on
		ofNodes := slices.DeleteFunc(slices.Clone(grants[w.ordered:]), func(g judge.Grant) bool { return g.Key != quorumKey })
		grants = slices.Concat(grants[:w.ordered], ofNodes)
	}
	found := slices.Concat(j.found, judge.Counted(time.Now(), latchKey, w.latch.counts), judge.Fences(grants), judge.Passed(j.waits))
	return &Report{
		Config: w.Config, Findings: found, Lines: j.last(), Counts: j.counted,
		Virtual: time.Since(j.start), Start: j.start,
	}
}

func (w *World) processes() []*process {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.fleet)
}

// replace kills a process and starts another one.
func (w *World) replace(p *process) {
	p.kill()
	fresh := w.startProcess(p.number)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fleet[p.number] = fresh
}

// adopt notes whose locker an owner belongs to.
func (w *World) adopt(owner string, locker int, home *process) {
	client, _, _ := strings.Cut(owner, ":")
	w.mu.Lock()
	defer w.mu.Unlock()
	w.adopted[client], w.homes[client] = locker, home
}

// processOf is the process of an owner, nil if it is not known or dead, or if its
// locker was closed.
func (w *World) processOf(owner string) *process {
	client, _, _ := strings.Cut(owner, ":")
	w.mu.Lock()
	defer w.mu.Unlock()
	home := w.homes[client]
	if _, closed := w.gone[w.adopted[client]]; closed || home == nil || home.dead.Load() {
		return nil
	}
	return home
}

// disown notes that a locker could not release everything: it has said so.
func (w *World) disown(locker int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for client, id := range w.adopted {
		if id == locker {
			delete(w.homes, client)
		}
	}
}

// drain notes that a locker is drained.
func (w *World) drain(locker int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.drained[locker] = true
}

// judgeDrained judges the leases of a locker, if it is drained.
func (w *World) judgeDrained(locker int) {
	w.mu.Lock()
	drained := w.drained[locker]
	w.mu.Unlock()
	if !drained {
		return
	}
	w.journal.report(judge.Drained(time.Now(), w.ledger.trusted(func(h *held) bool { return w.belongs(h.lease.Owner(), locker) })))
}

// retire notes that a locker is closed.
func (w *World) retire(locker int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gone[locker] = time.Now()
}

// closed says when the locker of an owner was closed.
func (w *World) closed(owner string) (at time.Time, ok bool) {
	client, _, _ := strings.Cut(owner, ":")
	w.mu.Lock()
	defer w.mu.Unlock()
	at, ok = w.gone[w.adopted[client]]
	return at, ok
}

// once says whether something is said for the first time.
func (w *World) once(what string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.told[what] {
		return false
	}
	w.told[what] = true
	return true
}

func (w *World) waits(key string, mode lock.Mode, p *process, since time.Time) (done func()) {
	return w.watch.add(key, mode, p, since)
}

// lasts notes a TTL that somebody asks for.
func (w *World) lasts(d time.Duration) {
	for {
		old := w.longest.Load()
		if old >= int64(d) || w.longest.CompareAndSwap(old, int64(d)) {
			return
		}
	}
}

// forget says that the server may have lost what it had promised, and fences
// too.
func (w *World) forget(fences bool) {
	w.ledger.forget()
	if fences || w.Features[Tokens] || w.Features[Timeless] {
		w.disorder()
	}
}

// disorder says that from now on fences need not rise.
func (w *World) disorder() {
	w.journal.mu.Lock()
	defer w.journal.mu.Unlock()
	if w.ordered < 0 {
		w.ordered = len(w.journal.grants)
	}
}

// disturb notes that something disturbs everybody for d.
func (w *World) disturb(d time.Duration) {
	until := int64(time.Since(w.journal.start) + d)
	for {
		old := w.disturbed.Load()
		if old >= until || w.disturbed.CompareAndSwap(old, until) {
			return
		}
	}
}

// calm is since when nothing has disturbed a process. In a queue in the store,
// everybody waits for everybody.
func (w *World) calm(p *process, mode lock.Mode) time.Time {
	last := max(w.disturbed.Load(), p.disturbed.Load(), p.muted.Load())
	if mode == lock.Fair {
		for _, other := range w.processes() {
			last = max(last, other.disturbed.Load(), other.muted.Load())
		}
	}
	return w.journal.start.Add(time.Duration(last))
}

// reachable is since when a process could reach the server, on a new connection at least.
func (w *World) reachable(p *process) time.Time {
	return w.journal.start.Add(time.Duration(max(w.disturbed.Load(), p.disturbed.Load())))
}
