package world

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/redlatch/redlatch/test/chaos/internal/history"
	"github.com/redlatch/redlatch/test/chaos/internal/worker"
)

// listEvery is how often the channels of a server are listed.
const listEvery = time.Second

// Subscribers notes which keys have subscribers, until ctx ends: a subscription that
// nobody ends goes unnoticed otherwise, as Close ends it.
func (w *World) Subscribers(ctx context.Context, clock history.Clock, note func(history.Event)) {
	var servers sync.WaitGroup
	defer servers.Wait()
	for server := range w.Plain {
		servers.Go(func() {
			ticker := time.NewTicker(listEvery)
			defer ticker.Stop()
			for {
				select {
				case <-ticker.C:
				case <-ctx.Done():
					return
				}
				from := clock.Now()
				channels, err := w.channels(ctx, server)
				if err != nil {
					continue // it is down
				}
				to := clock.Now()
				for key := range keysOf(channels) {
					note(history.Event{Kind: history.Heard, Worker: history.Nobody, Key: key, Call: from, Return: to})
				}
			}
		})
	}
}

// channels lists the channels of locks that somebody listens to at a server.
func (w *World) channels(ctx context.Context, server int) ([]string, error) {
	rdb := w.Plain[server]
	channels, err := rdb.PubSubChannels(ctx, "redisson_*").Result()
	if err != nil || w.Topology != worker.Cluster {
		return channels, err
	}
	sharded, err := rdb.PubSubShardChannels(ctx, "redisson_*").Result()
	return append(channels, sharded...), err
}

// keysOf are the keys in the names of channels.
func keysOf(channels []string) map[string]bool {
	keys := make(map[string]bool)
	for _, channel := range channels {
		_, rest, _ := strings.Cut(channel, "{")
		if key, _, ok := strings.Cut(rest, "}"); ok {
			keys[key] = true
		}
	}
	return keys
}
