package judge_test

import (
	"testing"
	"time"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/test/sim/internal/judge"
)

var start = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }

// verdict is what a judge says of a planted history.
type verdict struct {
	found []judge.Finding
	want  string // rule; empty: nothing
}

func check(t *testing.T, verdicts map[string]verdict) {
	t.Helper()
	for name, v := range verdicts {
		switch {
		case v.want == "" && len(v.found) > 0:
			t.Errorf("%s: found %v in what is right", name, v.found)
		case v.want != "" && len(v.found) == 0:
			t.Errorf("%s: found nothing, want %q", name, v.want)
		case v.want != "" && v.found[0].Rule != v.want:
			t.Errorf("%s: found %q, want %q", name, v.found[0].Rule, v.want)
		}
	}
}

func lease(owner string, mode lock.Mode) judge.Lease {
	return judge.Lease{Key: "k", Owner: owner, Mode: mode, Deadline: at(10)}
}

func permits(owner string, n int) judge.Lease {
	return judge.Lease{Key: "k", Owner: owner, Mode: lock.Semaphore, Permits: n, Size: 3}
}

func TestHolders(t *testing.T) {
	handedOff := lease("a", lock.Exclusive)
	handedOff.Fence++
	holders := func(leases ...judge.Lease) []judge.Finding { return judge.Holders(at(1), leases) }
	check(t, map[string]verdict{
		"one":                 {holders(lease("a", lock.Exclusive)), ""},
		"two":                 {holders(lease("a", lock.Exclusive), lease("b", lock.Exclusive)), "two holders"},
		"the same owner":      {holders(lease("a", lock.Exclusive), lease("a", lock.Exclusive)), ""},
		"two of a hand-off":   {holders(lease("a", lock.Exclusive), handedOff), "two holders"},
		"two readers":         {holders(lease("a", lock.Read), lease("b", lock.Read)), ""},
		"reader and writer":   {holders(lease("a", lock.Read), lease("b", lock.Write)), "two holders"},
		"a writer that reads": {holders(lease("a", lock.Read), lease("a", lock.Write)), ""},
		"fair and exclusive":  {holders(lease("a", lock.Fair), lease("b", lock.Exclusive)), "two holders"},
		"all permits":         {holders(permits("a", 2), permits("b", 1)), ""},
		"one permit too many": {holders(permits("a", 2), permits("b", 2)), "too many permits"},
		"permits of three":    {holders(permits("a", 1), permits("b", 1), permits("c", 2)), "too many permits"},
	})
}

func TestBacked(t *testing.T) {
	backed := func(b judge.Backing) []judge.Finding {
		b.Lease = lease("a", lock.Exclusive)
		return judge.Backed(at(1), []judge.Backing{b})
	}
	check(t, map[string]verdict{
		"lasts":        {backed(judge.Backing{Present: true, Until: at(10.1)}), ""},
		"to the point": {backed(judge.Backing{Present: true, Until: at(10)}), ""},
		"ends before":  {backed(judge.Backing{Present: true, Until: at(9.9)}), "trust outlasts the key"},
		"gone":         {backed(judge.Backing{}), "trusted but gone"},
		"for ever":     {backed(judge.Backing{Present: true, Never: true}), "hold without an end"},
		"renewed":      {judge.Renewed(at(1), "k", "a", true), ""},
		"renews none":  {judge.Renewed(at(1), "k", "a", false), "confirmed but gone"},
		"lost":         {judge.Taken(at(1), "k", "a", false), ""},
		"lost by word": {judge.Taken(at(1), "k", "a", true), "lost but there"},
		"evicted":      {judge.Evicted(at(1), "k", "a"), "guest evicted"},
		"acquired":     {judge.Made(at(1), "k", "a", "read_acquire"), ""},
		"lowered":      {judge.Made(at(1), "k", "a", "lower"), "hold out of nothing"},
		"no call":      {judge.Reentered(at(1), "k", "a", 0), ""},
		"a call":       {judge.Reentered(at(1), "k", "a", 1), "re-entry called"},
	})
}

