package voucher

import (
	"sync"
	"time"
)

// rest is how long nothing is counted after a count, as a multiple of what it took.
const rest = 9

// counting lets one count begin at a time, and then rests. The zero value is ready.
type counting struct {
	mu      sync.Mutex
	running bool
	next    time.Time
}

// begin returns what ends the count, or [ErrCounting].
func (c *counting) begin() (done func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	began := time.Now()
	if c.running || began.Before(c.next) {
		return nil, ErrCounting
	}
	c.running = true
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		now := time.Now()
		c.running, c.next = false, now.Add(rest*now.Sub(began))
	}, nil
}
