package machine

import "testing"

// A yield is for one turn of another locker. A locker hears of its own release as well: of
// that of a writer twice.
func TestAYieldEndsWithTheTurnOfAnother(t *testing.T) {
	for _, tt := range []struct {
		name          string
		mode          Mode
		before, echos int // wake-ups before the release is answered, and the own ones after that
	}{
		{"it hears of its release later", Exclusive, 0, 1},
		{"it has heard of its release", Exclusive, 1, 0},
		{"of a writer it hears twice", Write, 0, 2},
		{"of a writer it has heard once", Write, 1, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var m Machine
			m.Init(&Params{YieldMin: 10, YieldMax: 100}, 0)
			m.watch = subscription{state: watchOpen, mode: tt.mode.channel()}
			for range tt.before {
				m.turned(0)
			}
			m.yieldTo(&claim{mode: tt.mode, spent: true}, 1, 0)
			for range tt.echos {
				m.turned(1)
			}
			if m.yield.until != 10 {
				t.Errorf("it ends at %d by its own release", m.yield.until)
			}
			if m.turned(2); m.yield.until != 2 || m.yield.pending {
				t.Errorf("another has had its turn: %+v", m.yield)
			}
		})
	}
}
