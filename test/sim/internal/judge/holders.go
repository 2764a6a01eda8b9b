package judge

import (
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

// Lease is a lease that its holder trusts at the moment of the snapshot.
type Lease struct {
	Key, Owner    string
	Mode          lock.Mode
	Fence         uint64
	Process       int
	Permits, Size int
	Deadline      time.Time
}

// Holders judges the trusted leases of one key: no two owners that exclude each
// other, no two leases of one hold that was handed off, and no more permits than
// there are.
func Holders(now time.Time, leases []Lease) (found []Finding) {
	for i, a := range leases {
		for _, b := range leases[:i] {
			handedOff := a.Mode == b.Mode && a.Fence != b.Fence
			if (a.Owner != b.Owner || handedOff) && excludes(a.Mode, b.Mode) {
				found = append(found, finding("two holders", now, "%s: %s (%s, process %d, until %s) and %s (%s, process %d, until %s)",
					a.Key, b.Owner, b.Mode, b.Process, b.Deadline.Format(clock), a.Owner, a.Mode, a.Process, a.Deadline.Format(clock)))
			}
		}
	}
	taken, size := 0, 0
	for _, l := range leases {
		taken, size = taken+l.Permits, max(size, l.Size)
	}
	if taken > size {
		found = append(found, finding("too many permits", now, "%s: %d of %d", leases[0].Key, taken, size))
	}
	return found
}

const clock = "04:05.000"

func excludes(a, b lock.Mode) bool {
	shared := func(m lock.Mode) bool { return m == lock.Read || m == lock.Semaphore }
	return !shared(a) || !shared(b)
}
