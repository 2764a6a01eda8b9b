// Package page is memory that the processes of one measurement share: the
// referee of the lock they contend for. It costs no command and no syscall, so
// that it can watch every grant.
package page

import (
	"fmt"
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Slack is how much later than another a caller must have come for its earlier
// grant to be an inversion. Between the begin of a call and its arrival in
// Redis, schedulers of both processes may exchange two callers that came at
// nearly the same time.
const Slack = 20 * time.Millisecond

// Page is shared memory. All fields are zero at first.
type Page struct {
	holders atomic.Int64 // inside the critical section now
	owner   atomic.Int64 // who was there last
	newest  atomic.Int64 // the latest arrival that had a grant

	overlaps   atomic.Int64
	changes    atomic.Int64
	inversions atomic.Int64

	// Released is when the last holder began to unlock, by [Now].
	Released atomic.Int64
}

// Counts are what the referee saw since the page was made.
type Counts struct {
	Overlaps   int64 // grants while somebody else held the lock
	Changes    int64 // grants to another goroutine than the one before
	Inversions int64 // grants before somebody who came earlier by more than [Slack]
}

// Map maps the file, and makes it if it is missing. It stays mapped
// until unmap is called.
func Map(path string) (p *Page, unmap func(), err error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("page: %w", err)
	}
	defer file.Close() //nolint:errcheck // the mapping outlives the descriptor
	size := os.Getpagesize()
	if err := file.Truncate(int64(size)); err != nil {
		return nil, nil, fmt.Errorf("page: %w", err)
	}
	memory, err := unix.Mmap(int(file.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, nil, fmt.Errorf("page: map %s: %w", path, err)
	}
	return (*Page)(unsafe.Pointer(&memory[0])), func() { _ = unix.Munmap(memory) }, nil
}

// Now is a clock that all processes of the machine share, in nanoseconds.
func Now() int64 {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // fails only for a clock that does not exist
	return now.Nano()
}

// Enter notes that the caller, who began to wait at arrival, has the lock.
func (p *Page) Enter(caller, arrival int64) {
	if p.holders.Add(1) != 1 {
		p.overlaps.Add(1)
	}
	if p.owner.Swap(caller) != caller {
		p.changes.Add(1)
	}
	newest := p.newest.Load()
	if arrival+int64(Slack) < newest {
		p.inversions.Add(1)
	}
	p.newest.Store(max(newest, arrival))
}

// Owner is the caller who entered last.
func (p *Page) Owner() int64 { return p.owner.Load() }

// Leave notes that the caller is about to unlock.
func (p *Page) Leave() { p.holders.Add(-1) }

// Counts returns the counters.
func (p *Page) Counts() Counts {
	return Counts{Overlaps: p.overlaps.Load(), Changes: p.changes.Load(), Inversions: p.inversions.Load()}
}
