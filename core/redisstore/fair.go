package redisstore

// placeMark is at the end of the names of our places in a queue: a release may
// give their owners the lock.
const placeMark = ":redlatch"

// fair is Redisson's getFairLock: a plain lock, and a queue.
type fair struct{ exclusive }

func (fair) keys(t *target) []string {
	return []string{t.name, prefixed(fairQueue, t.name), prefixed(fairPatience, t.name)}
}

// queueChannels is what the channels of all places begin with.
func (fair) queueChannels(t *target) string { return prefixed(lockChannel, t.name) + ":" }

func (f fair) acquire(t *target) call {
	waits := 0
	if t.Patience > 0 {
		waits = 1
	}
	return call{fairAcquireScript, f.keys(t), []any{
		t.Owner, t.Holds, t.ttl, waits, t.Owner + placeMark, f.queueChannels(t), t.publish,
	}}
}

func (f fair) release(t *target) call {
	return call{fairReleaseScript, f.keys(t), []any{
		t.Owner, t.Holds, t.Owner + placeMark, f.queueChannels(t), t.publish,
	}}
}

// channels: the owner's turn is published on the channel of its place. A plain
// lock of that name does not know of the queue, and wakes everybody.
func (f fair) channels(t *target) []string {
	return append(f.exclusive.channels(t), f.queueChannels(t)+t.Owner+placeMark)
}

func (f fair) releaseAlone(t *target) call { return f.exclusive.release(t) }
