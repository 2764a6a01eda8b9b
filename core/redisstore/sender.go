package redisstore

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
)

const (
	// overlap is how many batches of one server are under way at a time: while
	// one travels, the calls for the next come together.
	overlap = 2
	// stuckAfter is when a batch without an answer no longer counts as one of
	// them, so that the calls behind it do not wait for it.
	stuckAfter = 10 * time.Millisecond
	// maxWorkers bounds the batches under way together with the stuck ones, and
	// so the connections that they take.
	maxWorkers = 16
	// maxBatch is how many calls travel together.
	maxBatch = 256
	// linger is how long a worker without work is kept, at least.
	linger = 100 * time.Millisecond
	// longestCall bounds a call that has no deadline.
	longestCall = 30 * time.Second
)

// errLate is the cause when there was no connection for a call in time.
var errLate = errors.New("redis: the call was not sent in time")

// sending is a call on its way to a server.
type sending struct {
	call
	ctx    context.Context // when it ends before the call is sent, the call is not sent
	by     time.Time       // so with this
	urgent bool            // goes before others
	done   func(n int64, err error)

	cmd once
	err error // not classified
}

// end hands over the reply. The error is classified.
func (x *sending) end(s *Store) {
	if x.err != nil {
		x.done(0, s.failure(x.err))
		return
	}
	n, err := x.cmd.Int64()
	x.done(n, s.failure(err))
}

// overdue is the error of a call that nobody waits for any longer. It was not
// sent.
func (x *sending) overdue(now time.Time) error {
	switch {
	case x.ctx.Err() != nil:
		return unsent(x.ctx)
	case !now.Before(x.by):
		return &lock.StoreError{Outcome: lock.OutcomeNotExecuted, Unreachable: true, Class: "timeout", Err: errLate}
	}
	return nil
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
	flying []*worker // have a batch
	idle   []*worker
	used   bool        // since reap looked last
	reaper *time.Timer // of idle workers; nil when there are none
	guard  *time.Timer // looks after calls that wait for stuck batches
	watch  bool        // guard is set
}

// worker has one batch under way at a time.
type worker struct {
	sender *sender
	more   chan bool // false: end
	began  time.Time // of the batch
	batch  []*sending
	last   time.Time // when none of its calls has time left
	limit  *limit
}

