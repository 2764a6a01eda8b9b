package interop_test

import (
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

// kept is what holds for a minimum hold of Go, which Redisson doesn't know: it sees
// a holder that goes when its time has come.
var kept = []promise{{"a minimum hold of Go keeps Java out until it ends", keepsJavaOut, ""}}

var keptPermits = []promise{{"a minimum hold of Go keeps a permit from Java until it ends", keepsPermitFromJava, ""}}

// minHold leaves a busy machine time for a few calls.
const minHold = 6 * time.Second

func keepsJavaOut(w world) {
	key, java, waiter := w.key(), w.thread("java"), w.thread("waiter")
	sent := time.Now()
	w.release(w.locker().acquire(key, lock.WithMinHold(minHold)))
	java.want("false", "trylock", w.kind, key)
	waiting := waiter.start("lock", w.kind, key, long.Milliseconds())
	waiter.awaitParked()
	waiting.unanswered()
	waiting.result()
	w.afterMinHold(sent)
	waiter.do("unlock", w.kind, key)
}

func keepsPermitFromJava(w world) {
	key, java := w.key(), w.thread("java")
	java.want("true", "permit.set", key, 1) // what Go sets ends with its permits
	sent := time.Now()
	w.release(w.locker().acquire(key, lock.WithPermits(1, 1), lock.WithMinHold(minHold)))
	java.want("null", "permit.acquire", key, 0, long.Milliseconds())
	id := java.do("permit.acquire", key, long.Milliseconds(), long.Milliseconds())
	w.afterMinHold(sent)
	java.do("permit.release", key, id)
}

// afterMinHold fails the test unless what was sent then has ended, and not long ago.
func (w world) afterMinHold(sent time.Time) {
	w.Helper()
	if took := time.Since(sent); took < minHold {
		w.Errorf("Java got it after %v of %v", took, minHold)
	}
	w.within(sent.Add(minHold), "Java got it, at the end of the minimum,")
}
