package fence

import (
	"container/heap"
	"context"
	"sync"
)

// Store remembers, for each lock, the newest token that was shown. It is the
// port of a [Gate].
type Store interface {
	// Claim raises what is remembered for key to the token. [ErrStale] if a
	// newer one was claimed before, or an equal fence of another owner; nil if
	// the same token was. Every other error means that the store can't say.
	Claim(ctx context.Context, key string, t Token) error
}

// Memory is a [Store] in the memory of one process. It is empty after a restart: a
// late holder that comes after it, and before the new holder, is admitted. Where
// that matters, or with several processes, use [Guards.On].
//
// It remembers a limited number of locks, and forgets those with the smallest
// fences first. For a lock that it doesn't know, it refuses fences that aren't
// larger than all that it has forgotten. So it may refuse a holder that isn't late,
// but never admits one that is. Fences from a clock, the default of the kit, make
// that rare: the lease must be older than those of limit other locks when it is
// first used, and acquiring the lock again helps. Fences that count for each lock
// separately (Redisson's) can't be compared with each other: set a limit that isn't
// reached.
//
// The zero value remembers [DefaultLimit] locks.
type Memory struct {
	mu     sync.Mutex
	limit  int
	floor  uint64
	seen   map[string]*entry
	oldest oldest
}

// DefaultLimit is how many locks a [Memory] remembers by default, for which it
// takes about 20 MB.
const DefaultLimit = 100_000

// NewMemory returns an empty store for at most limit locks; below 1 means
// [DefaultLimit].
func NewMemory(limit int) *Memory { return &Memory{limit: limit} }

// Claim implements [Store].
func (m *Memory) Claim(_ context.Context, key string, t Token) error {
	return wrap("claim fence", described{}, key, m.claim(key, t))
}

func (m *Memory) claim(key string, t Token) error {
	if err := t.check(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.seen == nil {
		m.seen = make(map[string]*entry)
	}
	if m.limit < 1 {
		m.limit = DefaultLimit
	}
	e := m.seen[key]
	switch {
	case e == nil && t.Fence <= m.floor, e != nil && !t.after(e.token):
		return ErrStale
	case e != nil:
		e.token = t
		heap.Fix(&m.oldest, e.at)
		return nil
	}
	if len(m.seen) == m.limit {
		// The smallest fence raises the floor the least. It may even be below it: that
		// of a late holder whose lock was not known.
		forgotten := heap.Pop(&m.oldest).(*entry)
		delete(m.seen, forgotten.key)
		m.floor = max(m.floor, forgotten.token.Fence)
	}
	e = &entry{key: key, token: t}
	m.seen[key] = e
	heap.Push(&m.oldest, e)
	return nil
}

// entry is the newest token of a lock.
type entry struct {
	key   string
	token Token
	at    int // in oldest
}

// oldest is a heap: the smallest fence is first.
type oldest []*entry

func (o oldest) Len() int           { return len(o) }
func (o oldest) Less(i, j int) bool { return o[i].token.Fence < o[j].token.Fence }

func (o oldest) Swap(i, j int) {
	o[i], o[j] = o[j], o[i]
	o[i].at, o[j].at = i, j
}

func (o *oldest) Push(x any) {
	e := x.(*entry)
	e.at = len(*o)
	*o = append(*o, e)
}

func (o *oldest) Pop() any {
	last := len(*o) - 1
	e := (*o)[last]
	(*o)[last] = nil
	*o = (*o)[:last]
	return e
}
