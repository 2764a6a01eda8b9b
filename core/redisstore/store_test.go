package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
)

var claim = lock.Claim{Key: "order:42", Owner: "5f0c:1", TTL: 30 * time.Second}

func TestRepliesOfAcquireAreDecoded(t *testing.T) {
	tests := []struct {
		reply int64
		fence uint64
		err   error
		ttl   time.Duration
	}{
		{reply: 1732150809000000, fence: 1732150809000000 * 64},
		{reply: 1<<53 - 1, fence: (1<<53 - 1) * 64},
		{reply: 0, err: redisstore.ErrBadReply},
		{reply: -1, err: lock.ErrBusy, ttl: -1},
		{reply: -2, err: lock.ErrBusy, ttl: 0},
		{reply: -2 - 30000, err: lock.ErrBusy, ttl: 30 * time.Second},
	}
	for _, tt := range tests {
		_, rdb := newFake(t, func([]string) string { return integer(tt.reply) })
		fence, err := lock.Blocking(redisstore.New(rdb)).Acquire(t.Context(), claim)
		if fence != tt.fence || !errors.Is(err, tt.err) {
			t.Errorf("%d: got %d, %v; want %d, %v", tt.reply, fence, err, tt.fence, tt.err)
		}
		var busy *lock.BusyError
		if errors.As(err, &busy) && busy.TTL != tt.ttl {
			t.Errorf("%d: busy for %v, want %v", tt.reply, busy.TTL, tt.ttl)
		}
	}
}

func TestAnUnknownScriptIsSentWithItsText(t *testing.T) {
	f, rdb := newFake(t, func(c []string) string {
		if c[0] == "evalsha" {
			return failed("NOSCRIPT No matching script. Please use EVAL.")
		}
		return integer(7)
	})
	fence, err := lock.Blocking(redisstore.New(rdb)).Acquire(t.Context(), claim)
	if err != nil || fence != 7*64 {
		t.Fatalf("got %d, %v", fence, err)
	}
	commands := f.received()
	if len(commands) != 2 || commands[1][0] != "eval" || !strings.Contains(commands[1][1], "Grants the lock") {
		t.Errorf("sent %q", commands)
	}
}

// A key of another type may be a lock of another format. If the look at it fails, nobody
// knows, and the caller may try again.
func TestAKeyThatCannotBeLookedAtIsNotInvalid(t *testing.T) {
	for name, tt := range map[string]struct {
		look string
		want error
	}{
		"busy":         {failed("BUSY Redis is busy running a script."), lock.ErrUnavailable},
		"out of reach": {"hang up", lock.ErrUnavailable},
		"refused":      {failed("ERR bad lua script for redis cluster"), lock.ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			var acquire atomic.Pointer[string]
			_, rdb := newFake(t, func(c []string) string {
				if !strings.HasPrefix(c[0], "eval") {
					return "default"
				}
				if acquire.CompareAndSwap(nil, &c[1]) || c[1] == *acquire.Load() {
					return failed("WRONGTYPE Operation against a key holding the wrong kind of value")
				}
				return tt.look
			})
			l := lock.New(redisstore.New(rdb), lock.WithCallTimeout(200*time.Millisecond))
			defer func() { _ = l.Close(t.Context()) }()
			if _, err := l.TryAcquire(t.Context(), "k"); !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		})
	}
}

func TestNothingIsSentTwice(t *testing.T) {
	// The client retries what fails like this three times by default.
	for _, reply := range []string{"hang up", failed("LOADING Redis is loading the dataset in memory"), failed("TRYAGAIN later")} {
		f, rdb := newFake(t, func([]string) string { return reply })
		store := redisstore.New(rdb)
		_, err := lock.Blocking(store).Acquire(t.Context(), claim)
		var failed *lock.StoreError
		if !errors.As(err, &failed) {
			t.Errorf("%q: got %v, want a StoreError", reply, err)
		}
		if n := len(f.received()); n != 1 {
			t.Errorf("%q: acquire was sent %d times", reply, n)
		}
		store.Renew(t.Context(), []lock.Claim{claim}, func(_ int, err error) {
			if !errors.As(err, &failed) {
				t.Errorf("%q: renewal reported %v, want a StoreError", reply, err)
			}
		})
		if n := len(f.received()); n != 2 {
			t.Errorf("%q: renew was sent %d times", reply, n-1)
		}
	}
}

