package lock

import (
	"sync"
	"sync/atomic"
)

// operations counts what runs: calls of users, calls to the store, and background work.
type operations struct {
	n     atomic.Int64
	once  sync.Once
	quiet chan struct{} // closed when, after close, nothing runs
}

const noMore = 1 << 62

// begin counts one in, unless it is closed.
func (o *operations) begin() bool {
	if o.n.Add(1) >= noMore {
		o.Done()
		return false
	}
	return true
}

// Add counts one in for something that is counted.
func (o *operations) Add(n int64) { o.n.Add(n) }

// Done counts one out.
func (o *operations) Done() {
	if o.n.Add(-1) == noMore {
		o.once.Do(func() { close(o.quiet) })
	}
}

// Go runs f, which is counted.
func (o *operations) Go(f func()) {
	o.Add(1)
	go func() {
		defer o.Done()
		f()
	}()
}

// close lets no more begin. The caller is counted.
func (o *operations) close() { o.n.Add(noMore) }
