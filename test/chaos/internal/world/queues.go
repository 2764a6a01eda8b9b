package world

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/redlatch/redlatch/test/chaos/internal/history"
)

// processes is a server of which each connection has a process or a thread. One of them can
// wait for a processor while the others answer.
type processes interface{ Pids() []int }

// queued is how long one thread may wait without a note: a third of the time for a call.
const queued = 100 * time.Millisecond

// queues notes when a thread of the server has waited for a processor, as Linux counts it.
// It returns when ctx ends.
func queues(ctx context.Context, clock history.Clock, server processes, note func(history.Event)) {
	timer := time.NewTimer(probeEvery)
	defer timer.Stop()
	waited := make(map[string]time.Duration)
	for {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		seen := make(map[string]time.Duration, len(waited))
		for _, pid := range server.Pids() {
			threads, _ := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "task", "*", "schedstat"))
			for _, thread := range threads {
				total, ok := waitedFor(thread)
				if !ok {
					continue // it has ended
				}
				seen[thread] = total
				if d := total - waited[thread]; d > queued {
					now := clock.Now()
					note(history.Event{Kind: history.Late, Worker: history.Nobody, Call: now - int64(d), Return: now})
				}
			}
		}
		waited = seen
		timer.Reset(probeEvery)
	}
}

// waitedFor reads how long a thread has waited for a processor in all.
func waitedFor(schedstat string) (total time.Duration, ok bool) {
	text, err := os.ReadFile(schedstat)
	fields := bytes.Fields(text)
	if err != nil || len(fields) < 2 {
		return 0, false
	}
	n, err := strconv.ParseInt(string(fields[1]), 10, 64)
	return time.Duration(n), err == nil
}
