package faultproxy_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/test/internal/faultproxy"
	"github.com/redlatch/redlatch/test/internal/redistest"
)

// bench is a server, a proxy in front of it, a client of the proxy that never
// retries and a client that goes around the proxy.
type bench struct {
	proxy  *faultproxy.Proxy
	client *redis.Client
	direct *redis.Client
}

func newBench(t *testing.T) bench {
	t.Helper()
	server := redistest.Standalone(t)
	proxy := faultproxy.New(t, server.Addr())
	client := redis.NewClient(&redis.Options{
		Addr: proxy.Addr(), MaxRetries: -1, DialerRetries: 1, DisableIdentity: true, ContextTimeoutEnabled: true,
	})
	t.Cleanup(func() { _ = client.Close() })
	b := bench{proxy: proxy, client: client, direct: server.Client(t)}
	if err := client.Ping(t.Context()).Err(); err != nil { // the handshake ends before the first fault
		t.Fatal(err)
	}
	return b
}

func (b bench) count(t *testing.T) int {
	t.Helper()
	n, err := b.direct.Get(t.Context(), "n").Int()
	if err != nil && !errors.Is(err, redis.Nil) {
		t.Fatal(err)
	}
	return n
}

func (b bench) incr(t *testing.T) error {
	t.Helper()
	return b.client.Incr(t.Context(), "n").Err()
}

func TestForwardsUntouchedWithoutFaults(t *testing.T) {
	b := newBench(t)
	big := strings.Repeat("x", 3<<20) // more than one chunk
	if err := b.client.Set(t.Context(), "big", big, 0).Err(); err != nil {
		t.Fatal(err)
	}
	got, err := b.client.Get(t.Context(), "big").Result()
	if err != nil {
		t.Fatal(err)
	}
	if got != big {
		t.Errorf("got %d bytes back that differ from the %d sent", len(got), len(big))
	}
}

func TestCutRequestIsNotExecuted(t *testing.T) {
	b := newBench(t)
	rule := b.proxy.CutRequest()
	if err := b.incr(t); err == nil {
		t.Error("the cut request succeeded")
	}
	if n := b.count(t); n != 0 {
		t.Errorf("n = %d, the cut request was executed", n)
	}
	if rule.Hits() != 1 {
		t.Errorf("hits = %d, want 1", rule.Hits())
	}
	if err := b.incr(t); err != nil {
		t.Errorf("the request after the cut one: %v", err)
	}
}

func TestCutReplyIsExecutedAndFails(t *testing.T) {
	b := newBench(t)
	b.proxy.CutReply()
	if err := b.incr(t); err == nil {
		t.Error("the client got the reply")
	}
	if n := b.count(t); n != 1 {
		t.Errorf("n = %d, want the request executed once", n)
	}
}

func TestCutReplyHitsOnlyTheGivenScript(t *testing.T) {
	b := newBench(t)
	ctx := t.Context()
	target := redis.NewScript(`return redis.call('INCR', KEYS[1])`)
	other := redis.NewScript(`return redis.call('INCRBY', KEYS[1], 10)`)
	for _, script := range []*redis.Script{target, other} {
		if err := script.Load(ctx, b.client).Err(); err != nil {
			t.Fatal(err)
		}
	}

	rule := b.proxy.CutReplyWhen(faultproxy.Contains("evalsha", target.Hash()), 2)
	if err := other.EvalSha(ctx, b.client, []string{"n"}).Err(); err != nil {
		t.Fatalf("another script was hit: %v", err)
	}
	select {
	case <-rule.Hit():
		t.Fatal("the rule says that it was hit")
	default:
	}
	for i := range 3 {
		err := target.EvalSha(ctx, b.client, []string{"n"}).Err()
		if failed := err != nil; failed != (i < 2) {
			t.Errorf("call %d: %v", i+1, err)
		}
	}
	<-rule.Hit()
	if n := b.count(t); n != 13 {
		t.Errorf("n = %d, want 10 + 3, as cut replies are executed too", n)
	}
}

func TestRemovedRuleNeverApplies(t *testing.T) {
	b := newBench(t)
	rule := b.proxy.CutRequestWhen(faultproxy.Any, -1)
	if err := b.incr(t); err == nil {
		t.Error("the rule did not apply")
	}
	rule.Remove()
	rule.Remove() // does nothing
	if err := b.incr(t); err != nil {
		t.Errorf("the removed rule applied: %v", err)
	}
}

func TestAnswerReplacesTheServer(t *testing.T) {
	b := newBench(t)
	const line = "-TRYAGAIN Multiple keys request during rehashing of slot"
	b.proxy.AnswerWhen(faultproxy.Contains("incr"), 1, line)
	if err := b.incr(t); err == nil || err.Error() != line[1:] {
		t.Errorf("got %v, want the given line", err)
	}
	if err := b.incr(t); err != nil {
		t.Errorf("the connection did not survive the answer: %v", err)
	}
	if n := b.count(t); n != 1 {
		t.Errorf("n = %d, want only the second request executed", n)
	}
}

func TestObserveCountsAndChangesNothing(t *testing.T) {
	b := newBench(t)
	seen := b.proxy.Observe(faultproxy.Contains("INCR"))
	for range 3 {
		if err := b.incr(t); err != nil {
			t.Fatal(err)
		}
	}
	if seen.Hits() != 3 {
		t.Errorf("hits = %d, want 3", seen.Hits())
	}
}

