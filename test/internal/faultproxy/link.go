package faultproxy

import (
	"net"
	"sync"
	"sync/atomic"
)

// chunk is larger than anything a client of ours writes at once.
const chunk = 1 << 20

// buffers are used again: programs that cut connections all the time would
// otherwise clear more memory than they forward.
var buffers = sync.Pool{New: func() any { return new([chunk]byte) }}

// link is one forwarded connection.
type link struct {
	proxy          *Proxy
	client, server net.Conn
	dropReply      atomic.Bool // the next thing the server says is the last

	doomed atomic.Bool // a rule has applied that ends it

	once  sync.Once
	done  chan struct{} // closed by cut
	ended chan struct{} // closed when nothing more is forwarded
}

// ending says whether a fault ends the connection, or has ended it.
func (l *link) ending() bool {
	select {
	case <-l.done:
		return true
	default:
		return l.doomed.Load()
	}
}

func (l *link) pumpUp() {
	defer l.cut()
	buffer := buffers.Get().(*[chunk]byte)
	defer buffers.Put(buffer)
	for {
		n, err := l.client.Read(buffer[:])
		l.proxy.arrived(buffer[:n])
		if !l.proxy.up.pass(l.done) || err != nil {
			return
		}
		if !l.request(buffer[:n]) {
			return
		}
	}
}

// request applies the first rule that matches. It returns false if the
// connection has ended.
func (l *link) request(data []byte) bool {
	switch verdict, answer := l.proxy.judge(l, data); verdict {
	case cutRequest:
		return false
	case answerRequest:
		_, err := l.client.Write(answer)
		return err == nil
	case cutReply:
		l.dropReply.Store(true)
	case cutMidway:
		l.dropReply.Store(true)
		data = data[:len(data)/2]
	case forward:
	}
	_, err := l.server.Write(data)
	return err == nil
}

func (l *link) pumpDown() {
	defer l.cut()
	buffer := buffers.Get().(*[chunk]byte)
	defer buffers.Put(buffer)
	for {
		n, err := l.server.Read(buffer[:])
		if l.dropReply.Load() || !l.proxy.down.pass(l.done) || err != nil {
			return
		}
		if _, err := l.client.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// cut ends the connection on both sides. A second call does nothing.
func (l *link) cut() {
	l.once.Do(func() {
		close(l.done)
		reset(l.client)
		reset(l.server)
	})
}

// reset closes a connection with RST, as a host does that has gone away and
// come back: the other side learns it at once, and reads nothing more.
func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // on failure the close below is a graceful one
	}
	_ = conn.Close()
}
