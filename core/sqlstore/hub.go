package sqlstore

import (
	"context"
	"encoding/hex"
	"strings"
	"sync"
	"time"

	"github.com/redlatch/redlatch/core/internal/entry"
	"github.com/redlatch/redlatch/core/lock"
)

// idle is for how long the hub goes on when nobody watches any longer: the next wait
// often begins at once.
const idle = 200 * time.Millisecond

// hub wakes the waiters of this process: for releases of this process directly, and for
// those of others by polling, or by a listener. It has a goroutine only while somebody
// watches, or wants to hear of forced releases.
type hub struct {
	keys *keys

	mu         sync.Mutex
	watched    map[string]*watched // by id
	announcees map[*announcee]struct{}
	running    bool
	listening  bool          // to all notifications from now on
	turned     chan struct{} // closed when listening changes
	changed    chan struct{}
}

// watched is a key that somebody watches.
type watched struct {
	key      string
	version  int64        // of the row when it was seen last; guarded by hub.mu
	seen     *entry.Entry // what the row said then, nil if it isn't known; guarded by hub.mu
	watchers map[*watcher]struct{}
}

type watcher struct {
	claim lock.Claim
	wake  func()
}

func newHub(k *keys) *hub {
	return &hub{
		keys: k, watched: make(map[string]*watched), announcees: make(map[*announcee]struct{}),
		turned: make(chan struct{}), changed: make(chan struct{}, 1),
	}
}

// watch adds a watcher, and returns once no later wake-up can be missed.
func (h *hub) watch(ctx context.Context, c *lock.Claim, wake func()) (stop func(), err error) {
	w := &watcher{claim: *c, wake: wake}
	row := string(id(c.Key))
	h.add(row, c.Key, w) //nolint:contextcheck // the hub works for later calls, too
	stop = func() { h.remove(row, w) }
	if err := h.begin(ctx, row, c.Key); err != nil {
		stop()
		return nil, err
	}
	return stop, nil
}

func (h *hub) add(row, key string, w *watcher) {
	h.mu.Lock()
	defer h.mu.Unlock()
	at := h.watched[row]
	if at == nil {
		at = &watched{key: key, watchers: make(map[*watcher]struct{})}
		h.watched[row] = at
	}
	at.watchers[w] = struct{}{}
	h.start()
}

// start runs the hub, if it doesn't run; mu is held.
func (h *hub) start() {
	if !h.running {
		h.running = true
		go h.run()
	}
}

func (h *hub) remove(row string, w *watcher) {
	h.mu.Lock()
	defer h.mu.Unlock()
	at := h.watched[row]
	if at == nil {
		return
	}
	delete(at.watchers, w)
	if len(at.watchers) == 0 {
		delete(h.watched, row)
	}
}

// begin tells the row that somebody listens, and sees what it says, from where on changes
// are looked for.
func (h *hub) begin(ctx context.Context, row, key string) error {
	if h.keys.listener != nil {
		if _, err := h.keys.affected(ctx, &h.keys.sql.listen, []any{[]byte(row), []byte(key)}); err != nil {
			return err
		}
	}
	h.mu.Lock()
	known := h.listening || h.watched[row] != nil && h.watched[row].seen != nil
	h.mu.Unlock()
	if !known {
		r, err := h.keys.read(ctx, key)
		if err != nil {
			return err
		}
		if err := h.see(row, r, false); err != nil {
			return err
		}
	}
	select {
	case h.changed <- struct{}{}: // poll soon
	default:
	}
	return nil
}

// see takes note of a row, and wakes the waiters whose claim may be granted since it was
// seen last. If it never was, gap says that wake-ups may have been missed.
func (h *hub) see(row string, r *row, gap bool) error {
	e, err := r.entry()
	if err != nil {
		return err
	}
	now := at(r.now)
	e.Expire(now)
	h.mu.Lock()
	defer h.mu.Unlock()
	at := h.watched[row]
	if at == nil || at.version == r.version && at.seen != nil {
		return nil
	}
	before := at.seen
	at.version, at.seen = r.version, e
	w := entry.Wake{All: before == nil && gap || before != nil && eased(before, e)}
	if w.All && len(e.Queue) > 0 {
		w.First = e.Queue[0].Owner
	}
	for watcher := range at.watchers {
		if watcher.means(w) || before != nil && !watcher.fair() && e.Admits(&watcher.claim, now) {
			watcher.wake()
		}
	}
	return nil
}

// eased reports whether a hold has gone, ends earlier or admits others. Where there is
// none now, others may have had the key in between.
func eased(before, after *entry.Entry) bool {
	if after.Free() {
		return true
	}
	for _, h := range before.Holds {
		if !has(after, h) {
			return true
		}
	}
	return false
}

// has reports whether a hold is still there, and neither ends earlier nor admits others.
func has(e *entry.Entry, h entry.Hold) bool {
	for _, other := range e.Holds {
		if other.Fence == h.Fence && other.Owner == h.Owner {
			return other.Mode == h.Mode && other.Kept == h.Kept && other.Expires >= h.Expires
		}
	}
	return false
}

// deliver wakes the waiters of this process that w means.
func (h *hub) deliver(key string, w entry.Wake) {
	if !w.All && w.First == "" {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if at := h.watched[string(id(key))]; at != nil {
		at.deliver(w)
	}
}

// deliver wakes the watchers that w means, in no order; hub.mu is held, so that no wake
// comes after its stop.
func (at *watched) deliver(w entry.Wake) {
	for waiter := range at.watchers {
		if waiter.means(w) {
			waiter.wake()
		}
	}
}

// fair watchers wait for the turn of their owner, or of another of its locker; the others
// for any change.
func (w *watcher) fair() bool { return w.claim.Mode == lock.Fair }

// means reports whether a wake-up is for the watcher.
func (w *watcher) means(wake entry.Wake) bool {
	if !w.fair() {
		return wake.All
	}
	locker := lock.Claim{Owner: wake.First}.Locker()
	return wake.First != "" && (w.claim.Owner == wake.First || locker != "" && w.claim.Locker() == locker)
}

// wakeAll wakes everybody, after a gap in which wake-ups may have been missed.
func (h *hub) wakeAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, at := range h.watched {
		at.seen = nil
		for w := range at.watchers {
			w.wake()
		}
	}
}

// payload is a notification: the id of the row, whether those without a queue are meant,
// and the first of the queue. See also announcement.
func payload(key string, w entry.Wake) string {
	if !w.All && w.First == "" {
		return ""
	}
	all := "-"
	if w.All {
		all = "*"
	}
	return hex.EncodeToString(id(key)) + " " + all + " " + w.First
}

// notified delivers a notification. What it can't read is not from this package.
func (h *hub) notified(text string) {
	parts := strings.SplitN(text, " ", 3)
	if len(parts) != 3 {
		return
	}
	row, err := hex.DecodeString(parts[0])
	if err != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if parts[1] == "!" {
		h.announce(parts[0], parts[2])
		return
	}
	if at := h.watched[string(row)]; at != nil {
		at.deliver(entry.Wake{All: parts[1] == "*", First: parts[2]})
	}
}
