package redisstore_test

import (
	"bytes"
	"context"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/redisstore"
)

// canned is a connection to a server that says 1 to everything but HELLO, and
// allocates nothing.
type canned struct {
	net.Conn // nil
	replies  chan []byte
}

var (
	cannedOne   = []byte(":1\r\n")
	cannedError = []byte("-ERR unknown command\r\n")
	cannedHello = []byte("hello")
)

func (c *canned) Write(p []byte) (int, error) {
	if reply := cannedOne; bytes.Contains(p, cannedHello) {
		c.replies <- cannedError
	} else {
		c.replies <- reply
	}
	return len(p), nil
}

func (c *canned) Read(p []byte) (int, error) {
	reply, open := <-c.replies
	if !open {
		return 0, net.ErrClosed
	}
	return copy(p, reply), nil
}

func (c *canned) Close() error                   { close(c.replies); return nil }
func (*canned) SetDeadline(time.Time) error      { return nil }
func (*canned) SetReadDeadline(time.Time) error  { return nil }
func (*canned) SetWriteDeadline(time.Time) error { return nil }
func (*canned) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (*canned) RemoteAddr() net.Addr             { return &net.TCPAddr{} }

// 36, of which the client has 17; two more with the race detector.
func TestAnUncontendedCycleAllocatesLittle(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{
		Addr: "127.0.0.1:6379", Protocol: 2, DisableIdentity: true,
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			return &canned{replies: make(chan []byte, 16)}, nil
		},
	})
	t.Cleanup(func() { _ = rdb.Close() })
	l := newLocker(t, redisstore.New(rdb))
	allocs := testing.AllocsPerRun(1000, func() {
		lease, err := l.Acquire(t.Context(), "order:42")
		if err == nil {
			err = lease.Release(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	})
	if allocs > 39 {
		t.Errorf("%v allocations", allocs)
	}
}
