package integration_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
	"github.com/redlatch/redlatch/test/internal/redistest"
)

// points are the places at which an acquisition hands over to somebody else, in
// the order in which it gets there. At the n-th its context is cancelled.
type points struct {
	n      int
	cancel context.CancelFunc

	mu     sync.Mutex
	passed int
	at     string    // the n-th
	when   time.Time // it was passed
}

func (p *points) pass(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.passed == p.n {
		p.at, p.when = name, time.Now()
		p.cancel()
	}
	p.passed++
}

// passing is a store whose calls are points. It is as deaf as the network: what
// was begun runs, although the caller has gone.
type passing struct {
	lock.BlockingStore
	points *points
}

func (s *passing) Acquire(ctx context.Context, c lock.Claim) (uint64, error) {
	s.points.pass("the claim is sent")
	fence, err := s.BlockingStore.Acquire(context.WithoutCancel(ctx), c)
	s.points.pass("the claim is answered")
	return fence, err
}

func (s *passing) Watch(ctx context.Context, c lock.Claim, wake func()) (func(), error) {
	s.points.pass("it subscribes")
	stop, err := s.BlockingStore.Watch(context.WithoutCancel(ctx), c, func() {
		s.points.pass("it is woken")
		wake()
	})
	s.points.pass("it has subscribed")
	return stop, err
}

// An acquisition that waits is cancelled at every point of its way, one run for
// each, in every mode. It returns, and the lock can be had by others, although
// no hold and no place in a queue would expire in the time of the test.
func TestCancelledAtEveryPointAnAcquisitionLeavesNothing(t *testing.T) {
	var returned, freed []time.Duration
	for name, mode := range inEveryMode {
		t.Run(name, func(t *testing.T) {
			server := redistest.Standalone(t)
			against := mode
			if name == "read" { // readers do not wait for readers
				against = lock.WithMode(lock.Write)
			}
			for range recoveryRuns(t) {
				reached := 0
				for n := 0; ; n++ {
					began := time.Now()
					at, back, free := cancelledAt(t, server, n, mode, against)
					if at == "" {
						break // it ended before
					}
					reached++
					returned, freed = append(returned, back), append(freed, free)
					if most := slack(began); back > most || free > 2*most {
						t.Errorf("cancelled when %s (point %d): returned after %v, free after %v", at, n, back, free)
					}
				}
				if reached < 6 {
					t.Errorf("only %d points were reached", reached)
				}
			}
		})
	}
	distribution(t, "returned after the cancel", returned)
	distribution(t, "free after the cancel", freed)
}

// cancelledAt cancels at the n-th point; at is empty if there are less.
func cancelledAt(t *testing.T, server *redistest.Server, n int, mode, against lock.Option) (at string, back, free time.Duration) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	p := &points{n: n, cancel: cancel}
	asleep := make(chan struct{})
	var once sync.Once
	hooks := lock.WithHooks(lock.Hooks{Waiting: func(context.Context, lock.Event) func() {
		p.pass("it begins to wait")
		once.Do(func() { close(asleep) })
		return func() { p.pass("it ends to wait") }
	}})
	forever := lock.WithWatchdog(4 * patience)
	own, rdb := server.Client(t), server.Admin(t)
	l := lock.New(lock.Async(&passing{lock.Blocking(redisstore.New(own)), p}), mode, hooks, forever)
	other := newLocker(t, server.Client(t), against, forever)

	held := acquire(t, other, "k")
	type answer struct {
		lease *lock.Lease
		err   error
		when  time.Time
	}
	answered := make(chan answer, 1)
	go func() {
		lease, err := l.Acquire(ctx, "k")
		answered <- answer{lease, err, time.Now()}
	}()
	var a answer
	select {
	case <-asleep:
		release(t, held)
		a = <-answered
	case a = <-answered:
		release(t, held)
	}
	since := time.Now()
	if a.err == nil { // the cancel came too late, or never
		release(t, a.lease)
	} else if !errors.Is(a.err, context.Canceled) {
		t.Errorf("it ended with %v, want Canceled", a.err)
	}
	probe := newLocker(t, server.Client(t), against, lock.WithPoll(5*time.Millisecond))
	release(t, acquire(t, probe, "k"))
	free = time.Since(since)
	closing, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	if err := l.Close(closing); err != nil { // nothing of it passes another point
		t.Errorf("Close: %v", err)
	}
	_ = own.Close()
	nobodyListens(t, rdb)
	rdb.Del(t.Context(), allPermits(t, rdb)...)
	eventuallyFree(t, rdb)
	return p.at, max(0, a.when.Sub(p.when)), free
}

// allPermits is the semaphore that has them all: a number that stays, as
// Redisson's does. DEL wants at least one key.
func allPermits(t *testing.T, rdb *redis.Client) []string {
	t.Helper()
	if got := rdb.Type(t.Context(), "k").Val(); got == "string" && rdb.Get(t.Context(), "k").Val() == "3" {
		return []string{"k"}
	}
	return []string{"none"}
}
