package load

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/redlatch/redlatch/test/bench/internal/meter"
	"github.com/redlatch/redlatch/test/bench/internal/page"
	"github.com/redlatch/redlatch/test/bench/internal/peer"
)

const (
	// patience is how long goroutines may take to end when they are stopped.
	patience = 5 * time.Second
	// stuckAfter is how long the call of a goroutine that nobody contends with
	// may take at least.
	stuckAfter = time.Second
	// afterFailure is the pause after a call that failed.
	afterFailure = time.Millisecond
)

// loop is Cycle and Try.
type loop struct {
	config    Config
	locker    peer.Locker
	page      *page.Page
	runners   []*runner
	measuring atomic.Bool
	started   meter.Usage
	cancel    context.CancelFunc
	running   sync.WaitGroup
}

// runner is one goroutine of a loop.
type runner struct {
	key   string
	outer peer.Reentrant // that it locks its key again in, or nil
	id    int64
	count atomic.Int64
	since atomic.Int64 // when the call began that has not ended, or 0
	waits *hdrhistogram.Histogram
	ended atomic.Bool
	faults
}

// faults counts calls that failed.
type faults struct {
	failures atomic.Int64
	failure  atomic.Pointer[string]
}

func (f *faults) fail(err error) {
	f.failures.Add(1)
	text := err.Error()
	f.failure.CompareAndSwap(nil, &text)
}

// addTo adds them to a result.
func (f *faults) addTo(result *Result) {
	result.Failures += f.failures.Load()
	if text := f.failure.Load(); text != nil {
		result.Failure = *text
	}
}

var errGranted = errors.New("load: a key that is held was granted")

func newLoop(config Config, locker peer.Locker, shared *page.Page) *loop {
	l := &loop{config: config, locker: locker, page: shared}
	for i := range config.Goroutines {
		key := HotKey
		if !config.Hot {
			key = fmt.Sprintf("bench:%d:%d", config.Process, i)
		}
		l.runners = append(l.runners, &runner{key: key, id: int64(config.Process)<<32 + int64(i) + 1, waits: newHistogram()})
	}
	return l
}

func (l *loop) warm(ctx context.Context) error {
	if l.config.HeldHere {
		if _, err := l.locker.Keep(ctx, HotKey); err != nil {
			return err
		}
	}
	if l.config.Nested {
		if err := l.nest(ctx); err != nil {
			return err
		}
	}
	ctx, l.cancel = context.WithCancel(ctx)
	step := l.cycle
	if l.config.Kind == Try {
		step = l.try
	}
	for _, r := range l.runners {
		l.running.Go(func() {
			defer r.ended.Store(true)
			for ctx.Err() == nil {
				if err := step(ctx, r); err != nil && ctx.Err() == nil {
					r.fail(err)
					pause(ctx, afterFailure)
				}
			}
		})
	}
	return nil
}

// nest locks what the goroutines lock in.
func (l *loop) nest(ctx context.Context) error {
	for _, r := range l.runners {
		held, err := l.locker.Keep(ctx, r.key)
		if err != nil {
			return err
		}
		if r.outer, _ = held.(peer.Reentrant); r.outer == nil {
			r.key += ":inner"
		}
	}
	return nil
}

func (l *loop) cycle(ctx context.Context, r *runner) error {
	if r.outer != nil {
		ctx = r.outer.Holder()
	}
	start := page.Now()
	r.since.Store(start)
	held, err := l.locker.Lock(ctx, r.key)
	if err != nil {
		return err
	}
	if l.config.Hot {
		l.page.Enter(r.id, start)
	}
	if l.measuring.Load() {
		r.count.Add(1)
		record(r.waits, page.Now()-start)
	}
	work(l.config.Section)
	if l.config.Hot {
		l.page.Leave()
	}
	if err := held.Unlock(context.Background()); err != nil {
		r.fail(fmt.Errorf("unlock: %w", err))
	}
	r.since.Store(0)
	return nil
}

// coarse is what a timer is not exact enough below.
const coarse = time.Millisecond

// work takes that long.
func work(d time.Duration) {
	switch {
	case d >= coarse:
		pause(context.Background(), d)
	case d > 0:
		for start := page.Now(); page.Now()-start < int64(d); {
			runtime.Gosched()
		}
	}
}

func (l *loop) try(ctx context.Context, r *runner) error {
	held, err := l.locker.TryLock(ctx, HotKey)
	if err == nil {
		return errors.Join(errGranted, held.Unlock(context.Background()))
	}
	if !errors.Is(err, peer.ErrBusy) {
		return err
	}
	if l.measuring.Load() {
		r.count.Add(1)
	}
	return nil
}

func (l *loop) measure(context.Context) error {
	l.started = meter.ReadUsage()
	l.measuring.Store(true)
	return nil
}

func (l *loop) stop(context.Context) (*Result, error) {
	l.measuring.Store(false)
	used := meter.ReadUsage()
	now := page.Now()
	waits := newHistogram()
	result := &Result{CPU: used.CPU - l.started.CPU, Allocs: used.Allocs - l.started.Allocs}
	for _, r := range l.runners {
		since := r.since.Load()
		if since == 0 {
			continue
		}
		// A wait that hasn't ended counts with what it has lasted so far.
		// Without that, waiters that are never served wouldn't be seen.
		if l.config.Hot {
			record(waits, now-since)
		} else if now-since > int64(max(stuckAfter, l.config.Window/2)) {
			result.Stuck++
		}
	}
	l.cancel()
	finish(&l.running)
	for _, r := range l.runners {
		result.Counts = append(result.Counts, r.count.Load())
		result.Ops += r.count.Load()
		r.addTo(result)
		if r.ended.Load() {
			waits.Merge(r.waits)
		}
	}
	result.Waits = waits.Export()
	return result, nil
}

// finish waits for goroutines, but not for goroutines that never end: the process
// does.
func finish(running *sync.WaitGroup) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		running.Wait()
	}()
	select {
	case <-done:
	case <-time.After(patience):
	}
}
