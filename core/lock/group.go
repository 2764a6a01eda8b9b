package lock

import (
	"context"
	"errors"
	"slices"
	"time"
)

// GroupStore is a Store that can grant several keys in one call.
type GroupStore interface {
	Store
	// AcquireGroup grants all claims or none. They are Exclusive, with one
	// hold each, of different keys and owners. The answers are those of
	// Acquire; a repetition changes nothing. ErrUnsupported means that these
	// keys cannot be granted together.
	AcquireGroup(ctx context.Context, claims []Claim) (fences []uint64, err error)
}

// group is an attempt to get several keys with one call.
type group struct {
	*Locker
	members []*acquisition
}

// groupOf returns the group of the requests, or nil if they have to be
// acquired one by one.
func groupOf(ctx context.Context, requests []Request, settings []options) *group {
	l := requests[0].locker
	if _, ok := l.store.(GroupStore); !ok || len(requests) < 2 {
		return nil
	}
	g := &group{Locker: l}
	for i, r := range requests {
		o := settings[i]
		same := r.locker == l && o.mode == Exclusive && o.owner == ""
		if !same || i > 0 && r.key == requests[i-1].key || checkKey(r.key) != nil || leaseOf(ctx, r.key, ofLocker(l)) != nil {
			return nil
		}
		g.members = append(g.members, &acquisition{
			Locker: l, o: o, start: time.Now(), ownership: new(ownership),
			claim: Claim{Key: r.key, Holds: 1, TTL: o.acquireTTL()},
		})
		g.members[i].claimAs(nil)
	}
	return g
}

func ofLocker(l *Locker) func(*Lease) bool {
	return func(lease *Lease) bool { return lease.hold.locker == l }
}

// try asks once for all keys. No leases and no error mean that they have to
// be acquired one by one: some are taken, or waited for in this process.
func (g *group) try(ctx context.Context) ([]*Lease, error) {
	if err := g.begin(); err != nil {
		return nil, &Error{Op: "acquire all", Err: err}
	}
	defer g.running.Done()
	if g.refuses(ctx) {
		return nil, &Error{Op: "acquire all", Err: ErrClosed}
	}
	if g.contended() {
		return nil, nil
	}
	claims := make([]Claim, len(g.members))
	timeout := g.defaults.callTimeout
	for i, a := range g.members {
		claims[i] = a.claim
		timeout = min(timeout, a.claim.TTL-g.margin(a.claim.TTL))
	}
	if g.reserve(len(claims)) != nil {
		return nil, nil
	}
	sent := g.now()
	fences, err := bounded(ctx, g.Locker, timeout, func(ctx context.Context) ([]uint64, error) {
		return g.store.(GroupStore).AcquireGroup(ctx, claims)
	}, func(_ []uint64, err error) {
		for i, a := range g.members {
			a.late(claims[i], nil, err)
		}
		g.settled(len(claims))
	})
	var abandoned *abandonedError
	if !errors.As(err, &abandoned) {
		g.settled(len(claims))
	}
	if err != nil {
		g.abandon(mayHaveRun(err) && abandoned == nil)
		return nil, nil
	}
	return g.granted(ctx, sent, fences)
}

// contended says whether this process has or waits for one of the keys: then
// its queues decide who is next.
func (g *group) contended() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.ContainsFunc(g.members, func(a *acquisition) bool { return g.gates[a.claim.Key] != nil })
}

// abandon ends the members without a hold.
func (g *group) abandon(doubt bool) {
	for _, a := range g.members {
		g.mu.Lock()
		a.doubt = a.doubt || doubt
		g.mu.Unlock()
		if a.hold == nil {
			a.abandon()
		}
	}
}

// granted makes leases, each in the context of the one before.
func (g *group) granted(ctx context.Context, sent time.Duration, fences []uint64) ([]*Lease, error) {
	leases := make([]*Lease, 0, len(g.members))
	for i, a := range g.members {
		a.caller = ctx //nolint:fatcontext // each lease's context carries those before it
		lease, err := a.granted(sent, fences[i])
		if err == nil {
			lease, err = a.prolonged(ctx, lease)
		}
		a.observe(ctx, err)
		if err != nil {
			g.abandon(true)
			_ = (&Leases{leases}).Release(ctx) // what is not confirmed goes on in the background
			return nil, &Error{Op: "acquire all", Key: a.claim.Key, Err: err}
		}
		leases = append(leases, lease)
		ctx = lease.Context()
	}
	return leases, nil
}
