package redisstore

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore/internal/circuit"
)

const (
	// overlap is how many batches of one server are under way at a time. A few
	// callers need not wait for each other then; of many, the calls for the next
	// batch come together meanwhile. docs/benchmarks.md compares it with four and eight.
	overlap = 5
	// few calls are not spread over several batches.
	few = 3
	// stuckAfter is when a batch without an answer no longer counts as one of
	// them, so that the calls behind it do not wait for it.
	stuckAfter = 10 * time.Millisecond
	// maxWorkers bounds the batches under way together with the stuck ones, and
	// so the connections that they take.
	maxWorkers = 16
	// maxMute bounds them together with the ones that nobody waits for any longer,
	// whose connections may have gone mute for ever.
	maxMute = 4 * maxWorkers
	// maxBatch is how many calls travel together.
	maxBatch = 256
	// undoShare is how many removals of what nobody waits for a batch has room for,
	// or as many as there are acquisitions: cleaning up costs no more than the work.
	undoShare = 8
	// linger is how long a worker without work is kept, at least.
	linger = 100 * time.Millisecond
	// longestCall bounds a call that has no deadline.
	longestCall = 30 * time.Second
)

// errLate is the answer when there was no connection for a call in time.
var errLate = &lock.StoreError{
	Outcome: lock.OutcomeNotExecuted, Unreachable: true, Class: "timeout",
	Err: errors.New("redis: the call was not sent in time"),
}

// sending is a call on its way to a server.
type sending struct {
	call
	ctx    context.Context // when it ends before the call is sent, the call is not sent
	by     time.Time       // so with this
	to     receiver
	urgent bool // no acquisition: goes before them, and with an open circuit
	undo   bool // removes what nobody waits for

	text   bool // the server does not know the script by its name
	asking bool // the slot is on its way to the server
	cmd    sent // in the end with the error, which is not classified
}

// receiver gets what became of a call.
type receiver interface {
	// receive is called once. The error is classified.
	receive(reply *redis.Cmd, err error)
}

// receiving is a receiver.
type receiving func(reply *redis.Cmd, err error)

func (f receiving) receive(reply *redis.Cmd, err error) { f(reply, err) }

// end hands over the reply.
func (x *sending) end(s *Store) { x.to.receive(x.cmd.Cmd, s.failure(x.cmd.Err())) }

// overdue is the error of a call that nobody waits for any longer, if it was not
// sent.
func (x *sending) overdue(now time.Time) error {
	switch {
	case x.ctx.Err() != nil:
		return unsent(x.ctx)
	case !now.Before(x.by):
		return errLate
	}
	return nil
}

// finishes says that what was begun is finished, however late the server answers: what nobody
// waits for takes no lock, but a hold is renewed, lowered and released.
func (x *sending) finishes() bool { return x.urgent || x.undo }

// again gives time to a call that a server did not run, for another try. An error means
// that it ends.
func (x *sending) again(now time.Time) error {
	late := x.overdue(now)
	if late != nil && x.finishes() {
		x.ctx, x.by = context.WithoutCancel(x.ctx), now.Add(longestCall)
		return nil
	}
	return late
}

// sender sends the calls for one server. What comes while its batches are under
// way travels together in the next. Its workers exist while there is something
// to do.
type sender struct {
	store *Store
	node  redis.UniversalClient

	mu     sync.Mutex
	urgent []*sending
	queue  []*sending
	undos  []*sending
	flying []*worker // have a batch
	idle   []*worker
	// answering counts the workers whose callers go on. What these call next, such a
	// worker sends together.
	answering int
	used      bool        // since reap looked last
	reaper    *time.Timer // of idle workers; nil when there are none
	guard     *time.Timer // looks after calls that wait for stuck batches
	watch     bool        // guard is set

	circuit    circuit.Breaker
	forgetting *time.Timer // of failures; nil before the first
	announced  announcer
}

// worker has one batch under way at a time.
type worker struct {
	sender *sender
	more   chan bool // false: end
	began  time.Time // of the batch; with it, mu guards what follows
	batch  []*sending
	over   []*sending // overdue
	last   time.Time  // when none of its calls has time left to be sent
	until  time.Time  // when nobody reads answers any longer
	// answering says that it is one of sender.answering.
	answering bool

	pipe  redis.Pipeliner // used again for each batch
	cmds  []redis.Cmder
	limit *limit
}

