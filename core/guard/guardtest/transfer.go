package guardtest

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// Accounts is a referee of transfers between two accounts, "a" and "b". The work under
// test calls [Accounts.Transfer].
type Accounts struct {
	inside   [2]atomic.Int32
	overlaps atomic.Int64
	done     atomic.Int64
}

// Transfer is the work that needs both accounts for itself. It notices other work in one
// of them.
func (a *Accounts) Transfer(from, to string) {
	for _, account := range [...]string{from, to} {
		inside := &a.inside[account[0]-'a']
		if inside.Add(1) > 1 {
			a.overlaps.Add(1)
		}
		defer inside.Add(-1)
	}
	runtime.Gosched() // where another one would come in
	a.done.Add(1)
}

// Crossing makes n transfers, half of them from "a" to "b" and half from "b" to "a", by
// eight callers at once. Each call of transfer is one request, which returns an error if
// it was refused. The test fails if one was, or if two transfers were in one account at a
// time: locks that are taken one by one make the callers wait for each other.
func (a *Accounts) Crossing(t testing.TB, n int, transfer func(from, to string) error) {
	t.Helper()
	const callers = 8
	failures := make(chan error, callers)
	var wg sync.WaitGroup
	var next atomic.Int64
	for range callers {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(n); i = next.Add(1) {
				from, to := "a", "b"
				if i%2 == 0 {
					from, to = to, from
				}
				if err := transfer(from, to); err != nil {
					failures <- fmt.Errorf("transfer %d, from %s to %s: %w", i, from, to, err)
					return
				}
			}
		})
	}
	wg.Wait()
	close(failures)
	for err := range failures {
		t.Error(err)
	}
	if overlaps := a.overlaps.Load(); overlaps > 0 {
		t.Errorf("%d times two transfers were in one account", overlaps)
	}
	if done := a.done.Load(); !t.Failed() && done != int64(n) {
		t.Errorf("%d transfers ran, of %d", done, n)
	}
}
