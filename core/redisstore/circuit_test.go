package redisstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
)

// distant is a server that can be away. When it is not, it grants whatever it is
// called for.
type distant struct {
	*fake
	how     func(command []string) string // nil: well
	changes []string                      // of the circuit
	asked   int                           // PINGs without an answer
	most    int                           // of them at a time
}

func newDistant(t *testing.T, opts ...redisstore.Option) (*distant, *redisstore.Store) {
	t.Helper()
	d, client := newDistantServer(t)
	return d, d.store(client, opts...)
}

// newDistantNode is the only one of a cluster.
func newDistantNode(t *testing.T) (*distant, *redisstore.Store) {
	t.Helper()
	d, _ := newDistantServer(t)
	return d, d.store(clusterOf(t, d.fake))
}

func newDistantServer(t *testing.T) (*distant, *redis.Client) {
	t.Helper()
	t.Cleanup(func() { time.Sleep(time.Minute) }) // what lingers ends
	d := &distant{}
	f, client := newFake(t, d.answer)
	d.fake = f
	return d, client
}

func (d *distant) store(client redis.UniversalClient, opts ...redisstore.Option) *redisstore.Store {
	return redisstore.New(client, append(opts, redisstore.WithLogger(slog.New(slog.DiscardHandler)),
		redisstore.WithCircuitHook(func(server string, open bool) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.changes = append(d.changes, fmt.Sprint(server, " ", open))
		}))...)
}

func (d *distant) answer(command []string) string {
	d.mu.Lock()
	how := d.how
	if command[0] == "ping" {
		d.asked++
		d.most = max(d.most, d.asked)
		defer func() {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.asked--
		}()
	}
	d.mu.Unlock()
	if how != nil {
		if reply := how(command); reply != "well" {
			return reply
		}
	}
	if command[0] == "ping" {
		return "+PONG\r\n"
	}
	return integer(1)
}

// away makes the server fail that way from now on; nil heals it.
func (d *distant) away(how func([]string) string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.how, d.refusing = how, false
}

// Ways to fail.
func frozen([]string) string { // until the connection breaks
	time.Sleep(1500 * time.Millisecond)
	return "hang up"
}

func hung([]string) string { return "" }

func cut([]string) string { return "hang up" }

func slow([]string) string { // but it does answer
	time.Sleep(60 * time.Millisecond)
	return "well"
}

// leave makes the server refuse connections, and fail that way on those it has.
func (d *distant) leave(how func([]string) string) {
	d.away(how)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.refusing = true
}

// refuse makes the server refuse connections.
func (d *distant) refuse() { d.leave(cut) }

// count is how many commands came whose first words are these.
func (d *distant) count(words ...string) (n int) {
	for _, c := range d.received() {
		if len(c) >= len(words) && slices.Equal(c[:len(words)], words) {
			n++
		}
	}
	return n
}

func (d *distant) acquires() int { return d.count("evalsha", redisstore.SHA("plain", "acquire")) }

func (d *distant) told() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.changes)
}

func newLocker(t *testing.T, store lock.Store, opts ...lock.Option) *lock.Locker {
	t.Helper()
	l := lock.New(store, opts...)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = l.Close(ctx) // of a server that may be away
	})
	return l
}

func acquire(t *testing.T, l *lock.Locker, key string) *lock.Lease {
	t.Helper()
	lease, err := l.Acquire(t.Context(), key)
	if err != nil {
		t.Fatalf("acquire %s: %v", key, err)
	}
	return lease
}

func release(t *testing.T, lease *lock.Lease) {
	t.Helper()
	if err := lease.Release(t.Context()); err != nil {
		t.Errorf("release %s: %v", lease.Key(), err)
	}
}

// open lets requests fail until one is refused because the circuit is open.
func open(t *testing.T, l *lock.Locker) {
	t.Helper()
	for range 20 {
		_, err := l.Acquire(t.Context(), "opening")
		if errors.Is(err, lock.ErrCircuitOpen) && errors.Is(err, lock.ErrUnavailable) {
			return
		}
		if err == nil {
			t.Fatal("granted")
		}
	}
	t.Fatal("the circuit does not open")
}

func wantOpen(t *testing.T, l *lock.Locker) {
	t.Helper()
	if _, err := l.Acquire(t.Context(), "k"); !errors.Is(err, lock.ErrCircuitOpen) {
		t.Errorf("got %v, want ErrCircuitOpen", err)
	}
}

