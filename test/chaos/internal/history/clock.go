package history

import (
	"time"

	"golang.org/x/sys/unix"
)

// Clock returns the time since its base, in nanoseconds of CLOCK_MONOTONIC. All
// processes of a machine read the same one, and setting the date doesn't move
// it, so the times of a run can be compared wherever they were taken.
type Clock struct{ Base int64 }

// StartClock returns a clock that begins now.
func StartClock() Clock { return Clock{Base: monotonic()} }

// Now is the time since the base.
func (c Clock) Now() int64 { return monotonic() - c.Base }

// anchor is one moment on the clock of the system and on that of the runtime,
// which is the same clock counted from another start, and cheaper to read.
var anchor = weigh()

type moment struct {
	system  int64
	runtime time.Time
}

// weigh looks again if the process was interrupted between its two looks.
func weigh() moment {
	const near = 20 * time.Microsecond
	for {
		before := system()
		at := time.Now()
		if after := system(); after-before < int64(near) {
			return moment{before + (after-before)/2, at}
		}
	}
}

func monotonic() int64 { return anchor.system + int64(time.Since(anchor.runtime)) }

func system() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err) //nolint:forbidigo // every system that the programs run on has this clock
	}
	return ts.Nano()
}
