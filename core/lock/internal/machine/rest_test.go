package machine

import "testing"

// A machine that has rested knows nothing of the callers that were there before. The answer
// to the extension of one of them, whose lease is released, still prolongs the hold.
func TestAMachineThatHasRestedHearsOfEarlierCallers(t *testing.T) {
	p := timed()
	var m, woken Machine
	m.Init(&p, 0)
	step := func(m *Machine, e Event) Call {
		for _, f := range m.Step(&e, begin, nil) {
			if f.Do == DoSend {
				return f.Call
			}
		}
		return Call{}
	}
	acquire := step(&m, Event{Kind: EvArrive, Of: None, Terms: Terms{Mode: Exclusive, Watchdog: 4}})
	step(&m, Event{Kind: EvAcquired, Call: &acquire, Answer: AnsOK, Fence: FenceStep})
	step(&m, Event{Kind: EvArrive, Caller: 1, Of: acquire.Claim, Owner: acquire.Owner, Terms: Terms{Mode: Exclusive, Watchdog: 4}})
	extension := step(&m, Event{Kind: EvExtend, Caller: 1, TTL: 9})
	step(&m, Event{Kind: EvRelease, Caller: 1})
	if extension.Op != OpRenew || !m.Rests() {
		t.Fatalf("%+v, rests: %v", extension, m.Rests())
	}
	r := m.Rest()
	woken.Init(&p, m.Owner())
	woken.Wake(&r)
	step(&woken, Event{Kind: EvRenewed, Call: &extension, Answer: AnsOK})
	if until := woken.claims[0].expiry; until != begin+9 {
		t.Errorf("it lasts until %d", until)
	}
}
