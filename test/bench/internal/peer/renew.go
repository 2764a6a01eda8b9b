package peer

import (
	"context"
	"time"
)

// renewed is a lock that a goroutine of its user renews.
type renewed struct {
	held   Held
	cancel context.CancelFunc
	done   chan struct{}
}

// renewByHand calls extend every interval until Unlock.
func renewByHand(held Held, interval time.Duration, extend func(context.Context) error) Held {
	ctx, cancel := context.WithCancel(context.Background())
	r := &renewed{held: held, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if extend(ctx) != nil {
					return
				}
			}
		}
	}()
	return r
}

func (r *renewed) Unlock(ctx context.Context) error {
	r.cancel()
	<-r.done
	return r.held.Unlock(ctx)
}
