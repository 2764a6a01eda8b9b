// Package meter reads what work has cost: the server's counters, and those of
// this process.
package meter

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Server is a reading of a server's counters. They only rise.
type Server struct {
	CPU   time.Duration            // of the main thread
	Calls map[string]int64         // by command
	Time  map[string]time.Duration // inside the command, by command
}

// ReadServer reads the counters.
func ReadServer(ctx context.Context, rdb *redis.Client) (Server, error) {
	stats, err := rdb.Info(ctx, "commandstats").Result()
	if err != nil {
		return Server{}, fmt.Errorf("meter: %w", err)
	}
	cpu, err := rdb.Info(ctx, "cpu").Result()
	if err != nil {
		return Server{}, fmt.Errorf("meter: %w", err)
	}
	return parse(stats, cpu)
}

func parse(stats, cpu string) (Server, error) {
	s := Server{Calls: make(map[string]int64), Time: make(map[string]time.Duration)}
	for name, value := range fields(stats) {
		command, ok := strings.CutPrefix(name, "cmdstat_")
		if !ok {
			continue
		}
		var calls, micros int64
		if _, err := fmt.Sscanf(value, "calls=%d,usec=%d", &calls, &micros); err != nil {
			return Server{}, fmt.Errorf("meter: %s:%s: %w", name, value, err)
		}
		s.Calls[command], s.Time[command] = calls, time.Duration(micros)*time.Microsecond
	}
	for _, name := range []string{"used_cpu_user_main_thread", "used_cpu_sys_main_thread"} {
		seconds, err := strconv.ParseFloat(fields(cpu)[name], 64)
		if err != nil {
			return Server{}, fmt.Errorf("meter: INFO cpu: %s: %w", name, err)
		}
		s.CPU += time.Duration(seconds * float64(time.Second))
	}
	return s, nil
}

func fields(info string) map[string]string {
	all := make(map[string]string)
	for line := range strings.Lines(info) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			all[name] = value
		}
	}
	return all
}

// Add adds the counters of another server.
func (s *Server) Add(other Server) {
	if s.Calls == nil {
		s.Calls, s.Time = make(map[string]int64), make(map[string]time.Duration)
	}
	s.CPU += other.CPU
	for command, n := range other.Calls {
		s.Calls[command] += n
		s.Time[command] += other.Time[command]
	}
}

// Since returns what was done between two readings by the commands that counts
// accepts: their number, and the time inside them.
func (s Server) Since(before Server, counts func(command string) bool) (calls int64, inside time.Duration) {
	for command, n := range s.Calls {
		if counts(command) {
			calls += n - before.Calls[command]
			inside += s.Time[command] - before.Time[command]
		}
	}
	return calls, inside
}