// submit queues a call and returns at once.
func (s *sender) submit(x *sending) {
	s.mu.Lock()
	now := time.Now()
	s.used = true
	var refused []*sending
	deserted := !x.urgent && s.deserted(now)
	if deserted {
		refused = s.changed(now)
	}
	s.probe(now)
	switch {
	case x.urgent:
		s.urgent = append(s.urgent, x)
	case !s.circuit.Admits(now):
		refused = append(refused, x)
	case x.undo:
		s.undos = append(s.undos, x)
	default:
		s.queue = append(s.queue, x)
	}
	s.dispatch(now)
	s.mu.Unlock()
	refuse(refused)
	if deserted {
		s.announce(errLate)
	}
}

// waiting is how many calls may be sent now; mu is held.
func (s *sender) waiting() int {
	if s.circuit.State() != circuit.Closed {
		return len(s.urgent)
	}
	return len(s.urgent) + len(s.queue) + len(s.undos)
}

// dispatch has what waits sent, now, or when fewer batches are under way, or together
// with what others are about to call; mu is held.
func (s *sender) dispatch(now time.Time) {
	switch {
	case s.waiting() == 0:
	case len(s.flying) < overlap && s.answering == 0:
		s.hire(now)
	case !s.watch:
		s.look(stuckAfter)
	}
}

// hire has a worker take a batch; mu is held.
func (s *sender) hire(now time.Time) {
	if last := len(s.idle) - 1; last >= 0 {
		w := s.idle[last]
		s.idle = s.idle[:last]
		s.fly(w, now)
		w.more <- true
		return
	}
	w := &worker{sender: s, more: make(chan bool, 1)}
	s.fly(w, now)
	go w.run()
}

func (s *sender) fly(w *worker, now time.Time) {
	w.began = now
	s.flying = append(s.flying, w)
}

// look has guard look after that time; mu is held.
func (s *sender) look(after time.Duration) {
	s.watch = true
	if s.guard == nil {
		s.guard = time.AfterFunc(after, s.unblock)
	} else {
		s.guard.Reset(after)
	}
}

// unblock sends what waits for batches that are stuck. If too many are, it ends
// what nobody waits for any longer.
func (s *sender) unblock() {
	s.mu.Lock()
	s.watch = false
	var over []*sending
	now := time.Now()
	if s.waiting() > 0 {
		switch {
		case s.crowded(now):
			s.urgent, over = expired(s.urgent, over, now)
			s.queue, over = expired(s.queue, over, now)
			s.undos, over = expired(s.undos, over, now)
		case s.fresh(now, nil) < overlap:
			s.hire(now)
		}
		s.look(stuckAfter)
	}
	s.mu.Unlock()
	drop(over, now)
}

// crowded says whether no more batches may be sent; mu is held.
func (s *sender) crowded(now time.Time) bool {
	waited := 0
	for _, w := range s.flying {
		if w.last.After(now) {
			waited++
		}
	}
	return waited >= maxWorkers || len(s.flying) >= maxMute
}

// expired moves the calls that are overdue from the queue to over.
func expired(queue, over []*sending, now time.Time) (rest, _ []*sending) {
	rest = slices.DeleteFunc(queue, func(x *sending) bool {
		if x.overdue(now) == nil {
			return false
		}
		over = append(over, x)
		return true
	})
	return rest, over
}

// drop ends calls that were overdue then.
func drop(over []*sending, now time.Time) {
	for _, x := range over {
		x.to.receive(nil, x.overdue(now))
	}
}

// fresh counts the batches that are not stuck, without that of w; mu is held.
func (s *sender) fresh(now time.Time, w *worker) int {
	n := 0
	for _, other := range s.flying {
		if other != w && now.Sub(other.began) < stuckAfter {
			n++
		}
	}
	return n
}

// answer records the result of a batch of w, whose calls are no longer under way, and
// makes w one of those whose callers go on. A lone one is not waited for.
func (s *sender) answer(w *worker, calls int, failed error) {
	s.mu.Lock()
	w.batch = w.batch[:0]
	if calls > 1 {
		s.answering++
		w.answering = true
	}
	s.recordLocked(w.began, failed)
}

// answered ends what answer began, if it did; mu is held.
func (s *sender) answered(w *worker) {
	if w.answering {
		s.answering--
		w.answering = false
	}
}

