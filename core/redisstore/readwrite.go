package redisstore

import "github.com/redlatch/redlatch/core/lock"

// reader is the read lock of Redisson's getReadWriteLock. Its owner may still write, as
// Lower may not have run.
type reader struct{}

// writer is its write lock.
type writer struct{}

func (reader) check(lock.Claim) error { return nil }

func (writer) check(lock.Claim) error { return nil }

// keys are the lock and the owner's sentinel.
func (reader) keys(t target) []string { return []string{t.name, sentinel(t.name, t.Owner)} }

func (r reader) acquire(t target) call {
	return readAcquireScript.call(r.keys(t), []any{t.Owner, t.ttl})
}

func (r reader) release(t target) call {
	keys := r.keys(t)
	if t.keep > 0 {
		keys = append(keys, sentinel(t.name, t.Owner+keptMark))
	}
	return readReleaseScript.call(keys, t.keeping([]any{
		t.Owner, prefixed(readWriteChannel, t.name), t.publish, tagged(t.name),
	}, t.Owner, keptMark))
}

// releaseAlone leaves the sentinel to expire. An owner that still writes has none.
func (r reader) releaseAlone(t target) []call {
	alone := []call{writer{}.release(t)}
	if t.keep == 0 {
		alone = append(alone, t.releaseHash(readWriteChannel))
	}
	return alone
}

func (r reader) renew(t target) call {
	return readRenewScript.call(r.keys(t), []any{t.Owner, t.ttl})
}

// lower makes a reader of a writer.
func (r reader) lower(t target) call {
	return lowerScript.call(r.keys(t), []any{t.Owner, t.ttl, prefixed(readWriteChannel, t.name), t.publish})
}

func (reader) channels(t target) []string { return []string{prefixed(readWriteChannel, t.name)} }

// writeMark is at the end of the field of a writer.
const writeMark = ":write"

func (writer) field(t target) string { return t.Owner + writeMark }

func (w writer) acquire(t target) call {
	return writeAcquireScript.call([]string{t.name}, []any{w.field(t), t.ttl, tagged(t.name)})
}

func (w writer) release(t target) call {
	return writeReleaseScript.call([]string{t.name}, t.keeping([]any{
		w.field(t), prefixed(readWriteChannel, t.name), t.publish,
	}, t.Owner+keptMark, writeMark))
}

func (w writer) renew(t target) call {
	return renewScript.call([]string{t.name}, []any{w.field(t), t.ttl})
}

func (writer) channels(t target) []string { return reader{}.channels(t) }
