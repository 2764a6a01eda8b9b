package lock

import (
	"context"
	"fmt"
	"iter"
)

// List returns the keys that are held and match pattern, each once, in no order; see
// [Lister], which the store must be. It returns the first keys once the first page is
// known. The list ends with its first error, with ctx at the latest: [ErrUnsupported],
// [ErrInvalid] for a page below 1 or above [MaxPage], [ErrUnavailable], [ErrClosed].
func (l *Locker) List(ctx context.Context, pattern string, page int) iter.Seq2[Listed, error] {
	return func(yield func(Listed, error) bool) {
		lister, ok := portOf[Lister](l.store)
		err := l.mayList(ok, page)
		if err != nil {
			yield(Listed{}, &Error{Op: "list", Key: pattern, Err: err})
			return
		}
		seen := make(map[string]struct{})
		for keys, err := range lister.List(ctx, pattern, page) {
			if err != nil {
				yield(Listed{}, &Error{Op: "list", Key: pattern, Err: failure(ctx, err)})
				return
			}
			states := make([]*State, len(keys))
			for i := range keys {
				states[i] = &keys[i].State
			}
			l.identify(ctx, states...)
			for _, key := range keys {
				if _, twice := seen[key.Key]; twice {
					continue
				}
				seen[key.Key] = struct{}{}
				if !yield(key, nil) {
					return
				}
			}
		}
	}
}

func (l *Locker) mayList(supported bool, page int) error {
	switch {
	case !supported:
		return fmt.Errorf("%w: the store doesn't list its keys", ErrUnsupported)
	case page < 1 || page > MaxPage:
		return fmt.Errorf("%w: a page of %d keys, the limits are 1 and %d", ErrInvalid, page, MaxPage)
	}
	return l.usable()
}
