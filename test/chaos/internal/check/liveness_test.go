package check_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/redlatch/redlatch/test/chaos/internal/history"
)

// waited is an acquisition that slept from since on.
func (s *script) waited(name string, client int, from, since, to int64, outcome history.Outcome) *script {
	s.add(history.Event{Kind: history.Acquire, Outcome: outcome, Worker: worker(name), Client: client, Call: from, Return: to, Permits: 1, Size: 3})
	id := s.ids
	s.add(history.Event{Kind: history.Waiting, Worker: worker(name), Client: client, Call: since})
	s.events[len(s.events)-1].ID = id
	return s
}

// slow is a time in which a worker didn't run.
func (s *script) slow(worker int, from, to int64) *script {
	return s.add(history.Event{Kind: history.Late, Worker: worker, Call: from, Return: to})
}

// beat is a pulse.
func (s *script) beat(kind history.Kind, at int64, goroutines, backlog int) *script {
	return s.add(history.Event{Kind: kind, Call: at, Goroutines: goroutines, Backlog: backlog})
}

// crowd is grants of one worker to another, and as many refusals, every 10 ms.
func (s *script) crowd(from, to int64, granted bool) *script {
	for at := from; at < to; at += 10 {
		if granted {
			owner := "a" + string(rune('0'+at/1000)) + string(rune('0'+at/100%10)) + string(rune('0'+at/10%10))
			s.got(owner, at, at+2, uint64(at+1)).gave(owner, at+3, at+4, ok)
		} else {
			s.add(history.Event{Kind: history.Acquire, Outcome: history.GaveUp, Canceled: true, Call: at, Return: at + 2})
		}
	}
	return s
}

