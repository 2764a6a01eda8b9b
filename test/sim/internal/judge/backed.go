package judge

import (
	"strings"
	"time"
)

// Backing is what the server has for a trusted lease.
type Backing struct {
	Lease
	Present bool      // the owner's field, sentinel or permit is there
	Never   bool      // the key has no end
	Until   time.Time // otherwise
}

// Renewed judges that a renewal is confirmed only to who has the hold.
func Renewed(now time.Time, key, owner string, there bool) []Finding {
	if !there {
		return []Finding{finding("confirmed but gone", now, "%s: a renewal of %s was confirmed, and the server does not have its hold", key, owner)}
	}
	return nil
}

// Backed judges that every trusted lease has its hold in the server, and that
// the hold lasts until the lease's deadline. It sees a fault before a second
// owner comes.
func Backed(now time.Time, all []Backing) (found []Finding) {
	for _, b := range all {
		switch {
		case !b.Present:
			found = append(found, finding("trusted but gone", now, "%s: %s (%s, process %d) trusts its lease until %s, and the server does not have it",
				b.Key, b.Owner, b.Mode, b.Process, b.Deadline.Format(clock)))
		case b.Never:
			found = append(found, finding("hold without an end", now, "%s: %s (%s, process %d)", b.Key, b.Owner, b.Mode, b.Process))
		case b.Until.Before(b.Deadline):
			found = append(found, finding("trust outlasts the key", now, "%s: %s (%s, process %d) trusts its lease until %s, the key ends at %s",
				b.Key, b.Owner, b.Mode, b.Process, b.Deadline.Format(clock), b.Until.Format(clock)))
		}
	}
	return found
}

// Taken judges that a lease is lost for want of its hold only where the server does not have
// that.
func Taken(now time.Time, key, owner string, there bool) []Finding {
	if there {
		return []Finding{finding("lost but there", now, "%s: the lease of %s is lost, as the store no longer has it, and the server has", key, owner)}
	}
	return nil
}

// Evicted is a reader of other software whose hold is gone, though nobody took it by force
// and the server forgot nothing.
func Evicted(now time.Time, key, owner string) []Finding {
	return []Finding{finding("guest evicted", now, "%s: the hold of the reader %s is gone", key, owner)}
}

// Made judges that a hold is made by an acquire, or handed over by a release.
func Made(now time.Time, key, owner, script string) []Finding {
	if script == "lower" || strings.Contains(script, "renew") {
		return []Finding{finding("hold out of nothing", now, "%s: %s made the hold of %s", key, script, owner)}
	}
	return nil
}

// Reentered judges that a re-entry makes no call whose hold lasts for as long as it asks.
func Reentered(now time.Time, key, owner string, calls int) []Finding {
	if calls > 0 {
		return []Finding{finding("re-entry called", now, "%s: a re-entry of %s made %d calls, and its hold lasts as long as it asks", key, owner, calls)}
	}
	return nil
}
