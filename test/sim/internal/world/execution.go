package world

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/test/sim/internal/judge"
	"github.com/redlatch/redlatch/test/sim/internal/model"
)

// execution is one run of a script.
type execution struct {
	process    *process
	script     string
	without    string // what a variant of it leaves out
	keys, args []string
	sent       time.Time
	reply      model.Reply

	fields map[string]map[string]string // of the hashes among the keys, before
	queues map[string][]judge.Place     // of the fair locks among the keys, before
	ends   time.Time                    // when the first key ends, before
	said   int                          // messages, before
}

// before notes what is there; mu is held.
func (s *server) before(e *execution) {
	s.lookAtLatch()
	e.ends, _, _ = s.keys.Expires(e.keys[0])
	e.said = s.messages
	e.fields = make(map[string]map[string]string, len(e.keys))
	for _, key := range e.keys {
		e.fields[key] = maps.Clone(s.holders(key))
		if s.world.modes[key] == lock.Fair {
			if e.queues == nil {
				e.queues = make(map[string][]judge.Place)
			}
			e.queues[key] = s.queue(key)
		}
	}
}

// hadField says whether a lock had a field before.
func (e *execution) hadField(key, field string) bool {
	_, had := e.fields[key][field]
	return had
}

// handedTo is whom a lock had been handed over to before: a hold that counts 0.
func (e *execution) handedTo(key string) (owner string) {
	for field, count := range e.fields[key] {
		if count == "0" {
			owner = ownerIn(field)
		}
	}
	return owner
}

// holders are the fields of a lock, or the token of one of the SETNX format; mu is
// held.
func (s *server) holders(key string) map[string]string {
	if token, ok := s.keys.String(key); ok {
		return map[string]string{token: "1"}
	}
	return s.keys.Hash(key)
}

// owner is the owner that a script is run for: the first that it names.
func (e *execution) owner() string {
	for _, arg := range e.args {
		if owner := ownerIn(arg); owner != "" {
			return owner
		}
	}
	return ""
}

// tag is what Redisson makes of a name in the names of the keys that belong to
// it.
func tag(name string) string {
	if strings.Contains(name, "{") {
		return name
	}
	return "{" + name + "}"
}

// queue returns the queue of a fair lock in the order in which its places were
// taken, whatever the list says; mu is held.
func (s *server) queue(key string) (places []judge.Place) {
	scores := s.keys.Scores("redisson_lock_timeout:" + tag(key))
	for _, element := range s.keys.List("redisson_lock_queue:" + tag(key)) {
		places = append(places, judge.Place{Owner: ownerIn(element), Until: time.UnixMilli(int64(scores[element]))})
	}
	s.lineUp(key, places)
	slices.SortStableFunc(places, func(a, b judge.Place) int {
		return cmp.Compare(s.arrivals[key][a.Owner], s.arrivals[key][b.Owner])
	})
	return places
}

// lineUp notes who has come to a queue and who has left it; mu is held.
func (s *server) lineUp(key string, places []judge.Place) {
	line := make(map[string]int, len(places))
	for _, p := range places {
		number, ok := s.arrivals[key][p.Owner]
		if !ok {
			s.arrived++
			number = s.arrived
		}
		line[p.Owner] = number
	}
	s.arrivals[key] = line
}