func TestLiveness(t *testing.T) {
	semaphore := func() *script { return &script{key: "s", mode: "semaphore"} }
	readWrite := func(mode string) *script { return &script{key: "rw", mode: mode} }
	// a has the key until 6, and b waits for it in vain.
	stranded := func() *script {
		return exclusive().got("a1", 0, 2, 10).gave("a1", 5, 6, ok).waited("b", 1, 3, 4, 1500, history.GaveUp)
	}
	// b waits, and another client of its process, who comes later, is served.
	passed := func(later int64) *script {
		return exclusive().waited("b", 1, 0, 10, 300, history.GaveUp).got("a1", 0, 9, 10).gave("a1", 19, 20, ok).
			got("b2", later, 40, 11).gave("b2", 290, 291, ok)
	}
	// b waits for all permits, of which c has one. Others of the process of b are served, the
	// last of whom comes later than the first.
	permitted := func(later int64) *script {
		s := semaphore().permits("c1", 0, 1, 10, 1).waited("b", 1, 2, 10, 1600, history.GaveUp).gave("c1", 1610, 1611, ok)
		s.events[len(s.events)-3].Permits = 3
		for at := int64(200); at < 1600; at += 200 {
			s.renewed("c1", at, at+1, ok)
		}
		return s.permits("b2", 20, 40, 11, 1).gave("b2", 290, 291, ok).permits("b3", 20+later, 40+later, 12, 1).gave("b3", 290+later, 291+later, ok)
	}
	// redis stands still for 100 ms, and isn't what it was after it.
	stalled := func(granted bool) *script {
		return exclusive().crowd(0, 1500, true).fault("redis paused", -1, 1500, 1600, false).crowd(1600, 5600, granted)
	}
	// grown has 20 goroutines, and other ones from 8,100 on.
	grown := func(goroutines int) *script {
		return exclusive().beat(history.Pulse, 1000, 20, 0).beat(history.Pulse, 8000, 20, 0).beat(history.Pulse, 8100, goroutines, 0)
	}
	unavailable := func() *script {
		return exclusive().add(history.Event{Kind: history.Acquire, Outcome: unknown, Call: 2000, Return: 2003})
	}
	// b waits for a, and then for nobody, at a key whose waiters hardly poll.
	rare := func(to int64) *script {
		s := &script{key: "exclusive" + history.Rare + "0-0:g0", mode: "exclusive"}
		return s.got("a1", 0, 2, 10).gave("a1", 5, 6, ok).waited("b", 1, 3, 4, to, history.GaveUp)
	}
	// left has a hold that was to be released by Close.
	left := func() *script {
		return exclusive().add(history.Event{Kind: history.Left, Owner: "a1", Call: 1000, Return: 1001})
	}
	// heard has a key that nobody wants from 2 on, and that has subscribers then.
	heard := func(at int64) *script {
		return exclusive().got("a1", 0, 2, 10).gave("a1", 5, 6, ok).add(history.Event{Kind: history.Heard, Worker: history.Nobody, Call: at, Return: at + 1})
	}
	closed := func(outcome history.Outcome) *script {
		return exclusive().add(history.Event{Kind: history.Close, Outcome: outcome, Call: 1000, Return: 3010})
	}
	for name, test := range map[string]struct {
		*script
		want string
	}{
		"a key is free while somebody waits":       {stranded(), "stranded"},
		"… who was cut off":                        {stranded().fault("links cut", 1, 300, 310, false), ""},
		"… while another one was":                  {stranded().fault("links cut", 2, 300, 310, false), "stranded"},
		"… on a machine that was slow":             {stranded().slow(1, 300, 700), ""},
		"… while the servers were":                 {stranded().slow(history.Nobody, 300, 700), ""},
		"… while others were slow":                 {stranded().slow(2, 300, 700), "stranded"},
		"… as another of its process comes first":  {stranded().waited("b", 2, 1, 2, 1400, history.GaveUp), "stranded"},
		"… while another may have it":              {stranded().fault("worker killed", 2, 500, 501, false).add(history.Event{Kind: history.Begin, Op: history.Acquire, Worker: 2, Call: 400}), ""},
		"… and it is taken again":                  {stranded().got("c1", 400, 402, 11).gave("c1", 1100, 1101, ok).renewed("c1", 500, 501, ok).renewed("c1", 700, 701, ok).renewed("c1", 900, 901, ok), ""},
		"… for a moment":                           {exclusive().got("a1", 0, 2, 10).gave("a1", 5, 6, ok).waited("b", 1, 3, 4, 400, history.GaveUp), ""},
		"a waiter that hardly polls isn't woken":   {rare(450), "unheard"},
		"… by a release of just now":               {rare(400), ""},
		"… as it was cut off":                      {rare(1000).fault("links cut", 1, 5, 6, false), ""},
		"… long after it was":                      {rare(1450).fault("links cut", 1, 5, 6, false), "unheard"},
		"… on a slow machine":                      {rare(450).slow(1, 300, 320), ""},
		"permits are free while somebody waits":    {semaphore().permits("a1", 0, 1, 10, 3).gave("a1", 5, 6, ok).waited("b", 1, 3, 4, 1500, history.GaveUp), "stranded"},
		"a reader waits for a reader":              {readWrite("read").in("write", "c1", 0, 2, 9).gaveIn("write", "c1", 5, 6).in("read", "a1", 7, 8, 10).waited("b", 1, 3, 4, 1500, history.GaveUp), "stranded"},
		"one who came later is served":             {passed(20), "passed"},
		"one who came before is served":            {passed(9), ""},
		"permits are given to who called, too":     {permitted(900), ""},
		"permits are given to many who come later": {permitted(1100), "passed"},
		"one of another process is served":         {exclusive().got("a1", 0, 2, 10).waited("b", 1, 0, 10, 100, history.GaveUp).gave("a1", 15, 16, ok).got("c1", 20, 40, 11).gave("c1", 110, 111, ok), ""},
		"a limit keeps from a free key":            {exclusive().add(history.Event{Kind: history.Acquire, Outcome: history.GaveUp, Call: 5, Return: 6}), "refused"},
		"… or a context that ends does":            {exclusive().add(history.Event{Kind: history.Acquire, Outcome: history.GaveUp, Canceled: true, Call: 5, Return: 6}), ""},
		"… or somebody else":                       {exclusive().got("a1", 0, 2, 10).add(history.Event{Kind: history.Acquire, Outcome: history.GaveUp, Call: 5, Return: 6}), ""},
		"the store is said to be away":             {unavailable(), "unavailable"},
		"… soon after a fault":                     {unavailable().fault("links cut", 0, 1500, 1501, false), ""},
		"… as its process starts":                  {unavailable().beat(history.Pulse, 1500, 20, 0), ""},
		"… long after its process started":         {unavailable().beat(history.Pulse, 500, 20, 0), "unavailable"},
		"… long after it":                          {unavailable().fault("links cut", 0, 500, 501, false), "unavailable"},
		"… by a machine that was slow":             {unavailable().slow(0, 1500, 1800), ""},
		"… as the servers go on not to answer":     {unavailable().slow(history.Nobody, 1950, 2300), ""},
		"a locker is closed":                       {closed(ok), ""},
		"… and leaves what expires":                {closed(unknown), "unavailable"},
		"… as a fault kept the store from it":      {closed(unknown).fault("redis paused", -1, 1500, 3100, false), ""},
		"… as the servers do not answer it":        {closed(unknown).slow(history.Nobody, 900, 3000), ""},
		"… while one of them hesitates":            {closed(unknown).slow(history.Nobody, 900, 1000), "unavailable"},
		"a locker leaves a hold":                   {left(), "left"},
		"… whose release a server forgot":          {left().fault("failover", -1, 500, 700, true), ""},
		"… whatever else broke":                    {left().fault("links cut", 0, 900, 1000, false), "left"},
		"nobody wants what is listened to":         {heard(1010), "subscribed"},
		"… since a moment":                         {heard(990), ""},
		"… between two who want it":                {heard(1010).got("b1", 2000, 2002, 11).gave("b1", 2003, 2004, ok), ""},
		"… since the end of a fault":               {heard(1910).fault("links cut", 2, 5, 6, false), ""},
		"… since long before":                      {heard(2020).fault("links cut", 2, 5, 6, false), "subscribed"},
		"… on one that is always slow":             {heard(9000).slow(0, 100, 4500), "subscribed"},
		"… whose servers are slow, too":            {heard(9000).slow(history.Nobody, 100, 8900), "subscribed"},
		"… heard of on a slow machine":             {heard(1010).slow(0, 500, 510), ""},
		"the service comes back":                   {stalled(true), ""},
		"the service does not come back":           {stalled(false), "no service"},
		"… as the servers do not answer":           {stalled(false).slow(history.Nobody, 3000, 5600), ""},
		"goroutines stay in the end":               {exclusive().beat(history.Pulse, 1000, 20, 0).beat(history.Idle, 9000, 3, 0), "growth"},
		"calls to undo stay in the end":            {exclusive().beat(history.Pulse, 1000, 20, 0).beat(history.Idle, 9000, 0, 1), "growth"},
		"nothing stays in the end":                 {exclusive().beat(history.Pulse, 1000, 20, 0).beat(history.Idle, 9000, 0, 0), ""},
		"goroutines grow":                          {grown(80).beat(history.Pulse, 9100, 80, 0), "growth"},
		"… for one count":                          {grown(80).beat(history.Pulse, 8900, 70, 0).beat(history.Pulse, 9800, 80, 0), ""},
		"… and not by enough":                      {grown(72).beat(history.Pulse, 9100, 72, 0), ""},
		"… while something breaks":                 {grown(80).beat(history.Pulse, 9100, 80, 0).fault("requests held", 0, 6000, 8000, false), ""},
		"there is more to undo than had no answer": {exclusive().beat(history.Pulse, 1000, 20, 0).beat(history.Pulse, 9000, 20, 40), "growth"},
	} {
		t.Run(name, func(t *testing.T) {
			rules := test.judge(t)
			if test.want == "" && len(rules) > 0 || test.want != "" && !rules[test.want] || len(rules) > 1 {
				t.Errorf("found %q, want %q", slices.Sorted(maps.Keys(rules)), test.want)
			}
		})
	}
}