func TestAServerThatIsAwayCostsARequestNoTime(t *testing.T) {
	for name, begin := range map[string]func(*distant){
		"refused": (*distant).refuse,
		"frozen":  func(d *distant) { d.away(frozen) },
		"hung":    func(d *distant) { d.away(hung) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, store := newDistant(t)
				l := newLocker(t, store)
				begin(d)
				open(t, l)
				asked, probes := d.acquires(), d.count("ping")
				var took []time.Duration
				for range 1000 {
					time.Sleep(10 * time.Millisecond)
					start := time.Now()
					wantOpen(t, l)
					took = append(took, time.Since(start))
				}
				slices.Sort(took)
				if took[950] > 0 || took[999] > 50*time.Millisecond {
					t.Errorf("of 1000 requests the 95 %% took %v, the longest %v", took[950], took[999])
				}
				if n := d.acquires() - asked; n > 0 {
					t.Errorf("%d acquires were sent", n)
				}
				if probes = d.count("ping") - probes; name != "refused" && (probes < 3 || probes > 41) {
					t.Errorf("%d probes in 10 s", probes)
				}
			})
		})
	}
}

func TestProbesAreFewAndAllPassWhenOneSucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, store := newDistant(t)
		l := newLocker(t, store)
		d.away(frozen)
		open(t, l)
		crowd := func(want error) {
			t.Helper()
			var all sync.WaitGroup
			for i := range 50 {
				all.Go(func() {
					lease, err := l.Acquire(t.Context(), fmt.Sprintf("k:%d", i))
					if !errors.Is(err, want) {
						t.Errorf("got %v, want %v", err, want)
					}
					if err == nil {
						release(t, lease)
					}
				})
			}
			all.Wait()
		}
		for range 20 {
			crowd(lock.ErrCircuitOpen)
			time.Sleep(100 * time.Millisecond)
		}
		d.away(nil)
		time.Sleep(5 * time.Second) // what is stuck gets its errors
		synctest.Wait()
		if d.most < 1 || d.most > 6 { // in the 1.5 s that each of them takes
			t.Errorf("%d probes at a time", d.most)
		}
		crowd(nil)
		crowd(nil)
		if want := []string{"127.0.0.1:6379 true", "127.0.0.1:6379 false"}; !slices.Equal(d.told(), want) {
			t.Errorf("changes: %q", d.told())
		}
	})
}

// What was sent before the server came back, and fails afterwards, says nothing.
func TestCallsThatWereStuckDoNotOpenItAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, store := newDistant(t)
		l := newLocker(t, store, lock.WithCallTimeout(time.Second))
		lease := acquire(t, l, "held")
		d.away(frozen)
		for i := range 16 {
			begin(t.Context(), store, fmt.Sprint(i), time.Now().Add(soon))
			time.Sleep(11 * time.Millisecond) // each on a different connection
		}
		d.refuse()
		open(t, l)
		d.away(nil)
		release(t, lease) // gets through, while others are stuck
		time.Sleep(5 * time.Second)
		release(t, acquire(t, l, "k"))
		if len(d.told()) != 2 {
			t.Errorf("changes: %q", d.told())
		}
	})
}

func TestHeldLeasesAreRenewedAndReleasedWhileTheCircuitIsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, store := newDistant(t)
		l := newLocker(t, store)
		kept, given := acquire(t, l, "kept"), acquire(t, l, "given")
		d.away(frozen)
		open(t, l)
		renews, releases := d.count("evalsha", redisstore.SHA("renew_many")), d.count("evalsha", redisstore.SHA("publish", "keep", "release"))
		time.Sleep(12 * time.Second)
		if n := d.count("evalsha", redisstore.SHA("renew_many")) - renews; n < 2 {
			t.Errorf("%d renewals tried in 12 s", n)
		}
		if err := given.Release(t.Context()); !errors.Is(err, lock.ErrUnavailable) {
			t.Errorf("the release: %v", err)
		}
		if d.count("evalsha", redisstore.SHA("publish", "keep", "release")) == releases {
			t.Error("the release was not sent")
		}
		d.away(nil)
		time.Sleep(time.Hour)
		if err := kept.Context().Err(); err != nil {
			t.Errorf("lost: %v", context.Cause(kept.Context()))
		}
		release(t, kept)
	})
}

func TestARenewalThatGetsThroughClosesTheCircuit(t *testing.T) {
	for name, opts := range map[string][]redisstore.Option{
		"alone":         nil,
		"with replicas": {redisstore.WithReplicas(1, time.Second)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, store := newDistant(t, append(opts, redisstore.WithCircuit(3, time.Hour))...) // one probe, and no other
				l := newLocker(t, store)
				lease := acquire(t, l, "held")
				d.refuse()
				open(t, l)
				wantOpen(t, l)
				synctest.Wait() // for the probe
				d.away(nil)
				wantOpen(t, l)
				time.Sleep(11 * time.Second)
				release(t, acquire(t, l, "k"))
				release(t, lease)
			})
		})
	}
}

func TestAWaiterRidesOutAnOpenCircuit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, store := newDistant(t, redisstore.WithPolling())
		l := newLocker(t, store)
		d.away(func([]string) string { return integer(-2 - 1000) }) // busy
		result := make(chan error, 1)
		go func() {
			_, err := l.Acquire(t.Context(), "k")
			result <- err
		}()
		time.Sleep(time.Second)
		d.refuse()
		open(t, l)
		time.Sleep(5 * time.Second)
		d.away(nil)
		time.Sleep(2 * time.Second)
		select {
		case err := <-result:
			if err != nil {
				t.Errorf("the waiter got %v", err)
			}
		default:
			t.Error("it still waits")
		}
	})
}

