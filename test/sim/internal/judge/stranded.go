package judge

import "time"

// Idle is a key that is free while somebody waits for it.
type Idle struct {
	Key     string
	Process int
	Free    time.Time // since when
	Waiting time.Time // since when
	Calm    time.Time // since when nothing has disturbed the waiter
	Slack   time.Duration
}

// Slack is how long a key may be free while an undisturbed waiter waits. A
// waiter may have missed one message and sleeps one poll then, asks in vain if
// another one comes first, and sleeps a second; a call of the one that came
// first may stay without an answer. In a queue in the store, a head that does
// not come is passed over after its grace.
func Slack(poll, callTimeout, grace time.Duration) time.Duration {
	return 2*poll + callTimeout + grace + time.Second
}

// Heard is how long a key may be free while somebody waits who hears of each release: a
// call is answered within some milliseconds, and the first ones may ask in vain.
const Heard = time.Second

// Stranded judges that an undisturbed waiter gets a free key in time.
func Stranded(now time.Time, i Idle) []Finding {
	since := latest(i.Free, i.Waiting, i.Calm)
	if free := now.Sub(since); free > i.Slack {
		return []Finding{finding("free while somebody waits", now, "%s: free since %s, a caller of process %d waits since %s, undisturbed for %v; allowed are %v",
			i.Key, i.Free.Format(clock), i.Process, i.Waiting.Format(clock), free, i.Slack)}
	}
	return nil
}

func latest(times ...time.Time) (last time.Time) {
	for _, t := range times {
		if t.After(last) {
			last = t
		}
	}
	return last
}
