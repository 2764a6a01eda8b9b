package judge

import "time"

// Term judges that the number of a leader's term is the fence of its lease, which
// rises from leader to leader: see [Fences].
func Term(now time.Time, key string, term, fence uint64) []Finding {
	if term != fence {
		return []Finding{finding("term is not the fence", now, "%s: term %d, fence %d", key, term, fence)}
	}
	return nil
}
