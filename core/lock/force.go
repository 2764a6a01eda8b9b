package lock

import (
	"context"

	"github.com/redlatch/redlatch/core/lock/internal/machine"
)

// ForceRelease takes key away from its current holders and wakes waiters. A store may
// look first who they are: a lease that is granted after that look stays, however late the
// removal arrives. freed reports whether anybody held the key. A holder elsewhere notices
// at once if its locker has an identity ([WithIdentity]) and the store is a [Registry], else
// at its next renewal, at the latest when its lease ends; its fence is older than the next
// owner's.
func (l *Locker) ForceRelease(ctx context.Context, key string) (freed bool, err error) {
	defer l.presence.forcing(key)()
	var call machine.Call
	p := pump{Locker: l, force: &call}
	e := p.forcing(key)
	freed, err = query(ctx, l, "force release", key, l.store.ForceRelease)
	if e != nil {
		p.forced(e, err)
	}
	p.run()
	return freed, err
}

// forcing notes what the locker has been granted of a key until now, if anything: the rest
// may not be gone. The entry that it returns stays until forced, as it counts the grants.
func (p *pump) forcing(key string) *entry {
	sh := p.shardOf(key)
	now := sh.lock()
	defer sh.mu.Unlock()
	e := sh.entries[key]
	if e != nil {
		e.forcing++
		p.step(e, &machine.Event{Kind: machine.EvForce, Caller: machine.None}, now, nil)
	}
	return e
}

// forced ends what a forced release has removed.
func (p *pump) forced(e *entry, err error) {
	ev := machine.Event{Kind: machine.EvForced, Call: p.force, Answer: machine.AnsOK}
	if err != nil {
		ev.Answer = machine.AnsUnknown
	}
	now := e.shard.lock()
	defer e.shard.mu.Unlock()
	if e.forcing--; e.stage != gone {
		p.step(e, &ev, now, nil)
	}
}
