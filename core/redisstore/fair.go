package redisstore

import (
	"strconv"
	"time"
)

// grace is how long a lock is kept for the head of its queue: a free one, and
// one that the release of another gave to it.
const grace = 5 * time.Second

// transferMark is in the names of queued owners to whom a release may give the
// lock; behind it is how long they mean to wait, in ms.
const transferMark = ":transfer:"

// fair is Redisson's getFairLock: a plain lock, and a queue.
type fair struct{ exclusive }

func (fair) keys(t *target) []string {
	return []string{t.name, prefixed(fairQueue, t.name), prefixed(fairPatience, t.name)}
}

// queueChannels is what the channels of all queued owners begin with.
func (fair) queueChannels(t *target) string { return prefixed(lockChannel, t.name) + ":" }

// place is the claim's name in the queue.
func (fair) place(t *target) string {
	if !t.Transfer {
		return t.Owner
	}
	return t.Owner + transferMark + strconv.FormatInt(milliseconds(t.Patience), 10)
}

// ownChannel is where the claim's turn is told.
func (f fair) ownChannel(t *target) string { return f.queueChannels(t) + f.place(t) }

func (f fair) acquire(t *target) call {
	return call{fairAcquireScript, f.keys(t), []any{
		t.Owner, t.Holds, t.ttl, milliseconds(t.Patience), grace.Milliseconds(), f.queueChannels(t), t.publish, f.place(t),
	}}
}

func (f fair) release(t *target) call {
	return call{fairReleaseScript, f.keys(t), []any{
		t.Owner, t.Holds, milliseconds(t.Patience), f.queueChannels(t), t.publish, t.firstSentinel(),
		f.place(t), grace.Milliseconds(),
	}}
}

// channels: the owner's turn is told on its own. A plain lock of that name
// does not know of the queue, and tells everybody.
func (f fair) channels(t *target) []string {
	return append(f.exclusive.channels(t), f.ownChannel(t))
}

func (fair) releaseAlone(t *target) call { return t.releaseAlone(lockChannel, t.firstSentinel()) }
