package lock

import "fmt"

// Mode is the kind of a lock. A store may support only some modes, and returns
// [ErrUnsupported] for the others.
type Mode uint8

const (
	// Exclusive admits one owner, which may re-enter. It is the default, and
	// what Redisson calls getLock.
	Exclusive Mode = iota
	// Fair is Exclusive with strict first-come, first-served order across
	// processes. If a waiter leaves just as its turn comes, the next waiter of its
	// process has that turn.
	Fair
	// Read admits any number of readers, and no writer. Readers of other lockers are
	// admitted while a writer waits.
	Read
	// Write admits one writer, and no reader but the writer itself.
	Write
	// Semaphore admits a number of owners at once: see [WithPermits].
	Semaphore
)

var modeNames = [...]string{
	Exclusive: "exclusive", Fair: "fair", Read: "read", Write: "write", Semaphore: "semaphore",
}

// String returns the mode's name as rules and metrics spell it.
func (m Mode) String() string {
	if int(m) < len(modeNames) {
		return modeNames[m]
	}
	return fmt.Sprintf("mode(%d)", uint8(m))
}

// Valid reports whether m is one of the modes above.
func (m Mode) Valid() bool { return int(m) < len(modeNames) }

// ParseMode is the inverse of [Mode.String]; the empty string is Exclusive. Its
// error wraps [ErrInvalid].
func ParseMode(text string) (Mode, error) {
	if text == "" {
		return Exclusive, nil
	}
	for m, name := range modeNames {
		if name == text {
			return Mode(m), nil
		}
	}
	return 0, fmt.Errorf("%w: unknown mode %q (use exclusive, fair, read, write or semaphore)", ErrInvalid, text)
}
