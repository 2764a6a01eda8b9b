package memstore

import (
	"github.com/redlatch/redlatch/core/internal/entry"
	"github.com/redlatch/redlatch/core/lock"
)

// watchers are those of each key. They are woken with the store's lock held,
// so that no wake comes after its stop.
type watchers map[string]map[*watcher]struct{}

type watcher struct {
	// fair watchers wait for the turn of the owner, or of another of its locker;
	// the others for any change.
	fair          bool
	owner, locker string
	wake          func()
}

func (all watchers) add(key string, w *watcher) {
	if all[key] == nil {
		all[key] = make(map[*watcher]struct{})
	}
	all[key][w] = struct{}{}
}

func (all watchers) remove(key string, w *watcher) {
	delete(all[key], w)
	if len(all[key]) == 0 {
		delete(all, key)
	}
}

// deliver wakes the waiters of the key that w means, in no order.
func (all watchers) deliver(key string, w entry.Wake) {
	if !w.All && w.First == "" {
		return
	}
	locker := lock.Claim{Owner: w.First}.Locker()
	for waiter := range all[key] {
		if !waiter.fair && w.All || waiter.fair && w.First != "" && (waiter.owner == w.First || locker != "" && waiter.locker == locker) {
			waiter.wake()
		}
	}
}
