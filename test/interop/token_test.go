package interop_test

import (
	"strconv"

	"github.com/redlatch/redlatch/core/redisstore"
)

// tokens is what holds for getFencedLock and a store with its counters.
var tokens = []promise{
	{"fences rise across Go and Java", tokensRise, middle},
}

func tokensRise(w world) {
	key, java, locker := w.key(), w.thread("fenced"), w.locker(redisstore.WithRedissonTokens())
	last := uint64(0)
	rises := func(who string, fence uint64) {
		w.Helper()
		if fence <= last {
			w.Errorf("%s got fence %d after %d", who, fence, last)
		}
		last = fence
	}
	for range 3 {
		fence, err := strconv.ParseUint(java.do("fenced.lock", key), 10, 64)
		if err != nil {
			w.Fatal(err)
		}
		rises("Java", fence)
		locker.refused(key)
		java.do("unlock", "fenced", key)

		lease := locker.acquire(key)
		rises("Go", lease.Fence())
		inner, err := locker.Acquire(lease.Context(), key)
		if err != nil || inner.Fence() != lease.Fence() {
			w.Errorf("re-entry: %v, or another fence than %d", err, lease.Fence())
		}
		java.want(strconv.FormatUint(last, 10), "fenced.token", key)
		w.release(inner)
		w.release(lease)
	}
}