// What nobody has a lease of is released by then, and excuses nothing more.
func TestWhatNobodyGotIsReleased(t *testing.T) {
	gaveUp := history.Event{Kind: history.Acquire, Outcome: history.GaveUp, Canceled: true, Call: 0, Return: 8}
	call := func(e history.Event) *script {
		s := exclusive().add(gaveUp)
		id := s.ids
		s.add(e)
		s.events[1].ID, s.events[1].TTL = id, 10_000*ms
		return s
	}
	granted := history.Event{Kind: history.Grant, Owner: "a1", Call: 1, Return: 20, Fence: 3}
	doubted := history.Event{Kind: history.Doubt, Op: history.Acquire, Owner: "a1", Call: 1, Return: 7, Note: "EOF"}
	for name, test := range map[string]struct {
		*script
		at    int64
		known bool
	}{
		"granted too late":                {call(granted), 1000, true},
		"… just now":                      {call(granted), 300, false},
		"… by a worker that was killed":   {call(granted).fault("worker killed", 0, 400, 401, false), 1000, false},
		"… by a worker that was stopped":  {call(granted).fault("worker paused", 0, 10, 600, false), 2000, false},
		"… some time ago":                 {call(granted).fault("worker paused", 0, 10, 600, false), 2500, true},
		"not answered, and may run later": {call(doubted), 2500, false},
		"… so it is released again":       {call(doubted), 4000, true},
	} {
		t.Run(name, func(t *testing.T) {
			if rules := test.busy("b", test.at, test.at+1).judge(t); rules["model illegal"] != test.known {
				t.Errorf("found %v", rules)
			}
		})
	}
}

