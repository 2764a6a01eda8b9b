package lock_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

// oneByOne counts how many renewals of a store that never blocks run at once. The
// time that one takes is there only for others to begin meanwhile.
type oneByOne struct {
	keyless
	running, most, renewed atomic.Int64
}

func (s *oneByOne) Renew(ctx context.Context, claims []lock.Claim, report func(int, error)) {
	s.most.Store(max(s.most.Load(), s.running.Add(1)))
	time.Sleep(time.Millisecond)
	s.keyless.Renew(ctx, claims, report)
	s.renewed.Add(int64(len(claims)))
	s.running.Add(-1)
}

// Many rounds at once would only keep the locker's mutex from everybody else.
func TestAStoreThatNeverBlocksRenewsOneRoundAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(oneByOne)
		l := newLocker(t, store)
		for i := range 3500 {
			acquire(t, l, t.Context(), fmt.Sprint("k:", i))
		}
		for range 2 {
			store.renewed.Store(0)
			time.Sleep(11 * time.Second)
			synctest.Wait()
			if most, renewed := store.most.Load(), store.renewed.Load(); most != 1 || renewed < 3500 {
				t.Errorf("%d renewed, in up to %d rounds at once", renewed, most)
			}
		}
	})
}
