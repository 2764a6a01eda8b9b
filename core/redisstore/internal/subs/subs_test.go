package subs_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/redisstore/internal/subs"
)

// patience bounds waits for what must happen.
const patience = 20 * time.Second

var errRefused = errors.New("refused")

// set returns subscriptions at a server that answers each command so. wrap, if
// non-nil, is put around the connections.
func set(t *testing.T, answer func(connection int, command []string) string, wrap func(connection int, c net.Conn) net.Conn) *subs.Set {
	t.Helper()
	var connections atomic.Int32
	rdb := redis.NewClient(&redis.Options{
		// A name would be looked up, and the resolver can't be shared with a bubble.
		Addr: "127.0.0.1:6379", Protocol: 2, DisableIdentity: true,
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			n := int(connections.Add(1))
			client, server := net.Pipe()
			go serve(server, func(command []string) string { return answer(n, command) })
			if wrap == nil {
				return client, nil
			}
			return wrap(n, client), nil
		},
	})
	return of(t, rdb)
}

// link is the connection that was made last.
type link struct {
	mu   sync.Mutex
	conn net.Conn
}

func (l *link) made(_ int, c net.Conn) net.Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conn = c
	return c
}

func (l *link) last() net.Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.conn
}

// of returns subscriptions of a client, which it closes in the end.
func of(t *testing.T, rdb *redis.Client) *subs.Set {
	t.Helper()
	t.Cleanup(func() { _ = rdb.Close() })
	return subs.New(subs.Config{
		Client:  rdb,
		Failure: func(err error) error { return err },
		Refused: func(err error) bool { return strings.HasPrefix(err.Error(), "NOPERM") },
		Warn:    func(string, error) {},
	})
}

func serve(conn net.Conn, answer func(command []string) string) {
	defer conn.Close()
	replies := make(chan string, 1000) // a pipe has no buffer
	defer close(replies)
	go func() {
		for reply := range replies {
			_, _ = io.WriteString(conn, reply)
		}
	}()
	in := bufio.NewReader(conn)
	next := func() string {
		text, _ := in.ReadString('\n')
		return strings.TrimSpace(text)
	}
	for {
		n, err := strconv.Atoi(strings.TrimPrefix(next(), "*"))
		if err != nil {
			return
		}
		command := make([]string, n)
		for i := range command {
			_ = next() // its length; none of ours has a line break
			command[i] = next()
		}
		if command[0] == "hello" {
			replies <- "-ERR unknown command\r\n"
			continue
		}
		replies <- answer(command)
	}
}

func push(kind, channel string, last string) string {
	return fmt.Sprintf("*3\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n%s\r\n", len(kind), kind, len(channel), channel, last)
}

// acknowledge answers subscriptions, one push for each channel.
func acknowledge(_ int, command []string) string {
	var reply strings.Builder
	for i, name := range command[1:] {
		reply.WriteString(push(command[0], name, ":"+strconv.Itoa(i+1)))
	}
	return reply.String()
}

func await(t *testing.T, what string, woken <-chan struct{}) {
	t.Helper()
	select {
	case <-woken:
	case <-time.After(patience):
		t.Fatalf("never happened: %s", what)
	}
}

func TestAMessageWakesWhoWatchesItsChannel(t *testing.T) {
	s := set(t, func(n int, command []string) string {
		return acknowledge(n, command) + push("message", "a", "$1\r\n0")
	}, nil)
	woken := make(chan struct{}, 100)
	stop, err := s.Watch(t.Context(), []string{"a"}, func() { woken <- struct{}{} })
	if err != nil {
		t.Fatal(err)
	}
	await(t, "a wake-up", woken)
	stop()
	stop() // a second call does nothing
	other, err := s.Watch(t.Context(), []string{"b", "c"}, func() { t.Error("woken by a message of another channel") })
	if err != nil {
		t.Fatal(err)
	}
	other()
}