// after judges what a script did; mu is held.
func (s *server) after(e *execution) {
	w := s.world
	late := time.Since(e.sent)
	w.journal.count("script: " + e.script)
	if e.without != "" {
		w.journal.count("script without " + e.without + ": " + e.script)
	}
	if e.script == "latch_count_down" {
		w.latch.count(func(n *judge.Counts) { n.Executed++ })
	}
	s.lookAtLatch()
	w.journal.tell("p%d script  %s %s %s -> %s%s", e.process.number, e.script, strings.Join(e.keys[:min(1, len(e.keys))], " "),
		readable(e.args), readable([]string{string(model.Encode(nil, e.reply))}), lateness(late))
	if late > w.callTimeout {
		w.journal.count("executed after its time-out")
	}
	if e.script == "fair_acquire" && late > undoSpan {
		w.journal.count("queued after the last undo")
		for _, arg := range e.args {
			w.ledger.outlive(ownerIn(arg))
		}
	}
	if late > undoSpan && strings.Contains(e.script, "renew") && slices.ContainsFunc(e.args, func(arg string) bool {
		return w.ledger.hasOutlived(ownerIn(arg))
	}) {
		w.journal.count("renewed after the last undo")
		w.prolonged.Store(true)
	}
	if text, wrong := e.reply.(model.Error); wrong {
		w.journal.report([]judge.Finding{{Rule: "script failed", At: time.Now(), Detail: e.script + ": " + string(text)}})
	}
	for _, r := range s.scripts.Revisits() {
		w.journal.count("looks at what it removed: " + e.script)
		w.journal.report(judge.Revisited(time.Now(), e.script, r.Key, r.Command))
	}
	if code, _ := e.reply.(int64); code > 0 && strings.HasSuffix(e.script, "acquire") {
		s.grants(e.owner())
		w.watch.taken(e.keys[0])
	}
	if strings.Contains(e.script, "renew") {
		s.renewed(e)
	}
	if e.script == "force_release" { // the former owner notices it later
		s.spares(e)
		if w.Features[Timeless] { // the time of an earlier grant may still be on its way
			w.disorder()
		}
		for _, key := range w.keys {
			if tag(key) == tag(e.keys[0]) { // twins share what belongs to them
				w.ledger.force(key, e.args)
			}
		}
	}
	for _, key := range e.keys {
		for field := range s.holders(key) {
			u := unit{key, ownerIn(field)}
			switch {
			case e.hadField(key, field), strings.Contains(field, keptMark):
			case e.had(u):
				w.journal.count("lowered")
			default:
				s.back[u.owner], s.had[u] = s.had[u], true
				s.gained(e, key, field)
			}
		}
	}
	s.keeps(e)
	s.cuts(e)
	if strings.Contains(e.script, "fair_release") && e.reply == model.Reply(int64(0)) {
		w.journal.count("undo of nothing")
	}
	s.countRefused(e)
	for key := range e.queues {
		s.queue(key) // who came last is last, wherever the script has put it
	}
	s.lookInside()
}

// had says whether there was the hold before, in whatever mode.
func (e *execution) had(u unit) bool {
	return e.hadField(u.key, u.owner) || e.hadField(u.key, u.owner+writeMark)
}

// renewed judges what a renewal was answered, and notes whose hold it
// found to be lost; mu is held.
func (s *server) renewed(e *execution) {
	answers, many := e.reply.([]model.Reply)
	if !many {
		answers = []model.Reply{e.reply}
	}
	for i, answer := range answers {
		key, field := e.keys[i], e.args[2*i]
		owner := ownerIn(field)
		there := s.has(key, strings.Replace(field, owner, s.world.plant.alias(owner), 1))
		if e.script == "semaphore_renew" {
			key, field, there = e.keys[0], "permits", s.hasPermits(e.keys[0], e.args[1:])
		}
		switch answer {
		case model.Reply(int64(1)):
			s.world.journal.report(judge.Renewed(time.Now(), key, readable([]string{field}), there))
		case model.Reply(int64(0)):
			if !s.has(key, s.world.plant.alias(owner)) { // else a writer reads on, whom a renewal came too late for
				s.world.ledger.refute(unit{key, owner})
			}
		}
	}
}

// has says whether a lock has a field, or that of a writer who is to read on; mu is held.
func (s *server) has(key, field string) bool {
	holders := s.holders(key)
	_, there := holders[field]
	_, writes := holders[field+writeMark]
	return there || writes
}

// hasPermits says whether permits are there, by their ids; mu is held.
func (s *server) hasPermits(key string, ids []string) bool {
	scores := s.keys.Scores(key)
	return !slices.ContainsFunc(ids, func(id string) bool {
		until, ok := scores[id]
		return !ok || !time.UnixMilli(int64(until)).After(s.clock())
	})
}

// spares judges whom a forced release took a lock from; mu is held.
func (s *server) spares(e *execution) {
	key := e.keys[0]
	for field := range e.fields[key] {
		if _, still := s.holders(key)[field]; !still {
			owner := ownerIn(field)
			s.world.journal.report(judge.Spared(time.Now(), judge.Taking{Key: key, Owner: owner, Sent: e.sent, Granted: s.granted[owner]}))
		}
	}
}

// cuts notes that a reader has left a lock, which ends earlier since, with the readers who
// stay, and that waiters were not notified. They look again when it was to end; mu is held.
func (s *server) cuts(e *execution) {
	key := e.keys[0]
	at, _, there := s.keys.Expires(key)
	switch {
	case s.messages > e.said:
		delete(s.untold, key)
	case e.script == "read_release" && there && at.Before(e.ends):
		s.world.journal.count("lock of readers cut")
		s.untold[key] = true
	}
}

