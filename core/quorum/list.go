package quorum

import (
	"context"
	"fmt"
	"iter"
	"sync"

	"github.com/redlatch/redlatch/core/lock"
)

var _ lock.Lister = (*Store)(nil)

// lookers is how many keys of a page are looked at a time.
const lookers = 16

// List implements [lock.Lister]: a key is listed if [Store.Inspect] says that it is held.
// What a majority holds is on one of any majority of the nodes, so that it reads the keys
// of that many: of the first that answer. It remembers the keys that it has listed.
func (q *Store) List(ctx context.Context, pattern string, page int) iter.Seq2[[]lock.Listed, error] {
	return func(yield func([]lock.Listed, error) bool) {
		seen := make(map[string]struct{})
		read, failed := 0, error(nil)
		for _, n := range q.nodes {
			more, err := q.listNode(ctx, n, pattern, page, seen, func(keys []lock.Listed) bool { return yield(keys, nil) })
			if !more {
				return
			}
			if err != nil {
				failed = err
				continue
			}
			if read++; read == q.need {
				return
			}
		}
		yield(nil, failed)
	}
}

// listNode lists the keys of a node that aren't seen. more is false when nobody wants more.
func (q *Store) listNode(
	ctx context.Context, n *node, pattern string, page int, seen map[string]struct{}, yield func([]lock.Listed) bool,
) (more bool, err error) {
	lister, ok := port[lock.Lister](n)
	if !ok {
		return true, fmt.Errorf("%w: a node doesn't list its keys", lock.ErrUnsupported)
	}
	for keys, err := range lister.List(ctx, pattern, page) {
		if err != nil {
			return true, err
		}
		fresh := keys[:0]
		for _, key := range keys {
			if _, known := seen[key.Key]; !known {
				seen[key.Key] = struct{}{}
				fresh = append(fresh, key)
			}
		}
		listed, err := q.decided(ctx, fresh)
		if err != nil {
			return true, err
		}
		if !yield(listed) {
			return false, nil
		}
	}
	return true, nil
}

// decided are the keys that a majority holds, as the quorum sees them.
func (q *Store) decided(ctx context.Context, keys []lock.Listed) (listed []lock.Listed, err error) {
	jobs := make(chan *lock.Listed)
	var mu sync.Mutex
	var workers sync.WaitGroup
	for range min(lookers, len(keys)) {
		workers.Go(func() {
			for key := range jobs {
				state, failed := q.Inspect(ctx, key.Key)
				mu.Lock()
				switch {
				case failed != nil:
					err = failed
				case state.Held:
					listed = append(listed, lock.Listed{Key: key.Key, State: state, Waiting: key.Waiting})
				}
				mu.Unlock()
			}
		})
	}
	for i := range keys {
		jobs <- &keys[i]
	}
	close(jobs)
	workers.Wait()
	return listed, err
}