// Each channel is subscribed once, and unsubscribed when nobody watches it. The connection
// ends with the last.
func TestNothingIsKeptThatNobodyWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var commands []string
		var open atomic.Int32
		s := set(t, func(n int, command []string) string {
			mu.Lock()
			defer mu.Unlock()
			commands = append(commands, strings.Join(command, " "))
			return acknowledge(n, command)
		}, func(_ int, c net.Conn) net.Conn {
			open.Add(1)
			return closing{c, sync.OnceFunc(func() { open.Add(-1) })}
		})
		watch := func(name string) func() {
			stop, err := s.Watch(t.Context(), []string{name}, func() {})
			if err != nil {
				t.Fatal(err)
			}
			return func() {
				stop()
				synctest.Wait()
			}
		}
		a, b, again := watch("a"), watch("b"), watch("a")
		a()
		again()
		watch("c")()
		b()
		want := []string{"subscribe a", "subscribe b", "unsubscribe a", "subscribe c", "unsubscribe c"}
		mu.Lock()
		sent := commands
		mu.Unlock()
		if last := len(sent) - 1; sent[last] == "unsubscribe b" {
			sent = sent[:last] // the connection ends anyway
		}
		if !slices.Equal(sent, want) {
			t.Errorf("sent %q, want %q", sent, want)
		}
		if n := open.Load(); n != 0 {
			t.Errorf("%d connections are left", n)
		}
	})
}

// closing is a connection that notes its end.
type closing struct {
	net.Conn
	closed func()
}

func (c closing) Close() error {
	c.closed()
	return c.Conn.Close()
}

// An application may close its client right after its locker.
func TestALossWhileNobodyWatchesIsNoTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := set(t, acknowledge, nil).Config
		config.Refused = func(error) bool { return true }
		config.Warn = func(message string, err error) { t.Errorf("warned: %s: %v", message, err) }
		stop, err := subs.New(config).Watch(t.Context(), []string{"a"}, func() {})
		if err != nil {
			t.Fatal(err)
		}
		stop()
		_ = config.Client.Close()
		time.Sleep(100 * time.Millisecond) // everything has ended
	})
}

func TestARefusalIsTheErrorOfTheWatch(t *testing.T) {
	s := set(t, func(int, []string) string { return "-NOPERM no permission\r\n" }, nil)
	if _, err := s.Watch(t.Context(), []string{"a"}, func() {}); err == nil || !strings.Contains(err.Error(), "NOPERM") {
		t.Errorf("got %v, want the refusal", err)
	}
}

func TestAWatchEndsWithItsContext(t *testing.T) {
	s := set(t, func(int, []string) string { return "" }, nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errRefused)
	if _, err := s.Watch(ctx, []string{"a"}, func() {}); !errors.Is(err, errRefused) {
		t.Errorf("got %v, want the cause", err)
	}
}

// buggy is a connection whose client panics at some time: a bug of the client in
// what it reads. armed is set when it is to do so.
type buggy struct {
	net.Conn
	armed *atomic.Bool
}

func (b buggy) Read(into []byte) (int, error) {
	n, err := b.Conn.Read(into)
	if b.armed.CompareAndSwap(true, false) {
		panic("a bug of the client")
	}
	return n, err
}

// Another connection takes over, and everybody is woken by it.
func TestAPanicOfTheClientCostsItsConnection(t *testing.T) {
	var armed atomic.Bool
	var subscribed atomic.Int32
	s := set(t, func(n int, command []string) string {
		if command[0] == "subscribe" {
			subscribed.Store(int32(n))
		}
		return acknowledge(n, command)
	}, func(_ int, c net.Conn) net.Conn { return buggy{c, &armed} })
	woken := make(chan struct{}, 100)
	stop, err := s.Watch(t.Context(), []string{"a"}, func() { woken <- struct{}{} })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	armed.Store(true)
	leave, err := s.Watch(t.Context(), []string{"b"}, func() {}) // its acknowledgement is never read
	if err != nil {
		t.Fatal(err)
	}
	defer leave()
	await(t, "a wake-up by the new connection", woken)
	if n := subscribed.Load(); n < 2 {
		t.Errorf("subscribed on connection %d, want another one", n)
	}
}

// The one after it is read, too, if it fails at once.
func TestAPanicOfTheClientWhileTheServerRefusesCostsNoWakeUps(t *testing.T) {
	var armed atomic.Bool
	s := set(t, acknowledge, func(n int, c net.Conn) net.Conn {
		if n > 1 && n < 8 {
			_ = c.Close()
		}
		return buggy{c, &armed}
	})
	woken := make(chan struct{}, 100)
	stop, err := s.Watch(t.Context(), []string{"a"}, func() { woken <- struct{}{} })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	armed.Store(true) // for the answer to the next ping
	await(t, "a wake-up by the connection after the next", woken)
}

