package console

import (
	"cmp"
	"container/list"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

const (
	// maxKeys is how many keys a recorder knows, the ones used last.
	maxKeys = 1000
	// maxEvents is how long a timeline is, and maxLosses how many losses are kept.
	maxEvents = 50
	maxLosses = 100
	// maxTop is how many keys a ranking has.
	maxTop = 10
)

// Recorder sees what the lockers of this process do, by their hooks. Its memory is bounded:
// the last 1,000 keys, 50 events of each, and the last 100 losses. It is safe for
// concurrent use. Use [NewRecorder].
type Recorder struct {
	mu     sync.Mutex
	keys   map[string]*list.Element // of *track
	recent list.List                // of *track, the last used first
	losses []event                  // the last one first
}

// track is what is known of a key.
type track struct {
	key     string
	waiting int
	minute  int64  // that calls are counted in
	calls   [2]int // in this minute, and the one before
	events  []event
}

// event is one of a timeline.
type event struct {
	At     time.Time `json:"at"`
	Kind   string    `json:"kind"` // granted, busy, released, lost, forced, seen, free
	Key    string    `json:"key,omitempty"`
	Fence  uint64    `json:"fence,omitempty,string"` // which JavaScript can't count
	HeldMS int64     `json:"heldMs,omitempty"`
	Reason string    `json:"reason,omitempty"`
	Who    string    `json:"who,omitempty"`
}

// NewRecorder returns an empty recorder.
func NewRecorder() *Recorder { return &Recorder{keys: make(map[string]*list.Element)} }

// Hooks are for [lock.WithHooks].
func (r *Recorder) Hooks() lock.Hooks {
	return lock.Hooks{
		Waiting: func(_ context.Context, e lock.Event) func() {
			r.wait(e.Key, 1)
			return func() { r.wait(e.Key, -1) }
		},
		Acquired: func(_ context.Context, e lock.AcquireEvent) {
			switch {
			case e.Err == nil && !e.Reentrant:
				r.call(e.Key, event{Kind: "granted", Fence: e.Fence})
			case errors.Is(e.Err, lock.ErrBusy):
				r.call(e.Key, event{Kind: "busy"})
			}
		},
		Released: func(e lock.ReleaseEvent) {
			if e.Last {
				r.note(e.Key, event{Kind: "released", HeldMS: e.Held.Milliseconds()})
			}
		},
		Lost: func(e lock.LossEvent) {
			lost := event{Kind: "lost", HeldMS: e.Held.Milliseconds(), Reason: e.Reason.String(), Who: e.Holder.String()}
			r.note(e.Key, lost)
			r.lose(e.Key, lost)
		},
	}
}

// track returns what is known of a key, which was used just now; mu is held.
func (r *Recorder) track(key string) *track {
	if known := r.keys[key]; known != nil {
		r.recent.MoveToFront(known)
		return known.Value.(*track)
	}
	if len(r.keys) >= maxKeys {
		last := r.recent.Back()
		delete(r.keys, last.Value.(*track).key)
		r.recent.Remove(last)
	}
	t := &track{key: key}
	r.keys[key] = r.recent.PushFront(t)
	return t
}

func (r *Recorder) wait(key string, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.track(key)
	t.waiting = max(0, t.waiting+n) // it may have been forgotten meanwhile
}

func (r *Recorder) call(key string, e event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t, minute := r.track(key), time.Now().Unix()/60
	t.turn(minute)
	t.calls[0]++
	t.add(e)
}

func (r *Recorder) note(key string, e event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.track(key).add(e)
}

func (r *Recorder) lose(key string, e event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.At, e.Key = time.Now(), key
	r.losses = slices.Insert(r.losses, 0, e)
	r.losses = r.losses[:min(len(r.losses), maxLosses)]
}

// turn moves the counts on to a minute.
func (t *track) turn(minute int64) {
	switch minute - t.minute {
	case 0:
		return
	case 1:
		t.calls = [2]int{0, t.calls[0]}
	default:
		t.calls = [2]int{}
	}
	t.minute = minute
}

func (t *track) add(e event) {
	if e.At.IsZero() {
		e.At = time.Now()
	}
	if len(t.events) == maxEvents {
		t.events = append(t.events[:0], t.events[1:]...)
	}
	t.events = append(t.events, e)
}

// timeline are the events of a key, the last first.
func (r *Recorder) timeline(key string) []event {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.keys[key]
	if known == nil {
		return nil
	}
	events := slices.Clone(known.Value.(*track).events)
	slices.Reverse(events)
	return events
}

// ranked is a key of a ranking.
type ranked struct {
	Key string `json:"key"`
	N   int    `json:"n"`
}

// rankings are the keys that most wait for, the ones that were asked for most in the last
// minute or two, and the last losses.
func (r *Recorder) rankings() (waiting, hottest []ranked, losses []event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	minute := time.Now().Unix() / 60
	for element := r.recent.Front(); element != nil; element = element.Next() {
		t := element.Value.(*track)
		t.turn(minute)
		if t.waiting > 0 {
			waiting = append(waiting, ranked{t.key, t.waiting})
		}
		if n := t.calls[0] + t.calls[1]; n > 0 {
			hottest = append(hottest, ranked{t.key, n})
		}
	}
	return top(waiting), top(hottest), slices.Clone(r.losses[:min(len(r.losses), maxTop)])
}

func top(all []ranked) []ranked {
	slices.SortFunc(all, func(a, b ranked) int { return cmp.Or(b.N-a.N, cmp.Compare(a.Key, b.Key)) })
	return all[:min(len(all), maxTop)]
}
