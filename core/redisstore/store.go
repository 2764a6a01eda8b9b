package redisstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"reflect"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore/internal/circuit"
	"github.com/redlatch/redlatch/core/redisstore/internal/subs"
)

// Store implements [lock.Store]. Use [New]. It is safe for concurrent use and
// needs no Close: it holds a connection only while somebody watches, and 100 ms
// longer.
type Store struct {
	rdb        redis.UniversalClient
	cluster    *redis.ClusterClient // nil unless rdb is one
	topology   *topology            // of the cluster
	unusable   error                // why rdb cannot be used at all
	log        *slog.Logger
	name       func(key string) string
	key        func(name string) (key string, ok bool) // the reverse; nil: there is none
	publish    Publishing
	wakeups    *subs.Set   // nil: polling
	forced     *subs.Set   // of announcements; nil as well then
	replicas   *replicas   // nil: whatever they have
	quarantine *quarantine // nil: none
	tokens     bool        // fences are Redisson's counters
	setnx      bool        // locks are strings
	quiet      bool        // no script publishes
	timeless   bool        // no script that acquires has the time
	variants   map[*script]variant
	circuit    circuit.Settings
	// circuitHook is that of [WithCircuitHook], or nil.
	circuitHook func(server string, open bool)
	sender      *sender  // of rdb
	senders     sync.Map // of the nodes of a cluster, *redis.Client to *sender
}

// New returns a store on rdb, which the caller still owns and closes after
// the last lease is gone. It does no I/O: see [Store.Check]. A wrong option
// or a nil client makes it panic.
//
// rdb is a [redis.Client] (also one that follows a Sentinel) or a
// [redis.ClusterClient]. A [redis.Ring] is refused by every call with
// [lock.ErrUnsupported]: it forgets locks when a shard comes or goes. The nodes
// of a ClusterClient get a hook, so that one that hangs does not hide a failover
// for as long as the client's ReadTimeout; nodes that the client has used before
// do not have it.
func New(rdb redis.UniversalClient, opts ...Option) *Store {
	if v := reflect.ValueOf(rdb); rdb == nil || v.Kind() == reflect.Pointer && v.IsNil() {
		panic("redisstore.New: client is nil") //nolint:forbidigo // documented: a wrong set-up cannot be run
	}
	s := &Store{rdb: rdb, log: slog.Default(), name: func(key string) string { return key }, key: func(name string) (string, bool) { return name, true }}
	s.circuit = circuit.Settings{Failures: DefaultCircuitFailures, Pause: DefaultCircuitPause}
	s.sender = &sender{store: s, node: rdb}
	if cluster, ok := rdb.(*redis.ClusterClient); ok {
		s.cluster, s.topology = cluster, newTopology(cluster)
	}
	if _, ring := rdb.(*redis.Ring); ring {
		s.unusable = fmt.Errorf("%w: redisstore cannot use a redis.Ring", lock.ErrUnsupported)
	}
	s.wakeups, s.forced = s.subscriptions(), s.announcements()
	for _, apply := range opts {
		if apply == nil {
			panic("redisstore.New: an option is nil") //nolint:forbidigo // documented: a wrong set-up cannot be run
		}
		apply(s)
	}
	s.prepare()
	if s.setnx && s.tokens {
		panic("redisstore.New: WithSETNX and WithRedissonTokens exclude each other") //nolint:forbidigo // documented: a wrong set-up cannot be run
	}
	return s
}

// Traits implements [lock.Store]. The counters of Redisson leave no room.
func (s *Store) Traits() lock.Traits { return lock.Traits{Spaced: !s.tokens} }

// fence is that of a reply: the server's clock in microseconds, or a token.
func (s *Store) fence(n int64) (uint64, error) {
	switch {
	case s.tokens:
		return uint64(n), nil
	case n > math.MaxInt64/lock.FenceStep:
		return 0, errors.New("redis answers with a fence of more than 57 bits")
	}
	return uint64(n) * lock.FenceStep, nil
}

// acquire is Acquire, on the goroutine of its caller. The fence is the server's clock in
// microseconds, times [lock.FenceStep].
func (s *Store) acquire(ctx context.Context, c lock.Claim, failed error) (uint64, error) {
	t, err := s.target(c)
	if err != nil {
		return 0, err
	}
	script, run := s.acquiring(t.acquire(t), after(failed, s.grant))
	n, err := settled(ctx, script, run)
	if isWrongType(err) {
		return 0, s.occupied(ctx, t, err)
	}
	return s.granted(c.Mode, n, err)
}

// granted reads the reply to an acquire.
func (s *Store) granted(m lock.Mode, n int64, err error) (fence uint64, _ error) {
	switch {
	case err != nil:
		return 0, err
	case n > 0:
		return s.fence(n)
	case n == 0:
		return 0, s.failure(errBadReply)
	case m == lock.Fair:
		return 0, fairBusy(n)
	default:
		return 0, busy(n)
	}
}

// busy reads the reply of an acquire that was refused: -1, or -2 - ms.
func busy(n int64) *lock.BusyError { return &lock.BusyError{TTL: remaining(-2 - n)} }

