// Package judge says what is wrong with what a simulated world did. Its
// functions are pure: they see events and snapshots, and return findings. Each
// has a test with a planted history that it must refuse, and one that it must
// not.
package judge

import (
	"fmt"
	"time"
)

// Finding is a promise that was broken.
type Finding struct {
	Rule   string
	At     time.Time
	Detail string
}

func finding(rule string, at time.Time, format string, args ...any) Finding {
	return Finding{Rule: rule, At: at, Detail: fmt.Sprintf(format, args...)}
}

// Grave says whether a finding is more than a call that took too long.
func (f Finding) Grave() bool { return f.Rule != "call overstayed" }
