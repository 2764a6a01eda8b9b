package lock

import (
	"slices"
	"time"

	"github.com/redlatch/redlatch/core/lock/internal/machine"
)

// oldest are the holds that a registration lists. Of more than [maxRound] it looks at some.
func (p *presence) oldest() []Held {
	var held []Held
	for i := range p.shards {
		held = p.shards[i].listed(held)
		if len(held) >= maxRound {
			break
		}
	}
	slices.SortFunc(held, func(a, b Held) int { return a.Since.Compare(b.Since) })
	return held[:min(len(held), MaxListed)]
}

// listed adds the holds of a shard.
func (sh *shard) listed(held []Held) []Held {
	now := sh.lock()
	defer sh.mu.Unlock()
	wall := time.Now().Round(0)
	for _, e := range sh.entries {
		for _, lease := range e.seats {
			if lease != nil && lease.owner != 0 && lease.first == lease {
				held = append(held, Held{Owner: e.nameOf(lease.owner), Fence: lease.fence, Since: wall.Add(time.Duration(lease.start - now))})
			}
		}
	}
	return held
}

// verify asks the store at once about the holds of some names. What it no longer has is
// lost; anything else goes on as before.
func (p *presence) verify(names []string) {
	wanted := make(map[string]struct{}, len(names))
	for _, name := range names {
		wanted[name] = struct{}{}
	}
	run := pump{Locker: p.Locker}
	for i := range p.shards {
		p.shards[i].check(&run, wanted)
		run.run()
	}
}

// check has the machines of the keys with these names look at their holds.
func (sh *shard) check(p *pump, wanted map[string]struct{}) {
	now := sh.lock()
	defer sh.mu.Unlock()
	for key, e := range sh.entries {
		if _, named := wanted[sh.presence.registry.NameOf(key)]; named && len(e.seats) > 0 {
			p.step(e, &machine.Event{Kind: machine.EvCheck}, now, nil)
		}
	}
}
