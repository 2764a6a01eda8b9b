package sqlstore

import (
	"context"
	"database/sql"
	"iter"

	"github.com/redlatch/redlatch/core/internal/glob"
	"github.com/redlatch/redlatch/core/lock"
)

var _ lock.Lister = (*Store)(nil)

// List implements [lock.Lister] with one statement a page, along the primary key. How many
// processes wait isn't known; with Fair waiters, how many callers.
func (s *Store) List(ctx context.Context, pattern string, page int) iter.Seq2[[]lock.Listed, error] {
	return func(yield func([]lock.Listed, error) bool) {
		last := []byte{}
		for more := true; more; {
			var found []lock.Listed
			var err error
			found, last, err = s.keys.page(ctx, pattern, last, page)
			more = last != nil && err == nil
			if !yield(found, err) {
				return
			}
		}
	}
}

// page looks at the rows behind one, and returns the last; nil: there are no more.
func (k *keys) page(ctx context.Context, pattern string, behind []byte, size int) (found []lock.Listed, last []byte, err error) {
	n := 0
	err = k.query(ctx, &k.sql.page, []any{behind, size}, func(rows *sql.Rows) error {
		r, name, row := new(row), []byte(nil), []byte(nil)
		if err := rows.Scan(&row, &name, &r.now, &r.version, &r.expires, &r.fence, &r.mode, &r.owner, &r.more); err != nil {
			return err
		}
		n++
		last = row
		if r.expires <= r.now || !glob.Match(pattern, string(name)) {
			return nil
		}
		e, err := r.entry()
		if err != nil {
			return err
		}
		if state := e.State(at(r.now)); state.Held {
			found = append(found, shown(string(name), state))
		}
		return nil
	})
	if n < size {
		last = nil
	}
	return found, last, err
}

func shown(key string, state lock.State) lock.Listed {
	waiting := len(state.Waiters) + state.MoreWaiters
	if waiting == 0 {
		waiting = -1
	}
	return lock.Listed{Key: key, State: state, Waiting: waiting}
}
