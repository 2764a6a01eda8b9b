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

func (g *gate) state() (held <-chan struct{}, delay time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.held, g.delay
}

// pass waits for the delay and then until the gate is open. It returns false if
// the connection was cut meanwhile.
func (g *gate) pass(cut <-chan struct{}) bool {
	if _, delay := g.state(); delay > 0 {
		timer := time.NewTimer(delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-cut:
			return false
		}
	}
	for {
		held, _ := g.state()
		if held == nil {
			return true
		}
		select {
		case <-held:
		case <-cut:
			return false
		}
	}
}
