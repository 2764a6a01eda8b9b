package sim_test

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/redlatch/redlatch/test/sim/internal/world"
)

// kept reads the seeds that failed once.
func kept(t *testing.T) (all []world.Config, what []string) {
	t.Helper()
	text, err := os.ReadFile("testdata/seeds.txt")
	if err != nil {
		t.Fatal(err)
	}
	catalog := readCatalog(t)
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		parts := strings.Split(strings.TrimSpace(line), "\t")
		if len(parts) != 3 {
			t.Fatalf("%q: need a seed, features and what was wrong", line)
		}
		seed, err := strconv.ParseUint(parts[0], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		features := world.Draw(0, parse(t, parts[1]), parse(t, "all"))
		all = append(all, world.Config{Seed: seed, Features: features, Load: *loadFlag, Catalog: catalog})
		what = append(what, parts[2])
	}
	return all, what
}

func TestKeptSeeds(t *testing.T) {
	worlds, what := kept(t)
	if len(worlds) == 0 {
		t.Fatal("no seeds are kept")
	}
	for i, c := range worlds {
		if i%keptShare > 0 {
			continue
		}
		t.Run(what[i], func(t *testing.T) {
			t.Parallel()
			var r *world.Report
			t.Run("", func(t *testing.T) { r = play(t, c) })
			if len(r.Findings) > 0 {
				t.Errorf("once wrong: %s\n%s", what[i], r)
			}
		})
	}
}