// submit queues a call and returns at once.
func (s *sender) submit(x *sending) {
	s.mu.Lock()
	if x.urgent {
		s.urgent = append(s.urgent, x)
	} else {
		s.queue = append(s.queue, x)
	}
	s.used = true
	if len(s.flying) < overlap {
		s.hire(time.Now())
	} else if !s.watch {
		s.look(stuckAfter)
	}
	s.mu.Unlock()
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
	if len(s.urgent)+len(s.queue) > 0 {
		now := time.Now()
		switch {
		case len(s.flying) == maxWorkers:
			s.urgent, over = expired(s.urgent, over, now)
			s.queue, over = expired(s.queue, over, now)
		case s.fresh(now, nil) < overlap:
			s.hire(now)
		}
		s.look(stuckAfter)
	}
	s.mu.Unlock()
	for _, x := range over {
		x.done(0, x.overdue(time.Now()))
	}
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

// next gives w its next batch, or makes it idle if there is none.
func (s *sender) next(w *worker) (more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if len(s.urgent)+len(s.queue) > 0 && (len(s.flying) <= overlap || s.fresh(now, w) < overlap) {
		w.began = now
		w.batch, s.urgent = take(w.batch[:0], s.urgent)
		w.batch, s.queue = take(w.batch, s.queue)
		return true
	}
	clear(w.batch[:cap(w.batch)])
	s.flying = slices.DeleteFunc(s.flying, func(other *worker) bool { return other == w })
	s.idle = append(s.idle, w)
	if s.reaper == nil {
		s.reaper = time.AfterFunc(linger, s.reap)
	}
	return false
}

// take moves what has room in a batch.
func take(batch, queue []*sending) (taken, rest []*sending) {
	n := min(maxBatch-len(batch), len(queue))
	batch = append(batch, queue[:n]...)
	rest = append(queue[:0], queue[n:]...)
	clear(queue[len(rest):])
	return batch, rest
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
	if s.store.cluster != nil && len(s.flying) == 0 {
		s.store.senders.CompareAndDelete(s.node, s) // the node may be gone
	}
}

func (w *worker) run() {
	for {
		for w.sender.next(w) {
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

// send sends a batch. What certainly did not run, but may at once, is sent
// again.
func (w *worker) send() {
	batch := w.timely(w.batch)
	if len(batch) == 0 {
		return
	}
	s := w.sender.store
	w.exec(batch, (*call).bySHA)
	again := batch[:0]
	for _, x := range batch {
		if isNoScript(x.err) && !x.script.guarded || s.cluster != nil && isRedirected(x.err) {
			again = append(again, x)
		} else {
			x.end(s)
		}
	}
	if len(again) == 0 {
		return
	}
	if s.cluster == nil {
		w.exec(again, (*call).byText)
	} else {
		w.redirect(again)
	}
	for _, x := range again {
		x.end(s)
	}
}

// timely leaves out the calls that nobody waits for any longer.
func (w *worker) timely(batch []*sending) []*sending {
	now := time.Now()
	w.last = now
	timely := batch[:0]
	for _, x := range batch {
		if err := x.overdue(now); err != nil {
			x.done(0, err)
			continue
		}
		timely = append(timely, x)
		if x.by.After(w.last) {
			w.last = x.by
		}
	}
	return timely
}

// exec sends the calls in one go, each once.
func (w *worker) exec(batch []*sending, command func(*call, context.Context) once) {
	for _, x := range batch {
		x.cmd = command(&x.call, context.Background())
	}
	failed := w.guarded(func(ctx context.Context) error {
		defer w.sender.store.vigil().end()
		if len(batch) == 1 {
			return w.sender.node.Process(ctx, batch[0].cmd)
		}
		pipe := w.sender.node.Pipeline()
		for _, x := range batch {
			_ = pipe.Process(ctx, x.cmd) // queues it, and cannot fail
		}
		_, err := pipe.Exec(ctx)
		return err
	})
	for _, x := range batch {
		x.err = replyErr(x.cmd.Cmd, failed)
	}
}

// redirect sends calls by way of the cluster's client, which finds the way to
// where their slots are now.
func (w *worker) redirect(batch []*sending) {
	outcomes := make([]outcome, len(batch))
	failed := w.guarded(func(ctx context.Context) error {
		calls := make([]call, len(batch))
		for i, x := range batch {
			calls[i] = x.call
		}
		outcomes = w.sender.store.send(ctx, calls)
		return nil
	})
	for i, x := range batch {
		x.err = failed
		if failed == nil {
			x.cmd, x.err = once{outcomes[i].cmd}, outcomes[i].err
		}
	}
}

// guarded calls io with the context of a batch.
func (w *worker) guarded(io func(context.Context) error) error {
	w.limit = w.limit.renewed(w.last)
	defer w.limit.timer.Stop()
	return guarded(func() error { return io(w.limit) })
}

// isRedirected says that a node of a cluster did not run a script that another
// one may.
func isRedirected(err error) bool {
	return redis.HasErrorPrefix(err, "MOVED") || redis.HasErrorPrefix(err, "ASK") ||
		redis.HasErrorPrefix(err, "READONLY") || errors.Is(err, redis.ErrClosed)
}

// limit is the context of a worker's batches. It is used again unless it ended,
// so that a batch costs no more than setting a timer.
type limit struct {
	context.Context
	cancel context.CancelFunc
	timer  *time.Timer
	made   time.Time
	at     atomic.Int64 // since made
}

// renewed is a context that ends then.
func (l *limit) renewed(at time.Time) *limit {
	if l == nil || l.Err() != nil {
		l = &limit{made: time.Now()}
		l.Context, l.cancel = context.WithCancel(context.Background())
	}
	l.at.Store(int64(at.Sub(l.made)))
	if l.timer == nil {
		l.timer = time.AfterFunc(time.Until(at), l.cancel)
	} else {
		l.timer.Reset(time.Until(at))
	}
	return l
}

// Deadline implements [context.Context].
func (l *limit) Deadline() (time.Time, bool) { return l.made.Add(time.Duration(l.at.Load())), true }
