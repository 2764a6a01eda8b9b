package worker

import (
	"context"
	"fmt"
	"time"

	"github.com/redlatch/redlatch/core/leader"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/test/chaos/internal/bug"
	"github.com/redlatch/redlatch/test/chaos/internal/history"
	"github.com/redlatch/redlatch/test/chaos/internal/resource"
)

// candidate is a goroutine that campaigns for an office and leads. What it writes
// down is what a client does: a campaign is an acquisition, and a term is a lease.
type candidate struct {
	*client
	office   int
	campaign history.Event // under way, unless its ID is 0
	term     history.Event // whose release has begun, unless its ID is 0
	lease    *lock.Lease   // of the term
}

func newCandidate(c Config, office int, locker *lock.Locker, planted *bug.Bug, r *record) *candidate {
	return &candidate{client: newClient(c, c.Clients+office, locker, planted, r), office: office}
}

func (c *candidate) run(ctx context.Context) error { return c.repeat(ctx, c.stand) }

// stand is one call of Run: until the leader resigns, or the office gets another
// name.
func (c *candidate) stand(ctx context.Context) (err error) {
	generation := c.clock.Now() / int64(c.Load.Term)
	left := time.Duration((generation+1)*int64(c.Load.Term) - c.clock.Now())
	ctx, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	key, id := fmt.Sprintf("%s%d:g%d", history.Offices, c.office, generation), c.ids.Add(1)
	c.begin(key, id)
	ctx = context.WithValue(ctx, attemptKey{}, attempt{c.number, id})
	_ = leader.Run(ctx, c.locker, key, func(term context.Context, _ uint64) error { // the record shows how it ended
		err = c.lead(ctx, term, id)
		return err
	}, leader.WithHooks(leader.Hooks{})) // which doesn't log
	c.resigned()
	c.withdraw()
	return err
}

// begin announces a campaign.
func (c *candidate) begin(key string, id uint64) {
	c.campaign = history.Event{
		Op: history.Acquire, Kind: history.Begin, Client: c.number, ID: id, Key: key, Mode: "exclusive",
		TTL: int64(c.Load.Lease), Call: c.clock.Now(),
	}
	c.add(c.campaign)
}

// ended notes how the campaign has ended.
func (c *candidate) ended(e history.Event) {
	e.Kind, e.Op, e.Return = history.Acquire, "", c.clock.Now()
	_, e.Pending = c.pending.Load(attempt{c.number, e.ID})
	c.campaign = history.Event{}
	c.add(e)
}

// withdraw notes the end of a campaign in which nobody was elected.
func (c *candidate) withdraw() {
	if e := c.campaign; e.ID != 0 {
		e.Outcome, e.Canceled = history.GaveUp, true
		c.ended(e)
	}
}

// resigned notes the end of the last term.
func (c *candidate) resigned() {
	if c.term.ID != 0 {
		c.released(c.term, c.lease.Release(context.Background())) // Run has released it: this is what came of it
		c.term = history.Event{}
	}
}

// lead is a term. Half of them end by themselves. When Run has lost one it
// campaigns again.
func (c *candidate) lead(campaign, term context.Context, id uint64) error {
	c.resigned()
	c.lease, _ = lock.FromContext(term)
	won := c.campaign
	won.Outcome, won.Owner, won.Fence = history.OK, c.lease.Owner(), c.lease.Fence()
	c.ended(won)
	c.planted.Got(c.lease)
	trusted, err := c.govern(campaign, c.planted.Term(term))
	c.term = history.Event{
		Op: history.Release, Kind: history.Begin, Client: c.number, ID: c.ids.Add(1), Key: won.Key, Mode: won.Mode,
		Owner: won.Owner, Fence: won.Fence, TTL: won.TTL, Trusted: trusted, Call: c.clock.Now(),
	}
	c.add(c.term)
	c.begin(won.Key, id)
	return err
}

// govern counts at the resource until the term ends.
func (c *candidate) govern(campaign, term context.Context) (trusted int64, err error) {
	until := c.clock.Now() + int64(c.between(c.Load.Lease/2, 4*c.Load.Lease))
	if c.chance(50) {
		until += int64(c.Load.Term)
	}
	r := resource.Request{Worker: c.Worker, Key: c.lease.Key(), Mode: "exclusive", Owner: c.lease.Owner(), Fence: c.lease.Fence()}
	for c.clock.Now() < until && term.Err() == nil && campaign.Err() == nil {
		trusted = c.alive(term, trusted)
		read, err := c.counter.Claim(r)
		if err != nil || !read.OK {
			return trusted, err // a newer leader was here
		}
		pause(term, c.between(time.Millisecond, 20*time.Millisecond))
		r.Value, r.Plain = read.Value+1, read.Plain+1
		if _, err := c.counter.Write(r); err != nil {
			return trusted, err
		}
		trusted = c.alive(term, trusted)
	}
	return trusted, nil
}
