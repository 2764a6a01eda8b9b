package world

import (
	"strings"
	"sync"
	"time"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/test/sim/internal/judge"
)

// watch judges that free keys find their waiters.
type watch struct {
	world *World

	mu      sync.Mutex
	waiting map[*waiting]bool
	free    map[opening]time.Time
	orphans map[orphan]time.Time // since when nobody works as the owner
}

// orphan is a hold in the server.
type orphan struct {
	unit
	write bool
}

// waiting is one call of Acquire that has not returned.
type waiting struct {
	key     string
	mode    lock.Mode
	process *process
	since   time.Time
	behind  time.Time // until when a writer of its process has waited
}

func newWatch(w *World) *watch {
	return &watch{world: w, waiting: make(map[*waiting]bool), free: make(map[opening]time.Time), orphans: make(map[orphan]time.Time)}
}

// add notes a waiter until done is called.
func (w *watch) add(key string, mode lock.Mode, p *process, since time.Time) (done func()) {
	one := &waiting{key: key, mode: mode, process: p, since: since, behind: since}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting[one] = true
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.waiting, one)
		if mode == lock.Write {
			w.wrote(key, p)
		}
	}
}

// wrote notes that a writer has left, behind which others may have waited; mu is held.
func (w *watch) wrote(key string, p *process) {
	for one := range w.waiting {
		if one.key == key && one.process == p {
			one.behind = time.Now()
		}
	}
}

// taken notes that somebody has the key.
func (w *watch) taken(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.free, opening{key, false})
	delete(w.free, opening{key, true})
}

const sampleEvery = 100 * time.Millisecond

// run looks at all keys until the load ends.
func (w *watch) run() {
	for {
		pause(w.world.ctx, sampleEvery)
		if w.world.ctx.Err() != nil { // waiters leave, in any order
			return
		}
		w.look()
		if w.world.Features[Failover] {
			w.world.server.replicate()
		}
	}
}

func (w *watch) look() {
	for _, key := range w.world.keys {
		switch {
		case w.world.server.isFree(key, w.world.modes[key]), w.handedToNobody(key):
			w.judge(time.Now(), key, false)
		case w.world.modes[key] == lock.Read && w.world.server.isRead(key):
			w.judge(time.Now(), key, true)
		default:
			w.taken(key)
		}
	}
	w.orphaned()
	if w.world.Features[Quorum] {
		w.lookAtNodes()
	}
	if w.world.Features[Latch] {
		w.lookAtLatch()
	}
}

// orphaned looks for holds that nobody has. A replica that takes over may bring
// some back, which only their TTL ends.
func (w *watch) orphaned() {
	if w.world.Features[Failover] {
		return
	}
	now, before := time.Now(), w.orphans
	w.orphans = make(map[orphan]time.Time)
	for _, one := range w.world.server.holds() {
		p := w.world.processOf(one.owner)
		if p == nil || w.world.ledger.answersFor(one) {
			continue
		}
		since, ok := before[one]
		if !ok {
			since = now
		}
		w.orphans[one] = since
		calm := w.world.calm(p, w.world.modes[one.key])
		found := judge.Undone(now, judge.Orphan{
			Key: one.key, Owner: one.owner, Write: one.write, Since: since, Calm: calm,
			Patience: w.world.ledger.patience(one, calm, w.world.callTimeout),
		})
		if len(found) > 0 && w.world.once(one.key+one.owner) {
			w.world.journal.report(found)
		}
	}
}

// holds are those of all keys but semaphores, whose permits do not name their
// owners. What a minimum hold keeps ends by the server's clock alone: where that is
// stepped, nobody can say when.
func (s *server) holds() (all []orphan) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys.SetTime(s.clock())
	for _, key := range s.world.keys {
		for field := range s.holders(key) {
			stepped := s.world.Features[Clock] && strings.Contains(field, keptMark)
			if owner := ownerIn(field); owner != "" && !stepped && s.alive(key, field) {
				all = append(all, orphan{unit{key, owner}, strings.HasSuffix(field, ":write")})
			}
		}
	}
	return all
}

// alive says whether a field of a lock is a hold: that of a reader lasts as long as
// its sentinel, and stays as long as other readers have the lock; mu is held.
func (s *server) alive(key, field string) bool {
	_, _, reads := s.keys.Expires(sentinel(key, field, 1))
	return reads || s.world.modes[key] != lock.Read || strings.HasSuffix(field, ":write")
}

