package check_test

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/redlatch/redlatch/test/chaos/internal/check"
	"github.com/redlatch/redlatch/test/chaos/internal/history"
)

const (
	ms    = int64(time.Millisecond)
	lease = 300 * ms
)

// script writes histories by hand. Times are in ms.
type script struct {
	key, mode string
	topology  string // default: standalone
	events    []history.Event
	faults    []history.Fault
	ids       uint64
}

func (s *script) add(e history.Event) *script {
	e.Key = s.key
	if e.Mode == "" {
		e.Mode = s.mode
	}
	e.Call, e.Return, e.Trusted, e.Until = e.Call*ms, e.Return*ms, e.Trusted*ms, e.Until*ms
	e.TTL = lease
	s.ids++
	e.ID = s.ids
	s.events = append(s.events, e)
	return s
}

// worker returns the worker of an owner: "b2" is the second owner of worker 1.
func worker(owner string) int { return int(owner[0] - 'a') }

// got is a grant and its return.
func (s *script) got(owner string, from, to int64, fence uint64) *script {
	e := history.Event{Owner: owner, Worker: worker(owner), Call: from, Return: to, Fence: fence}
	e.Kind = history.Grant
	s.add(e)
	e.Kind, e.Outcome = history.Acquire, history.OK
	return s.add(e)
}

// stopped is a grant whose caller had to wait until it could go on.
func (s *script) stopped(owner string, from, to, back int64, fence uint64) *script {
	return s.got(owner, from, to, fence).stoppedUntil(back)
}

// stoppedUntil is when the last event returned.
func (s *script) stoppedUntil(back int64) *script {
	s.events[len(s.events)-1].Return = back * ms
	return s
}

// until is when the trust in the last lease ends.
func (s *script) until(end int64) *script {
	s.events[len(s.events)-1].Until = end * ms
	return s
}

func (s *script) in(mode, owner string, from, to int64, fence uint64) *script {
	before := s.mode
	s.mode = mode
	s.got(owner, from, to, fence)
	s.mode = before
	return s
}

// permits is a grant of a semaphore of three.
func (s *script) permits(owner string, from, to int64, fence uint64, n int) *script {
	e := history.Event{Owner: owner, Worker: worker(owner), Call: from, Return: to, Fence: fence, Permits: n, Size: 3}
	e.Kind = history.Grant
	s.add(e)
	e.Kind, e.Outcome = history.Acquire, history.OK
	return s.add(e)
}

func (s *script) busy(owner string, from, to int64) *script {
	return s.add(history.Event{
		Kind: history.Acquire, Outcome: history.Busy, Worker: worker(owner), Call: from, Return: to, Permits: 1, Size: 3,
	})
}

// again is a re-entry. The store isn't called.
func (s *script) again(owner string, from, to int64, fence uint64) *script {
	return s.add(history.Event{
		Kind: history.Acquire, Outcome: history.OK, Owner: owner, Worker: worker(owner), Call: from, Return: to, Fence: fence, Nested: true,
	})
}

// shared is the release of a lease whose hold another one shares.
func (s *script) shared(owner string, from, to int64) *script {
	return s.add(history.Event{
		Kind: history.Release, Outcome: history.OK, Owner: owner, Worker: worker(owner), Call: from, Return: to, Trusted: from, Nested: true,
	})
}

// reads is the re-entry of a writer who reads.
func (s *script) reads(owner string, from, to int64, fence uint64) *script {
	return s.again(owner, from, to, fence).modeOfLast("read")
}

// stopsReading is the release of a writer who has read.
func (s *script) stopsReading(owner string, from, to int64) *script {
	s.shared(owner, from, to).modeOfLast("read")
	s.events[len(s.events)-1].Fence = 10
	return s
}

// lowered is the release of a writer with fence 10 who reads on, and the call for it.
func (s *script) lowered(owner string, from, to int64) *script {
	e := history.Event{Kind: history.Lowered, Outcome: history.OK, Mode: "read", Owner: owner, Worker: worker(owner), Call: from, Return: to}
	s.add(e)
	e.Kind, e.Mode, e.Fence, e.Trusted, e.Nested = history.Lower, "write", 10, from, true
	return s.add(e)
}