func TestOnlyAServerThatIsAwayOpensTheCircuit(t *testing.T) {
	always := func(reply string) func([]string) string { return func([]string) string { return reply } }
	for name, tt := range map[string]struct {
		how    func([]string) string
		refuse bool
		opts   []redisstore.Option
		stay   time.Duration // of the caller; negative: until it is canceled
		want   bool
	}{
		"refused connections":     {refuse: true, want: true},
		"broken connections":      {how: frozen, want: true},
		"no answers":              {how: hung, want: true},
		"callers that leave late": {how: hung, stay: 300 * time.Millisecond, want: true},
		"callers that leave before there can be an answer": {how: hung, stay: 20 * time.Millisecond, want: true},
		"callers that leave a little later":                {how: hung, stay: 90 * time.Millisecond, want: true},
		"callers that are canceled before that":            {how: hung, stay: -20 * time.Millisecond, want: true},
		"callers that leave early":                         {how: slow, stay: 10 * time.Millisecond},
		"callers that are canceled early":                  {how: slow, stay: -10 * time.Millisecond},
		"a busy key":                                       {how: always(integer(-2 - 1000))},
		"no permission":                                    {how: always(failed("NOPERM no"))},
		"a server that is loading":                         {how: always(failed("LOADING the dataset"))},
		"a circuit that is off":                            {refuse: true, opts: []redisstore.Option{redisstore.WithCircuit(0, 0)}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, store := newDistant(t, tt.opts...)
				l := newLocker(t, store)
				release(t, acquire(t, l, "heard"))
				if d.away(tt.how); tt.refuse {
					d.refuse()
				}
				for range 20 {
					ctx, cancel := context.WithCancel(t.Context())
					switch {
					case tt.stay > 0:
						ctx, cancel = context.WithTimeout(ctx, tt.stay)
					case tt.stay < 0:
						time.AfterFunc(-tt.stay, cancel)
					}
					if _, err := l.TryAcquire(ctx, "k"); err == nil {
						t.Error("granted")
					}
					cancel()
				}
				synctest.Wait()
				if opened := len(d.told()) > 0; opened != tt.want {
					t.Errorf("open is %v, want %v", opened, tt.want)
				}
				d.away(nil)
			})
		})
	}
}

// A healthy server has a round trip of 200 ms. Callers with short deadlines, who never get an
// answer, don't take it from patient ones.
func TestAServerThatIsFarAwayAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, store := newDistant(t)
		d.away(func([]string) string {
			time.Sleep(200 * time.Millisecond)
			return "well"
		})
		var patient sync.WaitGroup
		for n := range 4 {
			patient.Go(func() {
				for i := range 12 {
					if a := answered(t, begin(t.Context(), store, fmt.Sprintf("patient %d %d", n, i), time.Now().Add(soon))); a.err != nil {
						t.Errorf("call %d of caller %d: %v", i, n, a.err)
					}
				}
			})
		}
		done := make(chan struct{})
		var hasty sync.WaitGroup
		for n := range 5 {
			hasty.Go(func() {
				for i := 0; ; i++ {
					ctx, leave := context.WithTimeout(t.Context(), 30*time.Millisecond)
					begin(ctx, store, fmt.Sprintf("hasty %d %d", n, i), time.Now().Add(30*time.Millisecond))
					select {
					case <-ctx.Done():
					case <-done:
					}
					leave()
					select {
					case <-done:
						return
					default:
					}
				}
			})
		}
		patient.Wait()
		close(done)
		hasty.Wait()
		if told := d.told(); len(told) > 0 {
			t.Errorf("the circuit of a server that answers: %q", told)
		}
		d.away(nil)
	})
}

// Where packets are dropped, no connection is made, which go-redis tries for longer than a
// call may take: the calls end with their time, one after the other.
func TestAServerThatCannotBeConnectedToOpensTheCircuit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(time.Minute) }) // what lingers ends
		client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379", DialerRetries: 1, Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, &net.OpError{Op: "dial", Err: ctx.Err()}
		}})
		t.Cleanup(func() { _ = client.Close() })
		l := newLocker(t, redisstore.New(client, redisstore.WithLogger(slog.New(slog.DiscardHandler))))
		for range redisstore.DefaultCircuitFailures {
			if _, err := l.TryAcquire(t.Context(), "k"); errors.Is(err, context.Canceled) || !errors.Is(err, lock.ErrUnavailable) {
				t.Errorf("nobody canceled it: %v", err)
			}
		}
		synctest.Wait()
		wantOpen(t, l)
	})
}

