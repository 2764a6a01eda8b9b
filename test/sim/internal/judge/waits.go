package judge

import (
	"cmp"
	"slices"
	"time"
)

// Wait is one call of Acquire or TryAcquire that was no re-entry.
type Wait struct {
	Key     string
	Locker  int // number of the locker
	Began   time.Time
	Ended   time.Time
	Granted bool
	Waits   bool // it is willing to wait
}

// tolerated is how many later callers of its locker may pass a waiter.
const tolerated = 2

// Passed judges the order within one locker: its callers get an exclusive key
// in the order in which they came.
func Passed(waits []Wait) (found []Finding) {
	type queue struct {
		key    string
		locker int
	}
	queues := make(map[queue][]Wait)
	for _, w := range waits {
		q := queue{w.Key, w.Locker}
		queues[q] = append(queues[q], w)
	}
	for _, all := range queues {
		slices.SortFunc(all, func(a, b Wait) int { return a.Began.Compare(b.Began) })
		for i, w := range all {
			if n := passedBy(w, all[i+1:]); w.Waits && n > tolerated {
				found = append(found, finding("passed by later callers", w.Ended, "%s: a caller of locker %d waited from %s to %s and was passed by %d that came later",
					w.Key, w.Locker, w.Began.Format(clock), w.Ended.Format(clock), n))
			}
		}
	}
	slices.SortFunc(found, func(a, b Finding) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Detail, b.Detail)) })
	return found
}

func passedBy(w Wait, later []Wait) (n int) {
	for _, other := range later {
		if !other.Began.Before(w.Ended) {
			break
		}
		if other.Granted && other.Began.After(w.Began) && other.Ended.Before(w.Ended) {
			n++
		}
	}
	return n
}

// Call is a call that has a limit.
type Call struct {
	Op           string
	Key          string
	Began, Ended time.Time
	Limit        time.Duration // what it may take, by its documentation
}

// Overstayed judges that calls return in time.
func Overstayed(c Call) []Finding {
	if took := c.Ended.Sub(c.Began); took > c.Limit {
		return []Finding{finding("call overstayed", c.Ended, "%s: %s took %v, and may take %v", c.Key, c.Op, took, c.Limit)}
	}
	return nil
}
