package plan

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/test/bench/internal/latency"
	"github.com/redlatch/redlatch/test/bench/internal/load"
	"github.com/redlatch/redlatch/test/bench/internal/meter"
	"github.com/redlatch/redlatch/test/bench/internal/page"
	"github.com/redlatch/redlatch/test/bench/internal/peer"
	"github.com/redlatch/redlatch/test/bench/internal/result"
	"github.com/redlatch/redlatch/test/bench/internal/stat"
	"github.com/redlatch/redlatch/test/internal/process"
	"github.com/redlatch/redlatch/test/internal/redistest"
)

// Measure runs one scenario for one peer, and returns its metrics. Server and
// workers live in dir, and are gone when it returns.
func Measure(ctx context.Context, dir string, s Scenario, name string) (metrics map[string]float64, err error) {
	err = process.RunProgram(ctx, dir, func(string) {}, func(p *process.Program) {
		m := measurement{Scenario: s, peer: peer.Peer{Name: name}, host: p}
		if s.Kind != load.Handler {
			m.peer, _ = peer.Find(name)
		}
		if metrics, err = m.run(p.Context()); err != nil {
			p.Errorf("%s, %s: %w", s.ID, name, err)
		}
	})
	return metrics, err
}

// measurement is one that is under way.
type measurement struct {
	Scenario
	peer    peer.Peer
	host    process.Host
	rdb     *redis.Client   // nil without a server
	masters []*redis.Client // of a cluster, or rdb
	page    *page.Page
	workers []*worker
}

// reading is the state of all counters at one time.
type reading struct {
	at     time.Time
	server meter.Server
	counts page.Counts
	keys   int64
}

func (m *measurement) run(ctx context.Context) (map[string]float64, error) {
	config := load.Config{
		Kind: m.Kind, Peer: m.peer.Name, Lease: m.Lease, Goroutines: m.Goroutines, Hot: m.Hot, Section: m.Section, Nested: m.Nested,
		HeldHere: m.HeldHere, Count: m.Count, Window: m.Window, Page: filepath.Join(m.host.TempDir(), "page"),
	}
	shared, unmap, err := page.Map(config.Page)
	if err != nil {
		return nil, err
	}
	m.page = shared
	m.host.Cleanup(unmap)
	if m.Kind != load.Handler {
		if config.Addr, err = m.server(ctx); err != nil {
			return nil, err
		}
	}
	for i := range m.Processes {
		config.Process = i
		if m.Far > 0 && i == m.Processes-1 {
			if config.Addr, err = m.distant(config.Addr, m.Far); err != nil {
				return nil, err
			}
		}
		w, err := startWorker(ctx, m.host, config)
		if err != nil {
			return nil, err
		}
		m.workers = append(m.workers, w)
	}
	return m.drive(ctx)
}

// server starts Redis, or a database, with what must be there, and returns its address.
func (m *measurement) server(ctx context.Context) (string, error) {
	if m.Cluster {
		return m.cluster(), nil
	}
	if m.peer.Server != nil {
		return m.peer.Serve(ctx, m.host)
	}
	server := redistest.Standalone(m.host, m.peer.Settings...)
	m.rdb = server.Client(m.host)
	m.masters = []*redis.Client{m.rdb}
	addr := server.Addr()
	if m.Elsewhere {
		other, err := m.peer.Open(peer.Settings{Addr: addr, Lease: m.Lease})
		if err != nil {
			return "", err
		}
		m.host.Cleanup(func() { _ = other.Close() })
		if _, err := other.Keep(ctx, load.HotKey); err != nil {
			return "", err
		}
	}
	if m.Latency > 0 {
		return m.distant(addr, m.Latency)
	}
	return addr, nil
}

// distant is the same server, that far away.
func (m *measurement) distant(addr string, delay time.Duration) (string, error) {
	proxy, err := latency.New(addr, delay)
	if err != nil {
		return "", err
	}
	m.host.Cleanup(proxy.Close)
	return proxy.Addr(), nil
}