// A request that waits in front of servers that don't answer runs after that.
func TestServersThatDoNotAnswerRunNothing(t *testing.T) {
	call := func() *script {
		return exclusive().add(history.Event{
			Kind: history.Doubt, Op: history.Acquire, Owner: "a1", Call: 1, Return: 7, TTL: 300 * ms, Note: "i/o timeout",
		}).busy("b", 900, 901)
	}
	if rules := call().judge(t); !rules["model illegal"] {
		t.Errorf("found %v, although the call has run and its lease has ended", rules)
	}
	if rules := call().slow(history.Nobody, 5, 740).judge(t); len(rules) > 0 {
		t.Errorf("found %v, although it may have run just now", rules)
	}
}

// Leases that share a hold end it with the last.
func TestTheLastLeaseEndsTheHold(t *testing.T) {
	shared := func() *script {
		return exclusive().got("a1", 0, 2, 10).again("a1", 3, 5, 10).shared("a1", 10, 12).gave("a1", 20, 22, ok)
	}
	if rules := shared().got("b1", 23, 24, 11).gave("b1", 25, 26, ok).judge(t); len(rules) > 0 {
		t.Errorf("found %v in a legal history", rules)
	}
	if rules := shared().got("b1", 15, 17, 11).gave("b1", 25, 26, ok).judge(t); !rules["overlap"] {
		t.Errorf("found %v, want that the hold had not ended", rules)
	}
	if rules := shared().busy("b", 23, 24).judge(t); !rules["model illegal"] {
		t.Errorf("found %v, want that the hold had ended", rules)
	}
	// A kill in the middle of the last release leaves the key, or doesn't.
	cut := func() *script {
		s := shared()
		last := len(s.events) - 1
		s.events[last].Kind, s.events[last].Op = history.Begin, history.Release
		return s.fault("worker killed", 0, 21, 21, false)
	}
	if rules := cut().got("b1", 23, 24, 11).judge(t); len(rules) > 0 {
		t.Errorf("found %v, although the release may have run", rules)
	}
	if rules := cut().busy("b", 200, 201).judge(t); len(rules) > 0 {
		t.Errorf("found %v, although the release may not have run", rules)
	}
}

// A process that was killed takes with it what it alone knew of.
func TestACallThatWasLeftAndKilledMayHaveRun(t *testing.T) {
	left := func(pending bool) *script {
		return exclusive().add(history.Event{
			Kind: history.Acquire, Outcome: history.GaveUp, Canceled: true, Pending: pending, Call: 0, Return: 8,
		}).fault("worker killed", 0, 9, 10, false).busy("b", 200, 201)
	}
	if rules := left(true).judge(t); len(rules) > 0 {
		t.Errorf("found %v, although the call may have run", rules)
	}
	if rules := left(false).judge(t); !rules["model illegal"] {
		t.Errorf("found %v, although all calls were answered", rules)
	}
}

func TestFairOrderOfWhoGaveUp(t *testing.T) {
	queued := func(owner string, from, to int64) history.Event {
		return history.Event{Kind: history.Queued, Outcome: ok, Owner: owner, Worker: worker(owner), Call: from, Return: to}
	}
	s := func(last int64) *script {
		s := &script{key: "f", mode: "fair"}
		return s.got("a1", 0, 2, 10).add(queued("b1", 3, 4)).add(queued("c1", 20, 21)).gave("a1", 30, 31, ok).
			got("c1", 32, 33, 11).gave("c1", 34, 35, ok).add(queued("b1", last, last+1))
	}
	if rules := s(40).judge(t); !rules["fair order"] {
		t.Errorf("found %v, want that one who waited on was overtaken", rules)
	}
	if rules := s(25).judge(t); len(rules) > 0 {
		t.Errorf("found %v, although it may have left before", rules)
	}
	if rules := s(40).fault("worker paused", 1, 25, 35, false).judge(t); len(rules) > 0 {
		t.Errorf("found %v, although it was stopped meanwhile", rules)
	}
}
