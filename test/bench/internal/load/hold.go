package load

import (
	"context"
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

// Values of the result of Hold and Keys.
const (
	Goroutines = "goroutines added"
	Bytes      = "bytes added"
	IdleP99    = "idle p99 µs"
	BusyP99    = "busy p99 µs"
	Rate       = "rate"
)

const (
	// crowd is how many goroutines acquire the locks that are then held.
	crowd = 64
	// foregroundPause is the time between two foreground calls.
	foregroundPause = time.Millisecond
)

// hold keeps many locks, renewed, and watches the latency of other work.
type hold struct {
	config Config
	locker peer.Locker
	keys   []string
	held   []peer.Held
	values map[string]float64

	started meter.Usage
	busy    *hdrhistogram.Histogram
	ops     atomic.Int64
	cancel  context.CancelFunc
	running sync.WaitGroup
	faults
}

func newHold(config Config, locker peer.Locker) *hold {
	return &hold{
		config: config, locker: locker, keys: names("held", config.Count), held: make([]peer.Held, config.Count),
		values: make(map[string]float64),
	}
}

func names(kind string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("bench:%s:%d", kind, i)
	}
	return all
}

func (h *hold) warm(ctx context.Context) error {
	// As many connections as will be used are open before anything is measured.
	if err := once(ctx, h.locker, names("warm", 20*crowd), crowd); err != nil {
		return err
	}
	idle, cancel := context.WithTimeout(ctx, h.config.Window)
	defer cancel()
	h.values[IdleP99] = float64(h.foreground(idle).ValueAtQuantile(99))

	goroutines, live := runtime.NumGoroutine(), meter.Live()
	err := parallel(len(h.keys), crowd, func(i int) (err error) {
		h.held[i], err = h.locker.Keep(ctx, h.keys[i])
		return err
	})
	if err != nil {
		return err
	}
	h.values[Bytes] = float64(meter.Live()) - float64(live)
	h.values[Goroutines] = float64(max(0, runtime.NumGoroutine()-goroutines)) // some of the warm-up may have ended
	return nil
}

// foreground locks and unlocks another key now and then until ctx ends.
func (h *hold) foreground(ctx context.Context) *hdrhistogram.Histogram {
	waits := newHistogram()
	for ctx.Err() == nil {
		start := page.Now()
		held, err := h.locker.Lock(context.WithoutCancel(ctx), "bench:foreground")
		if err == nil {
			err = held.Unlock(context.WithoutCancel(ctx))
		}
		if err != nil {
			h.fail(err)
		}
		record(waits, page.Now()-start)
		h.ops.Add(1)
		pause(ctx, foregroundPause)
	}
	return waits
}

func (h *hold) measure(ctx context.Context) error {
	ctx, h.cancel = context.WithCancel(ctx)
	h.ops.Store(0)
	h.started = meter.ReadUsage()
	h.running.Go(func() { h.busy = h.foreground(ctx) })
	return nil
}

func (h *hold) stop(context.Context) (*Result, error) {
	used := meter.ReadUsage()
	h.cancel()
	h.running.Wait()
	h.values[BusyP99] = float64(h.busy.ValueAtQuantile(99))
	result := &Result{
		Ops: h.ops.Load(), Waits: h.busy.Export(), Values: h.values,
		CPU: used.CPU - h.started.CPU, Allocs: used.Allocs - h.started.Allocs,
	}
	h.addTo(result)
	runtime.KeepAlive(h.held)
	return result, nil
}

// once locks and unlocks each key one time.
func once(ctx context.Context, locker peer.Locker, keys []string, goroutines int) error {
	return parallel(len(keys), goroutines, func(i int) error {
		held, err := locker.Lock(ctx, keys[i])
		if err != nil {
			return err
		}
		return held.Unlock(ctx)
	})
}

// parallel calls do for 0 to n-1 on so many goroutines, and returns one of the
// errors.
func parallel(n, goroutines int, do func(i int) error) error {
	var next atomic.Int64
	var failure atomic.Pointer[error]
	var all sync.WaitGroup
	for range goroutines {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if err := do(i); err != nil {
					failure.Store(&err)
					return
				}
			}
		})
	}
	all.Wait()
	if err := failure.Load(); err != nil {
		return *err
	}
	return nil
}