// cluster starts a cluster, and returns the addresses of its nodes.
func (m *measurement) cluster() string {
	set := redistest.Cluster(m.host)
	for _, master := range set.Masters {
		m.masters = append(m.masters, master.Client(m.host))
	}
	m.rdb = m.masters[0]
	return strings.Join(set.Addrs(), ",")
}

// drive sends the workers through their stages.
func (m *measurement) drive(ctx context.Context) (map[string]float64, error) {
	if err := m.tell(load.Warm); err != nil {
		return nil, err
	}
	pause(ctx, min(m.Window/5, time.Second))
	before, err := m.read(ctx)
	if err != nil {
		return nil, err
	}
	if err := m.tell(load.Measure); err != nil {
		return nil, err
	}
	if err := m.window(ctx); err != nil {
		return nil, err
	}
	after, err := m.read(ctx)
	if err != nil {
		return nil, err
	}
	if err := m.tell(load.Stop); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return m.metrics(ctx, before, after)
}

// window lasts as long as is measured. Keys are done when Measure is.
func (m *measurement) window(ctx context.Context) error {
	if m.Kind == load.Keys {
		return nil
	}
	if m.KillEvery == 0 {
		pause(ctx, m.Window)
		return nil
	}
	for end := time.Now().Add(m.Window); time.Now().Before(end) && ctx.Err() == nil; {
		if err := m.rdb.ClientKillByFilter(ctx, "TYPE", "pubsub").Err(); err != nil {
			return fmt.Errorf("kill subscribers: %w", err)
		}
		pause(ctx, m.KillEvery)
	}
	return nil
}

// stageLimit is how long workers may take for one stage besides the window, and
// keyLimit what each key adds: only a library that hangs takes it.
const (
	stageLimit = time.Minute
	keyLimit   = 100 * time.Microsecond
)

// tell sends a command to all workers, and waits until all are done with it.
func (m *measurement) tell(command string) error {
	// Killed workers end the wait for their answers.
	hangs := time.AfterFunc(m.Window+stageLimit+time.Duration(m.Count)*keyLimit, func() {
		for _, w := range m.workers {
			w.kill()
		}
	})
	defer hangs.Stop()
	var failures []error
	for _, w := range m.workers {
		failures = append(failures, w.send(command))
	}
	for _, w := range m.workers {
		failures = append(failures, w.answer())
	}
	return errors.Join(failures...)
}

func (m *measurement) read(ctx context.Context) (r reading, err error) {
	r.counts = m.page.Counts()
	for _, master := range m.masters {
		server, err := meter.ReadServer(ctx, master)
		if err != nil {
			return r, err
		}
		r.server.Add(server)
	}
	if m.rdb != nil {
		if r.keys, err = m.rdb.DBSize(ctx).Result(); err != nil {
			return r, err
		}
	}
	r.at = time.Now()
	return r, nil
}

