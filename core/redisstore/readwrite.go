package redisstore

import "github.com/redlatch/redlatch/core/lock"

// reader is the read lock of Redisson's getReadWriteLock.
type reader struct{}

// writer is its write lock.
type writer struct{}

func (reader) check(lock.Claim) error { return nil }

func (writer) check(lock.Claim) error { return nil }

// keys are the lock and the sentinels of the owner's first n holds.
func (reader) keys(t *target, n int) []string {
	keys := make([]string, 1, 1+n)
	keys[0] = t.name
	for i := range n {
		keys = append(keys, sentinel(t.name, t.Owner, i+1))
	}
	return keys
}

func (r reader) acquire(t *target) call {
	return call{readAcquireScript, r.keys(t, t.Holds), []any{t.Owner, t.Holds, t.ttl, tagged(t.name)}}
}

func (r reader) release(t *target) call {
	return call{readReleaseScript, r.keys(t, t.Holds+1), []any{
		t.Owner, t.Holds, tagged(t.name), prefixed(readWriteChannel, t.name), t.publish,
	}}
}

// releaseAlone leaves sentinels to expire.
func (reader) releaseAlone(t *target) call { return t.releaseAlone(readWriteChannel, "") }

func (r reader) renew(t *target) call {
	n := max(t.Holds, 1)
	return call{readRenewScript, r.keys(t, n), []any{t.Owner, t.ttl, n}}
}

func (reader) channels(t *target) []string { return []string{prefixed(readWriteChannel, t.name)} }

func (writer) acquire(t *target) call {
	return call{writeAcquireScript, []string{t.name}, []any{t.Owner, t.Holds, t.ttl, tagged(t.name)}}
}

func (writer) release(t *target) call {
	return call{writeReleaseScript, []string{t.name}, []any{
		t.Owner, t.Holds, prefixed(readWriteChannel, t.name), t.publish,
	}}
}

func (writer) renew(t *target) call {
	return call{writeRenewScript, []string{t.name}, []any{t.Owner, t.ttl}}
}

func (writer) channels(t *target) []string { return reader{}.channels(t) }
