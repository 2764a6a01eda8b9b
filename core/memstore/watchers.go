package memstore

// watchers are those of each key. They are woken with the store's lock held,
// so that no wake comes after its stop.
type watchers map[string]map[*watcher]struct{}

type watcher struct {
	// owner is whose turn the watcher waits for; empty: any change.
	owner string
	wake  func()
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

// wake tells those who wait for the key in no order.
func (all watchers) wake(key string) {
	for w := range all[key] {
		if w.owner == "" {
			w.wake()
		}
	}
}

// wakeOwner tells one owner that it is its turn.
func (all watchers) wakeOwner(key, owner string) {
	for w := range all[key] {
		if w.owner == owner {
			w.wake()
		}
	}
}
