package judge

import (
	"strings"
	"time"
)

// Leftover is a key of the server long after the last locker was closed.
type Leftover struct {
	Key   string
	Never bool          // it has no end
	Left  time.Duration // otherwise
}

// Empty judges that nothing is left but what ends by itself within most; 0
// means nothing at all.
func Empty(now time.Time, most time.Duration, keys []Leftover) (found []Finding) {
	for _, k := range keys {
		switch {
		case k.Never:
			found = append(found, finding("left for ever", now, "%s", k.Key))
		case k.Left > most:
			found = append(found, finding("left for long", now, "%s: for %v more; allowed are %v", k.Key, k.Left, most))
		}
	}
	return found
}

// LateGrant is a hold that an owner of a closed locker got in the server.
type LateGrant struct {
	Key, Owner string
	Closed     time.Time
	Never      bool
	Left       time.Duration
}

// AfterClose judges what arrives after Close has returned: it holds the key for
// most at the longest.
func AfterClose(now time.Time, most time.Duration, g LateGrant) []Finding {
	if !g.Never && g.Left <= most {
		return nil
	}
	return []Finding{finding("grant after close", now, "%s: %s, whose locker was closed at %s, got it for %v (for ever: %v); allowed are %v",
		g.Key, g.Owner, g.Closed.Format(clock), g.Left, g.Never, most)}
}

// Closed judges a Close that returned no error: what its locker has granted it has released.
// An acquire that no caller waits for may come late: see [AfterClose].
func Closed(now time.Time, key, owner string, granted bool) []Finding {
	if granted {
		return []Finding{finding("held after close", now, "%s: Close returned no error, and %s has it", key, owner)}
	}
	return nil
}

// Drained judges that nobody has a lease of a locker whose Drain has returned no error.
func Drained(now time.Time, leases []Lease) (found []Finding) {
	for _, l := range leases {
		found = append(found, finding("held after drain", now, "%s: %s (%s, process %d) trusts its lease, and the locker is drained", l.Key, l.Owner, l.Mode, l.Process))
	}
	return found
}

// Unsubscribed judges that a process listens to nothing when nobody waits. calm is since
// when nobody does, and nothing disturbs the process.
func Unsubscribed(now, calm time.Time, process int, channels []string) []Finding {
	if quiet := now.Sub(calm); len(channels) > 0 && quiet > EndsWithin {
		return []Finding{finding("subscribed for nobody", now, "%s: process %d listens, and nobody waits for %v", strings.Join(channels, ", "), process, quiet)}
	}
	return nil
}

// EndsWithin is how long a subscription may outlast the last waiter: it is kept for 100 ms,
// and the server hears of its end.
const EndsWithin = 5 * time.Second

// Unclosed judges a Close that returned an error: it may only if the server was
// not to be reached for most of a call timeout. calm is since when nothing has
// disturbed its process.
func Unclosed(now, calm time.Time, callTimeout time.Duration, err string) []Finding {
	if quiet := now.Sub(calm); quiet > 2*callTimeout {
		return []Finding{finding("close failed", now, "undisturbed for %v, Close returned: %s", quiet, err)}
	}
	return nil
}

// Away judges a lease that was lost at a time because no renewal was confirmed, though it
// was renewed for so long each time: it may only if its server was not to be reached meanwhile.
func Away(key string, lost, reachable time.Time, lasts time.Duration) []Finding {
	if quiet := lost.Sub(reachable); quiet > lasts {
		return []Finding{finding("lost while reachable", lost, "%s: reachable for %v, a lease was lost for want of a renewal; it lasts %v", key, quiet, lasts)}
	}
	return nil
}

// Minimum is a hold that was released and that its minimum hold keeps.
type Minimum struct {
	Key, Owner string // who had it
	Until      time.Time
	Next       string // who has got it now
}

// Kept judges that nobody gets a lock before a minimum hold ends. The server
// counts in milliseconds.
func Kept(now time.Time, m Minimum) []Finding {
	if left := m.Until.Sub(now); left > time.Millisecond {
		return []Finding{finding("minimum hold", now, "%s: %s has it %v before the minimum hold of %s ends", m.Key, m.Next, left, m.Owner)}
	}
	return nil
}

// Orphan is a hold in the server whose owner nobody works as. That of a writer is one
// although its owner still reads.
type Orphan struct {
	Key, Owner string
	Write      bool
	Since      time.Time // nobody has worked as its owner since then
	Calm       time.Time // nothing has disturbed its process since then
	Patience   time.Duration
}

// Patience is how long a hold may be there that nobody has: until the call that
// made it is given up, until its release is given up, and until what was pending
// meanwhile is undone.
func Patience(callTimeout time.Duration) time.Duration { return 3*callTimeout + 3*time.Second }

// Undone judges that a hold which nobody has is released.
func Undone(now time.Time, o Orphan) []Finding {
	if since := now.Sub(latest(o.Since, o.Calm)); since > o.Patience {
		return []Finding{finding("hold of nobody", now, "%s: held by %s (as a writer: %v), as which nobody works since %s, undisturbed for %v; allowed are %v",
			o.Key, o.Owner, o.Write, o.Since.Format(clock), since, o.Patience)}
	}
	return nil
}

// Taking is a hold that a forced release removed.
type Taking struct {
	Key, Owner string
	Sent       time.Time // the call, after it was listed what there is
	Granted    time.Time // to the owner, first: by a call of it, or handed over
}

// Spared judges that a forced release takes nothing from who came since.
func Spared(now time.Time, t Taking) []Finding {
	if t.Granted.After(t.Sent) {
		return []Finding{finding("taken by a late force", now, "%s: the forced release that was sent at %s removed the hold that %s was granted at %s",
			t.Key, t.Sent.Format(clock), t.Owner, t.Granted.Format(clock))}
	}
	return nil
}
