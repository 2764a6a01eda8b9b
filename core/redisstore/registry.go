package redisstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
)

var _ lock.Registry = (*Store)(nil)

const (
	// clientKey begins the key of a registration, which goes on with the id of the locker.
	// It has no prefix, so that one look finds all.
	clientKey = "redlatch:client:"
	// forcedChannel is for forced releases: "<locker> <name of the lock>".
	forcedChannel = "redlatch:forced"
)

// Register implements [lock.Registry] with a string that has the registration as JSON. The
// key is "redlatch:client:<id of the locker>".
func (s *Store) Register(ctx context.Context, r lock.Registration, ttl time.Duration) error {
	value, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("%w: %w", lock.ErrInvalid, err)
	}
	return s.plainly(func() error { return s.rdb.Set(ctx, clientKey+r.Locker, value, ttl).Err() })
}

// Unregister implements [lock.Registry].
func (s *Store) Unregister(ctx context.Context, locker string) error {
	return s.plainly(func() error { return s.rdb.Del(ctx, clientKey+locker).Err() })
}

// Registered implements [lock.Registry]. What is no registration is left out.
func (s *Store) Registered(ctx context.Context, lockers []string) (map[string]lock.Registration, error) {
	known := make(map[string]lock.Registration)
	err := s.plainly(func() error {
		replies, _ := s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, id := range lockers {
				p.Get(ctx, clientKey+id)
			}
			return nil
		})
		for i, reply := range replies {
			text, err := reply.(*redis.StringCmd).Bytes()
			var r lock.Registration
			switch {
			case errors.Is(err, redis.Nil), isWrongType(err):
			case err != nil:
				return err
			case json.Unmarshal(text, &r) == nil && r.Locker == lockers[i]:
				known[r.Locker] = r
			}
		}
		return nil
	})
	return known, err
}

// plainly makes calls without a script, which may be repeated.
func (s *Store) plainly(call func() error) error {
	if s.unusable != nil {
		return s.unusable
	}
	return s.failure(guarded(call))
}

// Announced implements [lock.Registry] with a subscription to redlatch:forced, on a
// connection of its own.
func (s *Store) Announced(ctx context.Context, heard func(locker, name string)) (stop func(), err error) {
	switch {
	case s.unusable != nil:
		return nil, s.unusable
	case s.forced == nil:
		return nil, fmt.Errorf("%w: the store polls", lock.ErrUnsupported)
	}
	return s.forced.Listen(ctx, forcedChannel, func(message string) { heard(announced(message)) })
}

func announced(message string) (locker, name string) {
	locker, name, _ = strings.Cut(message, " ")
	return locker, name
}

// NameOf implements [lock.Registry]: the name of the lock in Redis.
func (s *Store) NameOf(key string) string { return s.name(key) }

// announce says that holds of a lock were removed. Who doesn't hear it finds out by the
// next renewal.
func (s *Store) announce(ctx context.Context, name string, makers []string) {
	if s.forced == nil {
		return
	}
	_ = guarded(func() error {
		_, err := s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, locker := range makers {
				p.Publish(ctx, forcedChannel, locker+" "+name)
			}
			return nil
		})
		return err
	})
}

// makersOf are the lockers that made the holds of an inspection, each once.
func makersOf(kind any, fields []any) (lockers []string) {
	for i := 0; i+1 < len(fields); i += 2 {
		field, _ := fields[i].(string)
		holds := ownerHolds(strings.TrimSuffix(field, writeMark), 1)
		if kind == "string" {
			holds = permitOwner(field)
		}
		if locker := lock.LockerOf(holds.Owner); !slices.Contains(lockers, locker) {
			lockers = append(lockers, locker)
		}
	}
	return lockers
}
