package redisstore

import (
	"fmt"
	"strings"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

// protocol is how one mode is kept in Redis.
type protocol interface {
	// check refuses claims that the mode cannot keep.
	check(c lock.Claim) error
	acquire(t target) call
	release(t target) call
	// renew makes a call that can be joined with others of its kind.
	renew(t target) call
	// channels are where the claim's wake-ups come from.
	channels(t target) []string
}

var protocols = map[lock.Mode]protocol{
	lock.Exclusive: exclusive{},
	lock.Fair:      fair{},
	lock.Read:      reader{},
	lock.Write:     writer{},
	lock.Semaphore: semaphore{},
}

// target is a claim in the terms of Redis.
type target struct {
	lock.Claim
	protocol
	name    string
	ttl     int64 // ms
	keep    int64 // ms for which a release keeps the lock; 0: it frees it
	publish any   // how to publish: publish, spublish or both
	tokens  bool  // fences are Redisson's
}

// target checks a claim.
func (s *Store) target(c lock.Claim) (t target, _ error) {
	p := protocols[c.Mode]
	if s.setnx && c.Mode == lock.Exclusive {
		p = setnx{}
	}
	switch {
	case p == nil:
		return t, fmt.Errorf("%w: redisstore has no mode %s", lock.ErrUnsupported, c.Mode)
	case c.Owner == "", c.Owner == "mode", strings.HasSuffix(c.Owner, writeMark), // fields of read/write locks
		strings.HasSuffix(c.Owner, placeMark), strings.HasSuffix(c.Owner, keptMark):
		return t, fmt.Errorf("%w: owner %q", lock.ErrInvalid, c.Owner)
	case c.TTL <= 0, c.TTL > lock.MaxDuration: // would delete the key, or keep it for ever
		return t, fmt.Errorf("%w: TTL %v, the limit is %v", lock.ErrInvalid, c.TTL, lock.MaxDuration)
	}
	if err := s.refused(c.Mode); err != nil {
		return t, err
	}
	if err := p.check(c); err != nil {
		return t, err
	}
	name, err := s.nameOf(c.Key)
	if err == nil && c.Mode != lock.Exclusive {
		err = checkShared(name)
	}
	if err != nil {
		return t, err
	}
	t = target{Claim: c, protocol: p, name: name, ttl: milliseconds(c.TTL), publish: s.publishing(), tokens: s.tokens}
	if !c.Keep.IsZero() {
		t.keep = keptFor(c.Keep)
	}
	return t, nil
}

// keptMark is at the end of what keeps a lock for the rest of a minimum hold: the
// owner that released it has it no longer, and nobody else has it.
const keptMark = ":kept"

// keptFor is for how many ms a release that is sent now keeps the lock.
func keptFor(until time.Time) int64 { return max(0, milliseconds(time.Until(until))) }

// keeping completes the arguments of a release by what keeps the lock, if anything
// does: the owner with that mark.
func (t target) keeping(args []any, owner, mark string) []any {
	if t.keep == 0 {
		return args
	}
	return append(args, owner+mark, t.keep)
}

// milliseconds rounds up: the key must not end before its owner's trust in it.
func milliseconds(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

// releaseHash is a release of a hash that touches nothing else.
func (t target) releaseHash(channel string) call {
	return releaseScript.call([]string{t.name}, t.keeping([]any{t.Owner, prefixed(channel, t.name), t.publish}, t.Owner, keptMark))
}