// It is called on a goroutine of the store, where a panic would end the process.
func TestAPanicOfTheCircuitHookIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379", DialerRetries: 1, Dialer: func(context.Context, string, string) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
		}})
		t.Cleanup(func() { _ = client.Close() })
		l := newLocker(t, redisstore.New(client, redisstore.WithLogger(slog.New(slog.NewTextHandler(&log, nil))),
			redisstore.WithCircuitHook(func(string, bool) { panic("of a hook") })))
		for range redisstore.DefaultCircuitFailures {
			if _, err := l.TryAcquire(t.Context(), "k"); !errors.Is(err, lock.ErrUnavailable) {
				t.Errorf("got %v, want ErrUnavailable", err)
			}
		}
		wantOpen(t, l)
		time.Sleep(time.Minute) // what lingers ends, and the circuit is forgotten
		synctest.Wait()
		if !strings.Contains(log.String(), "level=ERROR") || !strings.Contains(log.String(), "of a hook") {
			t.Errorf("the log has %s", log.String())
		}
	})
}

// A connection that dies fails all calls that it carries, and so may others that
// were under way with it: that is one failure.
func TestCallsThatFailTogetherAreOneFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, store := newDistant(t)
		l := newLocker(t, store)
		broken := time.Now().Add(50 * time.Millisecond)
		d.away(func([]string) string {
			if left := time.Until(broken); left > 0 {
				time.Sleep(left)
				return "hang up"
			}
			return "well"
		})
		var all sync.WaitGroup
		for i := range 64 {
			time.Sleep(time.Microsecond)
			all.Go(func() { release(t, acquire(t, l, fmt.Sprint(i))) })
		}
		all.Wait()
		if told := d.told(); len(told) > 0 {
			t.Errorf("changes: %q", told)
		}
	})
}

// A server that nobody calls any longer, such as one that was replaced, does not
// stay on the list of servers that are away.
func TestTheCircuitOfAServerThatNobodyCallsIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, store := newDistant(t)
		l := newLocker(t, store)
		d.refuse()
		open(t, l)
		time.Sleep(50 * time.Second)
		wantOpen(t, l)
		time.Sleep(50 * time.Second)
		if len(d.told()) != 1 {
			t.Errorf("changes: %q", d.told())
		}
		time.Sleep(11 * time.Second)
		if want := []string{"127.0.0.1:6379 true", "127.0.0.1:6379 false"}; !slices.Equal(d.told(), want) {
			t.Errorf("changes: %q", d.told())
		}
		if _, err := l.Acquire(t.Context(), "k"); err == nil || errors.Is(err, lock.ErrCircuitOpen) {
			t.Errorf("got %v, want the failure of a call", err)
		}
	})
}

func TestACircuitIsLogged(t *testing.T) {
	for name, tt := range map[string]struct {
		begin   func(*distant)
		options []lock.Option
		cause   string
	}{
		"refused":  {(*distant).refuse, nil, `"connection refused"`},
		"deserted": {func(d *distant) { d.away(hung) }, []lock.Option{lock.WithCallTimeout(150 * time.Millisecond)}, "timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var page bytes.Buffer
				d, store := newDistant(t)
				redisstore.WithLogger(slog.New(slog.NewTextHandler(&page, nil)))(store)
				l := newLocker(t, store, tt.options...)
				tt.begin(d)
				open(t, l)
				d.away(nil)
				time.Sleep(time.Minute) // the calls that hang have ended, and the circuit is forgotten
				release(t, acquire(t, l, "k"))
				synctest.Wait()
				lines := strings.Split(page.String(), "\n")
				for i, want := range []string{
					`level=WARN msg="lock store does not answer, acquisitions are refused until it does" server=127.0.0.1:6379 cause=` + tt.cause,
					`level=INFO msg="lock store is called again" server=127.0.0.1:6379`,
				} {
					if len(lines) != 3 || !strings.HasSuffix(lines[i], want) {
						t.Errorf("lines %q, want %q", lines, want)
					}
				}
			})
		})
	}
}

func TestWrongCircuitsPanic(t *testing.T) {
	for _, wrong := range []func(){
		func() { redisstore.WithCircuit(-1, time.Second) },
		func() { redisstore.WithCircuit(1, time.Microsecond) },
		func() { redisstore.WithCircuit(1, 2*lock.MaxDuration) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			wrong()
		}()
	}
}

// Failures count in a row: a server that is back needs as many as before.
func TestOneFailureDoesNotOpenItAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, store := newDistant(t)
		l := newLocker(t, store, lock.WithCallTimeout(time.Second))
		d.refuse()
		open(t, l)
		d.away(nil)
		time.Sleep(time.Second)
		release(t, acquire(t, l, "k"))
		d.away(hung)
		if _, err := l.TryAcquire(t.Context(), "k"); err == nil {
			t.Error("granted")
		}
		d.away(nil)
		time.Sleep(5 * time.Second)
		release(t, acquire(t, l, "k"))
		if want := []string{"127.0.0.1:6379 true", "127.0.0.1:6379 false"}; !slices.Equal(d.told(), want) {
			t.Errorf("changes: %q", d.told())
		}
	})
}

