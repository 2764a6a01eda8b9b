package quorum_test

import (
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

// by is a hold as a node sees it.
func by(owner string, holds int, ttl time.Duration) lock.State {
	return lock.State{Held: true, TTL: ttl, Owners: []lock.OwnerHolds{{Owner: owner, Holds: holds}}}
}

func kept(s lock.State) lock.State { s.Owners[0].Kept = true; return s }

// more has others that the node doesn't list.
func more(s lock.State, n int) lock.State { s.Mode, s.MoreOwners = lock.Read, n; return s }

func TestInspectOfWhatTheNodesSee(t *testing.T) {
	const s = time.Second
	free := lock.State{}
	for name, c := range map[string]struct {
		nodes []lock.State // in the order of their answers
		want  lock.State
	}{
		"a majority, for as long as it is one": {[]lock.State{by("a#1", 1, 9*s), by("a#1", 1, 2*s), by("a#1", 1, 5*s)}, by("a", 1, 5*s)},
		"two of three":                         {[]lock.State{by("a#1", 1, 9*s), free, by("a#1", 1, 5*s)}, by("a", 1, 5*s)},
		"four of five":                         {[]lock.State{by("a#1", 1, 9*s), by("a#1", 1, 5*s), free, by("a#1", 1, 2*s), by("a#1", 1, 7*s)}, by("a", 1, 5*s)},
		"no end on two of three":               {[]lock.State{by("a#1", 1, -1), by("a#1", 1, 2*s), by("a#1", 1, -1)}, by("a", 1, -1)},
		"an end on two of three":               {[]lock.State{by("a#1", 1, 2*s), by("a#1", 1, -1), by("a#1", 1, 3*s)}, by("a", 1, 3*s)},
		"nodes that missed a re-entry":         {[]lock.State{by("a#1", 3, s), by("a#1", 1, s), by("a#1", 2, s)}, by("a", 2, s)},
		"an owner with a number sign":          {[]lock.State{by("a#b#1", 1, s), by("a#b#1", 1, s), free}, by("a#b", 1, s)},
		"an owner that is one":                 {[]lock.State{by("#1", 1, s), by("#1", 1, s), free}, by("#1", 1, s)},
		"released, under a minimum":            {[]lock.State{by("a#1", 1, s), kept(by("a#1", 1, s)), by("a#1", 1, s)}, kept(by("a", 1, s))},
		"released, by another":                 {[]lock.State{by("a#1", 1, s), kept(by("b#1", 1, s)), by("a#1", 1, s)}, by("a", 1, s)},
		"waited for by nobody who is there":    {[]lock.State{by("a", 0, s), by("a", 0, s), by("a", 0, s)}, by("a", 0, 0)},
		"a stray vote":                         {[]lock.State{free, by("b#1", 1, s), free}, free},
		"owners with one node each": {
			[]lock.State{by("x#1", 1, 9*s), more(by("y", 2, 2*s), 5), more(by("z#3", 1, 5*s), 2)},
			lock.State{
				Held: true, MoreOwners: 5, TTL: 5 * s,
				Owners: []lock.OwnerHolds{{Owner: "x", Holds: 1}, {Owner: "y", Holds: 2}, {Owner: "z", Holds: 1}},
			},
		},
		"two owners, and a node that is free": {
			[]lock.State{more(by("x", 1, 9*s), 0), free, by("y", 1, 2*s)},
			lock.State{Held: true, Mode: lock.Read, TTL: 2 * s, Owners: []lock.OwnerHolds{{Owner: "x", Holds: 1}, {Owner: "y", Holds: 1}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nodes, stores := stubs(len(c.nodes))
				for i, seen := range c.nodes {
					nodes[i].inspect = func() (lock.State, error) {
						time.Sleep(time.Duration(i+1) * time.Millisecond)
						return seen, nil
					}
				}
				got, err := quorumOf(t, stores...).Inspect(t.Context(), "k")
				if err != nil || !reflect.DeepEqual(got, c.want) {
					t.Errorf("got %+v, %v\nwant %+v", got, err, c.want)
				}
			})
		})
	}
}
