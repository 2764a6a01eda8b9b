package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

var _ lock.TransferStore = (*Store)(nil)

// TransferTTL implements [lock.TransferStore]. A store that polls would not
// hear of a transfer, and one [WithReplicas] must not rely on a grant that no
// replica has acknowledged.
func (s *Store) TransferTTL() time.Duration {
	if s.wakeups == nil || s.replicas != nil {
		return 0
	}
	return grace
}

// WatchTransfer implements [lock.TransferStore] with Redisson's channels. A
// release by Redisson, or by anybody on the channel of plain locks, is a mere
// wake-up.
func (s *Store) WatchTransfer(ctx context.Context, c lock.Claim, wake func(fence uint64)) (stop func(), err error) {
	c.TTL, c.Holds = max(c.TTL, 1), max(c.Holds, 0) // of no interest here
	c.Transfer = true
	t, err := s.target(ctx, c, 0)
	if err != nil {
		return nil, err
	}
	own := fair{}.ownChannel(t)
	return s.wakeups.watch(ctx, t.channels(t), func(channel, message string) {
		if channel != own {
			message = ""
		}
		wake(fenceOf(message))
	})
}

// maxFence is what doubles, and so scripts, count exactly.
const maxFence = 1 << 53

// fenceOf reads the message of a transfer; 0 means that it is something else.
func fenceOf(message string) uint64 {
	fence, err := strconv.ParseUint(message, 10, 64)
	if err != nil || fence > maxFence || strconv.FormatUint(fence, 10) != message {
		return 0
	}
	return fence
}

// grantOrPlace runs an acquire that answers with a number, and beside it, if
// it is busy, with a clock that fences of later grants are larger than.
func (s *Store) grantOrPlace(ctx context.Context, c call) (n int64, clock uint64, err error) {
	cmd, err := s.run(ctx, c)
	if err != nil {
		return 0, 0, err
	}
	pair, isPair := cmd.Val().([]any)
	if !isPair {
		n, err = cmd.Int64()
		return n, 0, s.failure(err)
	}
	if len(pair) == 2 {
		busy, isBusy := pair[0].(int64)
		at, isTime := pair[1].(int64)
		if isBusy && isTime && busy < 0 && at > 0 {
			return busy, uint64(at), nil
		}
	}
	return 0, 0, s.failure(fmt.Errorf("%w: %v", errBadReply, pair))
}