// However it was opened, a failure doesn't close it.
func TestOnlyAnAnswerClosesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, store := newDistant(t)
		l := newLocker(t, store, lock.WithCallTimeout(150*time.Millisecond)) // the callers leave before a call fails
		d.away(hung)
		open(t, l)
		for range 1000 {
			time.Sleep(10 * time.Millisecond)
			wantOpen(t, l)
		}
		if want := []string{"127.0.0.1:6379 true"}; !slices.Equal(d.told(), want) {
			t.Errorf("changes: %q", d.told())
		}
	})
}

// A process that calls rarely has workers for the node of a cluster only now and
// then, and its circuit all the time.
func TestACircuitOutlivesTheWorkersOfItsNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, store := newDistantNode(t)
		l := newLocker(t, store)
		d.refuse()
		for range redisstore.DefaultCircuitFailures {
			time.Sleep(time.Second)
			if _, err := l.TryAcquire(t.Context(), "k"); !errors.Is(err, lock.ErrUnavailable) {
				t.Errorf("got %v", err)
			}
		}
		for range 100 {
			time.Sleep(time.Second)
			wantOpen(t, l)
		}
		if want := []string{"10.0.0.1:6379 true"}; !slices.Equal(d.told(), want) {
			t.Errorf("changes: %q", d.told())
		}
	})
}

// A node may be gone for good.
func TestANodeThatNobodyCallsIsForgotten(t *testing.T) {
	for name, tt := range map[string]struct {
		calls int
		fail  bool
		after time.Duration
	}{
		"that answers":                {1, false, time.Second},
		"that failed":                 {1, true, 61 * time.Second},
		"whose circuit is open":       {redisstore.DefaultCircuitFailures, true, 61 * time.Second},
		"that is called all the time": {1000, true, 61 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, store := newDistantNode(t)
				if tt.fail {
					d.refuse()
				}
				for range tt.calls {
					answered(t, begin(t.Context(), store, "k", time.Now().Add(soon)))
					time.Sleep(50 * time.Millisecond)
				}
				answered(t, begin(t.Context(), store, "k", time.Now().Add(soon))) // the first only looks for the node
				if store.Nodes() != 1 {
					t.Errorf("%d nodes", store.Nodes())
				}
				if time.Sleep(tt.after); store.Nodes() != 0 {
					t.Error("the node is still known")
				}
			})
		})
	}
}

// What waits for a probe is refused when it takes too long, and doesn't travel with
// a release.
func TestAnOpenCircuitLetsReleasesThroughAndNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, store := newDistant(t)
		l := newLocker(t, store)
		d.away(hung)
		open(t, l)
		for probes := -1; probes != d.count("ping"); { // until nothing is to be undone any longer, which would be a reason to probe
			probes = d.count("ping")
			time.Sleep(5 * time.Second)
		}
		began := time.Now()
		acquired := begin(t.Context(), store, "k", began.Add(soon))
		released := make(chan error, 1)
		store.Release(t.Context(), claim, began.Add(soon), lock.AnswerFunc(func(_ uint64, err error) { released <- err }))
		if err := answered(t, acquired).err; !errors.Is(err, lock.ErrCircuitOpen) || time.Since(began) != 50*time.Millisecond {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		var sent []string
		for _, c := range d.received() {
			if len(c) > 3 && c[3] != "opening" {
				sent = append(sent, c[3])
			}
		}
		if want := []string{claim.Key}; !slices.Equal(sent, want) {
			t.Errorf("sent %q, want %q", sent, want)
		}
		d.away(nil)
		if err := <-released; err == nil {
			t.Error("released by a server that hangs")
		}
	})
}

// Many calls may have waited for a probe, and the first of them may get no answer.
func TestACircuitThatClosesLeavesNobodyBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, store := newDistant(t)
		d.refuse()
		for range redisstore.DefaultCircuitFailures {
			answered(t, begin(t.Context(), store, "opening", time.Now().Add(soon)))
			time.Sleep(time.Second) // or they failed together
		}
		d.away(func(command []string) string {
			if command[0] == "ping" {
				time.Sleep(time.Millisecond)
				return "well"
			}
			return frozen(command) // and takes nothing of what is behind it
		})
		before, by := d.acquires(), time.Now().Add(time.Second)
		var all []<-chan answer
		for i := range 300 {
			all = append(all, begin(t.Context(), store, fmt.Sprint(i), by))
		}
		if time.Sleep(10 * time.Millisecond); d.acquires()-before != redisstore.Overlap {
			t.Errorf("%d batches were sent", d.acquires()-before)
		}
		for _, answers := range all {
			answered(t, answers)
		}
	})
}