// opening is a key that is free, or free for readers.
type opening struct {
	key   string
	reads bool
}

// judge looks for a waiter that should have had a key which is free, or free for readers.
func (w *watch) judge(now time.Time, key string, reads bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	open := opening{key, reads}
	if _, ok := w.free[open]; !ok {
		w.free[open] = now
	}
	delete(w.free, opening{key, !reads})
	for one := range w.waiting {
		if one.key != key || one.process.dead.Load() || w.world.ledger.deceived(one.process, key) || reads && !w.mayRead(one) {
			continue
		}
		calm := w.calm(one.process, key)
		dialed := calm
		if w.world.Features[Listen] {
			dialed = one.process.redialed(calm)
		}
		since := one.since
		if reads {
			since = one.behind
		}
		found := judge.Stranded(now, judge.Idle{
			Key: key, Process: one.process.number, Free: w.free[open], Waiting: since,
			Calm: dialed, Slack: w.slack(key, calm),
		})
		if len(found) > 0 {
			w.world.journal.report(found)
			delete(w.free, open) // and once more, after as long again
			return
		}
	}
}

// mayRead says whether a waiter reads, and no writer of its process came before; mu is held.
func (w *watch) mayRead(one *waiting) bool {
	for other := range w.waiting {
		if other.key == one.key && other.process == one.process && other.mode == lock.Write {
			return false
		}
	}
	return one.mode == lock.Read
}

// calm is since when nothing has disturbed a waiter. The servers of the quorum are
// not what disturbs the others, and one of them may be away.
func (w *watch) calm(p *process, key string) time.Time {
	if key == quorumKey {
		return w.world.journal.start.Add(time.Duration(p.disturbed.Load()))
	}
	return w.world.calm(p, w.world.modes[key])
}

// fairGrace is how long a free fair lock is kept for the head of its queue.
const fairGrace = 5 * time.Second

// listenPoll is how long a waiter sleeps that hears nothing, if all rely on messages.
const listenPoll = time.Minute

// fairPoll is how long a waiter of a fair lock sleeps at most: so it keeps its place.
const fairPoll = 2500 * time.Millisecond

// slack is how long a key may be free while somebody waits who is undisturbed since
// then.
func (w *watch) slack(key string, calm time.Time) time.Duration {
	fair, never := w.world.modes[key] == lock.Fair, calm.Equal(w.world.journal.start)
	if w.world.Features[Listen] && key != leaderKey && key != quorumKey && (!fair || never) && !w.world.server.isUntold(key) {
		if key == latchKey {
			return judge.Heard + w.world.readTimeout + latchRetry
		}
		return judge.Heard
	}
	poll := lock.DefaultPoll
	switch {
	case !w.world.Features[Listen], key == leaderKey:
	case fair:
		poll = fairPoll
	default:
		poll = listenPoll
	}
	var grace time.Duration
	if fair {
		// After a fault some heads may be gone: one that had asked and left, one
		// whose message was lost, and one behind it.
		grace = 3 * fairGrace
	}
	switch key {
	case leaderKey:
		grace = 2 * leaderPause
	case latchKey:
		return judge.Slack(latchPoll, w.world.readTimeout, 0)
	case quorumKey:
		return judge.Slack(lock.DefaultPoll, lock.DefaultCallTimeout, votesLast)
	}
	return judge.Slack(poll, w.world.callTimeout, grace)
}

// isUntold says whether who waits for a lock may believe that it ends later than it does.
func (s *server) isUntold(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.untold[key]
}

// handedToNobody says whether a release has handed a fair lock to somebody who has not
// called. Where each message is heard, that is as good as free.
func (w *watch) handedToNobody(key string) bool {
	if !w.world.Features[Listen] || w.world.modes[key] != lock.Fair {
		return false
	}
	s := w.world.server
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys.SetTime(s.clock())
	for _, count := range s.holders(key) {
		return count == "0"
	}
	return false
}

// isRead says whether a key is held, by readers alone.
func (s *server) isRead(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys.SetTime(s.clock())
	return s.keys.Hash(key)["mode"] == "read"
}

// isFree says whether nobody has the key.
func (s *server) isFree(key string, mode lock.Mode) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys.SetTime(s.clock())
	if mode != lock.Semaphore {
		return !s.keys.Exists(key)
	}
	for _, score := range s.keys.Scores(tag(key) + ":timeout") {
		if time.UnixMilli(int64(score)).After(s.clock()) {
			return false
		}
	}
	return true
}