func TestRenewalSendsBatchesAndReportsEachClaim(t *testing.T) {
	claims := make([]lock.Claim, 120)
	for i := range claims {
		claims[i] = claim
		claims[i].Key = fmt.Sprintf("k%d", i)
	}
	claims[3].TTL, claims[60].Mode = 0, 99 // cannot be sent
	f, rdb := newFake(t, func(c []string) string {
		held := make([]string, 0, 50)
		for _, key := range c[3:] {
			switch {
			case key == "k77":
				held = append(held, integer(0))
			case strings.HasPrefix(key, "k"):
				held = append(held, integer(1))
			}
		}
		return fmt.Sprintf("*%d\r\n%s", len(held), strings.Join(held, ""))
	})
	got := make(map[int]error)
	redisstore.New(rdb).Renew(t.Context(), claims, func(i int, err error) { got[i] = err })
	if len(got) != len(claims) {
		t.Errorf("%d reports for %d claims", len(got), len(claims))
	}
	want := map[int]error{3: lock.ErrInvalid, 60: lock.ErrUnsupported, 77: lock.ErrNotHeld}
	for i, err := range got {
		if !errors.Is(err, want[i]) {
			t.Errorf("claim %d: got %v, want %v", i, err, want[i])
		}
	}
	if n := len(f.received()); n != 3 {
		t.Errorf("118 claims took %d scripts, want 3", n)
	}
}

func TestAnEndedContextSendsNothing(t *testing.T) {
	f, rdb := newFake(t, func([]string) string { return integer(1) })
	store := redisstore.New(rdb)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	answers := make(chan error, 2)
	answered := lock.AnswerFunc(func(_ uint64, err error) { answers <- err })
	store.Acquire(ctx, claim, time.Now().Add(soon), answered)
	store.Release(ctx, claim, time.Now().Add(soon), answered)
	var renew error
	store.Renew(ctx, []lock.Claim{claim}, func(_ int, err error) { renew = err })
	for what, err := range map[string]error{"acquire": <-answers, "release": <-answers, "renew": renew} {
		var failed *lock.StoreError
		if !errors.As(err, &failed) || failed.Outcome != lock.OutcomeNotExecuted || !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %v, want not executed and Canceled", what, err)
		}
	}
	if commands := f.received(); len(commands) != 0 {
		t.Errorf("sent %q", commands)
	}
}

