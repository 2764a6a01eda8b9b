package redisstore

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
)

// Store implements [lock.Store]. Use [New]. It is safe for concurrent use and
// needs no Close: it holds a connection only while somebody watches.
type Store struct {
	rdb      redis.UniversalClient
	cluster  *redis.ClusterClient // nil unless rdb is one
	unusable error                // why rdb cannot be used at all
	log      *slog.Logger
	name     func(key string) string
	wakeups  *wakeups // nil: polling
}

var _ lock.Store = (*Store)(nil)

// New returns a store on rdb, which the caller still owns and closes after
// the last lease is gone. It does no I/O: see [Store.Check]. A wrong option
// or a nil client makes it panic.
//
// rdb is a [redis.Client] (also one that follows a Sentinel) or a
// [redis.ClusterClient]. A [redis.Ring] is refused by every call with
// [lock.ErrUnsupported]: it forgets locks when a shard comes or goes.
func New(rdb redis.UniversalClient, opts ...Option) *Store {
	if rdb == nil {
		panic("redisstore.New: client is nil") //nolint:forbidigo // documented: a wrong set-up cannot be run
	}
	s := &Store{rdb: rdb, log: slog.Default(), name: func(key string) string { return key }}
	s.cluster, _ = rdb.(*redis.ClusterClient)
	if _, ring := rdb.(*redis.Ring); ring {
		s.unusable = fmt.Errorf("%w: redisstore cannot use a redis.Ring", lock.ErrUnsupported)
	}
	s.wakeups = newWakeups(s)
	for _, apply := range opts {
		apply(s)
	}
	return s
}

// Acquire implements [lock.Store]. The fence is the server's clock in
// microseconds.
func (s *Store) Acquire(ctx context.Context, c lock.Claim) (uint64, error) {
	t, err := s.target(c, 1)
	if err != nil {
		return 0, err
	}
	n, err := s.number(ctx, call{t.acquire, []string{t.name}, []any{c.Owner, c.Holds, t.ttl}})
	switch {
	case err != nil:
		return 0, err
	case n > 0:
		return uint64(n), nil
	case n == 0:
		return 0, lock.ErrNotHeld
	case n == -1:
		return 0, &lock.BusyError{TTL: -1}
	default:
		return 0, &lock.BusyError{TTL: time.Duration(-2-n) * time.Millisecond}
	}
}

// Release implements [lock.Store].
func (s *Store) Release(ctx context.Context, c lock.Claim) error {
	c.TTL = max(c.TTL, 1) // of no interest here
	t, err := s.target(c, 0)
	if err != nil {
		return err
	}
	n, err := s.number(ctx, call{t.release, []string{t.name}, []any{c.Owner, c.Holds, t.channel}})
	if err == nil && n == 0 {
		return lock.ErrNotHeld
	}
	return err
}

// Watch implements [lock.Store] with the channel of Redisson's locks.
func (s *Store) Watch(ctx context.Context, c lock.Claim, wake func()) (stop func(), err error) {
	c.TTL, c.Holds = max(c.TTL, 1), max(c.Holds, 0) // of no interest here
	t, err := s.target(c, 0)
	if err != nil {
		return nil, err
	}
	if s.wakeups == nil {
		return nil, fmt.Errorf("%w: the store polls", lock.ErrUnsupported)
	}
	return s.wakeups.watch(ctx, t.channel, wake)
}

// Inspect implements [lock.Store]. It shows whatever lock has the key, in
// modes, too, that the store cannot acquire.
func (s *Store) Inspect(ctx context.Context, key string) (lock.State, error) {
	name, err := s.nameOf(key)
	if err != nil {
		return lock.State{}, err
	}
	cmd, err := s.run(ctx, call{inspectScript, []string{name}, nil})
	if err != nil {
		return lock.State{}, err
	}
	reply, err := cmd.Slice()
	if err != nil {
		return lock.State{}, s.failure(err)
	}
	return stateOf(reply), nil
}

// ForceRelease implements [lock.Store], for locks of every mode.
func (s *Store) ForceRelease(ctx context.Context, key string) (freed bool, err error) {
	name, err := s.nameOf(key)
	if err != nil {
		return false, err
	}
	channels := []any{prefixed(lockChannel, name), prefixed(readWriteChannel, name)}
	n, err := s.number(ctx, call{forceReleaseScript, []string{name}, channels})
	return n == 1, err
}

// target is a claim in the terms of Redis.
type target struct {
	*protocol
	name    string
	channel string
	ttl     int64 // ms
}

// target checks a claim that asks for at least minHolds.
func (s *Store) target(c lock.Claim, minHolds int) (target, error) {
	p := protocols[c.Mode]
	switch {
	case p == nil:
		return target{}, fmt.Errorf("%w: redisstore has no mode %s", lock.ErrUnsupported, c.Mode)
	case c.Owner == "", c.Owner == "mode": // the field of read/write locks
		return target{}, fmt.Errorf("%w: owner %q", lock.ErrInvalid, c.Owner)
	case c.Holds < minHolds:
		return target{}, fmt.Errorf("%w: hold count %d", lock.ErrInvalid, c.Holds)
	case c.TTL <= 0: // would delete the key
		return target{}, fmt.Errorf("%w: TTL %v", lock.ErrInvalid, c.TTL)
	}
	name, err := s.nameOf(c.Key)
	if err != nil {
		return target{}, err
	}
	return target{protocol: p, name: name, channel: prefixed(p.channel, name), ttl: milliseconds(c.TTL)}, nil
}

func (s *Store) nameOf(key string) (string, error) {
	if s.unusable != nil {
		return "", s.unusable
	}
	name := s.name(key)
	if name == "" {
		return "", fmt.Errorf("%w: lock name is empty", lock.ErrInvalid)
	}
	if s.cluster != nil {
		return name, checkName(name)
	}
	return name, nil
}

// milliseconds rounds up: the key must not end before its owner's trust in it.
func milliseconds(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

// stateOf reads the reply of the inspect script.
func stateOf(reply []any) lock.State {
	pttl, _ := reply[0].(int64)
	if len(reply) == 1 {
		return lock.State{}
	}
	state := lock.State{Held: true, TTL: -1}
	if pttl >= 0 {
		state.TTL = time.Duration(pttl) * time.Millisecond
	}
	for fields := reply[1:]; len(fields) >= 2; fields = fields[2:] {
		field, _ := fields[0].(string)
		value, _ := fields[1].(string)
		if field == "mode" {
			state.Mode = modeOf(value)
			continue
		}
		holds, _ := strconv.Atoi(value)
		state.Owners = append(state.Owners, lock.OwnerHolds{Owner: strings.TrimSuffix(field, ":write"), Holds: holds})
	}
	return state
}

// modeOf reads the field that only Redisson's read/write locks have.
func modeOf(text string) lock.Mode {
	if text == "write" {
		return lock.Write
	}
	return lock.Read
}
