package nemesis_test

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/redlatch/redlatch/test/chaos/internal/nemesis"
)

func setting(mix, topology string) nemesis.Setting {
	return nemesis.Setting{Mix: mix, Topology: topology, Workers: 8, Servers: 6, Duration: time.Minute, Rate: 11, Lease: 300 * time.Millisecond}
}

func plan(t *testing.T, seed uint64, s nemesis.Setting) []nemesis.Step {
	t.Helper()
	steps, err := nemesis.Plan(seed, s)
	if err != nil {
		t.Fatal(err)
	}
	return steps
}

func TestAPlanDependsOnItsSeedAlone(t *testing.T) {
	for _, mix := range nemesis.Mixes() {
		for _, topology := range []string{"standalone", "sentinel", "cluster", "quorum"} {
			first, again := plan(t, 7, setting(mix, topology)), plan(t, 7, setting(mix, topology))
			if !reflect.DeepEqual(first, again) {
				t.Errorf("%s on %s: the same seed makes two plans", mix, topology)
			}
			if other := plan(t, 8, setting(mix, topology)); len(first) > 1 && reflect.DeepEqual(first, other) {
				t.Errorf("%s on %s: two seeds make one plan", mix, topology)
			}
		}
	}
}

func TestAPlanIsOfItsMixAndTopology(t *testing.T) {
	kinds := func(mix, topology string) (all []string) {
		for _, step := range plan(t, 1, setting(mix, topology)) {
			all = append(all, step.Kind)
		}
		slices.Sort(all)
		return slices.Compact(all)
	}
	if got := kinds("none", "standalone"); len(got) > 0 {
		t.Errorf("none has %q", got)
	}
	if got := kinds("pause", "standalone"); !slices.Equal(got, []string{nemesis.PauseWorker}) {
		t.Errorf("pause has %q", got)
	}
	if slices.Contains(kinds("all", "standalone"), nemesis.RollRedis) || !slices.Contains(kinds("all", "quorum"), nemesis.RollRedis) {
		t.Error("a quorum is rolled, and one server is not")
	}
	for _, kind := range []string{nemesis.Failover, nemesis.MoveSlot} {
		if slices.Contains(kinds("all", "standalone"), kind) {
			t.Errorf("one server has no %s", kind)
		}
		if !slices.Contains(kinds("all", "cluster"), kind) {
			t.Errorf("a cluster without %s", kind)
		}
	}
	if got := kinds("all", "standalone"); len(got) != 12 {
		t.Errorf("a minute of all has %d kinds: %q", len(got), got)
	}
}

// The service is measured when nothing breaks.
func TestLongPlansHaveTruces(t *testing.T) {
	for topology, long := range map[string]time.Duration{"standalone": 3 * time.Second, "quorum": 3 * time.Second, "sentinel": 5 * time.Second, "cluster": 5 * time.Second} {
		truces, last := 0, time.Duration(0)
		for _, step := range append(plan(t, 5, setting("all", topology)), nemesis.Step{At: time.Minute}) {
			if step.At-last > long {
				truces++
			}
			last = step.At
		}
		if truces != 3 {
			t.Errorf("a minute on %s has %d truces of %v", topology, truces, long)
		}
		short := setting("all", topology)
		short.Duration = 10 * time.Second
		last = 0
		for _, step := range plan(t, 5, short) {
			if step.At-last > 2*time.Second {
				t.Errorf("a short run on %s has a truce after %v", topology, last)
			}
			last = step.At
		}
	}
}

func TestAPlanHasTheRateAndTheOrderThatWereAskedFor(t *testing.T) {
	steps := plan(t, 3, setting("all", "standalone"))
	if len(steps) < 430 || len(steps) > 610 {
		t.Errorf("%d faults a minute at a rate of 11 a second, with truces of a fifth of it", len(steps))
	}
	for i, step := range steps {
		if step.At > time.Minute || i > 0 && step.At < steps[i-1].At || step.Worker > 7 || step.Server > 5 || step.For <= 0 {
			t.Errorf("step %d is %+v", i, step)
		}
	}
	if _, err := nemesis.Plan(1, setting("no such mix", "standalone")); err == nil {
		t.Error("an unknown mix is accepted")
	}
}
