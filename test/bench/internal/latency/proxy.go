// Package latency is a TCP proxy that makes a network of a loopback: every byte
// arrives a fixed time after it was sent. Unlike a proxy that sleeps between a
// read and its write, it delays and doesn't throttle.
package latency

import (
	"net"
	"sync"
	"time"
)

// Proxy forwards connections to one target.
type Proxy struct {
	listener net.Listener
	target   string
	delay    time.Duration

	mu     sync.Mutex
	conns  map[net.Conn]struct{} // nil once closed
	active sync.WaitGroup
}

// New starts a proxy in front of target that adds delay in each direction.
func New(target string, delay time.Duration) (*Proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{listener: listener, target: target, delay: delay, conns: make(map[net.Conn]struct{})}
	p.active.Go(p.serve)
	return p, nil
}

// Addr is the address for clients.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Close cuts all connections and returns when nothing runs.
func (p *Proxy) Close() {
	_ = p.listener.Close()
	p.mu.Lock()
	for conn := range p.conns {
		_ = conn.Close()
	}
	p.conns = nil
	p.mu.Unlock()
	p.active.Wait()
}

func (p *Proxy) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		if !p.add(client, server) {
			return
		}
		p.active.Go(func() { p.forward(client, server) })
		p.active.Go(func() { p.forward(server, client) })
	}
}

func (p *Proxy) add(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range conns {
		if p.conns == nil {
			_ = conn.Close()
			continue
		}
		p.conns[conn] = struct{}{}
	}
	return p.conns != nil
}

func (p *Proxy) end(conn net.Conn) {
	_ = conn.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, conn)
}

// parcel is what was read at once, and when it may arrive.
type parcel struct {
	data []byte
	due  time.Time
}

// forward copies one direction until either side ends it.
func (p *Proxy) forward(from, to net.Conn) {
	defer p.end(to)
	road := make(chan parcel, 4096)
	p.active.Go(func() {
		defer close(road)
		defer p.end(from)
		for {
			data := make([]byte, 16<<10)
			n, err := from.Read(data)
			if n > 0 {
				road <- parcel{data: data[:n], due: time.Now().Add(p.delay)}
			}
			if err != nil {
				return
			}
		}
	})
	broken := false
	for next := range road { // to its end, so that the reader never blocks for good
		if broken {
			continue
		}
		if wait := time.Until(next.due); wait > 0 {
			<-time.After(wait)
		}
		if _, err := to.Write(next.data); err != nil {
			broken = true
			p.end(from)
		}
	}
}
