package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/redlatch/redlatch/test/bench/internal/load"
	"github.com/redlatch/redlatch/test/bench/internal/peer"
	"github.com/redlatch/redlatch/test/bench/internal/plan"
	"github.com/redlatch/redlatch/test/bench/internal/result"
	"github.com/redlatch/redlatch/test/internal/process"
)

// TestMain lets this binary be a worker, as the program itself is one.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == plan.WorkerCommand {
		main()
	}
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*pipe).backgroundPing.func1"))
}

func bench(t *testing.T, args ...string) (code int, out string) {
	t.Helper()
	var buffer bytes.Buffer
	code = run(t.Context(), args, strings.NewReader(""), &buffer, &buffer)
	return code, buffer.String()
}

func needRedis(t *testing.T) {
	t.Helper()
	process.Find(t, "redis-server", "valkey-server")
}

var tiny = plan.Scale{Window: 200 * time.Millisecond, Contended: 400 * time.Millisecond, Held: 100, Keys: 300}

// Every scenario runs for redlatch, and for another peer, and its counters are
// those of work that was done.
func TestEveryScenarioMeasuresSomething(t *testing.T) {
	needRedis(t)
	for _, s := range plan.Scenarios(tiny) {
		s.Goroutines = min(s.Goroutines, 32) // more would not all be served in so short a time
		peers := s.Peers
		if s.Kind != load.Handler {
			peers = peers[:min(2, len(peers))]
		}
		for _, name := range peers {
			t.Run(s.ID+"/"+name, func(t *testing.T) {
				t.Parallel()
				check(t, s, name, measured(t, s, name))
			})
		}
	}
}

// Every database measures something, and so does every load on the first of them.
func TestEveryDatabaseMeasuresSomething(t *testing.T) {
	needRedis(t)
	longer := tiny
	longer.Window = time.Second // for the disk
	for _, s := range plan.DatabaseScenarios(longer) {
		peers := s.Peers[:1]
		if s.ID == plan.DatabaseOwn16 {
			peers = s.Peers
		}
		for _, name := range peers {
			t.Run(s.ID+"/"+name, func(t *testing.T) {
				t.Parallel()
				check(t, s, name, measured(t, s, name))
			})
		}
	}
}

// measured measures once more, for longer, what a busy machine has left without an
// operation.
func measured(t *testing.T, s plan.Scenario, name string) map[string]float64 {
	t.Helper()
	for {
		metrics, err := plan.Measure(t.Context(), t.TempDir(), s, name)
		if err != nil {
			t.Fatal(err)
		}
		if rate, ok := metrics[result.Rate]; !ok || rate > 0 || s.Window > 5*time.Second {
			return metrics
		}
		s.Window *= 4
	}
}

func check(t *testing.T, s plan.Scenario, name string, metrics map[string]float64) {
	t.Helper()
	for metric, value := range metrics {
		if value < 0 && metric != result.Memory && metric != result.PerLock && metric != result.Commands {
			t.Errorf("%s is %v", metric, value)
		}
	}
	if overlaps := metrics[result.Overlaps]; overlaps != 0 {
		t.Errorf("%s: %v", result.Overlaps, overlaps)
	}
	if !peer.Ours(name) && name != load.GinLock && name != load.GRPCLock {
		return // a busy machine may leave others without an operation in so short a time, or fail them
	}
	if failures := metrics[result.Failures]; failures != 0 {
		t.Errorf("%s: %v", result.Failures, failures)
	}
	want := []string{result.Rate, result.ClientCPU, result.Allocs}
	if s.Kind != load.Handler {
		want = append(want, result.RedisCPU)
	}
	if s.Kind != load.Handler && !s.HeldHere && !s.Nested && name != peer.OnMariaDB && name != peer.OnSQLite { // whose statements aren't counted
		want = append(want, result.Calls)
	}
	if s.Contended() {
		want = append(want, result.Jain, result.Best, result.P50, result.P99, result.Changes)
	}
	for _, metric := range want {
		if metrics[metric] <= 0 && metric != result.RedisCPU { // its clock is a coarse one
			t.Errorf("%s is %v", metric, metrics[metric])
		}
	}
	if metrics[result.Jain] > 1.000001 || metrics[result.P50] > metrics[result.P99] {
		t.Errorf("Jain %v, p50 %v, p99 %v", metrics[result.Jain], metrics[result.P50], metrics[result.P99])
	}
	for _, metric := range []string{result.KeysLeft, result.SubsLeft} {
		if metrics[metric] != 0 {
			t.Errorf("%s: %v", metric, metrics[metric])
		}
	}
}

func TestARunWritesFilesThatCanBeJudgedAgain(t *testing.T) {
	needRedis(t)
	dir := filepath.Join(t.TempDir(), "new")
	code, out := bench(t, "--quick", "--rounds=1", "--only=R1", "--dir="+dir)
	if code != 0 || !strings.Contains(out, peer.Redlatch) || !strings.Contains(out, csvName) {
		t.Fatalf("exit code %d:\n%s", code, out)
	}
	for _, name := range []string{"uncontended.svg", machineName} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() == 0 {
			t.Errorf("no %s: %v", name, err)
		}
	}

	file := filepath.Join(dir, csvName)
	table := &result.Table{}
	table.Add(0, plan.HotFour, peer.Redlatch, map[string]float64{result.Jain: 1})
	rewrite(t, file, table)
	if code, out := bench(t, "check", "--from="+file); code != 0 || !strings.Contains(out, "Jain") {
		t.Errorf("a run in which all is well: exit code %d:\n%s", code, out)
	}
	table.Add(0, plan.HotFour, peer.Redlatch, map[string]float64{result.Overlaps: 1})
	rewrite(t, file, table)
	if code, out := bench(t, "check", "--from="+file); code != exitFailed || !strings.Contains(out, "MISSED") {
		t.Errorf("two holders at once: exit code %d:\n%s", code, out)
	}
}

func rewrite(t *testing.T, name string, table *result.Table) {
	t.Helper()
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := table.Write(file); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestWrongArgumentsAreRefused(t *testing.T) {
	for _, args := range [][]string{{"--only=R99"}, {"check", "--from=no-such-file"}, {"--rounds=x"}, {"worker", "{"}} {
		if code, out := bench(t, args...); code == 0 {
			t.Errorf("%q: exit code 0:\n%s", args, out)
		}
	}
}