// keptMark is in the name of what keeps a released lock for its minimum.
const keptMark = ":kept"

// keeps notes what a release promises to keep; mu is held.
func (s *server) keeps(e *execution) {
	last := len(e.args) - 1
	if last < 1 || e.script == "read_release" || !strings.Contains(e.args[last-1], keptMark) || e.reply != model.Reply(int64(1)) {
		return
	}
	if ms, err := strconv.Atoi(e.args[last]); err == nil && !s.world.Features[Clock] { // its steps make TTLs shorter
		s.world.journal.count("kept")
		s.world.ledger.keptBy(e.keys[0], e.owner(), time.Now().Add(time.Duration(ms)*time.Millisecond))
	}
}

// countRefused counts acquire calls that were refused while nothing changed about
// who holds the key; mu is held. A semaphore's permits change unseen.
func (s *server) countRefused(e *execution) {
	key, now := e.keys[0], time.Now()
	code, _ := e.reply.(int64)
	switch {
	case !e.unchanged(key, s.keys.Hash(key)):
		delete(s.refused, key)
	case code < 0 && strings.HasSuffix(e.script, "acquire") && s.world.modes[key] != lock.Semaphore:
		if s.refused[key] == nil {
			s.refused[key] = make(map[string]refusals)
		}
		r := s.refused[key][e.owner()]
		if now.Sub(r.since) > judge.CallsSpan {
			r = refusals{since: now}
		}
		r.number++
		s.refused[key][e.owner()] = r
		s.world.journal.report(judge.Looping(now, judge.Calls{Key: key, Owner: e.owner(), Number: r.number, Within: now.Sub(r.since)}))
	}
}

// unchanged says whether a hash has the fields that it had before.
func (e *execution) unchanged(key string, fields map[string]string) bool {
	if len(fields) != len(e.fields[key]) {
		return false
	}
	for field := range fields {
		if !e.hadField(key, field) {
			return false
		}
	}
	return true
}

// grants notes when an owner first got what it called for; mu is held.
func (s *server) grants(owner string) {
	if _, again := s.granted[owner]; !again {
		s.granted[owner] = time.Now()
	}
}

// gained judges a hold that was not there before; mu is held.
func (s *server) gained(e *execution, key, field string) {
	owner, now := ownerIn(field), time.Now()
	if owner == "" {
		return
	}
	s.grants(owner)
	w := s.world
	k := w.ledger.isKept(key)
	if k.owner != owner && !w.Features[Clock] {
		w.journal.report(judge.Kept(now, judge.Minimum{Key: key, Owner: k.owner, Until: k.until, Next: owner}))
	}
	w.journal.report(judge.Made(now, key, owner, e.script))
	handed := strings.Contains(e.script, "release")
	if handed {
		w.journal.count("handed over by a release")
	}
	w.watch.taken(key)
	if time.Since(e.sent) > undoSpan {
		w.journal.count("granted after the last undo")
		w.ledger.outlive(owner)
	}
	at, never, _ := s.keys.Expires(key)
	if until, endless, reads := s.keys.Expires(sentinel(key, owner, 1)); reads && field == owner { // the key is of all readers
		at, never = until, endless
	}
	if closed, ok := w.closed(owner); ok {
		w.journal.count("granted after close")
		w.journal.report(judge.AfterClose(now, mostAfterClose, judge.LateGrant{
			Key: key, Owner: owner, Closed: closed, Never: never, Left: at.Sub(s.clock()),
		}))
	}
	if places, fair := e.queues[key]; fair && !w.shared(key) {
		if handed { // the one that gives it away waits no longer
			places = slices.DeleteFunc(places, func(p judge.Place) bool { return p.Owner == e.owner() })
		}
		for i, p := range places {
			if slices.Contains(e.args, p.Owner+":redlatch") && !p.Until.After(s.clock()) {
				places[i].Until = s.clock().Add(time.Millisecond) // its owner calls, and keeps it
			}
		}
		turn := judge.Turn{Key: key, Owner: owner, Handed: e.handedTo(key), Queue: places}
		w.journal.report(judge.Order(s.clock(), turn))
		if !handed { // else the place stays until the hold is found
			delete(s.arrivals[key], turn.Served(s.clock())) // if it is there again, it is the last
		}
		for _, p := range places {
			if !p.Until.After(s.clock()) {
				w.journal.count("dead place passed over")
			}
		}
	}
}

