package latency_test

import (
	"bufio"
	"fmt"
	"net"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/redlatch/redlatch/test/bench/internal/latency"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo answers every line with itself until the test ends.
func echo(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			lines := bufio.NewScanner(conn)
			for lines.Scan() {
				fmt.Fprintln(conn, lines.Text())
			}
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() { listener.Close(); <-done })
	return listener.Addr().String()
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return conn
}

func TestEverythingArrivesInOrderAndLater(t *testing.T) {
	const delay = 20 * time.Millisecond
	proxy, err := latency.New(echo(t), delay)
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	conn := dial(t, proxy.Addr())
	start := time.Now()
	for i := range 100 {
		fmt.Fprintln(conn, i)
	}
	lines := bufio.NewScanner(conn)
	for i := range 100 {
		if !lines.Scan() || lines.Text() != fmt.Sprint(i) {
			t.Fatalf("line %d is %q, %v", i, lines.Text(), lines.Err())
		}
		if passed := time.Since(start); i == 0 && passed < 2*delay {
			t.Errorf("the first answer came after %v, before the delays of both ways", passed)
		}
	}
}

func TestCloseCutsConnections(t *testing.T) {
	proxy, err := latency.New(echo(t), 0)
	if err != nil {
		t.Fatal(err)
	}
	conn := dial(t, proxy.Addr())
	fmt.Fprintln(conn, "hello")
	lines := bufio.NewScanner(conn)
	if !lines.Scan() {
		t.Fatal(lines.Err())
	}
	proxy.Close()
	if lines.Scan() {
		t.Errorf("got %q of a closed proxy", lines.Text())
	}
	if conn, err := net.Dial("tcp", proxy.Addr()); err == nil {
		conn.Close()
		t.Error("a closed proxy accepts")
	}
}
