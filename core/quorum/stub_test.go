package quorum_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

// stub is a node that does what a test says, and otherwise what a store in memory does.
type stub struct {
	lock.BlockingStore
	acquire func(lock.Claim) (uint64, error)
	renew   func(lock.Claim) error
	release func(lock.Claim) error
	inspect func() (lock.State, error)
	watch   func(lock.Claim, func()) (func(), error)

	mu    sync.Mutex
	calls map[string]int
}

func newStub() *stub { return &stub{BlockingStore: memory(), calls: make(map[string]int)} }

func stubs(n int) (nodes []*stub, stores []lock.BlockingStore) {
	for range n {
		node := newStub()
		nodes, stores = append(nodes, node), append(stores, node)
	}
	return nodes, stores
}

func (s *stub) count(call string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[call]++
}

// called is how often a call has been made.
func (s *stub) called(call string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[call]
}

func (s *stub) has(t *testing.T) bool {
	t.Helper()
	state, err := s.BlockingStore.Inspect(context.Background(), "k")
	must(t, err)
	return state.Held
}

// hold counts the stubs that have the key.
func hold(t *testing.T, nodes []*stub) (n int) {
	t.Helper()
	for _, node := range nodes {
		if node.has(t) {
			n++
		}
	}
	return n
}

func (s *stub) Acquire(_ context.Context, c lock.Claim) (uint64, error) {
	s.count("acquire")
	if s.acquire != nil {
		return s.acquire(c)
	}
	return s.BlockingStore.Acquire(context.Background(), c)
}

func (s *stub) Renew(_ context.Context, claims []lock.Claim, report func(int, error)) {
	s.count("renew")
	for i, c := range claims {
		if s.renew != nil {
			report(i, s.renew(c))
			continue
		}
		s.BlockingStore.Renew(context.Background(), []lock.Claim{c}, func(_ int, err error) { report(i, err) })
	}
}

func (s *stub) Release(_ context.Context, c lock.Claim) error {
	s.count("release")
	if s.release != nil {
		return s.release(c)
	}
	return s.BlockingStore.Release(context.Background(), c)
}

func (s *stub) Inspect(ctx context.Context, key string) (lock.State, error) {
	s.count("inspect")
	if s.inspect != nil {
		return s.inspect()
	}
	return s.BlockingStore.Inspect(ctx, key)
}

func (s *stub) Watch(ctx context.Context, c lock.Claim, wake func()) (func(), error) {
	s.count("watch")
	if s.watch != nil {
		return s.watch(c, wake)
	}
	return s.BlockingStore.Watch(ctx, c, wake)
}

// longest is how long a test may take for a call that has to come back at once.
const longest = nodeTimeout / 2

// soon fails the test if more time has passed since then.
func soon(t *testing.T, what string, began time.Time) {
	t.Helper()
	if took := time.Since(began); took > longest {
		t.Errorf("%s took %v, want less than %v", what, took, longest)
	}
}
