package redisstore

import "time"

// grace is how long a free lock is kept for the head of its queue.
const grace = 5 * time.Second

// fair is Redisson's getFairLock: a plain lock, and a queue.
type fair struct{ exclusive }

func (fair) keys(t *target) []string {
	return []string{t.name, prefixed(fairQueue, t.name), prefixed(fairPatience, t.name)}
}

// queueChannels is what the channels of all queued owners begin with.
func (fair) queueChannels(t *target) string { return prefixed(lockChannel, t.name) + ":" }

func (f fair) acquire(t *target) call {
	return call{fairAcquireScript, f.keys(t), []any{
		t.Owner, t.Holds, t.ttl, milliseconds(t.Patience), grace.Milliseconds(), f.queueChannels(t), t.publish,
	}}
}

func (f fair) release(t *target) call {
	return call{fairReleaseScript, f.keys(t), []any{
		t.Owner, t.Holds, milliseconds(t.Patience), f.queueChannels(t), t.publish, t.firstSentinel(),
	}}
}

// channels: the owner's turn is told on its own. A plain lock of that name
// does not know of the queue, and tells everybody.
func (f fair) channels(t *target) []string {
	return append(f.exclusive.channels(t), f.queueChannels(t)+t.Owner)
}

func (fair) releaseAlone(t *target) call { return t.releaseAlone(lockChannel, t.firstSentinel()) }
