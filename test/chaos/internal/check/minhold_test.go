package check_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/redlatch/redlatch/test/chaos/internal/history"
)

// minimum is a grant with a minimum hold.
func (s *script) minimum(owner string, from, to int64, fence uint64, keep int64) *script {
	s.got(owner, from, to, fence)
	s.events[len(s.events)-1].Keep = keep * ms
	return s
}

// keeping gives the last grant a minimum hold.
func (s *script) keeping(keep int64) *script {
	s.events[len(s.events)-1].Keep = keep * ms
	return s
}

// kept is a release that keeps the key.
func (s *script) kept(owner string, from, to, until int64, outcome history.Outcome) *script {
	s.add(history.Event{Kind: history.Freed, Outcome: outcome, Owner: owner, Worker: worker(owner), Call: from, Return: to})
	s.events[len(s.events)-1].Keep = until * ms
	return s.add(history.Event{
		Kind: history.Release, Outcome: outcome, Owner: owner, Worker: worker(owner), Call: from, Return: to, Trusted: from,
	})
}

func TestMinimumHolds(t *testing.T) {
	begun := func() *script { return exclusive().minimum("a1", 0, 2, 10, 100) }
	kept := func() *script { return begun().kept("a1", 5, 6, 100, ok) }
	killed := func() *script { return begun().fault("worker killed", 0, 5, 6, false) }
	permits := func() *script {
		s := (&script{key: "s", mode: "semaphore"}).permits("a1", 0, 2, 10, 2)
		s.events[1].Keep = 100 * ms
		return s.kept("a1", 5, 6, 100, ok)
	}
	forgot := func() *script { // a's two permits; then one is kept, and c has the others
		return (&script{key: "s", mode: "semaphore"}).permits("a1", 0, 2, 10, 2).fault("failover", -1, 5, 20, true).
			permits("b1", 30, 32, 11, 1).keeping(100).permits("c1", 40, 42, 12, 2)
	}
	readers := func() *script {
		s := (&script{key: "rw", mode: "read"}).in("read", "a1", 0, 2, 10)
		s.events[1].Keep = 100 * ms
		return s.kept("a1", 5, 6, 100, ok)
	}
	gaveUp := func(at int64) history.Event {
		return history.Event{Kind: history.Acquire, Outcome: history.GaveUp, Worker: 1, Call: at, Return: at + 1}
	}
	forced := history.Event{Kind: history.Force, Outcome: ok, Call: 8, Return: 9}
	for name, test := range map[string]struct {
		*script
		want []string
	}{
		"the key is busy until the end":   {kept().busy("b", 50, 51).busy("a", 98, 99).got("b1", 100, 101, 11).gave("b1", 103, 104, ok), nil},
		"… and not after it":              {kept().busy("b", 150, 151), []string{"model illegal"}},
		"a wait ends a moment after it":   {kept().add(gaveUp(103)), nil},
		"… or later, and the key is free": {kept().add(gaveUp(110)), []string{"refused"}},
		"another gets in":                 {kept().got("b1", 20, 21, 11).gave("b1", 23, 24, ok), []string{"unkept", "model illegal"}},
		"its owner gets in again":         {kept().got("a2", 20, 21, 11).gave("a2", 23, 24, ok), []string{"unkept", "model illegal"}},
		"the store wasn't called for it": {
			begun().gave("a1", 5, 6, ok).got("b1", 20, 21, 11).gave("b1", 23, 24, ok), []string{"unkept"},
		},
		"it is handed on":              {begun().handed("a1", 5, 7, 11).gave("a1", 120, 121, ok), []string{"unkept"}},
		"it is released after the end": {begun().gave("a1", 120, 121, ok).got("b1", 122, 123, 11), nil},
		"it is released by force":      {kept().add(forced).got("b1", 10, 11, 11).gave("b1", 13, 14, ok), nil},
		"nobody answered the release":  {begun().kept("a1", 5, 6, 100, unknown).busy("b", 50, 51).got("b1", 100, 101, 11), nil},
		"… and another gets in":        {begun().kept("a1", 5, 6, 100, unknown).got("b1", 20, 21, 11), []string{"unkept", "model illegal"}},
		"… and a renewal that ran after it finds nothing": {
			begun().renewed("a1", 4, 50, notHeld).kept("a1", 5, 6, 100, unknown).busy("b", 60, 61).got("b1", 100, 101, 11), nil,
		},
		"… and one that ended before it does, too": {begun().renewed("a1", 3, 4, notHeld).kept("a1", 5, 6, 100, unknown), []string{"model illegal"}},
		"… and a reader's renewal finds nothing": {
			(&script{key: "rw", mode: "read"}).in("read", "a1", 0, 2, 10).keeping(100).renewed("a1", 4, 50, notHeld).
				kept("a1", 5, 6, 100, unknown).busyIn("write", "b", 60, 61).in("write", "b1", 101, 102, 11), nil,
		},
		"… and the key is free by then": {
			begun().renewed("a1", 4, 50, notHeld).kept("a1", 5, 6, 100, unknown).got("b1", 60, 61, 11), []string{"unkept", "model illegal"},
		},
		"its process is killed":         {killed().busy("b", 200, 201).got("b1", 310, 311, 11), nil},
		"… and another gets in by then": {killed().got("b1", 50, 51, 11), []string{"unkept", "handover", "model illegal"}},
		"permits are kept":              {permits().permits("b1", 7, 8, 11, 1).busy("c", 50, 51).permits("c1", 101, 102, 12, 2), nil},
		"… and taken by another":        {permits().permits("b1", 7, 8, 11, 2), []string{"unkept", "model illegal"}},
		"… and others are forgotten":    {forgot().gave("c1", 60, 61, ok).gave("a1", 90, 91, notHeld), nil},
		"… and another takes too many": {
			forgot().permits("d1", 50, 52, 13, 1).gave("d1", 54, 55, ok).gave("c1", 60, 61, ok), []string{"unkept"},
		},
		"a reader is kept":       {readers().in("read", "b1", 7, 8, 11).gaveIn("read", "b1", 9, 10).in("write", "c1", 101, 102, 12), nil},
		"… and a writer gets in": {readers().in("write", "c1", 7, 8, 11), []string{"unkept", "model illegal"}},
		"one that Redis forgot before is handed on": {
			exclusive().got("b1", 0, 2, 10).fault("failover", -1, 5, 20, true).minimum("a1", 50, 52, 74, 100).kept("a1", 55, 56, 150, ok).
				handed("b1", 60, 62, 11).gave("b1", 70, 71, notHeld), nil,
		},
		"one waits for the end":            {kept().waited("b", 1, 3, 4, 400, history.GaveUp), nil},
		"… and finds the key free in vain": {kept().waited("b", 1, 3, 4, 700, history.GaveUp), []string{"stranded"}},
	} {
		t.Run(name, func(t *testing.T) {
			rules := test.judge(t)
			if want := slices.Sorted(slices.Values(test.want)); !slices.Equal(slices.Sorted(maps.Keys(rules)), want) {
				t.Errorf("found %q, want %q", slices.Sorted(maps.Keys(rules)), want)
			}
		})
	}
}

