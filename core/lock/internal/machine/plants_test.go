package machine

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// plant is a bug: an edit of the source, and the scope that finds it. A plant that no
// longer matches the source is an error, so that it moves along with the code.
type plant struct {
	name  string
	scope string
	// was is the subject of the commit that fixed the same fault in the engine, if there is one.
	was   string
	edits []edit
}

// edit replaces old, which a file of this package has once, by what is planted.
type edit struct{ file, old, planted string }

func in(file, old, planted string) []edit { return []edit{{file, old, planted}} }

var (
	controls   = flag.Bool("controls", false, "plant bugs, and see that the explorer finds each")
	keepIn     = flag.String("keep-in", "", "with -controls: keep the traces in this folder")
	plantNamed = flag.String("plant", "", "plant only the bugs whose names begin so")
)

var found = regexp.MustCompile(`found after (\d+) states and (\d+) moves: ([^\n]*)`)

// TestControls builds this test with each plant in turn, and has it explore one scope.
func TestControls(t *testing.T) {
	if !*controls {
		t.Skip("without -controls")
	}
	for _, p := range plants() {
		if !matches(p.name, *plantNamed) {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			out := p.explore(t)
			m := found.FindStringSubmatch(out)
			if m == nil {
				t.Fatalf("scope %q does not find it: %s", p.scope, out)
			}
			t.Logf("%s: %s, %s states, %s moves, %.1fs", p.scope, m[3], m[1], m[2], time.Since(began).Seconds())
		})
	}
}

// TestPlantsFit checks that each plant still has its place in the source.
func TestPlantsFit(t *testing.T) {
	for _, p := range plants() {
		for n, e := range p.edits {
			source, err := os.ReadFile(e.file)
			if err != nil {
				t.Fatal(err)
			}
			if c := strings.Count(string(source), e.old); c != 1 && n == 0 {
				t.Errorf("%s: %s has %d times: %s", p.name, e.file, c, e.old)
			}
		}
	}
}

