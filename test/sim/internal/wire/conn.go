package wire

import (
	"bytes"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Path is what a connection needs to know of the network and the server.
type Path struct {
	// Delay returns how long the next chunk takes.
	Delay func() time.Duration
	// Service returns how much longer a request takes because of those before it at
	// the server; nil: no longer.
	Service func(args []string) time.Duration
	// Held returns how much longer the network delivers nothing.
	Held func() time.Duration
	// Handshake answers a command that the client waits for under a mutex; ok
	// is false for every other one.
	Handshake func(args []string) (reply []byte, ok bool)
	// Request gets every other command, in order.
	Request func(c *Conn, args []string, sent time.Time)
	// Closed is called once, when the connection has ended on either side.
	Closed func(c *Conn)
}

// Conn is the client's end of a connection. It implements [net.Conn].
type Conn struct {
	path     Path
	up, down *pipe
	parser   Parser // of what the client writes, at once
	arrivals Parser // of what arrives at the server

	mu       sync.Mutex
	inbox    bytes.Buffer
	failed   error
	deadline time.Time
	changed  chan struct{} // wakes a reader; buffers one
	once     sync.Once
	mute     atomic.Bool
}

// Dial opens a connection, at once.
func Dial(path Path) *Conn {
	c := &Conn{path: path, changed: make(chan struct{}, 1)}
	c.up = &pipe{deliver: c.arrive, held: path.Held}
	c.down = &pipe{deliver: func(b []byte, _ time.Time) { c.put(b) }, held: path.Held}
	return c
}

// Write queues what the client sends. Handshakes are answered before it
// returns.
func (c *Conn) Write(b []byte) (int, error) {
	c.mu.Lock()
	failed := c.failed
	c.mu.Unlock()
	if failed != nil {
		return 0, failed
	}
	requests, err := c.parser.Feed(b)
	if err != nil {
		return 0, err
	}
	for _, args := range requests {
		if reply, ok := c.path.Handshake(args); ok {
			c.put(reply)
			continue
		}
		delay := c.path.Delay()
		if c.path.Service != nil {
			delay += c.path.Service(args)
		}
		c.up.send(Command(args), delay)
	}
	return len(b), nil
}

// arrive is the server's end.
func (c *Conn) arrive(b []byte, sent time.Time) {
	requests, err := c.arrivals.Feed(b)
	if err != nil {
		c.Cut()
		return
	}
	for _, args := range requests {
		c.path.Request(c, args, sent)
	}
}

// Reply sends bytes to the client.
func (c *Conn) Reply(b []byte) { c.down.send(b, c.path.Delay()) }

// put hands bytes to the client's reader.
func (c *Conn) put(b []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inbox.Write(b)
	c.wake()
}

// wake makes a reader look again; mu is held.
func (c *Conn) wake() {
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// Read waits for bytes, the deadline or the end of the connection.
func (c *Conn) Read(b []byte) (int, error) {
	for {
		c.mu.Lock()
		if c.inbox.Len() > 0 {
			n, err := c.inbox.Read(b)
			c.mu.Unlock()
			return n, err
		}
		failed, deadline := c.failed, c.deadline
		c.mu.Unlock()
		if failed != nil {
			return 0, failed
		}
		if err := c.await(deadline); err != nil {
			return 0, err
		}
	}
}

func (c *Conn) await(deadline time.Time) error {
	if deadline.IsZero() {
		<-c.changed
		return nil
	}
	left := time.Until(deadline)
	if left <= 0 {
		return os.ErrDeadlineExceeded
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-c.changed:
	case <-timer.C:
	}
	return nil
}

// Close is the client's end of the connection: what it has sent is still on its
// way and arrives, what was to come to it is lost.
func (c *Conn) Close() error {
	c.end(net.ErrClosed)
	c.down.drop(true)
	return nil
}

// Cut ends the connection in the network: what is under way is lost, both ways.
func (c *Conn) Cut() {
	c.up.drop(true)
	c.down.drop(true)
	c.end(&net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET})
}

// Mute loses what is under way and whatever comes, both ways. Neither end notices.
func (c *Conn) Mute() {
	c.up.drop(true)
	c.down.drop(true)
	c.mute.Store(true)
}

// Muted says whether Mute was called.
func (c *Conn) Muted() bool { return c.mute.Load() }

// HangUp ends the connection at the server: what the client has sent so far is
// lost, and so are replies under way.
func (c *Conn) HangUp() {
	c.up.drop(true)
	c.down.drop(true)
	c.end(io.EOF)
}

func (c *Conn) end(err error) {
	c.mu.Lock()
	if c.failed == nil {
		c.failed = err
	}
	c.wake()
	c.mu.Unlock()
	c.once.Do(func() { c.path.Closed(c) })
}

// SetReadDeadline bounds the present and the following reads.
func (c *Conn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = t
	c.wake()
	return nil
}

// SetDeadline is SetReadDeadline: writes never wait.
func (c *Conn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }

// SetWriteDeadline does nothing: writes never wait.
func (c *Conn) SetWriteDeadline(time.Time) error { return nil }

type address string

func (address) Network() string  { return "sim" }
func (a address) String() string { return string(a) }

// LocalAddr implements [net.Conn].
func (c *Conn) LocalAddr() net.Addr { return address("client") }

// RemoteAddr implements [net.Conn].
func (c *Conn) RemoteAddr() net.Addr { return address("server") }
