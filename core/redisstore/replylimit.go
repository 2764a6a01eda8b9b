package redisstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
)

// ErrReply is why a connection of [LimitReplies] was closed: the reply was longer
// than the limit, or wasn't valid RESP.
var ErrReply = errors.New("reply exceeds the limit, or isn't one of Redis")

// LimitReplies returns a dialer whose connections fail with [ErrReply] when a
// reply announces or brings more than limit bytes. dial makes the connections,
// with TLS if there is any; limit must be at least 1024, or LimitReplies panics.
//
//	options.Dialer = redisstore.LimitReplies(redis.NewDialer(options), 1<<20)
//
// A client of Redis trusts the lengths in replies and allocates what they announce.
// So twenty bytes from a server that poses as Redis can end the process:
// "*9223372036854775807" makes go-redis panic, and "$100000000000" exhausts the
// memory. With this dialer, both are failed calls. It inspects each byte that isn't
// inside a string. Use it where the network between the client and Redis isn't
// trusted and TLS isn't available.
//
// Replies to locks have less than a kilobyte, except for ForceRelease of a key with
// thousands of readers, which fails above the limit. For a client that the application
// uses as well, the limit must be above its longest reply. An element of an array
// counts 16 bytes, one of a map 64, as they take memory before they arrive.
func LimitReplies(dial func(ctx context.Context, network, addr string) (net.Conn, error), limit int) func(ctx context.Context, network, addr string) (net.Conn, error) {
	if limit < 1024 {
		panic("redisstore.LimitReplies: limit is less than 1024") //nolint:forbidigo // documented: a wrong set-up cannot be run
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		limited := &limitedConn{Conn: conn, replies: replyStream{limit: limit}}
		if raw, ok := conn.(syscall.Conn); ok { // by which go-redis finds out that the connection is dead
			return &limitedRawConn{limited, raw}, nil
		}
		return limited, nil
	}
}

// limitedConn is a connection whose replies have a limit.
type limitedConn struct {
	net.Conn

	replies replyStream
}

type limitedRawConn struct {
	*limitedConn
	syscall.Conn
}

// Read reads what the limit allows. After [ErrReply] the connection is closed.
func (c *limitedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if bad := c.replies.scan(p[:n]); bad != nil {
		_ = c.Conn.Close() // it can't be used, whatever Close says
		return 0, bad
	}
	return n, err
}

// maxDepth is how deep arrays may be nested: a client reads them by recursion.
const maxDepth = 32

// replyStream follows a stream of replies in RESP 2 or 3 with constant memory. Its
// tokens are those of go-redis: a line, and after some of them a string. A reply
// spends what it uses in memory; the limit is for each reply as a whole.
type replyStream struct {
	limit  int
	spent  int     // by the current reply
	line   []byte  // the start of a line whose end has not come
	string int     // bytes of a string, and its end, that have not come
	open   []frame // arrays that have not ended
	failed error
}

// frame is an array or a map in which left elements are to come.
type frame struct {
	left int
	// aside is true for attributes, which come before the reply they are about
	// and are no elements themselves.
	aside bool
}

// scan takes note of the next bytes. Once it has failed, it fails always.
func (r *replyStream) scan(p []byte) error {
	for len(p) > 0 && r.failed == nil {
		if r.string > 0 {
			n := min(r.string, len(p))
			r.string, p = r.string-n, p[n:]
			if r.string == 0 {
				r.element()
			}
			continue
		}
		end := bytes.IndexByte(p, '\n')
		part := p[:end+1]
		if end < 0 {
			part = p
		}
		p = p[len(part):]
		if r.spend(len(part)); r.failed != nil {
			break
		}
		r.line = append(r.line, part...)
		if end >= 0 {
			r.token(r.line)
			r.line = r.line[:0]
		}
	}
	return r.failed
}

// token takes note of a whole line.
func (r *replyStream) token(line []byte) {
	if len(line) < 3 || line[len(line)-2] != '\r' {
		r.fail("a line without its end")
		return
	}
	switch kind := line[0]; kind {
	case '+', '-', ':', '_', ',', '#', '(':
		r.element()
	case '$', '=', '!', '*', '~', '>', '%', '|':
		n, err := strconv.Atoi(string(line[1 : len(line)-2]))
		if err != nil || n < -1 {
			r.fail("a length that is no number")
			return
		}
		r.announced(kind, n)
	default:
		r.fail("an unknown kind of reply")
	}
}

// announced takes note of a string or an array of length n, -1 if it's null.
func (r *replyStream) announced(kind byte, n int) {
	size := 1 // of an element
	switch kind {
	case '*', '~', '>':
		size = 16
	case '%', '|':
		size = 64
	}
	if n > r.limit/size {
		r.fail("length " + strconv.Itoa(n))
		return
	}
	if r.spend(n * size); r.failed != nil {
		return
	}
	switch {
	case size == 1 && n >= 0:
		r.string = n + len("\r\n")
	case n > 0 && len(r.open) == maxDepth:
		r.fail("arrays inside each other")
	case n > 0:
		left := n
		if size == 64 {
			left = 2 * n
		}
		r.open = append(r.open, frame{left: left, aside: kind == '|'})
	case kind != '|':
		r.element()
	}
}

// element takes note of the end of an element, and so of arrays that end with it.
func (r *replyStream) element() {
	for len(r.open) > 0 {
		last := &r.open[len(r.open)-1]
		if last.left--; last.left > 0 {
			return
		}
		aside := last.aside
		r.open = r.open[:len(r.open)-1]
		if aside {
			return // its reply is still to come
		}
	}
	r.spent = 0
}

func (r *replyStream) spend(n int) {
	if n > 0 {
		r.spent += n
	}
	if r.spent > r.limit {
		r.fail("more than " + strconv.Itoa(r.limit) + " bytes")
	}
}

func (r *replyStream) fail(why string) { r.failed = fmt.Errorf("redis: %w: %s", ErrReply, why) }
