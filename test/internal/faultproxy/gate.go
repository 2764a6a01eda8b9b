package faultproxy

import (
	"sync"
	"time"
)

// gate is what a chunk of one direction passes before it is forwarded.
type gate struct {
	mu    sync.Mutex
	held  chan struct{} // nil while open, closed on release
	delay time.Duration
	pace  time.Duration // 0: any number at a time
	next  time.Time     // when the next chunk may pass
}

func (g *gate) hold() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.held == nil {
		g.held = make(chan struct{})
	}
}

func (g *gate) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.held != nil {
		close(g.held)
		g.held = nil
	}
}

func (g *gate) setDelay(d time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.delay = d
}

func (g *gate) setPace(d time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pace = d
}

// slot returns how long a chunk waits for those before it.
func (g *gate) slot() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.pace == 0 {
		return 0
	}
	if now := time.Now(); g.next.Before(now) {
		g.next = now
	}
	g.next = g.next.Add(g.pace)
	return time.Until(g.next)
}

func (g *gate) state() (held <-chan struct{}, delay time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.held, g.delay
}

// pass waits for the delay, until the gate is open, and for its slot. It returns
// false if the connection was cut meanwhile.
func (g *gate) pass(cut <-chan struct{}) bool {
	if _, delay := g.state(); !sleep(delay, cut) {
		return false
	}
	for {
		held, _ := g.state()
		if held == nil {
			return sleep(g.slot(), cut)
		}
		select {
		case <-held:
		case <-cut:
			return false
		}
	}
}

// sleep returns false if the connection was cut before d had passed.
func sleep(d time.Duration, cut <-chan struct{}) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-cut:
		return false
	}
}
