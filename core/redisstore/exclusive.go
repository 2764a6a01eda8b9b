package redisstore

import "github.com/redlatch/redlatch/core/lock"

// exclusive is Redisson's getLock.
type exclusive struct{}

func (exclusive) check(lock.Claim) error { return nil }

func (exclusive) acquire(t target) call {
	if t.tokens {
		return tokenAcquireScript.call([]string{t.name, prefixed(fenceCounter, t.name)}, []any{t.Owner, t.ttl})
	}
	return acquireScript.call([]string{t.name}, []any{t.Owner, t.ttl})
}

func (exclusive) release(t target) call { return t.releaseHash(lockChannel) }

func (exclusive) renew(t target) call {
	return renewScript.call([]string{t.name}, []any{t.Owner, t.ttl})
}

func (exclusive) channels(t target) []string { return []string{prefixed(lockChannel, t.name)} }
