package judge

import "time"

// Calls are acquire calls of one owner that were refused, while nothing changed
// about who holds the key.
type Calls struct {
	Key, Owner string
	Number     int
	Within     time.Duration
}

const (
	// CallsSpan is how long the calls of an owner are counted together.
	CallsSpan = time.Second
	// mostCalls is how many an owner may send in that time. A waiter sends one for
	// each wake-up and each poll, and more while answers are lost, with a backoff.
	mostCalls = 50
)

// Looping judges that a waiter calls the server when something has changed, and
// not as fast as it can.
func Looping(now time.Time, c Calls) []Finding {
	if c.Number != mostCalls+1 || c.Within > CallsSpan { // reported once
		return nil
	}
	return []Finding{finding("calls in a loop", now, "%s: %s was refused %d times in %v, and nothing changed meanwhile",
		c.Key, c.Owner, c.Number, c.Within)}
}