func TestFences(t *testing.T) {
	grant := func(key, owner string, fence uint64) judge.Grant {
		return judge.Grant{Key: key, Owner: owner, Fence: fence, At: at(float64(fence))}
	}
	check(t, map[string]verdict{
		"rising":                      {judge.Fences([]judge.Grant{grant("k", "a", 1), grant("k", "b", 2)}), ""},
		"falling":                     {judge.Fences([]judge.Grant{grant("k", "a", 2), grant("k", "b", 1)}), "fence did not rise"},
		"the same":                    {judge.Fences([]judge.Grant{grant("k", "a", 2), grant("k", "b", 2)}), "fence did not rise"},
		"of other keys":               {judge.Fences([]judge.Grant{grant("k", "a", 2), grant("l", "b", 1)}), ""},
		"handed off":                  {judge.Fences([]judge.Grant{grant("k", "a", 2), grant("k", "a", 3)}), ""},
		"a hand-off without its step": {judge.Fences([]judge.Grant{grant("k", "a", 2), grant("k", "a", 2)}), "fence did not rise"},
		"handed back":                 {judge.Fences([]judge.Grant{grant("k", "a", 3), grant("k", "a", 2)}), "fence did not rise"},
	})
}

func TestPassed(t *testing.T) {
	first := judge.Wait{Key: "k", Locker: 1, Began: at(1), Ended: at(9), Granted: true, Waits: true}
	later := func(locker int, began, ended float64, granted bool) judge.Wait {
		return judge.Wait{Key: "k", Locker: locker, Began: at(began), Ended: at(ended), Granted: granted, Waits: true}
	}
	try := first
	try.Waits = false
	check(t, map[string]verdict{
		"by three": {judge.Passed([]judge.Wait{first, later(1, 2, 3, true), later(1, 4, 5, true), later(1, 6, 7, true)}), "passed by later callers"},
		"by three that came before": {
			judge.Passed([]judge.Wait{later(1, 0.1, 2, true), later(1, 0.2, 3, true), later(1, 0.3, 4, true), first}), "",
		},
		"by three in another locker": {judge.Passed([]judge.Wait{first, later(2, 2, 3, true), later(2, 4, 5, true), later(2, 6, 7, true)}), ""},
		"by three that got nothing":  {judge.Passed([]judge.Wait{first, later(1, 2, 3, false), later(1, 4, 5, false), later(1, 6, 7, false)}), ""},
		"by two":                     {judge.Passed([]judge.Wait{first, later(1, 2, 3, true), later(1, 4, 5, true)}), ""},
		"one that does not wait":     {judge.Passed([]judge.Wait{try, later(1, 2, 3, true), later(1, 4, 5, true), later(1, 6, 7, true)}), ""},
	})
}

func TestSpared(t *testing.T) {
	taking := func(granted time.Time) []judge.Finding {
		return judge.Spared(at(9), judge.Taking{Key: "k", Owner: "a", Sent: at(5), Granted: granted})
	}
	check(t, map[string]verdict{
		"granted before":        {taking(at(4)), ""},
		"never granted":         {taking(time.Time{}), ""},
		"granted on its way":    {taking(at(6)), "taken by a late force"},
		"granted when it began": {taking(at(5)), ""},
	})
}

func TestOverstayed(t *testing.T) {
	call := func(ended float64) judge.Call {
		return judge.Call{Op: "release", Key: "k", Began: at(1), Ended: at(ended), Limit: time.Second}
	}
	check(t, map[string]verdict{
		"in time": {judge.Overstayed(call(2)), ""},
		"late":    {judge.Overstayed(call(2.1)), "call overstayed"},
	})
}

