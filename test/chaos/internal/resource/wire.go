package resource

import (
	"encoding/gob"
	"fmt"
	"io"
)

// op is what a request asks for.
type op uint8

const (
	claim op = iota + 1
	write
)

// Request asks for one operation.
type Request struct {
	Op        op
	Worker    int
	Key, Mode string
	Owner     string
	Fence     uint64
	// Value and Plain are what to write.
	Value, Plain int64
}

// Reply says whether it was done. A claim returns both values of the key.
type Reply struct {
	OK           bool
	Value, Plain int64
}

// Serve answers the requests of one connection until it ends.
func (s *Server) Serve(conn io.ReadWriter) {
	in, out := gob.NewDecoder(conn), gob.NewEncoder(conn)
	for {
		var r Request
		if in.Decode(&r) != nil || out.Encode(s.handle(r)) != nil {
			return // the worker ended, or was killed
		}
	}
}

// Client is one user of the resource, for one goroutine.
type Client struct {
	in  *gob.Decoder
	out *gob.Encoder
}

// Dial returns a client on an open connection.
func Dial(conn io.ReadWriter) *Client {
	return &Client{in: gob.NewDecoder(conn), out: gob.NewEncoder(conn)}
}

func (c *Client) ask(r Request) (Reply, error) {
	var reply Reply
	if err := c.out.Encode(r); err != nil {
		return reply, fmt.Errorf("resource: %w", err)
	}
	if err := c.in.Decode(&reply); err != nil {
		return reply, fmt.Errorf("resource: %w", err)
	}
	return reply, nil
}

// Claim raises the fence of the key and reads both counters. Refused, with
// Reply.OK false, if the key has seen a larger fence.
func (c *Client) Claim(r Request) (Reply, error) { r.Op = claim; return c.ask(r) }

// Write writes both counters: the plain one always, the fenced one unless
// somebody else has claimed it, which makes Reply.OK false.
func (c *Client) Write(r Request) (Reply, error) { r.Op = write; return c.ask(r) }
