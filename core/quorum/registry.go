package quorum

import (
	"context"
	"fmt"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

var _ lock.Registry = (*Store)(nil)

// port is what a node offers besides its methods.
func port[T any](n *node) (p T, ok bool) {
	if p, ok = n.store.(T); !ok {
		p, ok = n.BlockingStore.(T)
	}
	return p, ok
}

var errNoRegistry = fmt.Errorf("%w: the node has no registry", lock.ErrUnsupported)

// onRegistries calls the registries of all nodes, and passes on what they say.
func onRegistries[T any](
	ctx context.Context, q *Store, limit time.Duration,
	call func(context.Context, lock.Registry) (T, error), take func(value T),
) error {
	if err := q.begin(); err != nil {
		return err
	}
	defer q.running.Done()
	t, succeeded := q.newTally(), false
	ask(ctx, q, nil, limit, func(ctx context.Context, i int, _ lock.BlockingStore) (value T, err error) {
		registry, ok := port[lock.Registry](q.nodes[i])
		if !ok {
			return value, errNoRegistry
		}
		return call(ctx, registry)
	}, func(_ int, value T, err error) (enough bool) {
		t.count(err)
		if err == nil {
			succeeded = true
			take(value)
		}
		return false
	})
	if succeeded {
		return nil
	}
	return t.verdict()
}

// Register implements [lock.Registry], on every node that answers. One is enough: names
// decide nothing.
func (q *Store) Register(ctx context.Context, r lock.Registration, ttl time.Duration) error {
	return onRegistries(ctx, q, q.timeout, func(ctx context.Context, registry lock.Registry) (struct{}, error) {
		return struct{}{}, registry.Register(ctx, r, ttl)
	}, func(struct{}) {})
}

// Unregister implements [lock.Registry].
func (q *Store) Unregister(ctx context.Context, locker string) error {
	return onRegistries(ctx, q, q.timeout, func(ctx context.Context, registry lock.Registry) (struct{}, error) {
		return struct{}{}, registry.Unregister(ctx, locker)
	}, func(struct{}) {})
}

// Registered implements [lock.Registry] with what any node knows.
func (q *Store) Registered(ctx context.Context, lockers []string) (map[string]lock.Registration, error) {
	known := make(map[string]lock.Registration)
	err := onRegistries(ctx, q, q.timeout, func(ctx context.Context, registry lock.Registry) (map[string]lock.Registration, error) {
		return registry.Registered(ctx, lockers)
	}, func(of map[string]lock.Registration) {
		for id, r := range of {
			known[id] = r
		}
	})
	return known, err
}

// Announced implements [lock.Registry]: every node that can be heard is.
func (q *Store) Announced(ctx context.Context, heard func(locker, name string)) (stop func(), err error) {
	w := &watch{} // it ends subscriptions that come too late
	err = onRegistries(ctx, q, watchTimeouts*q.timeout, func(ctx context.Context, registry lock.Registry) (struct{}, error) {
		stop, err := registry.Announced(ctx, heard)
		if err == nil {
			w.add(stop)
		}
		return struct{}{}, err
	}, func(struct{}) {})
	if err != nil {
		w.stop()
		return nil, err
	}
	return w.stop, nil
}

// NameOf implements [lock.Registry]. All nodes are taken to name their keys alike.
func (q *Store) NameOf(key string) string {
	for _, n := range q.nodes {
		if registry, ok := port[lock.Registry](n); ok {
			return registry.NameOf(key)
		}
	}
	return key
}