func TestClaimsThatCannotBeKeptAreRefused(t *testing.T) {
	f, rdb := newFake(t, func([]string) string { return integer(1) })
	store := redisstore.New(rdb)
	change := func(apply func(*lock.Claim)) lock.Claim {
		c := claim
		apply(&c)
		return c
	}
	tests := []struct {
		name  string
		claim lock.Claim
		want  error
	}{
		{"no permits", change(func(c *lock.Claim) { c.Mode, c.Size = lock.Semaphore, 3 }), lock.ErrInvalid},
		{"more permits than there are", change(func(c *lock.Claim) { c.Mode, c.Permits, c.Size = lock.Semaphore, 4, 3 }), lock.ErrInvalid},
		{"no mode at all", change(func(c *lock.Claim) { c.Mode = 99 }), lock.ErrUnsupported},
		{"no owner", change(func(c *lock.Claim) { c.Owner = "" }), lock.ErrInvalid},
		{"owner named like a field of Redisson", change(func(c *lock.Claim) { c.Owner = "mode" }), lock.ErrInvalid},
		{"owner named like a writer's field", change(func(c *lock.Claim) { c.Owner = "5f0c:1:write" }), lock.ErrInvalid},
		{"owner named like a place in a queue", change(func(c *lock.Claim) { c.Owner = "5f0c:1:redlatch" }), lock.ErrInvalid},
		{"owner named like a minimum hold", change(func(c *lock.Claim) { c.Owner = "5f0c:1:kept" }), lock.ErrInvalid},
		{"no key", change(func(c *lock.Claim) { c.Key = "" }), lock.ErrInvalid},
		{"no TTL", change(func(c *lock.Claim) { c.TTL = 0 }), lock.ErrInvalid},
	}
	for _, tt := range tests {
		if _, err := lock.Blocking(store).Acquire(t.Context(), tt.claim); !errors.Is(err, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.name, err, tt.want)
		}
		begun := make(chan error, 1)
		store.Acquire(t.Context(), tt.claim, time.Now().Add(soon), lock.AnswerFunc(func(_ uint64, err error) { begun <- err }))
		if err := <-begun; !errors.Is(err, tt.want) {
			t.Errorf("%s, begun: got %v, want %v", tt.name, err, tt.want)
		}
	}
	begun := make(chan error, 2)
	answered := func(_ uint64, err error) { begun <- err }
	keyless := change(func(c *lock.Claim) { c.Mode, c.Key = lock.Read, "" })
	store.Release(t.Context(), keyless, time.Now().Add(soon), lock.AnswerFunc(answered))
	store.Lower(t.Context(), keyless, time.Now().Add(soon), lock.AnswerFunc(answered))
	for name, err := range map[string]error{
		"release": lock.Blocking(store).Release(t.Context(), keyless), "begun release": <-begun,
		"lower": lock.Blocking(store).Lower(t.Context(), keyless), "begun lower": <-begun,
		"lower to write": lock.Blocking(store).Lower(t.Context(), change(func(c *lock.Claim) { c.Mode = lock.Write })),
	} {
		if !errors.Is(err, lock.ErrInvalid) {
			t.Errorf("%s: got %v, want ErrInvalid", name, err)
		}
	}
	if _, err := store.Watch(t.Context(), change(func(c *lock.Claim) { c.Key = "" }), func() {}); !errors.Is(err, lock.ErrInvalid) {
		t.Errorf("watch without a key: got %v, want ErrInvalid", err)
	}
	if commands := f.received(); len(commands) != 0 {
		t.Errorf("sent %q", commands)
	}
}

func TestTTLsAreRoundedUp(t *testing.T) {
	f, rdb := newFake(t, func([]string) string { return integer(1) })
	c := claim
	c.TTL = 10*time.Millisecond + 1
	if _, err := lock.Blocking(redisstore.New(rdb)).Acquire(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if got := f.received()[0][5]; got != "11" {
		t.Errorf("sent a TTL of %s ms, want 11: the key must outlive the trust in it", got)
	}
}

func TestNamesAreMapped(t *testing.T) {
	tests := []struct {
		name   string
		option redisstore.Option
		want   string
	}{
		{"prefix", redisstore.WithKeyPrefix("app:"), "app:order:42"},
		{"mapper", redisstore.WithNameMapper(strings.ToUpper), "ORDER:42"},
	}
	for _, tt := range tests {
		f, rdb := newFake(t, func([]string) string { return integer(1) })
		if err := lock.Blocking(redisstore.New(rdb, tt.option)).Release(t.Context(), claim); err != nil {
			t.Fatal(err)
		}
		command := f.received()[0]
		if command[3] != tt.want || command[5] != "redisson_lock__channel:{"+tt.want+"}" {
			t.Errorf("%s: key %q, channel %q", tt.name, command[3], command[5])
		}
	}
}

func TestARingIsRefused(t *testing.T) {
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "localhost:1"}, HeartbeatFrequency: time.Hour})
	t.Cleanup(func() { _ = ring.Close() })
	store := redisstore.New(ring)
	if _, err := lock.Blocking(store).Acquire(t.Context(), claim); !errors.Is(err, lock.ErrUnsupported) {
		t.Errorf("Acquire: got %v, want ErrUnsupported", err)
	}
	if err := store.Check(t.Context()); !errors.Is(err, lock.ErrUnsupported) {
		t.Errorf("Check: got %v, want ErrUnsupported", err)
	}
}