// Nobody stays in the queue of a circuit that opens, with a probe or without.
func TestWhoWaitsIsRefusedWhenItOpens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, store := newDistant(t, redisstore.WithCircuit(5, time.Hour)) // one probe, and no other
		d.away(func(command []string) string {
			if len(command) > 3 && command[3] == claim.Key {
				return "well"
			}
			return ""
		})
		_ = lock.Blocking(store).Release(t.Context(), claim) // it has been heard
		for range 2 {
			for i := range redisstore.MaxWorkers {
				caller, leave := context.WithTimeout(t.Context(), 300*time.Millisecond)
				defer leave()
				begin(caller, store, fmt.Sprint(i), time.Now().Add(soon))
				time.Sleep(11 * time.Millisecond)
			}
			waiting := begin(t.Context(), store, "waiting", time.Now().Add(soon))
			time.Sleep(200 * time.Millisecond) // enough callers have left
			began := time.Now()
			begin(t.Context(), store, "next", began.Add(soon))
			if err := answered(t, waiting).err; !errors.Is(err, lock.ErrCircuitOpen) || time.Since(began) > 0 {
				t.Errorf("%v after %v", err, time.Since(began))
			}
			time.Sleep(5 * time.Second) // what is stuck gets its errors
			if err := lock.Blocking(store).Release(t.Context(), claim); err != nil {
				t.Error(err)
			}
		}
		d.away(nil)
	})
}

// Failures count together as long as there is less than a minute between them, however
// long all of them take.
func TestFailuresThatComeSlowlyOpenIt(t *testing.T) {
	for pause, want := range map[time.Duration]bool{50 * time.Second: true, 61 * time.Second: false} {
		t.Run(pause.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, store := newDistant(t)
				d.refuse()
				for range redisstore.DefaultCircuitFailures {
					answered(t, begin(t.Context(), store, "k", time.Now().Add(soon)))
					time.Sleep(pause)
				}
				if opened := len(d.told()) > 0; opened != want {
					t.Errorf("open is %v, want %v", opened, want)
				}
			})
		})
	}
}

// The batch whose failure opens it refuses what waits behind it.
func TestAFailureThatOpensItRefusesWhoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, store := newDistant(t, redisstore.WithCircuit(1, time.Hour))
		broken := make(chan struct{})
		d.away(func([]string) string {
			<-broken
			return "hang up"
		})
		for i := range redisstore.Overlap {
			begin(t.Context(), store, fmt.Sprint(i), time.Now().Add(soon))
			synctest.Wait()
		}
		began := time.Now()
		waiting := begin(t.Context(), store, "waiting", began.Add(soon))
		close(broken)
		if err := answered(t, waiting).err; !errors.Is(err, lock.ErrCircuitOpen) || time.Since(began) > 0 {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// Who waits for a probe is refused as soon as it has failed, and no one waits for it then.
func TestAProbeThatFailsIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, store := newDistant(t, redisstore.WithCircuit(1, time.Second))
		d.refuse()
		answered(t, begin(t.Context(), store, "opening", time.Now().Add(soon)))
		time.Sleep(2 * time.Second)
		for range 3 { // the first begins a probe
			began := time.Now()
			if err := answered(t, begin(t.Context(), store, "k", began.Add(soon))).err; !errors.Is(err, lock.ErrCircuitOpen) || time.Since(began) > 0 {
				t.Errorf("%v after %v", err, time.Since(began))
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
}

// One PING of a probe that fails, on a connection that is gone, leaves the others time.
func TestAProbeHasFailedWhenAllItsPingsHave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, store := newDistant(t, redisstore.WithCircuit(1, time.Second))
		d.away(slow)
		one := begin(t.Context(), store, "one", time.Now().Add(soon))
		synctest.Wait()
		answered(t, begin(t.Context(), store, "other", time.Now().Add(soon)))
		answered(t, one) // on another connection
		time.Sleep(time.Second)
		d.away(cut)
		answered(t, begin(t.Context(), store, "opening", time.Now().Add(soon)))
		time.Sleep(2 * time.Second)
		var pings atomic.Int32
		d.away(func(c []string) string {
			if c[0] == "ping" {
				if pings.Add(1) == 1 {
					return "hang up"
				}
				time.Sleep(20 * time.Millisecond)
			}
			return "well"
		})
		if a := answered(t, begin(t.Context(), store, "k", time.Now().Add(soon))); a.err != nil || pings.Load() != 2 {
			t.Errorf("%v after %d PINGs", a.err, pings.Load())
		}
	})
}

// One that is turned off sends no PING.
func TestACircuitThatIsOffProbesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, store := newDistant(t, redisstore.WithCircuit(0, 0))
		d.away(slow)
		for i := range 4 {
			begin(t.Context(), store, fmt.Sprint("before:", i), time.Now().Add(soon))
			synctest.Wait() // each has a connection, which is idle later
		}
		time.Sleep(time.Second)
		d.away(frozen)
		for i := range 10 {
			begin(t.Context(), store, fmt.Sprint(i), time.Now().Add(soon))
			time.Sleep(time.Second)
		}
		if n := d.count("ping"); n > 0 {
			t.Errorf("%d PINGs", n)
		}
		d.away(nil)
	})
}

func TestACircuitThatIsCalledIsNotForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, store := newDistant(t, redisstore.WithCircuit(3, time.Hour))
		l := newLocker(t, store)
		d.refuse()
		open(t, l)
		for range 200 {
			time.Sleep(time.Second)
			wantOpen(t, l)
		}
		if time.Sleep(59 * time.Second); len(d.told()) != 1 {
			t.Errorf("changes: %q", d.told())
		}
		if time.Sleep(2 * time.Second); len(d.told()) != 2 { // a minute after the last call
			t.Errorf("changes: %q", d.told())
		}
	})
}

// together begins acquires that travel in one batch: the server lets go of the calls
// before them when it is given a token for each.
func together(t *testing.T, store *redisstore.Store, tokens chan<- struct{}, ctx context.Context, keys ...string) (all []<-chan answer) {
	t.Helper()
	for i := range redisstore.Overlap {
		begin(t.Context(), store, fmt.Sprint("before:", i), time.Now().Add(soon))
		synctest.Wait()
	}
	for _, key := range keys {
		all = append(all, begin(ctx, store, key, time.Now().Add(soon)))
	}
	for range redisstore.Overlap {
		tokens <- struct{}{}
	}
	return all
}

// Callers whose calls were answered leave as well. They say nothing about a server that
// has yet to answer another call of their batch.
func TestWhoWasAnsweredHasNotGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, store := newDistant(t)
		tokens := make(chan struct{})
		d.away(func(c []string) string {
			if c[0] == "ping" {
				return "well"
			}
			switch key := c[3]; {
			case strings.HasPrefix(key, "before"):
				<-tokens
			case key == "unknown" && c[0] == "evalsha":
				return failed("NOSCRIPT No matching script.")
			case key == "unknown":
				time.Sleep(time.Second)
			}
			return "well"
		})
		ctx, leave := context.WithCancel(t.Context())
		keys := []string{"unknown"}
		for i := range 2 * redisstore.DefaultCircuitFailures {
			keys = append(keys, fmt.Sprint(i))
		}
		all := together(t, store, tokens, ctx, keys...)
		for _, answers := range all[1:] {
			if a := answered(t, answers); a.err != nil {
				t.Error(a.err)
			}
		}
		leave()
		time.Sleep(200 * time.Millisecond)
		if a := answered(t, begin(t.Context(), store, "next", time.Now().Add(soon))); a.err != nil {
			t.Error(a.err)
		}
		answered(t, all[0])
		if len(d.told()) > 0 {
			t.Errorf("changes: %q", d.told())
		}
	})
}

// The client writes the error of a connection over the answers that came on it before.
func TestACutConnectionTakesNoAnswerBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, store := newDistant(t)
		tokens := make(chan struct{})
		d.away(func(c []string) string {
			switch key := c[3]; {
			case strings.HasPrefix(key, "before"):
				<-tokens
			case key == "cut":
				time.Sleep(time.Millisecond) // the answer before it arrives
				return "hang up"
			case key == "malformed":
				return ":99999999999999999999\r\n"
			}
			return "well"
		})
		all := together(t, store, tokens, t.Context(), "answered", "cut", "behind")
		if a := answered(t, all[0]); a.err != nil {
			t.Errorf("what was answered: %v", a.err)
		}
		for _, answers := range all[1:] {
			err := answered(t, answers).err
			if failed, ok := errors.AsType[*lock.StoreError](err); !ok || failed.Outcome != lock.OutcomeUnknown {
				t.Errorf("what was not answered: %v", err)
			}
		}
		all = together(t, store, tokens, t.Context(), "malformed", "behind")
		for _, answers := range all {
			if a := answered(t, answers); a.err == nil {
				t.Error("a number that is none was taken for a grant")
			}
		}
	})
}

// An acquisition with replicas has no queue to wait in for the answer of a probe.
func TestAnOpenCircuitSendsNoGrantForReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, store := newDistant(t, redisstore.WithReplicas(1, 100*time.Millisecond))
		d.away(hung)
		l := lock.New(store, lock.WithCallTimeout(time.Second))
		defer l.Close(t.Context())
		open := func() bool { return len(d.told()) > 0 }
		for i := 0; !open() && i < 20; i++ {
			_, _ = l.TryAcquire(t.Context(), fmt.Sprint(i))
		}
		if !open() {
			t.Fatal("the circuit is closed: this tests nothing")
		}
		sent := d.acquires()
		for range 100 { // some of them begin a probe
			time.Sleep(100 * time.Millisecond)
			_, err := l.TryAcquire(t.Context(), "k")
			if !errors.Is(err, lock.ErrCircuitOpen) {
				t.Error(err)
			}
		}
		if n := d.acquires() - sent; n != 0 {
			t.Errorf("%d acquisitions were sent to a server that does not answer", n)
		}
		d.away(nil)
		for range 10 {
			time.Sleep(100 * time.Millisecond)
			if _, err := l.TryAcquire(t.Context(), "k"); err == nil {
				return
			}
		}
		t.Error("refused by a server that is back")
	})
}

