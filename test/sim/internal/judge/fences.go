package judge

import "time"

// Grant is a lease when its holder got it.
type Grant struct {
	Key, Owner string
	Fence      uint64
	At         time.Time
}

// Fences judges the grants of keys in exclusive modes, in the order in which
// their holders got them: the fence rises from owner to owner, and within one from
// hand-off to hand-off.
func Fences(grants []Grant) (found []Finding) {
	last := make(map[string]Grant)
	for _, g := range grants {
		before, ok := last[g.Key]
		if ok && g.Fence <= before.Fence {
			found = append(found, finding("fence did not rise", g.At, "%s: %s got %d, and %s before it %d",
				g.Key, g.Owner, g.Fence, before.Owner, before.Fence))
		}
		last[g.Key] = g
	}
	return found
}
