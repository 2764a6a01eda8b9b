package world

import (
	"testing"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

// A reader waits for others until the last writer of its process that it may be behind has
// left.
func TestAReaderIsBehindAWriterOfItsProcessUntilThatLeaves(t *testing.T) {
	p, other := &process{}, &process{}
	came := time.Now().Add(-time.Minute)
	for name, tt := range map[string]struct {
		key     string
		mode    lock.Mode
		process *process
		behind  bool
	}{
		"a writer":                    {"k", lock.Write, p, true},
		"a reader":                    {"k", lock.Read, p, false},
		"a writer of another process": {"k", lock.Write, other, false},
		"a writer of another key":     {"l", lock.Write, p, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWatch(nil)
			leave := w.add(tt.key, tt.mode, tt.process, came)
			w.add("k", lock.Read, p, came)
			leave()
			for one := range w.waiting {
				if got := one.behind.After(came); got != tt.behind {
					t.Errorf("behind until %v, came %v", one.behind, came)
				}
			}
		})
	}
}