// A topology that stays wrong costs no connection after the other, however many channels
// of the same and of other nodes are acknowledged.
func TestAChannelThatIsElsewhereIsNotTriedWithoutAPause(t *testing.T) {
	var dialed atomic.Int32
	s := clustered(t, func(_ int, command []string) string {
		if command[0] == "ssubscribe" && command[1] == "moved" {
			return "-MOVED 1 10.0.0.2:6379\r\n"
		}
		return acknowledge(0, command)
	}, &dialed)
	stop, err := s.Watch(t.Context(), []string{"well"}, func() {})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	for ctx.Err() == nil {
		if leave, err := s.Watch(ctx, []string{"moved"}, func() {}); err == nil {
			leave()
			t.Fatal("it was subscribed")
		}
	}
	if n := dialed.Load(); n > 50 {
		t.Errorf("%d connections in 2 s", n)
	}
}

// clustered returns subscriptions at the one node of a cluster.
func clustered(t *testing.T, answer func(connection int, command []string) string, dialed *atomic.Int32) *subs.Set {
	t.Helper()
	cluster := redis.NewClusterClient(&redis.ClusterOptions{
		ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
			return []redis.ClusterSlot{{Start: 0, End: 16383, Nodes: []redis.ClusterNode{{Addr: "10.0.0.1:6379"}}}}, nil
		},
		Protocol: 2, DisableIdentity: true,
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			n := int(dialed.Add(1))
			client, server := net.Pipe()
			go serve(server, func(command []string) string { return answer(n, command) })
			return client, nil
		},
	})
	t.Cleanup(func() { _ = cluster.Close() })
	return subs.New(subs.Config{
		Client: cluster, Cluster: cluster,
		Failure: func(err error) error { return err },
		Refused: func(err error) bool { return strings.HasPrefix(err.Error(), "CROSSSLOT") },
		Warn:    func(string, error) {},
	})
}

// A client that connects by itself subscribes to the channels of all slots at once.
func TestARefusalOfWhatTheClientDidIsNoneOfShardedChannels(t *testing.T) {
	var dialed, asked atomic.Int32
	s := clustered(t, func(_ int, command []string) string {
		if command[0] == "ssubscribe" && asked.Add(1) == 1 {
			return "-CROSSSLOT Keys in request don't hash to the same slot\r\n"
		}
		return acknowledge(0, command)
	}, &dialed)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	stop, err := s.Watch(ctx, []string{"a"}, func() {})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if s.Unsharded() || asked.Load() < 2 {
		t.Errorf("asked %d times, and without sharded channels: %v", asked.Load(), s.Unsharded())
	}
}

// A server refuses all channels of a command in which one is forbidden, such as the one
// with which the client subscribes again.
func TestAForbiddenChannelTakesNoOtherWithIt(t *testing.T) {
	var mu sync.Mutex
	conns, well := make(map[int]net.Conn), make(map[int]bool)
	s := set(t, func(n int, command []string) string {
		if command[0] == "ping" {
			return "*2\r\n$4\r\npong\r\n$0\r\n\r\n"
		}
		mu.Lock()
		defer mu.Unlock()
		if command[0] == "subscribe" && slices.Contains(command, "forbidden") {
			if well[n] { // the client connects again, and subscribes to all at once
				_ = conns[n].Close()
				return ""
			}
			return "-NOPERM no permission\r\n"
		}
		well[n] = true
		return acknowledge(n, command)
	}, func(n int, c net.Conn) net.Conn {
		mu.Lock()
		defer mu.Unlock()
		conns[n] = c
		return c
	})
	woken := make(chan struct{}, 100)
	stop, err := s.Watch(t.Context(), []string{"allowed"}, func() { woken <- struct{}{} })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	for range 3 {
		if leave, err := s.Watch(t.Context(), []string{"forbidden"}, func() {}); err == nil {
			leave()
			t.Fatal("it was subscribed")
		}
		await(t, "a wake-up by the new subscription", woken)
	}
}