// metrics makes the figures out of what the workers and the counters say.
func (m *measurement) metrics(ctx context.Context, before, after reading) (map[string]float64, error) {
	sum, waits := m.sum()
	ops, seconds := float64(sum.Ops), after.at.Sub(before.at).Seconds()
	all := map[string]float64{
		result.Seconds:   seconds,
		result.Rate:      ops / seconds,
		result.ClientCPU: stat.Ratio(micros(sum.CPU), ops),
		result.Allocs:    stat.Ratio(float64(sum.Allocs), ops),
		result.Failures:  float64(sum.Failures),
	}
	if m.rdb != nil {
		calls, inside := after.server.Since(before.server, m.peer.Counts)
		all[result.Calls] = stat.Ratio(float64(calls), ops)
		all[result.Commands] = float64(calls) / seconds
		all[result.RedisCPU] = stat.Ratio(micros(after.server.CPU-before.server.CPU), ops)
		all[result.RedisTime] = stat.Ratio(micros(inside), ops)
	}
	if sum.Statements > 0 {
		all[result.Calls] = stat.Ratio(float64(sum.Statements), ops)
		all[result.Commands] = float64(sum.Statements) / seconds
	}
	if waits.TotalCount() > 0 {
		all[result.P50] = float64(waits.ValueAtQuantile(50)) / 1000
		all[result.P99] = float64(waits.ValueAtQuantile(99)) / 1000
		all[result.Max] = float64(waits.Max()) / 1000
	}
	if m.Kind == load.Cycle && !m.Hot {
		all[result.Stuck] = float64(sum.Stuck)
	}
	if m.Contended() || m.Kind == load.HandOff {
		all[result.Overlaps] = float64(after.counts.Overlaps) // warm-up included
	}
	if m.Contended() {
		all[result.Jain] = stat.Jain(sum.Counts)
		all[result.Worst], all[result.Best] = extremes(sum.Counts)
		all[result.Changes] = float64(after.counts.Changes-before.counts.Changes) / seconds
		all[result.Inversions] = float64(after.counts.Inversions - before.counts.Inversions)
	}
	if m.Far > 0 {
		far := m.workers[len(m.workers)-1].result
		all[result.FarRate], all[result.FarShare] = float64(far.Ops)/seconds, 100*stat.Ratio(float64(far.Ops), ops)
		if far.Waits != nil {
			all[result.FarMax] = float64(hdrhistogram.Import(far.Waits).Max()) / 1000
		}
	}
	switch m.Kind {
	case load.Hold:
		all[result.Goroutines] = sum.Values[load.Goroutines]
		all[result.PerLock] = sum.Values[load.Bytes] / float64(m.Count)
		all[result.ClientShare] = 100 * sum.CPU.Seconds() / seconds
		all[result.RedisShare] = 100 * (after.server.CPU - before.server.CPU).Seconds() / seconds
		all[result.Slowdown] = stat.Ratio(sum.Values[load.BusyP99], sum.Values[load.IdleP99])
		if sent, counted := all[result.Commands]; counted {
			// The foreground sends two commands for each of its operations.
			all[result.Commands] = sent - 2*ops/seconds
		}
	case load.Keys:
		all[result.Rate] = sum.Values[load.Rate]
		all[result.Goroutines] = sum.Values[load.Goroutines]
		all[result.Memory] = sum.Values[load.Bytes]
		if err := m.leftovers(ctx, before, all); err != nil {
			return nil, err
		}
	}
	maps.DeleteFunc(all, func(_ string, value float64) bool { return math.IsNaN(value) }) // costs of no operation
	return all, nil
}

// leftovers adds what is left on the server after a while.
func (m *measurement) leftovers(ctx context.Context, before reading, all map[string]float64) error {
	keys, err := m.rdb.DBSize(ctx).Result()
	if err != nil {
		return err
	}
	channels, err := m.rdb.PubSubChannels(ctx, "*").Result()
	if err != nil {
		return err
	}
	all[result.KeysLeft], all[result.SubsLeft] = float64(max(0, keys-before.keys)), float64(len(channels))
	return nil
}

// sum adds the workers' results.
func (m *measurement) sum() (load.Result, *hdrhistogram.Histogram) {
	sum := load.Result{Values: make(map[string]float64)}
	waits := hdrhistogram.New(1, (2 * time.Minute).Microseconds(), 2)
	for _, w := range m.workers {
		r := w.result
		sum.Ops += r.Ops
		sum.Counts = append(sum.Counts, r.Counts...)
		sum.Stuck += r.Stuck
		sum.Statements += r.Statements
		sum.Failures += r.Failures
		sum.CPU += r.CPU
		sum.Allocs += r.Allocs
		for name, value := range r.Values {
			sum.Values[name] += value
		}
		if r.Waits != nil {
			waits.Merge(hdrhistogram.Import(r.Waits))
		}
		if r.Failure != "" {
			m.host.Logf("%s, %s: %s", m.ID, m.peer.Name, strings.TrimSpace(r.Failure))
		}
	}
	return sum, waits
}

func extremes(counts []int64) (worst, best float64) {
	least, most := counts[0], counts[0]
	for _, n := range counts {
		least, most = min(least, n), max(most, n)
	}
	return float64(least), float64(most)
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