// undoSpan is how long a locker goes on undoing a call without an answer. What
// arrives later than that stays until its TTL ends.
const undoSpan = 1100 * time.Millisecond

// mostAfterClose is how long a call that was on its way when its locker was
// closed may hold a key: what an acquire writes at most.
const mostAfterClose = 30 * time.Second

// lookInside judges that the server has what the trusted leases say; mu is held.
func (s *server) lookInside() {
	s.world.ledger.endExcuses(time.Now(), func(p *process) time.Time {
		return s.world.calm(p, lock.Exclusive)
	}, judge.Patience(s.world.callTimeout))
	leases := s.world.ledger.trusted(func(h *held) bool { return h.lease.Key() != quorumKey })
	all := make([]judge.Backing, 0, len(leases))
	for _, l := range leases {
		all = append(all, s.backing(l))
	}
	for _, b := range all {
		found := judge.Backed(time.Now(), []judge.Backing{b})
		if len(found) > 0 && s.world.once(found[0].Rule+b.Owner) {
			s.world.journal.report(found)
		}
	}
}

// backing finds the hold of a lease; mu is held.
func (s *server) backing(l judge.Lease) judge.Backing {
	b := judge.Backing{Lease: l}
	owner := s.world.plant.alias(l.Owner)
	switch l.Mode {
	case lock.Semaphore:
		b.Present, b.Until = s.permits(l, owner)
		return b
	case lock.Write:
		_, b.Present = s.holders(l.Key)[owner+writeMark]
	default:
		b.Present = s.has(l.Key, owner)
	}
	at, never, _ := s.keys.Expires(l.Key)
	b.Never, b.Until = never, at.Add(-s.offset)
	if _, reads := s.holders(l.Key)[owner]; l.Mode == lock.Read && reads {
		s.sentinels(&b, owner)
		if s.world.Features[Java] && b.Present && !b.Never && b.Until.Before(b.Deadline) { // until the next renewal
			b.Until = b.Deadline
		}
	}
	return b
}

// writeMark is at the end of the field of a writer.
const writeMark = ":write"

// sentinel is the key that lasts as long as a read hold.
func sentinel(key, owner string, n int) string {
	return tag(key) + ":" + owner + ":rwlock_timeout:" + strconv.Itoa(n)
}

// sentinels: a reader's hold lasts as long as the longest of its sentinels, if
// the lock does.
func (s *server) sentinels(b *judge.Backing, owner string) {
	count, err := strconv.Atoi(s.holders(b.Key)[owner])
	var last time.Time
	for n := 1; err == nil && n <= count; n++ {
		at, never, ok := s.keys.Expires(sentinel(b.Key, owner, n))
		if ok && never {
			return
		}
		if ok && at.After(last) {
			last = at
		}
	}
	b.Present = !last.IsZero()
	if end := last.Add(-s.offset); b.Never || end.Before(b.Until) {
		b.Never, b.Until = false, end
	}
}

// permits: those of an owner have ids that come from its name.
func (s *server) permits(l judge.Lease, owner string) (present bool, until time.Time) {
	scores := s.keys.Scores(tag(l.Key) + ":timeout")
	for i := range l.Permits {
		score, ok := scores[owner+"/"+strconv.Itoa(i)]
		if !ok {
			return false, time.Time{}
		}
		at := time.UnixMilli(int64(score)).Add(-s.offset)
		if until.IsZero() || at.Before(until) {
			until = at
		}
	}
	return true, until
}

func lateness(d time.Duration) string {
	if d < 100*time.Millisecond {
		return ""
	}
	return " after " + d.Round(time.Millisecond).String()
}

// readable shortens owners and what is not text.
func readable(args []string) string {
	var b strings.Builder
	for i, arg := range args {
		if i > 0 {
			b.WriteByte(' ')
		}
		arg = strings.ReplaceAll(arg, "\r\n", " ")
		arg = ownerPattern.ReplaceAllStringFunc(arg, func(owner string) string { return owner[:4] + owner[36:] })
		if strings.IndexFunc(arg, func(r rune) bool { return r < ' ' || r > '~' }) >= 0 {
			arg = "…"
		}
		b.WriteString(arg)
	}
	return b.String()
}
