package rule

import "fmt"

// OnBusy says what happens to a call whose lock another owner holds. There is no
// choice that runs the work without the lock.
type OnBusy uint8

const (
	// Reject fails the call with the contended status of its integration. It is the default.
	Reject OnBusy = iota
	// Skip ends the call successfully without running the work, for jobs that
	// need to run once, whichever caller runs them.
	Skip
)

var onBusyNames = [...]string{Reject: "reject", Skip: "skip"}

// String returns the name that rules spell: "reject" or "skip".
func (b OnBusy) String() string {
	if b.Valid() {
		return onBusyNames[b]
	}
	return fmt.Sprintf("onBusy(%d)", uint8(b))
}

// Valid reports whether b is one of the choices above.
func (b OnBusy) Valid() bool { return int(b) < len(onBusyNames) }

// ParseOnBusy is the inverse of [OnBusy.String]; the empty string is Reject. Its
// error wraps [ErrInvalid].
func ParseOnBusy(s string) (OnBusy, error) {
	if s == "" {
		return Reject, nil
	}
	for b, name := range onBusyNames {
		if name == s {
			return OnBusy(b), nil
		}
	}
	return Reject, fmt.Errorf("%w: unknown onBusy %q, use reject or skip", ErrInvalid, s)
}