// Nobody but the probe calls a node whose circuit is open: it must find the one that was
// put in its place.
func TestAnOpenCircuitFindsTheNodeThatTookOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := newDistantServer(t)
		next, _ := newFake(t, func([]string) string { return integer(1) })
		var tookOver atomic.Bool
		client := redis.NewClusterClient(&redis.ClusterOptions{
			ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
				addr := "10.0.0.1:6379"
				if tookOver.Load() {
					addr = "10.0.0.2:6379"
				}
				return []redis.ClusterSlot{{Start: 0, End: 16383, Nodes: []redis.ClusterNode{{Addr: addr}}}}, nil
			},
			Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
				if addr == "10.0.0.2:6379" {
					return next.dial(ctx, network, addr)
				}
				return d.dial(ctx, network, addr)
			},
			Protocol: 2, DisableIdentity: true, DialerRetries: 1,
		})
		t.Cleanup(func() { _ = client.Close() })
		l := newLocker(t, d.store(client))
		release(t, acquire(t, l, "before"))
		d.refuse()
		open(t, l)
		time.Sleep(15 * time.Second) // the election
		tookOver.Store(true)
		granted := time.Now().Add(10 * time.Second)
		for time.Now().Before(granted) {
			if lease, err := l.TryAcquire(t.Context(), "k"); err == nil {
				release(t, lease)
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
		t.Error("still refused")
	})
}

// A cluster that was never reached has no nodes whose circuits could open: its own does.
func TestAClusterThatIsNeverReachedCostsRequestsLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := newDistantServer(t)
		var hangs atomic.Bool
		client := redis.NewClusterClient(&redis.ClusterOptions{
			ClusterSlots: func(ctx context.Context) ([]redis.ClusterSlot, error) {
				if hangs.Load() {
					select {
					case <-ctx.Done():
					case <-time.After(10 * time.Second):
					}
				}
				return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
			},
			Protocol: 2, DisableIdentity: true, DialerRetries: 1,
		})
		t.Cleanup(func() { _ = client.Close() })
		l := newLocker(t, d.store(client))
		open(t, l)
		hangs.Store(true)
		defer hangs.Store(false)
		time.Sleep(time.Second)
		for range 10 {
			start := time.Now()
			wantOpen(t, l)
			if took := time.Since(start); took > 50*time.Millisecond {
				t.Errorf("refused after %v", took)
			}
		}
	})
}

// The application may have all connections of its pool in use, for ever.
func TestAProbeNeedsNoConnectionOfTheApplication(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, client := newDistantServer(t)
		for range client.Options().PoolSize {
			conn := client.Conn()
			defer conn.Close()
			if err := conn.Ping(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
		}
		l := newLocker(t, d.store(client))
		release(t, acquire(t, l, "before"))
		d.away(frozen)
		open(t, l)
		d.away(nil)
		time.Sleep(5 * time.Second)
		_, _ = l.TryAcquire(t.Context(), "probe") // begins one
		time.Sleep(5 * time.Second)
		release(t, acquire(t, l, "k"))
	})
}

// Nor do callers that were answered and have gone while their worker is still busy with
// them.
func TestWhoWasAnsweredHasNotGivenUpThoughTheWorkerIsBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, store := newDistant(t)
		tokens := make(chan struct{})
		d.away(func(c []string) string {
			if c[0] != "ping" && strings.HasPrefix(c[3], "before") {
				<-tokens
			}
			return "well"
		})
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		by := time.Now().Add(soon)
		for i := range redisstore.Overlap {
			begin(t.Context(), store, fmt.Sprint("before:", i), by)
			synctest.Wait()
		}
		first := lock.Claim{Key: "first", Owner: "o:1", TTL: time.Minute}
		store.Acquire(ctx, first, by, lock.AnswerFunc(func(uint64, error) {
			leave()
			time.Sleep(150 * time.Millisecond)
		}))
		for i := range 8 * redisstore.DefaultCircuitFailures { // enough for one batch
			begin(ctx, store, fmt.Sprint(i), by)
		}
		for range redisstore.Overlap {
			tokens <- struct{}{}
		}
		time.Sleep(120 * time.Millisecond)
		if a := answered(t, begin(t.Context(), store, "next", by)); a.err != nil {
			t.Error(a.err)
		}
		if len(d.told()) > 0 {
			t.Errorf("changes: %q", d.told())
		}
	})
}