func TestOrder(t *testing.T) {
	turn := func(owner string, places ...judge.Place) []judge.Finding {
		return judge.Order(at(5), judge.Turn{Key: "k", Owner: owner, Queue: places})
	}
	handed := func(to, owner string, places ...judge.Place) []judge.Finding {
		return judge.Order(at(5), judge.Turn{Key: "k", Owner: owner, Handed: to, Queue: places})
	}
	live := func(owner string) judge.Place { return judge.Place{Owner: owner, Until: at(6)} }
	dead := func(owner string) judge.Place { return judge.Place{Owner: owner, Until: at(5)} }
	check(t, map[string]verdict{
		"empty":                        {turn("a"), ""},
		"the first":                    {turn("a", live("a"), live("b")), ""},
		"the second":                   {turn("b", live("a"), live("b")), "fair order"},
		"the last, as in a stack":      {turn("c", live("a"), live("b"), live("c")), "fair order"},
		"the second, the first dead":   {turn("b", dead("a"), live("b")), ""},
		"one that is not in it":        {turn("c", live("a")), "fair order"},
		"another of the locker":        {turn("l:2", live("l:1")), ""},
		"one that is not in it, dead":  {turn("c", dead("a")), ""},
		"the first, given up but back": {turn("a", dead("a"), live("b")), ""},
		"handed to its locker":         {handed("l:1", "l:2", live("a")), ""},
		"handed to another locker":     {handed("m:1", "l:2", live("a"), live("l:1")), "fair order"},
	})
}

func TestServed(t *testing.T) {
	turn := judge.Turn{Key: "k", Owner: "l:2", Queue: []judge.Place{
		{Owner: "l:0", Until: at(4)}, {Owner: "m:1", Until: at(6)}, {Owner: "l:1", Until: at(6)}, {Owner: "l:2", Until: at(6)},
	}}
	if got := turn.Served(at(5)); got != "l:2" {
		t.Errorf("its own place was not served, but %q", got)
	}
	turn.Queue = turn.Queue[:3]
	if got := turn.Served(at(5)); got != "l:1" {
		t.Errorf("the live place of its locker was not served, but %q", got)
	}
}

func TestDeserted(t *testing.T) {
	queue := func(until, calm float64) []judge.Finding {
		return judge.Deserted(at(10), judge.Desertion{
			Key: "k", Calm: at(calm), Clock: at(10), Patience: 5 * time.Second, Queue: []judge.Place{{Owner: "a", Until: at(until)}},
		})
	}
	check(t, map[string]verdict{
		"a live place":   {queue(15, 1), "place of nobody"},
		"a dead one":     {queue(9, 1), ""},
		"just disturbed": {queue(15, 6), ""},
	})
}

func TestLatches(t *testing.T) {
	check(t, map[string]verdict{
		"open before":      {judge.Opened(at(9), "k", at(5), at(4)), "latch was closed"},
		"open meanwhile":   {judge.Opened(at(9), "k", at(5), at(6)), ""},
		"counted twice":    {judge.Counted(at(9), "k", judge.Counts{Called: 1, Executed: 2}), "counted wrongly"},
		"not counted":      {judge.Counted(at(9), "k", judge.Counts{Called: 2, Executed: 1, Confirmed: 2}), "counted wrongly"},
		"lost and unknown": {judge.Counted(at(9), "k", judge.Counts{Called: 3, Executed: 2, Confirmed: 1}), ""},
	})
}

func TestStranded(t *testing.T) {
	idle := func(free, waiting, calm float64) []judge.Finding {
		return judge.Stranded(at(10), judge.Idle{
			Key: "k", Free: at(free), Waiting: at(waiting), Calm: at(calm), Slack: judge.Slack(time.Second, time.Second, 0),
		})
	}
	check(t, map[string]verdict{
		"for long":          {idle(1, 1, 1), "free while somebody waits"},
		"free for a moment": {idle(9, 1, 1), ""},
		"waiting since now": {idle(1, 9, 1), ""},
		"just disturbed":    {idle(1, 1, 9), ""},
	})
}

func TestEmpty(t *testing.T) {
	check(t, map[string]verdict{
		"nothing":   {judge.Empty(at(1), 0, nil), ""},
		"something": {judge.Empty(at(1), 0, []judge.Leftover{{Key: "k", Left: time.Second}}), "left for long"},
		"allowed":   {judge.Empty(at(1), time.Minute, []judge.Leftover{{Key: "k", Left: time.Second}}), ""},
		"for ever":  {judge.Empty(at(1), time.Minute, []judge.Leftover{{Key: "k", Never: true}}), "left for ever"},
	})
}

