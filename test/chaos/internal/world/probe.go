package world

import (
	"context"
	"sync"
	"time"

	"github.com/redlatch/redlatch/test/chaos/internal/history"
)

const (
	// probeEvery is how often a server is called.
	probeEvery = 20 * time.Millisecond
	// lateness is what its answer may be late without a note.
	lateness = 30 * time.Millisecond
)

// Probe notes when servers are late, or this process, through which all traffic
// goes: what waits for them then isn't to blame. It returns when ctx ends.
func (w *World) Probe(ctx context.Context, clock history.Clock, note func(history.Event)) {
	var probes sync.WaitGroup
	defer probes.Wait()
	for _, ping := range w.Pings() {
		probes.Go(func() { probe(ctx, clock, ping, note) })
	}
	for _, s := range w.Servers {
		if server, ok := s.(processes); ok {
			probes.Go(func() { queues(ctx, clock, server, note) })
		}
	}
}

// Pings call the servers, around the proxies.
func (w *World) Pings() (all []func(context.Context) error) {
	for _, rdb := range w.Plain {
		all = append(all, func(ctx context.Context) error { return rdb.Ping(ctx).Err() })
	}
	if w.Database != nil {
		all = append(all, w.Database.Ping)
	}
	return all
}

func probe(ctx context.Context, clock history.Clock, ping func(context.Context) error, note func(history.Event)) {
	timer := time.NewTimer(probeEvery)
	defer timer.Stop()
	for {
		due := clock.Now() + int64(probeEvery)
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		_ = ping(ctx) // one that is down is late
		if now := clock.Now(); now-due > int64(lateness) {
			note(history.Event{Kind: history.Late, Worker: history.Nobody, Call: due, Return: now})
		}
		timer.Reset(probeEvery)
	}
}