// next gives w its next batch, or makes it idle if there is none. The callers that it
// has answered run first: what they call next travels together.
func (s *sender) next(w *worker) (more bool) {
	if w.answering {
		runtime.Gosched()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answered(w)
	w.batch, w.over = w.batch[:0], w.over[:0]
	if s.waiting() > 0 && s.fill(w, time.Now()) {
		return true
	}
	s.land(w)
	s.idle = append(s.idle, w)
	return false
}

// fill gives w a batch of what waits, unless enough others are under way; mu is held.
func (s *sender) fill(w *worker, now time.Time) bool {
	if len(s.flying) > overlap && s.fresh(now, w) >= overlap {
		return false
	}
	w.began, w.last, w.until = now, now, now
	share := s.share(w, now)
	s.urgent = w.take(s.urgent, share)
	if s.circuit.State() == circuit.Closed {
		acquisitions := min(len(s.queue), max(few, share-len(w.batch)))
		s.undos = w.take(s.undos, max(undoShare, min(acquisitions, maxBatch/2)))
		s.queue = w.take(s.queue, acquisitions)
	}
	s.dispatch(now) // what had no room
	return true
}

// share is how many calls the next batch of w has room for, so that all batches under way
// are of a size: Redis works on some while the client works on others. Behind a stuck
// batch all that waits goes at once, as each batch may take a connection for long. mu is held.
func (s *sender) share(w *worker, now time.Time) int {
	if s.fresh(now, w) < len(s.flying)-1 {
		return maxBatch
	}
	calls := s.waiting()
	for _, other := range s.flying {
		calls += len(other.batch)
	}
	return max(few, (calls+overlap-1)/overlap)
}

// land ends what fly began; mu is held.
func (s *sender) land(w *worker) {
	clear(w.batch[:cap(w.batch)])
	clear(w.over[:cap(w.over)])
	s.flying = slices.DeleteFunc(s.flying, func(other *worker) bool { return other == w })
	if s.reaper == nil {
		s.reaper = time.AfterFunc(linger, s.reap)
	}
}

// take moves what has room in the batch, that many at most, and what is overdue.
func (w *worker) take(queue []*sending, most int) (rest []*sending) {
	n, full := 0, min(len(w.batch)+most, maxBatch)
	for ; n < len(queue) && len(w.batch) < full; n++ {
		x := queue[n]
		if x.overdue(w.began) != nil {
			w.over = append(w.over, x)
			continue
		}
		w.batch = append(w.batch, x)
		w.allow(x)
	}
	rest = append(queue[:0], queue[n:]...)
	clear(queue[len(rest):])
	return rest
}

// allow gives the batch the time of one of its calls.
func (w *worker) allow(x *sending) {
	until := x.by
	if x.finishes() {
		until = until.Add(longestCall)
	}
	if x.by.After(w.last) {
		w.last = x.by
	}
	if until.After(w.until) {
		w.until = until
	}
}

// reap ends idle workers, unless there was work lately.
func (s *sender) reap() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used {
		s.used = false
		s.reaper.Reset(linger)
		return
	}
	for _, w := range s.idle {
		w.more <- false
	}
	clear(s.idle)
	s.idle, s.reaper = s.idle[:0], nil
	s.leave()
}

// leave makes the store forget the sender of a node of a cluster, which may be gone,
// unless it has work or knows of failures that count; mu is held.
func (s *sender) leave() {
	if s.store.cluster != nil && len(s.flying) == 0 && s.circuit.Clean() {
		s.store.senders.CompareAndDelete(s.node, s)
	}
}

func (w *worker) run() {
	for {
		for w.sender.next(w) {
			drop(w.over, w.began)
			w.send()
		}
		if !<-w.more {
			if w.limit != nil {
				w.limit.cancel()
			}
			return
		}
	}
}

// send sends the batch, and once more the scripts that the server does not know.
func (w *worker) send() {
	for batch := w.batch; len(batch) > 0; {
		if batch = w.exec(batch); len(batch) > 0 {
			w.sender.keep(w, batch)
		}
	}
}

// keep leaves w with the calls of its batch that have no answer.
func (s *sender) keep(w *worker, batch []*sending) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.batch = batch
	for _, x := range batch {
		w.allow(x)
	}
	s.answered(w)
	s.dispatch(time.Now())
}

