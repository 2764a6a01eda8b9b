package redisstore

import (
	"log/slog"
	"strings"
)

// Option is a setting of [New].
type Option func(*Store)

// WithLogger sets where warnings go: about the server's set-up, and about
// refused subscriptions. Default [slog.Default]. nil
// panics.
func WithLogger(log *slog.Logger) Option {
	return func(s *Store) {
		if log == nil {
			panic("redisstore.WithLogger: logger is nil") //nolint:forbidigo // documented: a wrong set-up cannot be run
		}
		s.log = log
	}
}

// WithKeyPrefix puts prefix in front of every key. Java services that share
// the locks need a NameMapper that does the same. It replaces
// [WithNameMapper].
func WithKeyPrefix(prefix string) Option {
	return func(s *Store) {
		s.name = func(key string) string { return prefix + key }
		s.key = func(name string) (string, bool) { return strings.CutPrefix(name, prefix) }
	}
}

// WithNameMapper makes the name of the lock in Redis from its key, like
// Redisson's NameMapper. It must be injective, or different keys become one
// lock. Default: the key itself. It replaces [WithKeyPrefix]. nil panics. The store
// doesn't list its keys then, as nothing makes keys of names.
func WithNameMapper(name func(key string) string) Option {
	return func(s *Store) {
		if name == nil {
			panic("redisstore.WithNameMapper: mapper is nil") //nolint:forbidigo // documented: a wrong set-up cannot be run
		}
		s.name, s.key = name, nil
	}
}

// WithPublish sets how releases are published to waiters. Default [Auto]. Waiters
// of this package subscribe to all channels; the option is for other waiters, which
// may not. Outside a cluster there is only [Plain].
func WithPublish(p Publishing) Option {
	return func(s *Store) {
		if p < Auto || p > Both {
			panic("redisstore.WithPublish: unknown value") //nolint:forbidigo // documented: a wrong set-up cannot be run
		}
		s.publish = p
	}
}

// WithRedissonTokens takes fences from the counters of Redisson's
// getFencedLock, so that they rise across Go and Java, instead of from the
// server's clock. It is for exclusive locks only; other modes answer
// [lock.ErrUnsupported].
//
// All users of such a lock must use the counters: the fences of a plain getLock, or
// of a store without this option, can't be compared with theirs. Unlike the clock, the
// counters are separate keys (redisson_lock_token:{name}), which are never deleted, and
// they repeat numbers when Redis loses data. A counter that has reached 2^53, or is below
// zero, grants nothing.
func WithRedissonTokens() Option { return func(s *Store) { s.tokens = true } }

// WithPolling does without publish/subscribe, for proxies and managed services
// that do not pass it on: Watch answers [lock.ErrUnsupported], and waiters
// poll.
func WithPolling() Option { return func(s *Store) { s.wakeups, s.forced = nil, nil } }