// release is Release, on the goroutine of its caller.
func (s *Store) release(ctx context.Context, c lock.Claim, failed error) error {
	t, err := s.releasing(c)
	if err != nil {
		return err
	}
	send := after(failed, s.number)
	n, err := settled(ctx, t.release(t), func(ctx context.Context, c call) (int64, error) {
		if !t.Keep.IsZero() { // some of it may have passed, or all
			t.keep = keptFor(t.Keep)
			c = t.release(t)
		}
		n, err := send(ctx, c)
		if isTryAgain(err) || isWrongType(err) {
			return s.releaseAlone(ctx, t, err)
		}
		return n, err
	})
	return released(n, err)
}

func (s *Store) releasing(c lock.Claim) (target, error) {
	c.TTL = 1 // ignored by release
	return s.target(c)
}

// released reads the reply to a release.
func released(n int64, err error) error {
	if err == nil && n == 0 || isWrongType(err) {
		return lock.ErrNotHeld
	}
	return err
}

// releaseAlone releases a hold whose slot is migrating, so that its keys are
// in two places, or whose queue somebody has overwritten: nobody can have the lock
// through a script on all of them until that ends, and nobody needs to be woken, but
// its hash can be reached. Only
// a hold counts here: a place in a queue cannot be given up this way.
func (s *Store) releaseAlone(ctx context.Context, t target, failed error) (int64, error) {
	p, ok := t.protocol.(interface{ releaseAlone(t target) []call })
	if !ok {
		return 0, failed
	}
	for _, c := range p.releaseAlone(t) {
		if n, err := s.number(ctx, c); err != nil || n > 0 {
			return n, err
		}
	}
	return 0, failed
}

// lower is Lower, on the goroutine of its caller. While the slot of the lock moves to
// another node of a cluster it fails as not executed.
func (s *Store) lower(ctx context.Context, c lock.Claim, failed error) error {
	t, err := s.lowering(c)
	if err != nil {
		return err
	}
	return released(settled(ctx, reader{}.lower(t), after(failed, s.finished)))
}

func (s *Store) lowering(c lock.Claim) (target, error) {
	if c.Mode != lock.Read {
		return target{}, fmt.Errorf("%w: a hold is lowered to mode %s, not to %s", lock.ErrInvalid, lock.Read, c.Mode)
	}
	return s.target(c)
}

// Watch implements [lock.Store] with Redisson's channels.
func (s *Store) Watch(ctx context.Context, c lock.Claim, wake func()) (stop func(), err error) {
	c.TTL = 1 // ignored by watches
	t, err := s.target(c)
	if err != nil {
		return nil, err
	}
	if s.wakeups == nil {
		return nil, fmt.Errorf("%w: the store polls", lock.ErrUnsupported)
	}
	return s.wakeups.Watch(ctx, t.channels(t), wake)
}

// ForceRelease implements [lock.Store], for locks of every mode. It reads who holds
// the key and removes these holds: a hold that is granted after that stays, however
// late the call arrives. The queue of a fair lock stays. A semaphore whose number
// Redisson has set keeps it, and gets its permits back; any other goes with them.
func (s *Store) ForceRelease(ctx context.Context, key string) (freed bool, err error) {
	name, err := s.nameOf(key)
	if err != nil {
		return false, err
	}
	reply, err := s.inspect(ctx, name, "", allListed) // the dead, too: they may hide the living
	if err == nil {
		freed, err = s.forceFrom(ctx, name, reply)
	}
	return freed, noLock(name, err)
}

// allListed is for a look that shows everybody. A second look would show who came since.
const allListed = 1 << 20

// forceFrom removes the holds that a reply of [Store.inspect] lists, or the number of a
// semaphore that nobody uses.
func (s *Store) forceFrom(ctx context.Context, name string, reply []any) (freed bool, err error) {
	fields, _ := reply[2].([]any)
	if pttl, _ := reply[1].(int64); reply[0] == "string" && len(fields) == 0 && pttl >= 0 {
		fields = []any{"", int64(0)}
	}
	readWrite := reply[0] == "hash" && len(fields) > 0 && fields[0] == "mode"
	if readWrite {
		fields = fields[2:]
	}
	var calls []call
	var answers []<-chan outcome
	defer func() {
		if freed {
			s.announce(ctx, name, makersOf(reply[0], fields))
		}
	}()
	for i := 0; i+1 < len(fields); i += 2 {
		field, _ := fields[i].(string)
		keys := besides(name)
		if readWrite && !strings.HasSuffix(field, writeMark) {
			keys = append(keys, sentinel(name, field))
		}
		c := forceReleaseScript.call(keys, []any{
			prefixed(lockChannel, name), prefixed(readWriteChannel, name), prefixed(semaphoreChannel, name), s.publishing(), field, fields[i+1],
		})
		calls, answers = append(calls, c), append(answers, s.begin(ctx, c, true))
	}
	for i, c := range calls {
		answer, failed := within(ctx, answers[i])
		if isTryAgain(failed) {
			answer, failed = s.runOnAll(ctx, c)
		}
		n, failed := s.integer(answer, failed)
		freed, err = freed || n == 1, errors.Join(err, failed)
	}
	return freed, err
}

// ended is a context in which nothing is waited for.
var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

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
