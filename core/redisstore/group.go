package redisstore

import (
	"context"
	"fmt"
	"slices"

	"github.com/redlatch/redlatch/core/lock"
)

var _ lock.GroupStore = (*Store)(nil)

// AcquireGroup implements [lock.GroupStore]. In a cluster all keys must be of
// one slot, by a hash tag: "{cart:7}:a" and "{cart:7}:b".
func (s *Store) AcquireGroup(ctx context.Context, claims []lock.Claim) ([]uint64, error) {
	if s.tokens {
		return nil, fmt.Errorf("%w: groups have no tokens of Redisson", lock.ErrUnsupported)
	}
	if s.setnx {
		return nil, fmt.Errorf("%w: redisstore.WithSETNX grants keys one by one", lock.ErrUnsupported)
	}
	c := call{script: groupAcquireScript}
	for _, claim := range claims {
		t, err := s.target(ctx, claim, 1)
		if err != nil {
			return nil, err
		}
		if claim.Mode != lock.Exclusive || claim.Holds != 1 {
			return nil, fmt.Errorf("%w: groups are of exclusive claims with one hold", lock.ErrUnsupported)
		}
		if s.cluster != nil && len(c.keys) > 0 && hashTag(t.name) != hashTag(c.keys[0]) {
			return nil, fmt.Errorf("%w: the keys of a group must share a hash tag in a cluster", lock.ErrUnsupported)
		}
		c.keys = append(c.keys, t.name)
		c.args = append(c.args, t.Owner, t.ttl)
	}
	c, run := s.acquiring(c, s.grant)
	n, err := run(ctx, c)
	if err != nil {
		return nil, err
	}
	if n <= 0 {
		return nil, busy(n)
	}
	fence, err := s.fence(n)
	return slices.Repeat([]uint64{fence}, len(claims)), err
}

// busy reads the reply of an acquire that was refused: -1, or -2 - ms.
func busy(n int64) *lock.BusyError { return &lock.BusyError{TTL: remaining(-2 - n)} }
