package lock_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
)

// distant is a store that is so far away.
type distant struct {
	lock.Store

	hop time.Duration
}

func (d distant) Traits() lock.Traits { return lock.Traits{Spaced: true} }

func (d distant) Acquire(ctx context.Context, c lock.Claim, by time.Time, answer lock.Answer) {
	d.call(ctx, c, by, answer, d.Store.Acquire)
}

func (d distant) Release(ctx context.Context, c lock.Claim, by time.Time, answer lock.Answer) {
	d.call(ctx, c, by, answer, d.Store.Release)
}

func (d distant) call(
	ctx context.Context, c lock.Claim, by time.Time, answer lock.Answer,
	start func(context.Context, lock.Claim, time.Time, lock.Answer),
) {
	go func() {
		time.Sleep(d.hop)
		start(ctx, c, by, lock.AnswerFunc(func(n uint64, err error) {
			time.AfterFunc(d.hop, func() { answer.Answered(n, err) })
		}))
	}()
}

func (d distant) Watch(ctx context.Context, c lock.Claim, wake func()) (func(), error) {
	time.Sleep(d.hop)
	var over atomic.Bool
	stop, err := d.Store.Watch(ctx, c, func() {
		time.AfterFunc(d.hop, func() {
			if !over.Load() {
				wake()
			}
		})
	})
	time.Sleep(d.hop)
	return func() { over.Store(true); stop() }, err
}

// A locker next to the store and one that is 5 ms away want the same key. Without hand-off
// the latter gets some 20 turns a second.
func TestALockerThatIsFartherAwayGetsItsTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		var all sync.WaitGroup
		work := func(l *lock.Locker) (turns *atomic.Int32) {
			turns = new(atomic.Int32)
			for range 8 {
				all.Go(func() {
					for l.Do(ctx, "k", func(context.Context) error { time.Sleep(2 * time.Millisecond); return nil }) == nil {
						turns.Add(1)
					}
				})
			}
			return turns
		}
		near := work(newLocker(t, distant{store, 10 * time.Microsecond}))
		far := work(newLocker(t, distant{store, 2500 * time.Microsecond}))
		all.Wait()
		if far.Load() < 20 || near.Load() < 100 {
			t.Errorf("%d turns near the store, %d far from it", near.Load(), far.Load())
		}
	})
}

// A locker that is alone lets nobody call first.
func TestALockerThatIsAloneNeverPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocker(t, memstore.New(), lock.WithHandoff(2, time.Hour))
		lease := acquire(t, l, t.Context(), "k")
		began := time.Now()
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				if err := l.Do(t.Context(), "k", func(context.Context) error { return nil }); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		release(t, lease)
		all.Wait()
		if took := time.Since(began); took > 0 {
			t.Errorf("20 turns took %v longer than their work", took)
		}
	})
}
