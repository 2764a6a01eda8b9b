package machine

import "testing"

// Without an answer a removal may wait in the queue of a slow server. Removals that come
// faster than it serves them keep it slow for ever.
func TestARemovalWithoutAnAnswerIsRepeatedAfterAPause(t *testing.T) {
	p := undone()
	sent, m := removals(t, &p, func(*Machine, *Call) {})
	for n, at := range sent[1:] {
		if pause := at - sent[n]; pause < p.Timeout+p.UndoBackoff {
			t.Errorf("a removal %d after the one before, of which it waits %d for the answer", pause, p.Timeout)
		}
	}
	if len(sent) < 2 || m.Due() != Never {
		t.Errorf("removals at %d, and the claim is due at %d", sent, m.Due())
	}
}

// Its answer counts until the next is sent.
func TestARemovalMayBeAnsweredInThePauseAfterIt(t *testing.T) {
	p := undone()
	var out []Effect
	sent, m := removals(t, &p, func(m *Machine, k *Call) {
		if k.Sent > p.Timeout+p.Life { // the acquire can run no longer
			now := k.By + 1
			out = m.Step(&Event{Kind: EvReleased, Call: k, Answer: AnsOK}, now, out)
		}
	})
	if m.Undoing() != 0 || len(out) != 0 {
		t.Errorf("removals at %d and %v: %d claims are to be undone", sent, out, m.Undoing())
	}
}

// Close has no time for pauses.
func TestAClosedMachineRepeatsARemovalWithoutAPause(t *testing.T) {
	p := undone()
	var closed Time
	sent, _ := removals(t, &p, func(m *Machine, k *Call) {
		if closed == 0 {
			closed = k.By
			m.Step(&Event{Kind: EvClose}, closed, nil)
		}
	})
	if len(sent) < 3 || sent[1] != closed || sent[2] != closed+p.Timeout {
		t.Errorf("it was closed at %d, and sent removals at %d", closed, sent)
	}
}

// undone are settings with a pause.
func undone() Params {
	return untimed().with(func(p *Params) { p.Timeout, p.Life, p.UndoBackoff = 3, 20, 10 })
}

// removals has a try fail whose acquire has no answer, serves all timers, and returns when
// removals were sent. Each is shown to then, when it is under way.
func removals(t *testing.T, p *Params, then func(m *Machine, k *Call)) (sent []Time, m *Machine) {
	t.Helper()
	m = new(Machine)
	m.Init(p, 0)
	m.Step(&Event{Kind: EvArrive, Of: None, Terms: Terms{Mode: Exclusive, Once: true, Lease: 60}}, 0, nil)
	m.Step(&Event{Kind: EvLeave}, 0, nil)
	for m.Due() < Never {
		now := m.Due()
		if now > 1000 {
			t.Fatalf("it goes on for ever: removals at %d", sent)
		}
		for _, f := range m.Step(&Event{Kind: EvTimer}, now, nil) {
			if f.Do == DoSend && f.Call.Op == OpRelease {
				sent = append(sent, now)
				then(m, &f.Call)
			}
		}
	}
	return sent, m
}