func TestLeaders(t *testing.T) {
	// a resigns, and b campaigns.
	vacant := func(until int64) *script {
		return (&script{key: history.Offices + "0:g0", mode: "exclusive"}).got("a1", 0, 2, 10).gave("a1", 5, 6, ok).
			add(history.Event{Kind: history.Acquire, Outcome: history.GaveUp, Canceled: true, Worker: worker("b"), Call: 3, Return: until})
	}
	for name, test := range map[string]struct {
		*script
		want string
	}{
		"a candidate rests between two tries":  {vacant(2000), ""},
		"nobody is elected":                    {vacant(3000), "leaderless"},
		"… while the candidate was cut off":    {vacant(3000).fault("links cut", 1, 1000, 1010, false), ""},
		"… while another candidate was":        {vacant(3000).fault("links cut", 2, 1000, 1010, false), "leaderless"},
		"… long after a failover":              {vacant(9000).fault("failover", -1, 1000, 1500, true), "leaderless"},
		"… on a machine that was slow":         {vacant(3000).slow(1, 1000, 1200), ""},
		"two lead":                             {vacant(20).got("b1", 30, 31, 11).got("c1", 40, 41, 12).gave("b1", 50, 51, ok), "overlap"},
		"a leader goes on when its term ended": {vacant(20).got("b1", 30, 31, 11).gave("b1", 600, 601, lost), "trust"},
		"a term is smaller than the last":      {vacant(20).got("b1", 30, 31, 9), "fence order"},
		"the resource takes an old term":       {vacant(20).add(history.Event{Kind: history.Claim, Fence: 11, Call: 30}).add(history.Event{Kind: history.Write, Fence: 10, Call: 31, Value: 1}), "stale write"},
	} {
		t.Run(name, func(t *testing.T) {
			if rules := test.judge(t); test.want == "" && len(rules) > 0 || test.want != "" && !rules[test.want] {
				t.Errorf("found %q, want %q", slices.Sorted(maps.Keys(rules)), test.want)
			}
		})
	}
}