// unlowered is such a release whose call had no answer.
func (s *script) unlowered(owner string, from, to int64) *script {
	e := history.Event{Kind: history.Doubt, Op: history.Lowered, Mode: "read", Owner: owner, Worker: worker(owner), Call: from, Return: to}
	s.add(e)
	e.Kind, e.Op, e.Outcome, e.Mode, e.Fence, e.Trusted, e.Nested = history.Lower, "", history.Unknown, "write", 10, from, true
	return s.add(e)
}

// busyIn is busy in that mode.
func (s *script) busyIn(mode, owner string, from, to int64) *script {
	return s.busy(owner, from, to).modeOfLast(mode)
}

// gave is a release, which called the store. It was trusted until it began.
func (s *script) gave(owner string, from, to int64, outcome history.Outcome) *script {
	if outcome == history.OK {
		s.freed(owner, from, to)
	}
	return s.add(history.Event{
		Kind: history.Release, Outcome: outcome, Owner: owner, Worker: worker(owner), Call: from, Return: to, Trusted: from,
	})
}

// late is a release by one who wasn't looking since the grant.
func (s *script) late(owner string, from, to int64, outcome history.Outcome) *script {
	s.gave(owner, from, to, outcome)
	s.events[len(s.events)-1].Trusted = 0
	return s
}

// freed is a release in the store.
func (s *script) freed(owner string, from, to int64) *script {
	return s.add(history.Event{Kind: history.Freed, Outcome: history.OK, Owner: owner, Worker: worker(owner), Call: from, Return: to})
}

// handed is a release that hands the hold on, and the lease that its next caller
// has waited for.
func (s *script) handed(owner string, from, to int64, fence uint64) *script {
	return s.passed(owner, from, to, fence-1).took(owner, from-1, to+1, fence)
}

// passed is a release that hands the hold on.
func (s *script) passed(owner string, from, to int64, fence uint64) *script {
	return s.add(history.Event{
		Kind: history.Release, Outcome: history.OK, Owner: owner, Worker: worker(owner), Fence: fence, Call: from, Return: to, Trusted: from,
	})
}

// took is the return of a caller to whom a hold was handed on.
func (s *script) took(owner string, from, to int64, fence uint64) *script {
	return s.add(history.Event{
		Kind: history.Acquire, Outcome: history.OK, Owner: owner, Worker: worker(owner), Fence: fence, Call: from, Return: to,
	})
}

func (s *script) gaveIn(mode, owner string, from, to int64) *script {
	s.freed(owner, from, to)
	return s.add(history.Event{
		Kind: history.Release, Outcome: history.OK, Mode: mode, Owner: owner, Worker: worker(owner), Call: from, Return: to, Trusted: from,
	})
}

// modeOfLast sets the mode of the last event.
func (s *script) modeOfLast(mode string) *script {
	s.events[len(s.events)-1].Mode = mode
	return s
}

// fenceOfLast sets the fence of the last event.
func (s *script) fenceOfLast(fence uint64) *script {
	s.events[len(s.events)-1].Fence = fence
	return s
}

func (s *script) renewed(owner string, from, to int64, outcome history.Outcome) *script {
	return s.add(history.Event{Kind: history.Renew, Outcome: outcome, Owner: owner, Worker: worker(owner), Call: from, Return: to})
}

func (s *script) fault(kind string, worker int, from, to int64, amnesia bool) *script {
	s.faults = append(s.faults, history.Fault{Kind: kind, Worker: worker, From: from * ms, To: to * ms, Amnesia: amnesia})
	return s
}

func exclusive() *script { return &script{key: "k", mode: "exclusive"} }

// readsOn is a writer who reads as well.
func readsOn() *script {
	return (&script{key: "rw", mode: "read"}).in("write", "a1", 0, 1, 10).reads("a1", 2, 3, 10)
}

func (s *script) timeline() *check.Timeline {
	return check.NewTimeline(check.Settings{Topology: cmp.Or(s.topology, "standalone"), Lease: time.Duration(lease)}, s.events, s.faults)
}

// judge runs all checkers and returns the rules that are broken.
func (s *script) judge(t *testing.T) map[string]bool {
	t.Helper()
	timeline := s.timeline()
	found, _ := timeline.Rules()
	unfair, _ := timeline.Fair()
	verdicts, err := timeline.Search("")
	if err != nil {
		t.Fatal(err)
	}
	rules := make(map[string]bool)
	for _, v := range slices.Concat(found, unfair, timeline.Liveness(), verdicts.Found) {
		rules[v.Rule] = true
	}
	return rules
}