// exec sends the calls in one go, and ends the acquisitions whose time has passed. It
// returns the calls whose script the server doesn't know.
func (w *worker) exec(batch []*sending) (again []*sending) {
	var elsewhere []*sending // follow the ones that are answered: to ask where takes time
	failed := w.io(batch)
	s := w.sender.store
	var answered bool
	for _, x := range batch {
		err := x.cmd.result(failed)
		if s.cluster != nil && w.sender == s.sender && err != nil {
			err = s.leftBehind(err, x.key())
			x.cmd.SetErr(err)
		}
		_, refused := errorReply(err)
		answered = answered || err == nil || refused
	}
	if answered {
		failed = nil
	}
	w.sender.answer(w, len(batch), failed)
	for _, x := range batch {
		switch {
		case isNoScript(x.cmd.Err()) && !x.script.guarded && !x.text:
			if late := x.again(time.Now()); late != nil {
				x.to.receive(nil, late)
				continue
			}
			x.text = true
			again = append(again, x)
		case errors.Is(x.cmd.Err(), unassigned), w.sender != s.sender && isRedirected(x.cmd.Err()):
			elsewhere = append(elsewhere, x)
		default:
			x.end(s)
		}
	}
	for _, x := range elsewhere {
		_ = x.again(time.Now()) // what ends is not sent
		s.redirect(x)
	}
	return again
}

// io is one round trip, in which nothing is sent twice.
func (w *worker) io(batch []*sending) (failed error) {
	s := w.sender
	for _, x := range batch {
		x.cmd = s.store.commands(context.Background(), &x.call, x.text)
	}
	return w.guarded(func(ctx context.Context) error {
		defer s.store.monitorSlowCall().end()
		if s.store.cluster != nil && s == s.store.sender {
			if _, err := s.store.masterOf(ctx, batch[0].key()); err != nil {
				return err // it was not sent
			}
		}
		if w.pipe == nil {
			w.pipe = s.node.Pipeline() // not from the pool that commands of the application may have exhausted
		}
		cmds := w.cmds[:0]
		for _, x := range batch {
			if x.cmd.timed() && s.store.cluster != nil && s == s.store.sender {
				x.cmd.SetErr(unassigned)
				continue
			}
			if x.asking { // counts for one command
				cmds = append(cmds, once{redis.NewCmd(ctx, "asking")})
			}
			cmds = x.cmd.queue(cmds)
		}
		_ = w.pipe.BatchProcess(ctx, cmds...) // queues them, and cannot fail
		clear(cmds)
		w.cmds = cmds
		_, err := w.pipe.Exec(ctx)
		return err
	})
}

// guarded calls io with the context of a batch.
func (w *worker) guarded(io func(context.Context) error) error {
	w.limit = w.limit.renewed(w.last, w.until)
	defer func() {
		if !w.limit.timer.Stop() {
			w.limit.cancel() // which the timer is about to do, and must not do to the next batch
		}
	}()
	return guarded(func() error { return io(w.limit) })
}

// isRedirected says that a node of a cluster did not run a script that another
// one may.
func isRedirected(err error) bool {
	return isElsewhere(err) || err != nil && (redis.HasErrorPrefix(err, "READONLY") || errors.Is(err, redis.ErrClosed))
}

// isElsewhere says that a node of a cluster named the one that has the key.
func isElsewhere(err error) bool {
	return err != nil && (redis.HasErrorPrefix(err, "MOVED") || redis.HasErrorPrefix(err, "ASK"))
}

// limit is the context of a worker's batches. It is used again unless it ended,
// so that a batch costs no more than setting a timer.
type limit struct {
	context.Context
	cancel context.CancelFunc
	timer  *time.Timer
	made   time.Time
	until  atomic.Int64 // since made
}

// renewed is a context that ends at that time for who waits for a connection, and later for
// who reads answers.
func (l *limit) renewed(at, until time.Time) *limit {
	if l == nil || l.Err() != nil {
		l = &limit{made: time.Now()}
		l.Context, l.cancel = context.WithCancel(context.Background())
		l.timer = time.AfterFunc(longestCall, l.cancel)
	}
	l.until.Store(int64(until.Sub(l.made)))
	l.timer.Reset(time.Until(at))
	return l
}

// Err implements [context.Context]. It is the time that ends the context: nobody cancels a
// batch, and a server that was silent for so long counts as one that doesn't answer.
func (l *limit) Err() error {
	if l.Context.Err() == nil {
		return nil
	}
	return context.DeadlineExceeded
}

// Deadline implements [context.Context]. A client with ContextTimeoutEnabled reads until then,
// but no longer than its ReadTimeout.
func (l *limit) Deadline() (time.Time, bool) {
	return l.made.Add(time.Duration(l.until.Load())), true
}