// explore returns the output of the explorer of the planted source.
func (p *plant) explore(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	replace := map[string]string{}
	for n, e := range p.edits {
		path, err := filepath.Abs(e.file)
		if err != nil {
			t.Fatal(err)
		}
		from := path
		if earlier := replace[path]; earlier != "" {
			from = earlier
		}
		source, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if c := strings.Count(string(source), e.old); c != 1 {
			t.Fatalf("%s has %d times: %s", e.file, c, e.old)
		}
		to := filepath.Join(dir, fmt.Sprintf("%d_%s", n, filepath.Base(e.file)))
		if err := os.WriteFile(to, []byte(strings.Replace(string(source), e.old, e.planted, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		replace[path] = to
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	file, binary := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "machine.test")
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	p.run(t, "go", "test", "-c", "-vet=off", "-overlay", file, "-o", binary, ".")
	return p.run(t, binary, "-test.run", "^TestExplore$", "-test.v", "-scope", p.scope+"$", "-most", "400000", "-keep", *keepIn+slug(p.name))
}

// slug makes a file name of a name; none if traces are not kept.
func slug(name string) string {
	if *keepIn == "" {
		return ""
	}
	return "/" + strings.Map(func(r rune) rune {
		if r == ' ' {
			return '-'
		}
		return r
	}, strings.ReplaceAll(name, "'", "")) + ".trace"
}

// run returns the output of a command. Its error is of interest only where it didn't run.
func (p *plant) run(t *testing.T, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil && (name == "go" || !strings.Contains(string(out), "FAIL")) {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
	return string(out)
}

// TestPlantsMatchTheSource is quick: every edit has its place, and every plant its scope.
func TestPlantsMatchTheSource(t *testing.T) {
	names := map[string]bool{}
	for _, sc := range scopes() {
		names[sc.name] = true
	}
	list := plants()
	if len(list) < 40 {
		t.Errorf("only %d plants", len(list))
	}
	seen := map[string]bool{}
	for _, p := range list {
		if seen[p.name] {
			t.Errorf("two plants %q", p.name)
		}
		seen[p.name] = true
		if !names[p.scope] {
			t.Errorf("%s: no scope %q", p.name, p.scope)
		}
		for _, e := range p.edits {
			source, err := os.ReadFile(e.file)
			if err != nil {
				t.Fatal(err)
			}
			if c := strings.Count(string(source), e.old); c != 1 {
				t.Errorf("%s: %s has %d times: %s", p.name, e.file, c, e.old)
			}
			if e.old == e.planted {
				t.Errorf("%s plants nothing", p.name)
			}
		}
	}
}

// TestOldFaultsArePlanted compares the plants with the list of the faults that there were.
func TestOldFaultsArePlanted(t *testing.T) {
	text, err := os.ReadFile("testdata/old-faults.txt")
	if err != nil {
		t.Fatal(err)
	}
	old := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		class, subject, ok := strings.Cut(strings.TrimSpace(line), " | ")
		if ok {
			old[subject] = class == "planted"
		}
	}
	used := map[string]bool{}
	for _, p := range plants() {
		if used[p.was] = true; p.was != "" && !old[p.was] {
			t.Errorf("%s: the list has no planted fault %q", p.name, p.was)
		}
	}
	for subject, planted := range old {
		if planted && !used[subject] {
			t.Errorf("no plant for %q", subject)
		}
	}
}

func plants() []plant {
	return []plant{
		// The queue.
		{"the last comes first", "yield, nobody listens", "", in("caller.go", "	h := m.claim(i)\n	s := m.queue.head\n	if !m.Spaced", "	h := m.claim(i)\n	s := m.queue.tail\n	if !m.Spaced")},
		{"a try waits behind others", "a waiter and tries", "", in("caller.go", "	if c.Once && m.takenHere(c.Mode) {", "	if false {")},
		{"a try shares the call under way", "three tries", "core/lock: a try that leaves keeps the next one waiting for the call under way", in("caller.go", "	m.queue.push(m.callers, s)\n	m.enter(s, queued)", "	m.queue.push(m.callers, s)\n	m.enter(s, queued)\n	if h := &m.callers[m.queue.head]; h.Once && h.phase == calling && c.Once && m.queue.head != s {\n		m.enter(s, sharing)\n		return out\n	}")},
		{"a try that leaves forgets the tries that share its call", "three tries", "core/lock: a try that leaves keeps the next one waiting for the call under way", in("caller.go", "if (c.phase == calling || c.phase == retrying) && m.phases[sharing] > 0 {", "if false {")},
		{"any try that leaves ends the sharing", "three tries, one again", "", in("caller.go", "if (c.phase == calling || c.phase == retrying) && m.phases[sharing] > 0 {", "if c.phase != sharing && c.Once && m.phases[sharing] > 0 {")},
		{"a hint while calling is forgotten", "two processes of two", "core/lock: a storm of callers in one line loses no wake-up", in("watch.go", "		c.hint = true\n		if c.phase", "		c.hint = c.phase != calling\n		if c.phase")},
		{"no look after subscribing", "two processes of two", "core/lock: each subscription is followed by a call", in("watch.go", "	m.hint()\n}\n\nfunc (m *Machine) watchTimer", "}\n\nfunc (m *Machine) watchTimer")},
		{"the answer to an old subscription counts", "one waits", "", []edit{{"watch.go", "w.state != watchOpening || w.seq != e.Call.Seq", "w.state != watchOpening"}, {"monitor_test.go", "p.watch.state != watchOpening || p.watch.seq != k.Seq", "p.watch.state != watchOpening"}}},
		{"a subscription has no timeout", "one waits", "", in("watch.go", "		return w.at\n", "		return Never\n")},
		{"a kept subscription ends under a waiter", "kept subscription, no polls", "", in("watch.go", "	case m.queue.head != None:\n		w.until = Never\n", "	case m.queue.head != None:\n")},
		{"a subscription that ends is relied on", "kept subscription, fair", "", in("watch.go", "	case m.queue.head != None:\n		w.until = Never\n", "	case m.queue.head != None && m.callers[m.queue.head].phase == queued:\n		w.until = Never\n")},
		{"who waits in another mode is not told of what was undone", "fair and permits", "", in("claim.go", "		if freed {\n			m.freed(cl.mode)\n", "		if freed {\n")},
		{"what ran after its hold was removed is left", "fair, force and time", "", in("acquire.go", "		cl.dirty = cl.dirty || e.Answer.Leaves(cl.mode) //", "		cl.dirty = false //")},
		{"a new lease is extended by what its answer took", "time: extend", "", in("hold.go", "	if c.length() > e.Call.TTL {", "	if true {")},
		{"the new head rests", "permits", "core/lock: a grant wakes the waiters of its owner", in("caller.go", "	default:\n		next.hint = true", "	default:")},
		{"a lost call rests behind the first", "two permits, a fault", "", in("machine.go", "			if unanswered == 0 {", "			if true {")},
		{"a limit ends the call", "time: wait limits", "core/lock: the answer of a call decides, and cleaning up is one bounded queue", in("caller.go", "	c.limited = true\n", "	if c.phase == calling {\n		return m.leave(s, ResUnavailable, now, out)\n	}\n	c.limited = true\n")},
		{"a time is due that the timer does nothing about", "yield", "", in("machine.go", "			m.callAt = min(m.callAt, at)\n", "			m.callAt = c.askAt\n")},
		{"who is behind a waiting head learns of no hold", "time: wait limits of readers", "", in("caller.go", "head.phase == resting || head.phase == queued && m.takenBy(head) > 0", "head.phase == resting")},
		{"a try waits along with who was refused", "permits and a try", "", in("acquire.go", "		return behind\n", "		return false\n")},
		{"permits pass who was refused", "permits", "", in("machine.go", "	if c.Mode == Semaphore && c.refused {\n", "	if false {\n")},
		{"a short timeout fails everybody", "private timeouts", "core/lock: the answer of a call decides, and cleaning up is one bounded queue", in("claim.go", "m.waitsLess(cl)", "false")},
		{"a waiter doesn't ride out an outage", "late grants", "core/lock: waiters ride out half a minute", in("acquire.go", "patient && now-c.began < m.Patience && !c.limited", "false")},
		{"the crowd has no limit", "limited crowd", "", in("caller.go", "		if !c.Once && m.crowded(c, e) {", "		if false {")},
		{"the ledger has no bound", "full ledger", "core/lock: the answer of a call decides, and cleaning up is one bounded queue", in("acquire.go", "	if full {", "	if false {")},
		{"a waiter behind others has a place", "fair and exclusive", "core/lock: a fair waiter behind others names no places", []edit{{"acquire.go", "w != None && m.callers[w].leading; w", "w != None; w"}, {"acquire.go", "if w == s || c.Once ||", "if w == s || c.Once || c.Mode != Fair ||"}, {"acquire.go", "if look := k.Sent-m.looked >= m.PlaceLook; look {", "if look := true; look {"}}},
		{"a fair waiter calls without a pause", "few calls", "core/lock: fair callers of one process need no messages", in("acquire.go", "	c.hint = false\n", "	c.hint = c.Mode == Fair\n")},
		{"places are not kept", "fair, crash", "", in("acquire.go", "		w, m.looked = m.queue.head, k.Sent\n", "		w, m.looked = None, k.Sent\n")},
		{"nobody waits until the place of a caller that left is removed", "fair, two processes of two", "core/lock: the place of a fair waiter that leaves goes first", in("machine.go", "	if c.Mode == Fair && m.leaving > 0 && m.pauseTill > now {", "	if false {")},
		{"a place that was removed is waited for", "fair, one process", "core/lock: a re-entry calls while its hold lives, and the places of all that left go first", in("claim.go", "	m.leaving--\n", "")},

		{"the hint of a caller that was granted is forgotten", "fair, force", "core/lock: a fair waiter passes on no nap that has ended", in("caller.go", "!c.hint && (granted || c.phase == resting)", "(granted || c.phase == resting && !c.hint)")},
		{"a hold is verified for nobody", "time: wait limits", "", in("hold.go", "	if m.queue.head == None {\n		return out // its limit has passed in the same step\n	}\n", "")},
		{"a limit behind a caller that is blocked is waited for", "limits behind a hold", "core/lock: who waits behind a holder of its process knows that the key is held", []edit{{"caller.go", "m.sawContention(c) || m.takenBy(c) > 0", "m.sawContention(c)"}, {"caller.go", "head.phase == resting || head.phase == queued && m.takenBy(head) > 0", "head.phase == resting"}}},

		// What is undone.
		{"an owner comes back", "two wait", "core/lock: who is undone never comes back", in("claim.go", "	m.owners++\n", "	m.owners = 1001 + m.owners/1000*1000 - 1000\n")},
		{"a grant forgets a doubt", "two wait", "core/lock: what a late call may have left is undone after the release", in("hold.go", "	m.move(i, held)\n", "	m.move(i, held)\n	m.open -= cl.open\n	cl.open, cl.unknown = 0, false\n")},
		{"what had no answer is undone once", "two wait", "core/lock: the answer of a call decides, and cleaning up is one bounded queue", in("claim.go", "		cl.out, cl.at = OpNone, cl.late+1\n", "		m.move(i, free)\n")},
		{"an early removal counts as the last", "time: slow answers", "", in("claim.go", "if e.Call.Sent > cl.late {", "if now > cl.late {")},
		{"a caller that leaves forgets its claim", "two wait", "", in("claim.go", "	m.move(i, undoing)\n	cl := m.claim(i)\n	cl.asker, cl.renewAt", "	m.move(i, free)\n	return out\n	cl := m.claim(i)\n	cl.asker, cl.renewAt")},
		{"a late grant stays", "two wait", "core/lock: the answer of a call decides, and cleaning up is one bounded queue", in("acquire.go", "cl.dirty = cl.dirty || e.Answer == AnsOK || e.Answer == AnsUnknown || place", "cl.dirty = cl.dirty || e.Answer == AnsUnknown || place")},
		{"a place is left", "fair, one process", "core/lock: who joins its owner's hold leaves no place in the queue", in("acquire.go", "			cl.dirty = true\n			cl.place(e.Call, now)", "			cl.place(e.Call, now)")},
		{"a place that another caller named is left", "fair, three", "", in("acquire.go", "	case cl.stage == asking:\n		cl.dirty = true\n", "	case cl.stage == asking:\n")},
		{"a place that was taken after the release stays", "fair, errors", "", in("acquire.go", "		cl.dirty = cl.dirty || e.Answer == AnsOK || place\n", "		cl.dirty = cl.dirty || e.Answer == AnsOK\n")},
		{"a release that was refused is forgotten", "a store that refuses", "core/lock, core/quorum: what a server refuses to remove is removed later, an extension doesn't overtake its vote, and Drain ends all waits", in("claim.go", "	h.asker, h.dirty, h.out = None, true, OpNone\n", "	h.asker, h.out = None, OpNone\n	m.move(i, free)\n	return out\n")},
		{"a late grant during a release is forgotten", "errors", "core/lock: what a late call may have left is undone after the release", in("acquire.go", "	case ending, lapsed:\n		cl.dirty = ", "	case ending, lapsed:\n		_ = ")},

		// Hand-offs.
		{"a hold that is being lowered is handed on", "a writer reads, a writer waits", "", in("caller.go", "	case h.extended, h.out == OpLower, h.suspect, h.limit > 0, h.keep > now:", "	case h.extended, h.suspect, h.limit > 0, h.keep > now:")},
		{"a hold under a minimum is handed on", "time: minimum", "core/lock: each lease has its minimum hold", in("caller.go", "h.limit > 0, h.keep > now:", "h.limit > 0:")},
		{"an extended hold is handed on", "time: extend, a caller waits", "", in("caller.go", "	case h.extended, h.out == OpLower", "	case h.out == OpLower")},
		{"hand-offs have no limit", "two rounds", "core/lock: after a run of hand-offs other processes may call first", in("caller.go", "over := h.fence.handoffs() >= m.Handoffs || now", "over := now")},
		{"hand-offs have no end in time", "hand-offs in time", "core/lock: after a run of hand-offs other processes may call first", in("caller.go", " || now-h.granted >= m.HandoffTime", "")},
		{"a hand-off keeps the fence", "two wait", "", in("caller.go", "	h.fence++\n", "")},
		{"no yield after a run", "yield", "core/lock: after a run of hand-offs other processes may call first", in("yield.go", "!h.spent || others == 0 ||", "true ||")},
		{"a run that ends while nobody waits is forgotten", "long: yield", "", in("caller.go", "h.spent = over && h.fence.handoffs() > 0", "h.spent = over && h.fence.handoffs() > 0 && s != None")},
		{"a yield though nobody listens", "yield, nobody listens", "core/lock: after a run of hand-offs other processes may call first", in("yield.go", "!h.spent || others == 0 ||", "!h.spent ||")},

		// Holds.
		{"the first of several leases releases the hold", "re-entry", "", in("caller.go", "		case h.leases > 0:\n			return m.reply(s, done, out)", "		case h.leases > 0:\n			m.stay(s, i)\n			return m.endHold(i, now, out)")},
		{"a minimum hold is forgotten", "time: minimum", "", in("caller.go", "		if c.Min > 0 && !c.Part && !e.Decline {", "		if false {")},
		{"a lease that was declined keeps the key", "declined", "core/lock: each lease has its minimum hold", in("caller.go", "c.Min > 0 && !c.Part && !e.Decline", "c.Min > 0 && !c.Part")},
		{"a group that isn't complete keeps the key", "groups", "core/lock: a minimum begins when the caller gets the lease", in("caller.go", "c.Min > 0 && !c.Part && !e.Decline", "c.Min > 0 && !e.Decline")},
		{"a writer that goes on as a reader keeps the write hold", "a writer reads", "", in("caller.go", "			m.stay(s, i)\n			return m.lower(i, now, out)", "			return m.reply(s, done, out)")},
		{"a writer enters a hold that is being lowered", "a writer reads and writes again", "", in("caller.go", "c.Mode != h.mode || h.out == OpLower", "c.Mode != h.mode")},
		{"a writer under a minimum reads", "a writer with a minimum reads", "core/lock: an owner that writes and reads keeps nothing", in("caller.go", ", reads && m.keeps(h, now):", ":")},
		{"a longer watchdog stays with the hold", "time: re-entry has a watchdog", "core/lock: a longer watchdog ends with its lease", in("caller.go", "h.leases == 0 || c.Lease > 0 || c.Watchdog < h.watchdog", "true")},
		{"a re-entry doesn't get its length", "time: re-entry is longer", "", in("caller.go", "	m.enter(s, joining)\n	return m.ask(", "	if h.leases > 1 {\n		return m.lend(s, now, out)\n	}\n	m.enter(s, joining)\n	return m.ask(")},
		{"a re-entry puts a renewal off", "few calls and time", "core/lock: a re-entry does not put a renewal off", in("caller.go", "	m.lease(s, i)\n	return m.lengthen(s, now, out)", "	m.lease(s, i)\n	h.renewAt = Never\n	return m.lengthen(s, now, out)")},
		{"a maximum hold is passed", "time: maximum", "core/lock: the limit of a hold is exact", in("acquire.go", "	ttl := min(c.length(), m.MaxTTL)\n", "	ttl := min(max(c.length(), c.Watchdog), m.MaxTTL)\n")},
		{"a renewal passes the maximum hold", "maximum, renewed", "core/lock: the limit of a hold is exact", in("hold.go", "		ttl = max(1, min(ttl, h.limit-now))\n", "")},
		{"a long lease stays short", "long leases", "core/lock: a lease that can't get its length is released in the background", in("caller.go", "	m.enter(s, joining)\n	return m.ask(", "	if h.leases == 1 {\n		return m.lend(s, now, out)\n	}\n	m.enter(s, joining)\n	return m.ask(")},
		{"an acquire writes more than it may", "long leases", "core/lock: the answer of a call decides, and cleaning up is one bounded queue", in("acquire.go", "	ttl := min(c.length(), m.MaxTTL)", "	ttl := c.length()")},

		// Time.
		{"trust counts from the answer", "time: slow answers", "", in("hold.go", "	m.confirm(cl, e.Call)\n	m.verified", "	m.confirm(cl, e.Call)\n	cl.trust = after(now, e.Call.TTL-m.margin(e.Call.TTL))\n	m.verified")},
		{"a late renewal prolongs trust", "time: one, two faults", "", in("hold.go", "		m.confirm(h, e.Call)\n	case e.Answer == AnsGone && e.Call", "		m.confirm(h, e.Call)\n		h.trust = after(now, e.Call.TTL-m.margin(e.Call.TTL))\n	case e.Answer == AnsGone && e.Call")},
		{"a grant that comes too late is trusted", "late grants", "", in("hold.go", "	if now >= after(e.Call.Sent, e.Call.TTL-m.margin(e.Call.TTL)) || e.Call", "	if e.Call")},
		{"only timers notice the end of trust", "time: late timers, re-entry", "core/lock: a hold that is no longer trusted refuses nobody", in("machine.go", "	out = m.lapse(now, out)\n", "	if e.Kind == EvTimer {\n		out = m.lapse(now, out)\n	}\n")},
		{"what was sent before a suspension confirms", "time: suspended", "core/lock: an answer from before a suspension confirms nothing", []edit{{"hold.go", "	if k.Epoch != m.epoch {", "	if false {"}, {"hold.go", " || e.Call.Epoch != m.epoch { // too", " { // too"}}},
		{"a suspension is the limit", "maximum, suspended", "core/lock: a suspension is not the limit", in("hold.go", "	case h.limit > 0 && now >= h.limit-m.margin(h.lasts):", "	case h.limit > 0:")},
		{"a suspension changes nothing", "suspended, two faults", "core/lock: suspended machines, forced releases and large rounds", in("hold.go", "			h.trust = min(h.trust, after(now, max(1, min(m.Timeout, h.lasts/6))))\n", "")},
		{"nothing is renewed after a suspension", "suspended, one fixed", "core/lock: suspended machines, forced releases and large rounds", in("hold.go", "h.suspect, h.renewing, h.renewAt = true, false, now", "h.suspect = true")},
		{"a hold is verified by what it has left", "verified for long", "", in("hold.go", "return max(1, h.watchdog, rest(h.expiry, now))", "return max(1, rest(h.expiry, now))")},
		{"read holds are renewed as rarely as others", "readers are renewed", "", in("hold.go", "h.mode == Read && next < h.trust", "false")},

		// Losses.
		{"a renewal that OpLower has overtaken is believed", "time: a writer reads", "", in("hold.go", "e.Answer == AnsGone && e.Call.Mode == h.storedMode(): // else", "e.Answer == AnsGone: // else")},
		{"gone is ignored", "time: force", "", in("hold.go", "// else it has met the OpLower\n		return m.lose(i, WhyTaken, true, now, out)\n	case own:", "\n	case own:")},
		{"gone is ignored where a writer becomes a reader", "force, a writer reads", "", in("hold.go", "	case AnsGone:\n		return m.lose(i, WhyTaken, true, now, out)\n	}\n	h.at = after(now, m.backoff", "	case AnsGone:\n		_ = i\n		h.out, h.at = OpNone, Never\n		m.count(h, -1)\n		h.mode = Read\n		m.count(h, 1)\n		return m.returned(h, ResReleased, 0, out)\n	}\n	h.at = after(now, m.backoff")},
		{"a grant disproves nothing", "fair, force", "", in("hold.go", "			out = m.lose(Slot(j), WhyTaken, m.Ordered, now, out)", "			_ = j")},
		{"nobody verifies a hold that others wait for", "time: force of fixed leases", "", in("machine.go", "				m.verifyAt = after(m.verified, m.poll(c))", "				_ = c")},
		{"a forced release ends what was granted later", "time: force", "core/lock: suspended machines, forced releases and large rounds", in("hold.go", "h.stage == held && h.order <= e.Call.Order", "h.stage == held")},
		{"a release that is repeated is a loss", "errors, repeated", "core/lock: Close releases as everybody does", in("claim.go", "e.Answer == AnsGone && !h.unsure && now < h.trust", "e.Answer == AnsGone && now < h.trust")},
		{"a release after the expiry is a loss", "time: slow answers", "", in("claim.go", "e.Answer == AnsGone && !h.unsure && now < h.trust", "e.Answer == AnsGone && !h.unsure")},

		// Ends.
		{"a drain lets waiters in", "drain", "", in("hold.go", "		if !m.callers[s].AtWork {", "		if false {")},
		{"a drain ends work", "drain", "", in("caller.go", "	if m.ended || m.draining && !c.AtWork {", "	if m.ended || m.draining {")},
		{"a try rides out an outage", "tries, errors", "", in("acquire.go", "	if m.sawContention(c) && !c.Once {\n		patient", "	if m.sawContention(c) {\n		patient")},
		{"a closed locker releases nothing", "close", "", in("hold.go", "			out = m.closeLeases(i, true, out)\n			out = m.endHold(i, now, out)", "			out = m.closeLeases(i, false, out)\n			m.move(i, free)")},
		{"a closed locker leaves what is granted late", "close and time", "", in("acquire.go", "[]Effect {\n	for i := range m.claims {\n		if m.claims[i].stage != free && m.claims[i].owner == o {", "[]Effect {\n	if m.closed {\n		return out\n	}\n	for i := range m.claims {\n		if m.claims[i].stage != free && m.claims[i].owner == o {")},
		{"a closed locker relies on an earlier removal", "close, removed soon", "core/lock: Close sends at once what is to be undone, however often it failed", in("hold.go", "			cl.dirty = cl.dirty || cl.uncertain()\n			cl.again = cl.stage == undoing && cl.open == 0 && cl.named == 0", "			cl.again = true")},
		{"a closed locker keeps its subscription", "close, one waits", "core/lock: Close leaves nothing for the timer of subscriptions", in("watch.go", "	case m.KeepWatch == 0, m.closed, m.perOwner:\n		out = m.unwatch(out)\n	case w.until == Never:", "	case false:")},

		// The explorer sees what a store must not do, too.
		{"the store gives more permits than there are", "permits", "", in("store_test.go", "sum+k.Permits > sc.size {", "false {")},
		{"a renewal makes a hold", "time: one, two faults", "", in("store_test.go", "			r.ans = AnsGone\n			return r, true\n		}\n		h := &w.holds[i]", "			w.holds[w.nh] = stored{proc: m.proc, owner: k.Owner, mode: k.Mode, exp: after(w.now, k.TTL)}\n			w.nh++\n			return r, true\n		}\n		h := &w.holds[i]")},
		{"a renewal shortens a hold", "time: extend, renewed", "core/redisstore, core/memstore: a call that arrives late takes nothing away", in("store_test.go", "		h.exp = max(h.exp, after(w.now, k.TTL))\n		h.touched", "		h.exp = after(w.now, k.TTL)\n		h.touched")},
		{"the store forgets a writer that goes on as a reader", "a writer reads", "", in("store_test.go", "		w.holds[i].mode = Read\n", "		w.drop(i)\n")},
	}
}