func TestHeldTrafficArrivesAfterResume(t *testing.T) {
	for name, test := range map[string]struct {
		hold     func(*faultproxy.Proxy)
		executed bool // while held
	}{
		"requests": {(*faultproxy.Proxy).HoldUp, false},
		"replies":  {(*faultproxy.Proxy).HoldDown, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			seen := b.proxy.Observe(faultproxy.Contains("incr"))
			test.hold(b.proxy)

			answered := make(chan error, 1)
			go func() { answered <- b.incr(t) }()
			if test.executed {
				<-seen.Hit()
				for b.count(t) == 0 { // bounded by the timeout of the test binary
				}
			}
			select {
			case err := <-answered:
				t.Fatalf("answered while held: %v", err)
			case <-time.After(100 * time.Millisecond):
			}
			if n := b.count(t); (n == 1) != test.executed {
				t.Errorf("n = %d while held", n)
			}

			b.proxy.Resume()
			if err := <-answered; err != nil {
				t.Errorf("after Resume: %v", err)
			}
			if n := b.count(t); n != 1 {
				t.Errorf("n = %d after Resume, want 1", n)
			}
		})
	}
}

func TestHeldConnectionOutlivesTheServersClose(t *testing.T) {
	b := newBench(t)
	b.proxy.HoldDown()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	killed, err := b.direct.ClientKillByFilter(t.Context(), "SKIPME", "yes").Result()
	if err != nil || killed != 1 {
		t.Fatalf("killed %d connections, %v, want the proxied one", killed, err)
	}
	if err := b.client.Ping(ctx).Err(); !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v, want a timeout: the close must be held too", err)
	}
}

func TestDelayIsAtLeastWhatWasAsked(t *testing.T) {
	b := newBench(t)
	b.proxy.Delay(30*time.Millisecond, 40*time.Millisecond)
	start := time.Now()
	if err := b.incr(t); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took < 70*time.Millisecond {
		t.Errorf("took %v, want at least 70ms", took)
	}
	b.proxy.Delay(0, 0)
	if err := b.incr(t); err != nil {
		t.Fatal(err)
	}
}

func TestRefuseLeavesExistingConnections(t *testing.T) {
	b := newBench(t)
	b.proxy.Refuse()
	if _, err := net.Dial("tcp", b.proxy.Addr()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dial: %v, want connection refused", err)
	}
	if err := b.incr(t); err != nil {
		t.Errorf("an existing connection: %v", err)
	}
	b.proxy.Accept()
	b.proxy.Accept() // does nothing
	if err := ping(t, b.proxy); err != nil {
		t.Errorf("a new connection after Accept: %v", err)
	}
}

// ping says PING over a new connection.
func ping(t *testing.T, proxy *faultproxy.Proxy) error {
	t.Helper()
	conn, err := net.Dial("tcp", proxy.Addr())
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "PING\r\n"); err != nil {
		return err
	}
	_, err = conn.Read(make([]byte, 1))
	return err
}

func TestCutAllEndsHeldConnections(t *testing.T) {
	b := newBench(t)
	seen := b.proxy.Observe(faultproxy.Contains("incr"))
	b.proxy.HoldDown()
	answered := make(chan error, 1)
	go func() { answered <- b.incr(t) }()
	<-seen.Hit()
	b.proxy.CutAll()
	if err := <-answered; err == nil {
		t.Error("the held request succeeded")
	}
}

func TestDeadTargetResetsClients(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	proxy := faultproxy.New(t, listener.Addr().String())
	if err := ping(t, proxy); err == nil {
		t.Error("a dead target answered")
	}
}

func TestSettleWaitsForTheEndOfWhatIsCut(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	proxy := faultproxy.New(t, listener.Addr().String())
	client, err := net.Dial("tcp", proxy.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	if !proxy.Settle(t.Context()) {
		t.Error("nothing was cut, and Settle waited for it")
	}

	rule := proxy.CutReply()
	if _, err := client.Write([]byte("request")); err != nil {
		t.Fatal(err)
	}
	<-rule.Hit()
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if proxy.Settle(short) {
		t.Error("the server has not replied yet, and Settle did not wait")
	}
	if _, err := server.Write([]byte("reply")); err != nil {
		t.Fatal(err)
	}
	if !proxy.Settle(t.Context()) || proxy.Connections() != 0 {
		t.Errorf("%d connections are left", proxy.Connections())
	}
}

func TestPaceLetsOneRequestPassAtATime(t *testing.T) {
	server := redistest.Standalone(t)
	proxy := faultproxy.New(t, server.Addr())
	const pace, calls = 20 * time.Millisecond, 10
	proxy.Pace(pace)
	began := time.Now()
	var all sync.WaitGroup
	for range calls {
		all.Go(func() {
			conn := redis.NewClient(&redis.Options{Addr: proxy.Addr()})
			defer func() { _ = conn.Close() }()
			if err := conn.Ping(t.Context()).Err(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if took := time.Since(began); took < calls*pace {
		t.Errorf("%d requests took %v", calls, took)
	}
}
