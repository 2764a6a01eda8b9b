// Package faultproxy is a TCP proxy inside the test process that breaks
// connections exactly where a test wants it: before a request reaches the
// server, or after the server has executed it and before the client knows.
//
// It doesn't understand the protocol. A request is what arrives from the client
// in one read; on loopback that is what the client wrote at once, be it one
// command or a pipeline. A reply is what the server sends next on that
// connection.
package faultproxy

import (
	"context"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/redlatch/redlatch/test/internal/process"
)

// Proxy forwards connections to one target. Its methods may be called from any
// goroutine and apply to connections that exist as well as to later ones.
type Proxy struct {
	t      process.Host
	addr   string
	target string

	up, down gate

	mu       sync.Mutex
	listener net.Listener // nil while connections are refused
	links    map[*link]struct{}
	arrive   func(request []byte) // nil: nobody counts
	rules    []*Rule
	closed   bool

	running sync.WaitGroup
}

// New starts a proxy in front of target (host:port). It ends, with all its
// connections, when t does.
func New(t process.Host, target string) *Proxy {
	t.Helper()
	p := &Proxy{t: t, target: target, links: make(map[*link]struct{})}
	var err error
	for range 5 { // another process may take the port between the look and the listen
		p.addr = process.LoopbackAddr(process.Port(t))
		if err = p.listen(); err == nil {
			t.Cleanup(p.close)
			return p
		}
	}
	t.Fatalf("faultproxy: listen: %v", err)
	return nil
}

// Addr is the address for clients, host:port. It never changes.
func (p *Proxy) Addr() string { return p.addr }

// HoldUp keeps everything that clients send: connections stay open, the server
// hears nothing. Nothing is lost, [Proxy.Resume] delivers it.
func (p *Proxy) HoldUp() { p.up.hold() }

// HoldDown keeps everything that the server sends: it executes requests, and
// clients hear nothing until [Proxy.Resume].
func (p *Proxy) HoldDown() { p.down.hold() }

// Resume ends [Proxy.HoldUp] and [Proxy.HoldDown].
func (p *Proxy) Resume() {
	p.up.release()
	p.down.release()
}

// Delay lets every request and every reply wait for the given times. Zero ends
// it.
func (p *Proxy) Delay(request, reply time.Duration) {
	p.up.setDelay(request)
	p.down.setDelay(reply)
}

// Pace lets one request pass in each such time, of all connections together, as
// a server does that is slow. Zero ends it.
func (p *Proxy) Pace(d time.Duration) { p.up.setPace(d) }

// Refuse makes the kernel refuse new connections. Existing ones live on.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		_ = p.listener.Close() // a listener that fails to close was closed before
		p.listener = nil
	}
}

// Accept ends [Proxy.Refuse].
func (p *Proxy) Accept() {
	p.t.Helper()
	if err := p.listen(); err != nil {
		p.t.Errorf("faultproxy: listen again on %s: %v", p.addr, err)
	}
}

// CutAll resets every connection and returns when clients have been notified. It
// also cuts connections that are held.
func (p *Proxy) CutAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.cut()
	}
}

// Settle waits for the end of connections that were cut, or that a rule is
// going to cut: nothing of them is forwarded after it. It returns false if ctx
// ends before, as while the server keeps the reply that is to be dropped.
func (p *Proxy) Settle(ctx context.Context) bool {
	p.mu.Lock()
	ending := slices.DeleteFunc(slices.Collect(maps.Keys(p.links)), func(l *link) bool { return !l.ending() })
	p.mu.Unlock()
	for _, l := range ending {
		select {
		case <-l.ended:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// Connections is the number of open connections.
func (p *Proxy) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.links)
}

func (p *Proxy) listen() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.listener != nil {
		return nil
	}
	listener, err := net.Listen("tcp", p.addr)
	if err != nil {
		return err
	}
	p.listener = listener
	p.running.Go(func() { p.serve(listener) })
	return nil
}

func (p *Proxy) serve(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return // closed by Refuse or by the end of the test
		}
		p.running.Go(func() { p.connect(client) })
	}
}

// connect forwards one connection until either side or a fault ends it.
func (p *Proxy) connect(client net.Conn) {
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		reset(client)
		return
	}
	l := &link{proxy: p, client: client, server: server, done: make(chan struct{}), ended: make(chan struct{})}
	if !p.add(l) {
		l.cut()
		return
	}
	defer close(l.ended)
	defer p.remove(l)

	var pumps sync.WaitGroup
	pumps.Go(l.pumpUp)
	pumps.Go(l.pumpDown)
	pumps.Wait()
}

func (p *Proxy) add(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.links[l] = struct{}{}
	return true
}

func (p *Proxy) remove(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}

func (p *Proxy) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.Refuse()
	p.CutAll()
	p.running.Wait()
}