func TestUnclosed(t *testing.T) {
	check(t, map[string]verdict{
		"lost":           {judge.Away("k", at(10), at(1), 3*time.Second), "lost while reachable"},
		"just reachable": {judge.Away("k", at(10), at(8), 3*time.Second), ""},
		"holds it":       {judge.Closed(at(1), "k", "a", true), "held after close"},
		"of no caller":   {judge.Closed(at(1), "k", "a", false), ""},
		"works on":       {judge.Drained(at(1), []judge.Lease{{Key: "k", Owner: "a"}}), "held after drain"},
		"nobody works":   {judge.Drained(at(1), nil), ""},
		"listens":        {judge.Unsubscribed(at(10), at(1), 0, []string{"c"}), "subscribed for nobody"},
		"listened":       {judge.Unsubscribed(at(10), at(1), 0, nil), ""},
		"just left":      {judge.Unsubscribed(at(10), at(9), 0, []string{"c"}), ""},
		"undisturbed":    {judge.Unclosed(at(10), at(1), time.Second, "no answer"), "close failed"},
		"just disturbed": {judge.Unclosed(at(10), at(9), time.Second, "no answer"), ""},
	})
}

func TestTerm(t *testing.T) {
	check(t, map[string]verdict{
		"the fence": {judge.Term(at(1), "k", 7, 7), ""},
		"another":   {judge.Term(at(1), "k", 7, 8), "term is not the fence"},
	})
}

func TestRevisited(t *testing.T) {
	check(t, map[string]verdict{
		"a lock":              {judge.Revisited(at(1), "release", 1, "hlen"), "looks at what it removed"},
		"an allowed key":      {judge.Revisited(at(1), "fair_release", 2, "lindex"), ""},
		"the lock next to it": {judge.Revisited(at(1), "fair_release", 1, "exists"), "looks at what it removed"},
	})
}

func TestLooping(t *testing.T) {
	calls := func(n int, within time.Duration) []judge.Finding {
		return judge.Looping(at(1), judge.Calls{Key: "k", Owner: "a", Number: n, Within: within})
	}
	check(t, map[string]verdict{
		"as fast as it can": {calls(51, 70*time.Millisecond), "calls in a loop"},
		"some":              {calls(50, 70*time.Millisecond), ""},
		"over a long time":  {calls(51, 2*time.Second), ""},
	})
}

func TestRecovered(t *testing.T) {
	service := func(before, after, backlog int) []judge.Finding {
		return judge.Recovered(at(1), judge.Service{Before: before, After: after, Backlog: backlog, Callers: 6})
	}
	check(t, map[string]verdict{
		"as before":      {service(400, 380, 6), ""},
		"collapsed":      {service(400, 20, 0), "no service"},
		"never served":   {service(0, 0, 0), "no service"},
		"much to undo":   {service(400, 400, 7), "backlog stays"},
		"almost as many": {service(400, 300, 0), ""},
	})
}

func TestAfterClose(t *testing.T) {
	late := func(g judge.LateGrant) []judge.Finding { return judge.AfterClose(at(9), 30*time.Second, g) }
	check(t, map[string]verdict{
		"short":    {late(judge.LateGrant{Key: "k", Left: 30 * time.Second}), ""},
		"long":     {late(judge.LateGrant{Key: "k", Left: time.Minute}), "grant after close"},
		"for ever": {late(judge.LateGrant{Key: "k", Never: true}), "grant after close"},
	})
}

func TestKept(t *testing.T) {
	next := func(now float64) []judge.Finding {
		return judge.Kept(at(now), judge.Minimum{Key: "k", Owner: "a", Until: at(2), Next: "b"})
	}
	check(t, map[string]verdict{
		"before the end":     {next(1.9), "minimum hold"},
		"in its millisecond": {next(1.9995), ""},
		"after the end":      {next(2), ""},
	})
}

func TestUndone(t *testing.T) {
	orphan := func(since, calm float64) []judge.Finding {
		return judge.Undone(at(20), judge.Orphan{Key: "k", Owner: "a", Since: at(since), Calm: at(calm), Patience: judge.Patience(time.Second)})
	}
	check(t, map[string]verdict{
		"for long":       {orphan(1, 1), "hold of nobody"},
		"for a moment":   {orphan(19, 1), ""},
		"just disturbed": {orphan(1, 19), ""},
	})
}
