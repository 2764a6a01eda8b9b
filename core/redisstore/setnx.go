package redisstore

import "github.com/redlatch/redlatch/core/lock"

// WithSETNX keeps locks as redsync, bsm/redislock, redis-py's Lock, node-redlock
// and most programs that call SETNX themselves do: the key is a string with the
// token of its owner (SET key token NX PX ttl), which its owner alone extends
// and deletes. This process and theirs exclude each other, so that one can
// replace the other without a stop: see docs/migrate.md.
//
// The key is that of the lock, unless [WithKeyPrefix] or [WithNameMapper] say
// otherwise. It is for exclusive locks only: other modes answer
// [lock.ErrUnsupported]. Waiters of this kit are woken by a message. The
// release of another program sends none: its lock is polled, at least every
// [lock.WithPoll]. Fences grow over all grants of this kit, unless somebody deletes
// a key that another owner holds. The other programs have no fences.
//
// A lock in the format of Redisson that has the key counts as busy, and so
// does a lock of this format to a store without the option if it has an expiry.
// It cannot be combined with [WithRedissonTokens]: New panics.
func WithSETNX() Option { return func(s *Store) { s.setnx = true } }

// tokenKind is what inspections call a lock of the SETNX format.
const tokenKind = "token"

// setnx is a string with the token of its owner.
type setnx struct{}

func (setnx) check(lock.Claim) error { return nil }

func (setnx) acquire(t target) call {
	return setnxAcquireScript.call([]string{t.name}, []any{t.Owner, t.ttl})
}

func (setnx) release(t target) call {
	return setnxReleaseScript.call([]string{t.name}, t.keeping(
		[]any{t.Owner, prefixed(lockChannel, t.name), t.publish}, t.Owner, keptMark))
}

func (setnx) renew(t target) call {
	return setnxRenewScript.call([]string{t.name}, []any{t.Owner, t.ttl})
}

// channels are those of the hash format: during a migration waiters of both wait
// for one key.
func (setnx) channels(t target) []string { return exclusive{}.channels(t) }
