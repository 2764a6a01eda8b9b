package bug

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
)

// extendShortens sets the TTL with each renewal, also to less.
type extendShortens struct {
	lock.BlockingStore
	rdb redis.UniversalClient
}

var setTTL = redis.NewScript(`
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
  return 0
end
return redis.call('pexpire', KEYS[1], ARGV[2])`)

func (s *extendShortens) Renew(ctx context.Context, claims []lock.Claim, report func(int, error)) {
	for i, c := range claims {
		if !plain(c) {
			s.BlockingStore.Renew(ctx, claims[i:i+1], func(_ int, err error) { report(i, err) })
			continue
		}
		n, err := setTTL.Run(ctx, s.rdb, []string{c.Key}, c.Owner, c.TTL.Milliseconds()).Int64()
		if err == nil && n == 0 {
			err = lock.ErrNotHeld
		}
		report(i, err)
	}
}