// A channel that is forbidden while it is watched is tried with a pause, and no other watch
// of it begins.
func TestAChannelThatIsForbiddenLaterIsTriedWithAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var forbidden atomic.Bool
		var tries atomic.Int32
		var made link
		s := set(t, func(n int, command []string) string {
			if command[0] == "subscribe" && forbidden.Load() && tries.Add(1) < 1000 {
				return "-NOPERM no permission\r\n"
			}
			return refusing(n, command)
		}, made.made)
		woken := make(chan struct{}, 100)
		stop, err := s.Watch(t.Context(), []string{"a"}, func() { woken <- struct{}{} })
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		forbidden.Store(true)
		_ = made.last().Close()
		time.Sleep(2 * time.Second)
		if n := tries.Load(); n < 2 || n > 50 {
			t.Errorf("subscribed %d times in 2 s", n)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if leave, err := s.Watch(ctx, []string{"a"}, func() {}); err == nil {
			leave()
			t.Error("a watch began without an acknowledgement")
		}
		forbidden.Store(false)
		await(t, "a wake-up by the new subscription", woken)
	})
}

// One that has lasted is replaced at once, however many were lost before.
func TestAConnectionThatHasLastedIsReplacedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var made link
		s := set(t, refusing, made.made)
		woken := make(chan struct{}, 100)
		stop, err := s.Watch(t.Context(), []string{"a"}, func() { woken <- struct{}{} })
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		for _, life := range []time.Duration{time.Minute, 50 * time.Millisecond} {
			for range 20 {
				time.Sleep(life)
				_ = made.last().Close()
				began := time.Now()
				await(t, "a wake-up by the new subscription", woken)
				if took := time.Since(began); took > 10*time.Millisecond {
					t.Errorf("replaced after %v, having lasted for %v", took, life)
				}
			}
		}
	})
}

// A server, or a proxy, that acknowledges and hangs up costs no connection after the other,
// and wakes nobody after the other.
func TestAConnectionThatEndsAfterItsAcknowledgementIsNotTriedWithoutAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var made link
		var dialed atomic.Int32
		s := set(t, func(n int, command []string) string {
			if command[0] == "subscribe" {
				ends := made.last()
				time.AfterFunc(2*time.Millisecond, func() { _ = ends.Close() })
			}
			return acknowledge(n, command)
		}, func(n int, c net.Conn) net.Conn {
			dialed.Store(int32(n))
			return made.made(n, c)
		})
		stop, err := s.Watch(t.Context(), []string{"a"}, func() {})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		stop()
		if n := dialed.Load(); n > 50 || n < 2 {
			t.Errorf("%d connections in 2 s", n)
		}
	})
}

// A panic while the connection after a panic is made leaves nobody deaf.
func TestAPanicOfTheClientAtTheNextConnectionCostsNoWakeUps(t *testing.T) {
	var armed atomic.Bool
	s := set(t, acknowledge, func(n int, c net.Conn) net.Conn {
		if n == 2 {
			_ = c.Close()
			panic("a bug of the client")
		}
		return buggy{c, &armed}
	})
	woken := make(chan struct{}, 100)
	stop, err := s.Watch(t.Context(), []string{"a"}, func() { woken <- struct{}{} })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	armed.Store(true) // for the answer to the next ping
	await(t, "a wake-up by the connection after the next", woken)
}

// A connection that is mute from its first byte on is given up, whatever the client's timeout.
func TestAHandshakeThatIsMuteIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dialed atomic.Int32
		s := of(t, redis.NewClient(&redis.Options{
			Addr: "127.0.0.1:6379", Protocol: 2, DisableIdentity: true, ReadTimeout: -1,
			Dialer: func(context.Context, string, string) (net.Conn, error) {
				n := int(dialed.Add(1))
				client, server := net.Pipe()
				if n == 1 {
					go func() { _, _ = io.Copy(io.Discard, server) }()
					return client, nil
				}
				go serve(server, func(command []string) string { return acknowledge(n, command) })
				return client, nil
			},
		}))
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		stop, err := s.Watch(ctx, []string{"a"}, func() {})
		for err != nil && ctx.Err() == nil { // as waiters do
			stop, err = s.Watch(ctx, []string{"a"}, func() {})
		}
		if err != nil {
			t.Fatalf("%v, after %d connections", err, dialed.Load())
		}
		stop()
	})
}

