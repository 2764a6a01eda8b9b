package judge

import "time"

// Opened judges that a waiter of a latch goes on only if the latch was open while
// it waited. last is when it last was.
func Opened(now time.Time, key string, began, last time.Time) []Finding {
	if last.Before(began) {
		return []Finding{finding("latch was closed", now, "%s: a waiter went on that came at %s, and it was last open at %s",
			key, began.Format(clock), last.Format(clock))}
	}
	return nil
}

// Counts are calls that count a latch down.
type Counts struct{ Called, Executed, Confirmed int }

// Counted judges that a call counts at most once, and exactly once if it says so.
func Counted(now time.Time, key string, n Counts) []Finding {
	if n.Executed > n.Called || n.Confirmed > n.Executed {
		return []Finding{finding("counted wrongly", now, "%s: %d calls, %d confirmed, and the server counted %d times", key, n.Called, n.Confirmed, n.Executed)}
	}
	return nil
}
