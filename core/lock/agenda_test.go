package lock

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/redlatch/redlatch/core/lock/internal/machine"
)

// Whatever is set, moved and removed, the agenda names each entry that is due, and no other,
// and the timer fires for the first.
func TestAnAgendaKeepsItsAppointments(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 0))
		want, fires := make(map[*entry]machine.Time), machine.Never
		a := agenda{fire: func(at machine.Time) { fires = min(fires, at) }}
		entries := make([]*entry, 20)
		for i := range entries {
			entries[i] = &entry{row: -1}
		}
		for now := machine.Time(1); now < 500; now++ {
			e, at := entries[random.IntN(len(entries))], now+machine.Time(random.IntN(50))
			if random.IntN(4) == 0 {
				at = machine.Never
				delete(want, e)
			} else {
				want[e] = at
			}
			a.set(e, at)
			first := machine.Never
			for _, at := range want {
				first = min(first, at)
			}
			if a.first() != first || fires > first {
				t.Fatalf("seed %d: the first is due at %d, and the timer fires at %d, want %d", seed, a.first(), fires, first)
			}
			if fires > now {
				continue
			}
			fires = machine.Never
			due := a.within(0, now, nil)
			for e, at := range want {
				if slices.Contains(due, e) != (at <= now) {
					t.Fatalf("seed %d: at %d, an entry of %d is due: %t", seed, now, at, at > now)
				}
			}
			for _, e := range due {
				delete(want, e)
				a.set(e, machine.Never)
			}
			if next := a.first(); next < machine.Never {
				a.fire(next)
			}
		}
	}
}