func TestAPollingStoreDoesNotWatch(t *testing.T) {
	f, rdb := newFake(t, func([]string) string { return integer(1) })
	_, err := redisstore.New(rdb, redisstore.WithPolling()).Watch(t.Context(), claim, func() {})
	if !errors.Is(err, lock.ErrUnsupported) {
		t.Errorf("got %v, want ErrUnsupported", err)
	}
	if n := f.connections(); n != 0 {
		t.Errorf("%d connections", n)
	}
}

func TestWrongSetUpPanics(t *testing.T) {
	_, rdb := newFake(t, func([]string) string { return "" })
	tests := map[string]func(){
		"nil client": func() { redisstore.New(nil) },
		"no client":  func() { redisstore.New((*redis.Client)(nil)) },
		"nil mapper": func() { redisstore.New(rdb, redisstore.WithNameMapper(nil)) },
		"nil logger": func() { redisstore.New(rdb, redisstore.WithLogger(nil)) },
	}
	for name, build := range tests {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			build()
		}()
	}
}

// A release under a minimum hold is repeated while its slot migrates, and then keeps the
// lock for what remains, or not at all.
func TestAReleaseThatIsRepeatedKeepsTheLockForNoLonger(t *testing.T) {
	for _, minimum := range []time.Duration{time.Minute, 40 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			c, calls := claim, 0
			c.Mode, c.Keep = lock.Fair, time.Now().Add(minimum)
			_, client := newFake(t, func(command []string) string {
				ms, err := strconv.ParseInt(command[len(command)-1], 10, 64)
				if keeps := err == nil && len(command) > 10; keeps != (time.Until(c.Keep) > 0) {
					t.Errorf("%v before the end: %q", time.Until(c.Keep), command)
				} else if keeps && time.Duration(ms)*time.Millisecond > time.Until(c.Keep)+time.Millisecond {
					t.Errorf("kept for %d ms, want %v", ms, time.Until(c.Keep))
				}
				if calls++; calls < 12 {
					return failed("TRYAGAIN Multiple keys request during rehashing of slot")
				}
				return integer(1)
			})
			if err := lock.Blocking(redisstore.New(client)).Release(t.Context(), c); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Minute) // its worker ends
		})
	}
}

// A slot takes its time to move, and so does each answer. The time to wait for it ends in
// the middle of a call, whose answer is waited for all the same.
func TestACallToASlotThatMovesIsNotCutShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, client := newFake(t, func([]string) string {
			time.Sleep(1500 * time.Millisecond)
			return failed("TRYAGAIN Multiple keys request during rehashing of slot")
		})
		c := claim
		c.Mode, c.Permits, c.Size = lock.Semaphore, 1, 2
		began := time.Now()
		err := lock.Blocking(redisstore.New(client)).Release(t.Context(), c)
		if failed, ok := errors.AsType[*lock.StoreError](err); !ok || failed.Outcome != lock.OutcomeNotExecuted {
			t.Errorf("got %v, want one that was not executed", err)
		}
		if took := time.Since(began); took < 3500*time.Millisecond || took > 5*time.Second {
			t.Errorf("it gave up after %v", took)
		}
		time.Sleep(time.Minute) // its worker ends
	})
}

