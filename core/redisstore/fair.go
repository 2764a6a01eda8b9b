package redisstore

import "github.com/redlatch/redlatch/core/lock"

// placeMark is at the end of the names of our places in a queue: a release may
// give their owners the lock.
const placeMark = ":redlatch"

// fair is Redisson's getFairLock: a plain lock, and a queue.
type fair struct{ exclusive }

func (fair) keys(t target) []string {
	return []string{t.name, prefixed(fairQueue, t.name), prefixed(fairPatience, t.name)}
}

// queueChannels is what the channels of all places begin with.
func (fair) queueChannels(t target) string { return prefixed(lockChannel, t.name) + ":" }

func (f fair) acquire(t target) call {
	args := make([]any, 0, 5+len(t.Places))
	args = append(args, t.Owner, t.ttl, t.Owner+placeMark, f.queueChannels(t), t.publish)
	for _, owner := range t.Places {
		args = append(args, owner+placeMark)
	}
	return fairAcquireScript.call(f.keys(t), args)
}

func (f fair) release(t target) call {
	return fairReleaseScript.call(f.keys(t), t.keeping([]any{
		t.Owner, t.Owner + placeMark, f.queueChannels(t), t.publish,
	}, t.Owner, keptMark))
}

// channels: our releases publish on the channel of the locker, and Redisson's on
// that of the place whose turn has come. A plain lock of that name does not know
// of the queue, and wakes everybody.
func (f fair) channels(t target) []string {
	all := append(f.exclusive.channels(t), f.queueChannels(t)+t.Owner+placeMark)
	if locker := t.Locker(); locker != "" {
		all = append(all, f.queueChannels(t)+locker)
	}
	return all
}

// fairBusy reads the reply of an acquire that was refused: twice that of others,
// and one more if wake-ups come to the place.
func fairBusy(n int64) *lock.BusyError {
	refused := busy(n >> 1)
	refused.WatchPerOwner = n&1 != 0
	return refused
}

// releaseAlone leaves the queue to the next one. A lock that is kept is not in a hurry.
func (f fair) releaseAlone(t target) []call {
	if t.keep > 0 {
		return nil
	}
	return []call{f.exclusive.release(t)}
}