// refusing acknowledges all but commands with forbidden channels.
func refusing(n int, command []string) string {
	switch {
	case command[0] == "ping":
		return "*2\r\n$4\r\npong\r\n$0\r\n\r\n"
	case command[0] == "subscribe" && slices.ContainsFunc(command[1:], func(c string) bool { return strings.HasPrefix(c, "forbidden") }):
		return "-NOPERM no permission\r\n"
	}
	return acknowledge(n, command)
}

// Channels that the server refuses, one after the other, hold up nobody else.
func TestForbiddenChannelsDelayNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := set(t, refusing, nil)
		stop, err := s.Watch(t.Context(), []string{"allowed"}, func() {})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 20 {
			if leave, err := s.Watch(t.Context(), []string{"forbidden" + strconv.Itoa(i)}, func() {}); err == nil {
				leave()
				t.Fatal("it was subscribed")
			}
			began := time.Now()
			leave, err := s.Watch(t.Context(), []string{"another"}, func() {})
			if err != nil {
				t.Fatal(err)
			}
			leave()
			if took := time.Since(began); took > 100*time.Millisecond {
				t.Errorf("the subscription of an allowed channel took %v", took)
			}
			time.Sleep(100 * time.Millisecond)
		}
		stop()
	})
}

// Many at a time hold up nobody else either, though one that is in a command with them is
// refused as well.
func TestACrowdOfForbiddenChannelsDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := set(t, refusing, nil)
		stop, err := s.Watch(t.Context(), []string{"allowed"}, func() {})
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				for j := range 50 {
					if leave, err := s.Watch(t.Context(), []string{fmt.Sprint("forbidden ", i, j)}, func() {}); err == nil {
						leave()
						t.Error("it was subscribed")
					}
					time.Sleep(20 * time.Millisecond)
				}
			})
		}
		for range 20 {
			began := time.Now()
			if leave, err := s.Watch(t.Context(), []string{"another"}, func() {}); err == nil {
				leave()
			}
			if took := time.Since(began); took > 100*time.Millisecond {
				t.Errorf("the subscription of an allowed channel took %v", took)
			}
			time.Sleep(37 * time.Millisecond)
		}
		all.Wait()
		stop()
	})
}

// A server that refuses a connection itself, such as after a change of the password, costs
// no connection after the other.
func TestARefusedHandshakeIsNotTriedWithoutAPause(t *testing.T) {
	errCrowd := errors.New("too many connections")
	for name, refusal := range map[string]string{
		"password": "-WRONGPASS invalid username-password pair or user is disabled.\r\n",
		"rights":   "-NOPERM this user has no permissions to run the 'select' command\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var changed atomic.Bool
				var dialed atomic.Int32
				var mu sync.Mutex
				conns := make(map[int32]net.Conn)
				config := of(t, redis.NewClient(&redis.Options{
					Addr: "127.0.0.1:6379", Protocol: 2, DisableIdentity: true, Password: "old", DB: 1,
					Dialer: func(context.Context, string, string) (net.Conn, error) {
						n := dialed.Add(1)
						if n > 1000 {
							return nil, errCrowd
						}
						client, server := net.Pipe()
						mu.Lock()
						defer mu.Unlock()
						conns[n] = client
						go serve(server, func(command []string) string {
							switch {
							case command[0] == "select" && changed.Load():
								return refusal
							case command[0] == "auth", command[0] == "select":
								return "+OK\r\n"
							case command[0] == "ping":
								return "*2\r\n$4\r\npong\r\n$0\r\n\r\n"
							}
							return acknowledge(int(n), command)
						})
						return client, nil
					},
				})).Config
				config.Refused = func(err error) bool { return !errors.Is(err, errCrowd) }
				woken := make(chan struct{}, 2000)
				stop, err := subs.New(config).Watch(t.Context(), []string{"a"}, func() { woken <- struct{}{} })
				if err != nil {
					t.Fatal(err)
				}
				defer stop()
				changed.Store(true)
				mu.Lock()
				_ = conns[1].Close()
				mu.Unlock()
				time.Sleep(2 * time.Second)
				if n := dialed.Load(); n > 50 {
					t.Errorf("%d connections in 2 s", n)
				}
				changed.Store(false)
				await(t, "a wake-up by the new subscription", woken)
			})
		})
	}
}
