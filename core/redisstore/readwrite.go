package redisstore

import "github.com/redlatch/redlatch/core/lock"

// reader is the read lock of Redisson's getReadWriteLock.
type reader struct{}

// writer is its write lock.
type writer struct{}

func (reader) check(lock.Claim) error { return nil }

func (writer) check(lock.Claim) error { return nil }

// keys are the lock and the owner's sentinel.
func (reader) keys(t target) []string { return []string{t.name, sentinel(t.name, t.Owner)} }

func (r reader) acquire(t target) call {
	return readAcquireScript.call(r.keys(t), []any{t.Owner, t.Holds, t.ttl})
}

func (r reader) release(t target) call {
	keys := r.keys(t)
	if t.keep > 0 {
		keys = append(keys, sentinel(t.name, t.Owner+keptMark))
	}
	return readReleaseScript.call(keys, t.keeping([]any{
		t.Owner, t.Holds, tagged(t.name), prefixed(readWriteChannel, t.name), t.publish,
	}, t.Owner, keptMark))
}

// releaseAlone leaves the sentinel to expire.
func (reader) releaseAlone(t target) call { return t.releaseAlone(readWriteChannel, t.Owner) }

func (r reader) renew(t target) call {
	return readRenewScript.call(r.keys(t), []any{t.Owner, t.ttl})
}

func (reader) channels(t target) []string { return []string{prefixed(readWriteChannel, t.name)} }

// writeMark is at the end of what counts the holds of writers, whatever it counts.
const writeMark = ":write"

// field is what counts the writer's holds.
func (writer) field(t target) string { return t.Owner + writeMark }

func (w writer) acquire(t target) call {
	return writeAcquireScript.call([]string{t.name}, []any{w.field(t), t.Holds, t.ttl, tagged(t.name)})
}

func (w writer) release(t target) call {
	keys, kept := []string{t.name}, t.Owner+keptMark
	args := t.keeping([]any{
		w.field(t), t.Holds, prefixed(readWriteChannel, t.name), t.publish, tagged(t.name),
	}, kept, writeMark)
	if t.keep > 0 {
		keys, args = append(keys, sentinel(t.name, kept)), append(args, kept)
	}
	return writeReleaseScript.call(keys, args)
}

func (w writer) renew(t target) call {
	return renewScript.call([]string{t.name}, []any{w.field(t), t.ttl})
}

func (writer) channels(t target) []string { return reader{}.channels(t) }
