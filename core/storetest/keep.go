package storetest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

// Tests of releases under a minimum hold, in every mode.
var keepTests = []test{
	{"a hold that its release keeps is nobody's", keepsForNobody},
	{"a hold that its release keeps ends in time", keptHoldEnds},
	{"a release that comes too late to keep anything frees", keepsNothingLate},
	{"engine: a waiter gets a kept key at the end of its minimum hold", engineKeeps},
}

// slack is what the clocks of stores are rounded by.
const slack = 5 * time.Millisecond

// keeping is the claim that releases c, and keeps its hold for d.
func keeping(c lock.Claim, d time.Duration) lock.Claim {
	c.Keep = time.Now().Add(d)
	return c
}

// rival is a claim that no other hold of the key admits.
func (b *bench) rival(key string) lock.Claim {
	if b.mode == lock.Read {
		return b.in(lock.Write, key)(minute)
	}
	return b.owner(key)(minute)
}

// kept fails unless the key has one hold, which was released and lasts for d at most.
func (b *bench) kept(key string, d time.Duration) {
	b.Helper()
	state := b.state(key)
	if !state.Held || len(state.Owners) != 1 || !state.Owners[0].Kept || state.TTL <= 0 || state.TTL > d+slack {
		b.Fatalf("%+v; want one hold that is kept for %v at most", state, d)
	}
}

func keepsForNobody(_ *testing.T, b *bench) {
	a := b.owner("k")
	b.acquire(a(2 * minute))
	if state := b.state("k"); state.Owners[0].Kept {
		b.Errorf("before the release: %+v", state)
	}
	b.release(keeping(a(minute), minute), nil)
	b.kept("k", minute)
	b.eventually("busy for the minimum", func() bool { // nodes of a quorum may hear of the release later
		ttl := b.busy(b.rival("k"))
		return ttl > 0 && ttl <= minute+slack
	})
	// Whatever of the owner arrives late finds nothing.
	b.renew(a(time.Hour), lock.ErrNotHeld)
	b.release(a(minute), lock.ErrNotHeld)
	b.release(keeping(a(minute), time.Hour), lock.ErrNotHeld)
	if b.mode != lock.Read { // for a reader there is room
		b.busy(a(time.Hour))
	}
	b.kept("k", minute)
	b.force("k")
	b.acquire(b.rival("k"))
	if state := b.state("k"); state.Owners[0].Kept {
		b.Errorf("held by the next: %+v", state)
	}
}

func keptHoldEnds(_ *testing.T, b *bench) {
	const d = 200 * time.Millisecond
	a := b.owner("k")
	b.acquire(a(minute))
	c := keeping(a(minute), d)
	b.release(c, nil)
	b.ends("k")
	if early := time.Until(c.Keep); early > slack {
		b.Errorf("free %v too early", early)
	}
	b.renew(a(minute), lock.ErrNotHeld)
	b.release(a(minute), lock.ErrNotHeld)
	b.acquire(b.rival("k"))
}

func keepsNothingLate(_ *testing.T, b *bench) {
	a := b.owner("k")
	b.acquire(a(minute))
	b.release(keeping(a(minute), -time.Millisecond), nil)
	b.isFree("k")
	b.acquire(b.rival("k"))
}

// The waiters know of the first TTL only: without a word they would sleep for longer
// than the test may take.
func engineKeeps(_ *testing.T, b *bench) {
	const d = 250 * time.Millisecond
	lockers := b.slow(2)
	began := time.Now()
	lease := b.lease(lockers[0], "k", lock.WithMinHold(d))
	var waiting []lock.Option
	if b.mode == lock.Read {
		waiting = append(waiting, writing)
	}
	var done sync.WaitGroup
	for _, l := range lockers {
		done.Go(func() {
			b.do(l, func(context.Context) {
				if early := d - time.Since(began); early > slack {
					b.Errorf("granted %v before the end of the minimum hold", early)
				}
			}, waiting...)
		})
	}
	b.free(lease)
	if cause := context.Cause(lease.Context()); !errors.Is(cause, lock.ErrReleased) {
		b.Errorf("after the release the lease's context ended with %v, want ErrReleased", cause)
	}
	done.Wait()
}

// fairKeeps: the first of the queue hears of the release, and does not have the key.
func fairKeeps(_ *testing.T, b *bench) {
	holder, places := b.line("k", 2)
	heard := b.listen(places[0])
	heard("of the release", func() { b.release(keeping(holder, minute), nil) })
	b.busyFor(places[0], minute+slack)
	b.kept("k", minute)
	b.waiters("k", places...)
	b.force("k")
	b.notYet(places[1])
	b.acquire(places[0])
}

// keptReaderAmongOthers: it ends by itself, however long others read.
func keptReaderAmongOthers(_ *testing.T, b *bench) {
	const d = 200 * time.Millisecond
	short, long, stays, w := b.reader(), b.reader(), b.reader(), b.writer()
	b.acquire(short)
	b.acquire(stays)
	b.release(keeping(short, d), nil)
	b.renew(stays, nil)
	b.outlive(d)
	b.busy(w)
	b.release(stays, nil)
	b.acquire(w)
	b.release(w, nil)
	b.acquire(long)
	b.acquire(stays)
	b.release(keeping(long, minute/2), nil)
	b.release(stays, nil)
	b.busyFor(w, minute/2+slack)
}

// keptPermits: each permit has its own end.
func keptPermits(_ *testing.T, b *bench) {
	of := func(n int) lock.Claim {
		c := b.in(lock.Semaphore, "k")(minute)
		c.Permits, c.Size = n, 3
		return c
	}
	two, one := of(2), of(1)
	b.acquire(two)
	b.acquire(one)
	b.release(keeping(two, brief), nil)
	next := of(1)
	b.busyFor(next, brief+slack)
	b.eventually("the end of the minimum hold", func() bool {
		_, err := b.BlockingStore.Acquire(b.Context(), next)
		return err == nil
	})
	b.release(one, nil)
	b.acquire(of(2))
	b.busy(of(1))
}
