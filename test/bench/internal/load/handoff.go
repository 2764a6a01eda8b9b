package load

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/redlatch/redlatch/test/bench/internal/meter"
	"github.com/redlatch/redlatch/test/bench/internal/page"
	"github.com/redlatch/redlatch/test/bench/internal/peer"
)

// handOff is one side of two processes that give a lock to each other. Each
// keeps it long enough for the other to wait, and comes back only when the
// other has it.
type handOff struct {
	config    Config
	locker    peer.Locker
	page      *page.Page
	id        int64
	measuring atomic.Bool
	started   meter.Usage
	waits     *hdrhistogram.Histogram
	count     int64
	cancel    context.CancelFunc
	done      chan struct{}
	faults
}

const (
	handOffSection = 5 * time.Millisecond
	handOffLook    = 200 * time.Microsecond
)

func newHandOff(config Config, locker peer.Locker, shared *page.Page) *handOff {
	return &handOff{
		config: config, locker: locker, page: shared, id: int64(config.Process) + 1,
		waits: newHistogram(), done: make(chan struct{}),
	}
}

func (h *handOff) warm(ctx context.Context) error {
	ctx, h.cancel = context.WithCancel(ctx)
	go func() {
		defer close(h.done)
		for ctx.Err() == nil {
			if err := h.turn(ctx); err != nil && ctx.Err() == nil {
				h.fail(err)
				pause(ctx, afterFailure)
			}
		}
	}()
	return nil
}

func (h *handOff) turn(ctx context.Context) error {
	start := page.Now()
	held, err := h.locker.Lock(ctx, HotKey)
	if err != nil {
		return err
	}
	now := page.Now()
	owner := h.page.Owner()
	h.page.Enter(h.id, start)
	if owner != 0 && owner != h.id && h.measuring.Load() {
		h.count++
		record(h.waits, now-h.page.Released.Load())
	}
	pause(context.Background(), handOffSection)
	h.page.Released.Store(page.Now())
	h.page.Leave()
	if err := held.Unlock(context.Background()); err != nil {
		return fmt.Errorf("unlock: %w", err)
	}
	for h.page.Owner() == h.id && ctx.Err() == nil {
		pause(ctx, handOffLook)
	}
	return nil
}

func (h *handOff) measure(context.Context) error {
	h.started = meter.ReadUsage()
	h.measuring.Store(true)
	return nil
}

func (h *handOff) stop(context.Context) (*Result, error) {
	h.measuring.Store(false)
	used := meter.ReadUsage()
	h.cancel()
	select {
	case <-h.done:
	case <-time.After(patience):
		return nil, fmt.Errorf("load: a call does not end although its context has")
	}
	result := &Result{
		Ops: h.count, Counts: []int64{h.count}, Waits: h.waits.Export(),
		CPU: used.CPU - h.started.CPU, Allocs: used.Allocs - h.started.Allocs,
	}
	h.addTo(result)
	return result, nil
}