// A fair lock has keys besides its hash. While its slot moves they are in two places, or
// somebody has overwritten one.
func TestAFairLockWhoseKeysCannotBeReached(t *testing.T) {
	const moving = "TRYAGAIN Multiple keys request during rehashing of slot"
	const overwritten = "WRONGTYPE Operation against a key holding the wrong kind of value"
	for name, tt := range map[string]struct {
		release  bool
		together []string // the replies to scripts with all keys, and from then on 1
		alone    int64    // the reply to one with the hash only
		want     error
		sent     string // the number of keys of each call
	}{
		"acquired once it has moved":             {false, []string{failed(moving), failed(moving)}, 0, nil, "3 3 3"},
		"released by its hash":                   {true, []string{failed(moving)}, 1, nil, "3 1"},
		"a place in its queue, once it is moved": {true, []string{failed(moving), failed(moving)}, 0, nil, "3 1 3 1 3"},
		"released although overwritten":          {true, []string{failed(overwritten)}, 1, nil, "3 1"},
		"no longer held, and overwritten":        {true, []string{failed(overwritten)}, 0, lock.ErrNotHeld, "3 1"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, client := newFake(t, func(command []string) string {
					if command[2] == "1" {
						return integer(tt.alone)
					}
					if len(tt.together) == 0 {
						return integer(1)
					}
					reply := tt.together[0]
					tt.together = tt.together[1:]
					return reply
				})
				store, by := redisstore.New(client), time.Now().Add(soon)
				c := claim
				c.Mode, c.Places = lock.Fair, []string{claim.Owner}
				answers := make(chan answer, 1)
				report := func(fence uint64, err error) { answers <- answer{fence, err} }
				if tt.release {
					store.Release(t.Context(), c, by, lock.AnswerFunc(report))
				} else {
					store.Acquire(t.Context(), c, by, lock.AnswerFunc(report))
				}
				if a := answered(t, answers); !errors.Is(a.err, tt.want) {
					t.Errorf("got %v, want %v", a.err, tt.want)
				}
				var sent []string
				for _, command := range f.received() {
					sent = append(sent, command[2])
				}
				if got := strings.Join(sent, " "); got != tt.sent {
					t.Errorf("sent to %s keys, want %s", got, tt.sent)
				}
				time.Sleep(time.Minute) // its worker ends
			})
		})
	}
}

// A client of a cluster that the application has closed is away for good.
func TestAClientOfAClusterThatIsClosedRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _ := newFake(t, func([]string) string { return integer(1) })
		client := clusterOf(t, f)
		s := redisstore.New(client)
		if _, err := lock.Blocking(s).Acquire(t.Context(), claim); err != nil {
			t.Fatal(err)
		}
		_ = client.Close()
		c := claim
		err := lock.Blocking(s).Release(t.Context(), c)
		if failed, ok := errors.AsType[*lock.StoreError](err); !ok || failed.Outcome != lock.OutcomeRefused {
			t.Errorf("got %v, want refused", err)
		}
		time.Sleep(time.Minute) // its worker ends
	})
}

func TestNewRefusesWhatCannotWork(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{})
	t.Cleanup(func() { _ = rdb.Close() })
	for want, wrong := range map[string]func(){
		"client is nil":         func() { redisstore.New((*redis.Client)(nil)) },
		"an option is nil":      func() { redisstore.New(rdb, nil) },
		"exclude each other":    func() { redisstore.New(rdb, redisstore.WithSETNX(), redisstore.WithRedissonTokens()) },
		"WithLogger: logger is": func() { redisstore.New(rdb, redisstore.WithLogger(nil)) },
		"mapper is nil":         func() { redisstore.New(rdb, redisstore.WithNameMapper(nil)) },
	} {
		if text := panicOf(wrong); !strings.Contains(text, want) {
			t.Errorf("panic %q, want %q", text, want)
		}
	}
}

// panicOf is what call panics with, empty if it doesn't.
func panicOf(call func()) (text string) {
	defer func() {
		if r := recover(); r != nil {
			text = fmt.Sprint(r)
		}
	}()
	call()
	return ""
}
