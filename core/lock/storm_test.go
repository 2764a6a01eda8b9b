package lock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

// Callers acquire, re-enter, extend, release and close side by side, on a network that is
// slow or loses answers. No key expires and nobody takes one by force. So nobody hears of
// a loss, and nothing is left.
func TestAStormMakesNoLoss(t *testing.T) {
	storms := uint64(100)
	if testing.Short() {
		storms = 20
	}
	for seed := range storms {
		if !t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { newStorm(t, seed).run() })
		}) {
			return
		}
	}
}

// storm is one run, made by its seed as far as goroutines allow.
type storm struct {
	*testing.T
	seed    uint64
	store   *faulty
	lockers []*lock.Locker
	held    atomic.Int32 // holds, by the hooks
	early   bool         // a locker is closed in between
	inside  [len(stormKeys)]atomic.Int32

	mu   sync.Mutex
	dice *rand.Rand
}

// Kinds of networks; the others are prompt.
const (
	slowNetwork = 1 + iota
	lossyNetwork
)

var stormKeys = [...]string{"a", "b"}

// families are the modes that are used side by side, and whether each keeps all others
// out.
var families = [][]struct {
	mode  lock.Option
	alone bool
}{
	{{lock.WithMode(lock.Exclusive), true}},
	{{lock.WithMode(lock.Exclusive), true}, {lock.WithMode(lock.Fair), true}},
	{{lock.WithMode(lock.Write), true}, {lock.WithMode(lock.Read), false}},
	{{lock.WithPermits(1, 2), false}},
}

func newStorm(t *testing.T, seed uint64) *storm {
	t.Helper()
	s := &storm{T: t, seed: seed, store: newFaulty(), dice: rand.New(rand.NewPCG(seed, 0))}
	s.early = s.draw(2) == 0
	network := s.draw(3)
	s.store.set(func(string, lock.Claim) error { s.hop(network >= slowNetwork); return nil }, func(op string, _ lock.Claim) error {
		s.hop(network >= slowNetwork)
		if network == lossyNetwork && op != "renew" && s.draw(8) == 0 {
			return errLineCut
		}
		return nil
	})
	lost := lock.WithHooks(lock.Hooks{Lost: func(e lock.LossEvent) { t.Errorf("lost %s: %v", e.Mode, e.Cause) }})
	for range 2 {
		s.lockers = append(s.lockers, lock.New(s.store, lock.WithCallTimeout(time.Second), lock.WithHandoff(63, time.Hour), gauge(&s.held), lost))
	}
	return s
}

func (s *storm) draw(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dice.IntN(n)
}

// hop is a call's way to the store or back. Some calls on a slow one are answered after
// their callers gave up.
func (s *storm) hop(slow bool) {
	limit := time.Millisecond
	if slow && s.draw(10) == 0 {
		limit = 3 * time.Second
	}
	time.Sleep(time.Duration(s.draw(int(limit))))
}

// noLoss reports an error that says that a key was lost.
func (s *storm) noLoss(what string, err error) {
	if errors.Is(err, lock.ErrLost) || errors.Is(err, lock.ErrNotHeld) {
		s.Errorf("%s: %v", what, err)
	}
}

func (s *storm) run() {
	var members sync.WaitGroup
	for i := range 10 {
		dice := rand.New(rand.NewPCG(s.seed, uint64(1+i)))
		members.Go(func() {
			for range 12 {
				s.visit(i, dice)
				time.Sleep(time.Duration(dice.IntN(20)) * time.Millisecond)
			}
		})
	}
	if s.early {
		time.Sleep(time.Duration(s.draw(3000)) * time.Millisecond)
		_ = s.lockers[0].Close(context.Background())
	}
	members.Wait()
	for _, l := range s.lockers {
		_ = l.Close(context.Background()) // may give up what a slow network left undone
		if n := l.Left(); n != 0 {
			s.Errorf("%d things are left of a locker", n)
		}
	}
	if n := s.held.Load(); n != 0 {
		s.Errorf("by the hooks, %d holds have not ended", n)
	}
	time.Sleep(time.Minute)
	for _, key := range stormKeys {
		if n := holds(s.T, s.store.Store, key); n != 0 {
			s.Errorf("%d holds are left of %q", n, key)
		}
	}
}

// visit is one acquisition by member i, and what it does with the lease.
func (s *storm) visit(i int, dice *rand.Rand) {
	l, k := s.lockers[i%2], dice.IntN(len(stormKeys))
	family := families[s.seed%uint64(len(families))]
	kind := family[dice.IntN(len(family))]
	opts, alone := []lock.Option{kind.mode}, kind.alone && !s.early
	for _, other := range []lock.Option{
		lock.WithWait(time.Duration(dice.IntN(500)) * time.Millisecond),
		lock.WithWatchdog(2 * time.Minute),
		lock.WithMinHold(50 * time.Millisecond),
	} {
		if dice.IntN(6) == 0 {
			opts = append(opts, other)
		}
	}
	if dice.IntN(6) == 0 && kind.alone {
		opts, alone = append(opts, lock.WithOwner(fmt.Sprint("name ", i/4))), false
	}
	acquire := l.Acquire
	if dice.IntN(3) == 0 {
		acquire = l.TryAcquire
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(1+dice.IntN(4000))*time.Millisecond)
	defer cancel()
	lease, err := acquire(ctx, stormKeys[k], opts...)
	if err != nil {
		s.noLoss("acquire", err)
		return
	}
	if alone && s.inside[k].Add(1) > 1 {
		s.Error("two have the key")
	}
	var work sync.WaitGroup
	defer work.Wait()
	for range dice.IntN(3) {
		pause := time.Duration(dice.IntN(30)) * time.Millisecond
		switch dice.IntN(3) {
		case 0:
			work.Go(func() { s.noLoss("extend", lease.Extend(ctx, time.Minute)) })
		case 1:
			work.Go(func() { s.reenter(lease, kind.mode, pause) })
		}
	}
	time.Sleep(time.Duration(dice.IntN(30)) * time.Millisecond)
	if dice.IntN(2) == 0 {
		work.Wait()
	}
	if alone {
		s.inside[k].Add(-1)
	}
	s.noLoss("release", lease.Release(ctx))
}

func (s *storm) reenter(outer *lock.Lease, mode lock.Option, pause time.Duration) {
	inner, err := outer.Locker().Acquire(outer.Context(), outer.Key(), mode)
	if err != nil {
		s.noLoss("re-enter", err)
		return
	}
	time.Sleep(pause)
	s.noLoss("release of a re-entry", inner.Release(context.Background()))
}
