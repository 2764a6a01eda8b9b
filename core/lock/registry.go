package lock

import (
	"context"
	"iter"
	"time"
)

// Registry is an optional port of a store, beside [Store]: who its lockers are, and which
// holds were taken away by force. Nothing of it grants or ends a hold.
type Registry interface {
	// Register keeps what a locker says of itself for ttl, instead of what it said before.
	Register(ctx context.Context, r Registration, ttl time.Duration) error

	// Unregister ends that at once.
	Unregister(ctx context.Context, locker string) error

	// Registered returns the registrations of some lockers, as far as there are any.
	Registered(ctx context.Context, lockers []string) (map[string]Registration, error)

	// Announced calls heard, from any goroutine, for each hold that [Store.ForceRelease]
	// removes: with the locker that made it, empty if that can't be told, and with the name
	// of the key. A call may be missing, and anybody may have caused it. heard doesn't
	// block, and isn't called once stop has returned. [ErrUnsupported] says that the store
	// announces nothing.
	Announced(ctx context.Context, heard func(locker, name string)) (stop func(), err error)

	// NameOf returns the name of a key in Announced.
	NameOf(key string) string
}

// Lister is an optional port of a store, beside [Store].
type Lister interface {
	// List returns the keys that are held and match pattern, a page at a time, in no order.
	// The first page comes when it is known. A key may come twice, and one that was granted
	// or released meanwhile may come or not. An error ends the list.
	//
	// A pattern is that of Redis: * is any number of bytes, ? one, [a-c] one of some,
	// [^a-c] one of the others, and \ takes the next literally. page is how many keys of
	// any kind a call to the store looks at, [MaxPage] at most.
	List(ctx context.Context, pattern string, page int) iter.Seq2[[]Listed, error]
}

// MaxPage is the largest page of a [Lister].
const MaxPage = 1000

// Listed is a key that is held.
type Listed struct {
	Key   string
	State State
	// Waiting is how many processes wait for the key, or listened a moment ago; with Fair
	// waiters, how many callers. Negative: it isn't known.
	Waiting int
}

// portOf returns s as an optional port, also when [Async] made it.
func portOf[T any](s Store) (port T, ok bool) {
	if known, async := s.(*async); async {
		port, ok = known.BlockingStore.(T)
		return port, ok
	}
	port, ok = s.(T)
	return port, ok
}
