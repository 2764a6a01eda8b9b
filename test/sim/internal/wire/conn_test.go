package wire_test

import (
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/test/sim/internal/wire"
)

// peer is the other end of connections in a test.
type peer struct {
	mu     sync.Mutex
	delays func() time.Duration
	frozen time.Time
	got    []string
	closed atomic.Int64
}

func (p *peer) dial() *wire.Conn {
	return wire.Dial(wire.Path{
		Delay: func() time.Duration { return p.delays() },
		Held:  func() time.Duration { return time.Until(p.frozen) },
		Handshake: func(args []string) ([]byte, bool) {
			return []byte("+HI\r\n"), args[0] == "hello"
		},
		Request: func(c *wire.Conn, args []string, _ time.Time) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.got = append(p.got, args[0])
			c.Reply([]byte("+" + args[0] + "\r\n"))
		},
		Closed: func(*wire.Conn) { p.closed.Add(1) },
	})
}

func (p *peer) requests() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.got)
}

func always(d time.Duration) func() time.Duration { return func() time.Duration { return d } }

func send(t *testing.T, c *wire.Conn, args ...string) {
	t.Helper()
	if _, err := c.Write(wire.Command(args)); err != nil {
		t.Fatal(err)
	}
}

func receive(t *testing.T, c *wire.Conn, want string) {
	t.Helper()
	b := make([]byte, len(want))
	if _, err := io.ReadFull(c, b); err != nil || string(b) != want {
		t.Fatalf("got %q, %v; want %q", b, err, want)
	}
}

func TestAHandshakeTakesNoTimeAndACommandTwoDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &peer{delays: always(time.Second)}
		c, began := p.dial(), time.Now()
		send(t, c, "hello")
		receive(t, c, "+HI\r\n")
		if took := time.Since(began); took != 0 {
			t.Errorf("the handshake took %v", took)
		}
		send(t, c, "get", "k")
		receive(t, c, "+get\r\n")
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("the command took %v, want 2s", took)
		}
	})
}

func TestAConnectionKeepsItsOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(1, 2))
		p := &peer{delays: func() time.Duration { return time.Duration(rng.Int64N(int64(time.Second))) }}
		c := p.dial()
		var want []string
		for n := range 100 {
			want = append(want, strconv.Itoa(n))
			send(t, c, want[n])
		}
		time.Sleep(time.Minute)
		if got := p.requests(); !slices.Equal(got, want) {
			t.Errorf("arrived as %v", got)
		}
	})
}

func TestAFrozenNetworkDeliversLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &peer{delays: always(time.Millisecond), frozen: time.Now().Add(time.Minute)}
		c, began := p.dial(), time.Now()
		send(t, c, "get")
		receive(t, c, "+get\r\n")
		if took := time.Since(began); took < time.Minute {
			t.Errorf("a reply after %v", took)
		}
	})
}

func TestWhatWasSentBeforeACloseArrives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &peer{delays: always(time.Second)}
		c := p.dial()
		send(t, c, "set")
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if got := p.requests(); !slices.Equal(got, []string{"set"}) || p.closed.Load() != 1 {
			t.Errorf("arrived: %v, closed %d times", got, p.closed.Load())
		}
		if _, err := c.Write(wire.Command([]string{"get"})); err == nil {
			t.Error("a closed connection can be written to")
		}
	})
}

func TestACutLosesWhatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &peer{delays: always(time.Second)}
		c := p.dial()
		send(t, c, "set")
		time.AfterFunc(500*time.Millisecond, c.Cut)
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Error("read after a cut")
		}
		time.Sleep(time.Minute)
		if got := p.requests(); len(got) != 0 || p.closed.Load() != 1 {
			t.Errorf("arrived: %v, closed %d times", got, p.closed.Load())
		}
	})
}

func TestAReadEndsAtItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := (&peer{delays: always(time.Second)}).dial()
		began := time.Now()
		if err := c.SetReadDeadline(began.Add(3 * time.Second)); err != nil {
			t.Fatal(err)
		}
		_, err := c.Read(make([]byte, 1))
		if !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != 3*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

func TestTheParserWaitsForWholeCommands(t *testing.T) {
	b := append(wire.Command([]string{"set", "k", "a\r\nb", ""}), wire.Command([]string{"get", "k"})...)
	var p wire.Parser
	var got [][]string
	for i := range b {
		commands, err := p.Feed(b[i : i+1])
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, commands...)
	}
	if len(got) != 2 || !slices.Equal(got[0], []string{"set", "k", "a\r\nb", ""}) || !slices.Equal(got[1], []string{"get", "k"}) {
		t.Errorf("got %q", got)
	}
	if _, err := p.Feed([]byte("GET k\r\n")); err == nil {
		t.Error("took what is no command")
	}
}
