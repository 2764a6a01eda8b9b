package check_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/redlatch/redlatch/test/chaos/internal/history"
)

// killed is a release in a database, and a kill of that right after it.
func killed(topology string) *script {
	s := exclusive().got("a1", 0, 2, 10).gave("a1", 5, 6, ok).fault("redis killed", -1, 8, 60, false)
	s.topology = topology
	return s
}

// at puts what follows on another key.
func (s *script) at(key string) *script {
	s.key = key
	return s
}

func TestAKillExcusesNoMoreThanTheReleasesThatItForgets(t *testing.T) {
	for name, test := range map[string]struct {
		*script
		want []string
	}{
		"forgotten":     {killed("postgresql").busy("b", 100, 101), nil},
		"not forgotten": {killed("postgresql").got("b1", 100, 101, 11), nil},
		"forgotten, of a reader": {
			(&script{key: "rw", mode: "read", topology: "postgresql"}).in("read", "a1", 0, 2, 10).gaveIn("read", "a1", 5, 6).
				fault("redis killed", -1, 8, 60, false).busyIn("write", "b", 100, 101), nil,
		},
		"by a database whose releases wait":        {killed("mariadb").busy("b", 100, 101), []string{"model illegal"}},
		"before the kill":                          {killed("postgresql").without("redis killed").busy("b", 14, 15).fault("redis killed", -1, 20, 60, false), []string{"model illegal"}},
		"when a grant has written it":              {killed("postgresql").at("other").got("b1", 7, 8, 11).at("k").busy("c", 100, 101), []string{"model illegal"}},
		"when the TTL is over":                     {killed("postgresql").busy("b", 310, 311), []string{"model illegal"}},
		"when the key was granted since":           {killed("postgresql").got("b1", 100, 101, 11).gave("b1", 105, 106, ok).busy("c", 110, 111), []string{"model illegal"}},
		"when it wasn't released":                  {lostGrant(), []string{"overlap", "handover", "model illegal"}},
		"when something else broke":                {killed("postgresql").without("redis killed").fault("redis paused", -1, 8, 60, false).busy("b", 100, 101), []string{"model illegal"}},
		"when the kill came long after the grants": {killed("postgresql").at("other").got("b1", 7, 8, 11).at("k").without("redis killed").fault("redis killed", -1, 400, 450, false).busy("c", 500, 501), []string{"model illegal"}},
	} {
		t.Run(name, func(t *testing.T) {
			rules := slices.Sorted(maps.Keys(test.judge(t)))
			slices.Sort(test.want)
			if !slices.Equal(rules, test.want) {
				t.Errorf("found %q, want %q", rules, test.want)
			}
		})
	}
}

// lostGrant is a hold that a kill forgets.
func lostGrant() *script {
	s := exclusive().got("a1", 0, 2, 10).fault("redis killed", -1, 8, 60, false).got("b1", 100, 101, 11).gave("b1", 110, 111, ok).gave("a1", 120, 121, ok)
	s.topology = "postgresql"
	return s
}

// without takes the faults of a kind out.
func (s *script) without(kind string) *script {
	s.faults = slices.DeleteFunc(s.faults, func(f history.Fault) bool { return f.Kind == kind })
	return s
}
