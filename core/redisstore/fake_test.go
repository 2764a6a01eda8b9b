package redisstore_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// fake is a server that says what a test wants it to say.
type fake struct {
	t      *testing.T
	answer func(command []string) string // RESP; empty says nothing

	mu       sync.Mutex
	commands [][]string
	conns    int
	refusing bool // connections
	running  sync.WaitGroup
}

// newFake returns the server and a client of it. Commands that answer leaves
// to the server by returning "default" are answered like a polite one would.
func newFake(t *testing.T, answer func(command []string) string) (*fake, *redis.Client) {
	t.Helper()
	f := &fake{t: t, answer: answer}
	t.Cleanup(forgetTimers)
	t.Cleanup(f.running.Wait)
	client := redis.NewClient(&redis.Options{
		Addr: "127.0.0.1:6379", Dialer: f.dial, Protocol: 2, DisableIdentity: true, DialerRetries: 1,
	})
	t.Cleanup(func() { _ = client.Close() })
	return f, client
}

// forgetTimers empties all sync.Pools. go-redis keeps timers in one, for callers that wait for
// a connection. A timer of one bubble of synctest ends the process if another bubble gets it.
func forgetTimers() {
	runtime.GC() // an item outlives the first
	runtime.GC()
}

// clusterOf is a client of a cluster whose slots are on these servers, in equal parts.
func clusterOf(t *testing.T, servers ...*fake) *redis.ClusterClient {
	t.Helper()
	dials := make(map[string]func(context.Context, string, string) (net.Conn, error))
	var slots []redis.ClusterSlot
	for i, f := range servers {
		addr := fmt.Sprintf("10.0.0.%d:6379", i+1) // nobody dials it
		dials[addr] = f.dial
		slots = append(slots, redis.ClusterSlot{
			Start: i * 16384 / len(servers), End: (i+1)*16384/len(servers) - 1, Nodes: []redis.ClusterNode{{Addr: addr}},
		})
	}
	client := redis.NewClusterClient(&redis.ClusterOptions{
		ClusterSlots: func(ctx context.Context) ([]redis.ClusterSlot, error) { return slots, ctx.Err() },
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return dials[addr](ctx, network, addr)
		},
		Protocol: 2, DisableIdentity: true, DialerRetries: 1,
	})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func (f *fake) dial(context.Context, string, string) (net.Conn, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refusing {
		return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	}
	client, server := net.Pipe()
	f.conns++
	f.running.Go(func() { f.serve(server) })
	return conn{client}, nil
}

// conn is an end of a pipe that notices as late as one of a network that the other is closed.
type conn struct{ net.Conn }

func (c conn) Write(text []byte) (int, error) {
	n, err := c.Conn.Write(text)
	if errors.Is(err, io.ErrClosedPipe) {
		err = &net.OpError{Op: "write", Err: syscall.EPIPE}
	}
	return n, err
}

func (c conn) SetDeadline(at time.Time) error      { return late(c.Conn.SetDeadline(at)) }
func (c conn) SetReadDeadline(at time.Time) error  { return late(c.Conn.SetReadDeadline(at)) }
func (c conn) SetWriteDeadline(at time.Time) error { return late(c.Conn.SetWriteDeadline(at)) }

func late(err error) error {
	if errors.Is(err, io.ErrClosedPipe) {
		return nil
	}
	return err
}

func (f *fake) serve(conn net.Conn) {
	defer conn.Close()
	replies := make(chan string, 1000) // a pipe has no buffer: read and write must not wait for each other
	defer close(replies)
	f.running.Go(func() {
		for reply := range replies {
			_, _ = io.WriteString(conn, reply)
		}
	})
	in := bufio.NewReader(conn)
	for {
		command, err := readCommand(in)
		if err != nil {
			return
		}
		reply := polite(command)
		if reply == "" {
			f.mu.Lock()
			f.commands = append(f.commands, command)
			f.mu.Unlock()
			reply = f.answer(command)
		}
		if reply == "hang up" {
			return
		}
		replies <- reply
	}
}

// polite answers what every client sends first.
func polite(command []string) string {
	switch strings.ToLower(command[0]) {
	case "hello":
		return "-ERR unknown command 'hello'\r\n"
	case "client":
		return "+OK\r\n"
	}
	return ""
}

func readCommand(in *bufio.Reader) ([]string, error) {
	line := func() (string, error) {
		text, err := in.ReadString('\n')
		return strings.TrimRight(text, "\r\n"), err
	}
	head, err := line()
	if err != nil {
		return nil, err
	}
	n, err := strconv.Atoi(strings.TrimPrefix(head, "*"))
	if err != nil {
		return nil, fmt.Errorf("not a command: %q", head)
	}
	command := make([]string, n)
	for i := range command {
		size, err := line()
		if err != nil {
			return nil, err
		}
		length, err := strconv.Atoi(strings.TrimPrefix(size, "$"))
		if err != nil {
			return nil, fmt.Errorf("not a length: %q", size)
		}
		text := make([]byte, length+2)
		if _, err := io.ReadFull(in, text); err != nil {
			return nil, err
		}
		command[i] = string(text[:length])
	}
	return command, nil
}

// received returns the commands so far.
func (f *fake) received() [][]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([][]string(nil), f.commands...)
}

func (f *fake) connections() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.conns
}

// Replies, in the protocol.
func integer(n int64) string { return fmt.Sprintf(":%d\r\n", n) }

func failed(text string) string { return "-" + text + "\r\n" }

func push(kind, channel string, n int) string {
	return fmt.Sprintf("*3\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n:%d\r\n", len(kind), kind, len(channel), channel, n)
}
