package world

import (
	"testing"
	"time"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
)

// What the server granted before it forgot things is excused, also where the lease that
// began the hold is not in the ledger yet when a sibling re-enters.
func TestTheLedgerExcusesWhatWasGrantedBeforeTheServerForgot(t *testing.T) {
	start := time.Now()
	for name, tt := range map[string]struct {
		granted time.Time // by the server
		refuted bool      // a renewal was answered that the hold is not there
		excused bool
	}{
		"granted before":              {start.Add(-time.Second), false, true},
		"granted after":               {start.Add(time.Hour), false, false},
		"not known, as on the quorum": {time.Time{}, false, false},
		"refuted since":               {start.Add(-time.Second), true, false},
	} {
		t.Run(name, func(t *testing.T) {
			locker := lock.New(memstore.New())
			lease, err := locker.Acquire(t.Context(), "k")
			if err != nil {
				t.Fatal(err)
			}
			l := newLedger()
			l.forget()
			if tt.refuted {
				l.refute(unit{"k", lease.Owner()})
			}
			l.add(&held{lease: lease, process: &process{}, began: start.Add(time.Hour)}, tt.granted)
			if got := l.isExcused(lease.Owner()); got != tt.excused {
				t.Errorf("excused: %v, want %v", got, tt.excused)
			}
			if err := locker.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// A killed process has no leases, even if a caller that still runs re-enters one.
func TestTheLedgerHasNoLeaseOfAKilledProcess(t *testing.T) {
	for name, killed := range map[string]bool{"alive": false, "killed": true} {
		t.Run(name, func(t *testing.T) {
			locker := lock.New(memstore.New())
			lease, err := locker.Acquire(t.Context(), "k")
			if err != nil {
				t.Fatal(err)
			}
			l, p := newLedger(), &process{}
			l.add(&held{lease: lease, process: p, began: time.Now()}, time.Time{})
			if killed {
				p.dead.Store(true)
				l.bury(p)
			}
			l.add(&held{lease: lease, process: p, began: time.Now()}, time.Time{})
			trusted := l.trusted(func(*held) bool { return true })
			if got := len(trusted) == 0; got != killed {
				t.Errorf("trusted: %v", trusted)
			}
			if err := locker.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
	}
}
