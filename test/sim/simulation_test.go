package sim_test

import (
	"flag"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/test/sim/internal/world"
)

var (
	seedFlag    = flag.Uint64("seed", 1, "first seed")
	seedsFlag   = flag.Int("seeds", 0, "how many seeds; 0: some, fewer with the race detector")
	minutesFlag = flag.Float64("minutes", 0, "go on with further seeds for so long, instead of -seeds")
	onlyFlag    = flag.String("only", "", "the features of every world, instead of drawn ones")
	onFlag      = flag.String("on", "", "features that every world has")
	offFlag     = flag.String("off", "", "features that no world has")
	loadFlag    = flag.Duration("load", time.Minute, "virtual time of each world under load")
	shrinkFlag  = flag.Bool("shrink", false, "look for the smallest set of features of the first seed that fails")
)

// scripts is where redisstore has its scripts.
const scripts = "../../core/redisstore/scripts"

func readCatalog(t *testing.T) *world.Catalog {
	t.Helper()
	catalog, err := world.ReadCatalog(scripts)
	if err != nil {
		t.Fatal(err)
	}
	return catalog
}

func parse(t *testing.T, names string) []world.Feature {
	t.Helper()
	features, err := world.Parse(names)
	if err != nil {
		t.Fatal(err)
	}
	return features
}

// play lives through one world.
func play(t *testing.T, c world.Config) (r *world.Report) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var err error
		if r, err = world.Run(c); err != nil {
			t.Fatal(err)
		}
	})
	return r
}

// Seeds, one world each. Every one draws its features, and none may end with a
// finding.
func TestSimulation(t *testing.T) {
	catalog := readCatalog(t)
	on, off := parse(t, *onFlag), parse(t, *offFlag)
	if *onlyFlag != "" {
		on, off = parse(t, *onlyFlag), parse(t, "all")
	} else if len(on) > 0 && !slices.Contains(on, world.Pace) { // which goes with nothing else
		off = append(off, world.Pace)
	}
	s := newSeries()
	t.Cleanup(func() { s.conclude(t, catalog, off) })
	for n := range runtime.GOMAXPROCS(0) {
		t.Run(fmt.Sprintf("worker %d", n), func(t *testing.T) {
			t.Parallel()
			for seed, ok := s.next(); ok; seed, ok = s.next() {
				c := world.Config{Seed: seed, Features: world.Draw(seed, on, off), Load: *loadFlag, Catalog: catalog}
				t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) { s.play(t, c) })
			}
		})
	}
}

// series is a run of many seeds.
type series struct {
	began  time.Time
	until  time.Time // no new seeds after that
	count  int64     // how many seeds; 0: until the time comes
	played atomic.Int64
	shrunk sync.Once

	mu      sync.Mutex
	met     map[string]int // how often what was met
	rules   map[string]int // seeds that broke each rule
	virtual time.Duration
}

func newSeries() *series {
	s := &series{began: time.Now(), count: int64(*seedsFlag), met: make(map[string]int), rules: make(map[string]int)}
	switch {
	case *minutesFlag > 0:
		s.until, s.count = s.began.Add(time.Duration(*minutesFlag*float64(time.Minute))), 0
	case s.count == 0:
		s.count = defaultSeeds
	}
	return s
}

func (s *series) next() (seed uint64, ok bool) {
	n := s.played.Add(1)
	if s.count > 0 && n > s.count || s.count == 0 && time.Now().After(s.until) {
		return 0, false
	}
	return *seedFlag + uint64(n) - 1, true
}

func (s *series) play(t *testing.T, c world.Config) {
	t.Helper()
	r := play(t, c)
	s.note(r)
	if len(r.Findings) == 0 {
		return
	}
	t.Errorf("%s\nonce more:  make sim-replay SEED=%d FEATURES=%s", r, c.Seed, c.Features)
	if *shrinkFlag {
		s.shrunk.Do(func() { shrink(t, r) })
	}
}

func (s *series) note(r *world.Report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.virtual += r.Virtual
	s.met["worlds"]++
	for what, n := range r.Counts {
		s.met[what] += n
	}
	for rule := range r.Rules() {
		if s.rules[rule]++; s.rules[rule] == 1 {
			s.met["ms until the first: "+rule] = int(time.Since(s.began).Milliseconds())
		}
	}
}

// conclude says what the run was worth.
func (s *series) conclude(t *testing.T, catalog *world.Catalog, off []world.Feature) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	took := time.Since(s.began).Round(time.Millisecond)
	t.Logf("%d seeds, %.1f simulated hours in %v; seeds with findings: %v", s.met["worlds"], s.virtual.Hours(), took, s.rules)
	for _, what := range slices.Sorted(maps.Keys(s.met)) {
		t.Logf("%8d %s", s.met[what], what)
	}
	if *onlyFlag == "" {
		checkFloor(t, catalog, s.met, off)
	}
}
