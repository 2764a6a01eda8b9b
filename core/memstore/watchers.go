package memstore

import "github.com/redlatch/redlatch/core/lock"

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

// wake wakes the waiters of the key, in no order.
func (all watchers) wake(key string) {
	for w := range all[key] {
		if !w.fair {
			w.wake()
		}
	}
}

// wakeOwner wakes one owner for its turn.
func (all watchers) wakeOwner(key, owner string) {
	locker := lock.Claim{Owner: owner}.Locker()
	for w := range all[key] {
		if w.fair && (w.owner == owner || locker != "" && w.locker == locker) {
			w.wake()
		}
	}
}
