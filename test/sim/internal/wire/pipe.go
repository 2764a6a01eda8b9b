package wire

import (
	"sync"
	"time"
)

// pipe carries chunks in one direction and delivers them in order, each not
// before its time.
type pipe struct {
	deliver func(b []byte, sent time.Time)
	// held returns how much longer nothing may be delivered.
	held func() time.Duration

	mu    sync.Mutex
	queue []chunk
	armed bool // a timer runs, or its function does
	shut  bool
}

type chunk struct {
	bytes    []byte
	sent, at time.Time
}

// send queues a chunk that takes so long.
func (p *pipe) send(b []byte, delay time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shut {
		return
	}
	now := time.Now()
	p.queue = append(p.queue, chunk{bytes: b, sent: now, at: now.Add(delay)})
	if !p.armed {
		p.armed = true
		time.AfterFunc(delay, p.run)
	}
}

// run delivers what is due, and comes back for the rest.
func (p *pipe) run() {
	for {
		c, wait, ok := p.next()
		if !ok {
			if wait > 0 {
				time.AfterFunc(wait, p.run)
			}
			return
		}
		p.deliver(c.bytes, c.sent)
	}
}

// next takes out the first chunk if it is due. Otherwise wait says how long it
// takes until it is; 0 means that there is none.
func (p *pipe) next() (c chunk, wait time.Duration, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.queue) == 0 {
		p.armed = false
		return c, 0, false
	}
	if wait = max(time.Until(p.queue[0].at), p.held()); wait > 0 {
		return c, wait, false
	}
	c, p.queue = p.queue[0], p.queue[1:]
	return c, 0, true
}

// drop loses what is under way. With shut, it also loses what is still to come.
func (p *pipe) drop(shut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue = nil
	p.shut = p.shut || shut
}
