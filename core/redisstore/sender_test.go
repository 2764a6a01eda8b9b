package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
)

const soon = 10 * time.Second

// answer is what a call was answered.
type answer struct {
	fence uint64
	err   error
}

// begin starts an acquire.
func begin(ctx context.Context, store *redisstore.Store, key string, by time.Time) <-chan answer {
	answers := make(chan answer, 2) // a second would show
	c := lock.Claim{Key: key, Owner: key + ":1", TTL: time.Minute}
	store.Acquire(ctx, c, by, lock.AnswerFunc(func(fence uint64, err error) { answers <- answer{fence, err} }))
	return answers
}

func answered(t *testing.T, answers <-chan answer) answer {
	t.Helper()
	select {
	case a := <-answers:
		return a
	case <-time.After(soon):
		t.Fatal("no answer")
		return answer{}
	}
}

func wantNotExecuted(t *testing.T, err error) {
	t.Helper()
	var failed *lock.StoreError
	if !errors.As(err, &failed) || failed.Outcome != lock.OutcomeNotExecuted {
		t.Errorf("got %v, want one that was not executed", err)
	}
}

// A server says nothing: the connections that calls take are bounded, and what
// waits behind them ends with its time, unsent.
func TestAServerThatSaysNothingTakesFewConnections(t *testing.T) {
	f, client := newFake(t, func([]string) string { return "" })
	store := redisstore.New(client)
	var first []<-chan answer
	eventually := time.Now().Add(soon)
	for f.connections() < redisstore.MaxWorkers && time.Now().Before(eventually) {
		first = append(first, begin(t.Context(), store, fmt.Sprintf("first:%d", len(first)), time.Now().Add(soon)))
		time.Sleep(time.Millisecond) // calls that come one by one
	}
	sent := len(f.received())
	ctx, leave := context.WithCancel(t.Context())
	left := begin(ctx, store, "left", time.Now().Add(soon))
	var behind []<-chan answer
	for i := range 100 {
		behind = append(behind, begin(t.Context(), store, fmt.Sprint(i), time.Now().Add(50*time.Millisecond)))
	}
	leave()
	wantNotExecuted(t, answered(t, left).err)
	for _, answers := range behind {
		wantNotExecuted(t, answered(t, answers).err)
	}
	if n := f.connections(); n != redisstore.MaxWorkers {
		t.Errorf("%d connections", n)
	}
	if n := len(f.received()); n < sent || n > sent+len(first) {
		t.Errorf("%d commands", n)
	}
	for _, c := range f.received() {
		if key := c[3]; !strings.HasPrefix(key, "first:") {
			t.Errorf("%s was sent", key)
		}
	}
	_ = client.Close()
	for _, answers := range first {
		answered(t, answers)
	}
}

// Calls that nobody waits for are not sent.
func TestACallerThatHasLeftSendsNothing(t *testing.T) {
	f, client := newFake(t, func([]string) string { return integer(1) })
	store := redisstore.New(client)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantNotExecuted(t, answered(t, begin(ctx, store, "k", time.Now().Add(soon))).err)
	wantNotExecuted(t, answered(t, begin(t.Context(), store, "k", time.Now())).err)
	if sent := f.received(); len(sent) > 0 {
		t.Errorf("sent %q", sent)
	}
}

// A server that doesn't know the script has not run it. The text is not sent for an
// acquisition whose caller has left meanwhile, or whose time has passed.
func TestAnAcquisitionIsNotSentAgainAfterItsTime(t *testing.T) {
	for name, leave := range map[string]func(t *testing.T) (context.Context, time.Time){
		"left": func(t *testing.T) (context.Context, time.Time) {
			t.Helper()
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Second/2, cancel)
			return ctx, time.Now().Add(time.Minute)
		},
		"late": func(t *testing.T) (context.Context, time.Time) {
			t.Helper()
			return t.Context(), time.Now().Add(time.Second)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, client := newFake(t, func(command []string) string {
					if command[0] != "evalsha" {
						return integer(1)
					}
					time.Sleep(2 * time.Second)
					return failed("NOSCRIPT No matching script.")
				})
				ctx, by := leave(t)
				a := answered(t, begin(ctx, redisstore.New(client), "k", by))
				if failed, ok := errors.AsType[*lock.StoreError](a.err); !ok || failed.Outcome != lock.OutcomeNotExecuted {
					t.Errorf("got %v, want not executed", a.err)
				}
				if n := len(f.received()); n != 1 {
					t.Errorf("%d calls were sent", n)
				}
				time.Sleep(time.Minute) // its worker ends
			})
		})
	}
}

// What is held is renewed, lowered and released however late the server answers: its script
// is introduced, the claims of a batch that one of them spoils are sent one by one, and
// the answer is read.
func TestWhatIsHeldIsFinishedAfterItsTime(t *testing.T) {
	read, write := claim, claim
	read.Mode, write.Mode = lock.Read, lock.Write
	undo := write
	undo.Undo = true
	second := write
	second.Key = "second"
	renew := func(claims ...lock.Claim) func(context.Context, *redisstore.Store) error {
		return func(ctx context.Context, s *redisstore.Store) (err error) {
			s.Renew(ctx, claims, func(_ int, failed error) { err = errors.Join(err, failed) })
			return err
		}
	}
	begun := func(
		start func(*redisstore.Store, context.Context, lock.Claim, time.Time, lock.Answer), c lock.Claim,
	) func(context.Context, *redisstore.Store) error {
		return func(ctx context.Context, s *redisstore.Store) error {
			by, _ := ctx.Deadline()
			answer := make(chan error, 1)
			start(s, ctx, c, by, lock.AnswerFunc(func(_ uint64, err error) { answer <- err }))
			return <-answer
		}
	}
	unknown := func(c []string) string {
		if c[0] == "evalsha" {
			return failed("NOSCRIPT No matching script.")
		}
		return integer(1)
	}
	known := func([]string) string { return integer(1) }
	spoiled := func(c []string) string {
		if c[2] == "2" {
			return failed("WRONGTYPE Operation against a key holding the wrong kind of value")
		}
		return integer(1)
	}
	replicated := redisstore.WithReplicas(1, time.Second)
	for name, tt := range map[string]struct {
		server func(command []string) string
		call   func(context.Context, *redisstore.Store) error
		sent   string
		opts   []redisstore.Option
	}{
		"renew":                    {unknown, renew(write), "evalsha eval", nil},
		"renew on replicas":        {unknown, renew(write), "evalsha wait eval wait", []redisstore.Option{replicated}},
		"renew, known":             {known, renew(write), "evalsha", nil},
		"renew on replicas, known": {known, renew(write), "evalsha wait", []redisstore.Option{replicated}},
		"renew one by one":         {spoiled, renew(write, second), "evalsha evalsha evalsha", nil},
		"release":                  {unknown, begun((*redisstore.Store).Release, read), "evalsha eval", nil},
		"clean up":                 {unknown, begun((*redisstore.Store).Release, undo), "evalsha eval", nil},
		"lower":                    {unknown, begun((*redisstore.Store).Lower, read), "evalsha eval", nil},
		"lower, known":             {known, begun((*redisstore.Store).Lower, read), "evalsha", nil},
	} {
		for _, limited := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, ContextTimeoutEnabled %t", name, limited), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f, client := newFake(t, func(c []string) string {
						if c[0] != "wait" {
							time.Sleep(2 * time.Second)
						}
						return tt.server(c)
					})
					client.Options().ContextTimeoutEnabled = limited
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					defer cancel()
					if err := tt.call(ctx, redisstore.New(client, tt.opts...)); err != nil {
						t.Errorf("got %v", err)
					}
					var sent []string
					for _, command := range f.received() {
						sent = append(sent, command[0])
					}
					if got := strings.Join(sent, " "); got != tt.sent {
						t.Errorf("sent %s, want %s", got, tt.sent)
					}
					time.Sleep(time.Minute) // its worker ends
				})
			})
		}
	}
}

// A release goes before acquires that came earlier.
func TestReleasesGoFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // no batch is stuck: no time passes
		hold := make(chan struct{})
		f, client := newFake(t, func([]string) string {
			<-hold
			return integer(1)
		})
		store := redisstore.New(client)
		by := time.Now().Add(soon)
		var all []<-chan answer
		for i := range redisstore.Overlap {
			all = append(all, begin(t.Context(), store, fmt.Sprintf("before:%d", i), by))
			synctest.Wait()
		}
		all = append(all, begin(t.Context(), store, "acquired", by))
		released := make(chan answer, 1)
		store.Release(t.Context(), lock.Claim{Key: "released", Owner: "o:1"}, by, lock.AnswerFunc(func(_ uint64, err error) { released <- answer{0, err} }))
		close(hold)
		for _, answers := range append(all, released) {
			if a := answered(t, answers); a.err != nil {
				t.Error(a.err)
			}
		}
		var order []string
		for _, c := range f.received() {
			order = append(order, c[3])
		}
		if got := strings.Join(order[redisstore.Overlap:], " "); got != "released acquired" {
			t.Errorf("sent in the order %q", order)
		}
		time.Sleep(time.Minute) // long enough for workers without work to end
	})
}

// pipelines is a hook that records what travels together.
type pipelines struct {
	mu   sync.Mutex
	sent []string // the keys of each
}

func (*pipelines) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (*pipelines) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (p *pipelines) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		keys := make([]string, len(cmds))
		for i, cmd := range cmds {
			keys[i] = fmt.Sprint(cmd.Args()[3])
		}
		p.mu.Lock()
		p.sent = append(p.sent, strings.Join(keys, " "))
		p.mu.Unlock()
		return next(ctx, cmds)
	}
}

// Calls are spread over the batches, and what the callers of a batch call next travels
// together, though another batch could be sent at once.
func TestCallersOfABatchStayTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // no batch is stuck: it takes too little time
		held := map[string]chan struct{}{"e": make(chan struct{})}
		var before []string // as many as there may be under way
		for i := range redisstore.Overlap {
			key := fmt.Sprint("before:", i)
			before, held[key] = append(before, key), make(chan struct{})
		}
		_, client := newFake(t, func(c []string) string {
			if hold := held[c[3]]; hold != nil {
				<-hold
			}
			return integer(1)
		})
		together := &pipelines{}
		client.AddHook(together)
		store, by := redisstore.New(client), time.Now().Add(soon)
		for _, key := range before {
			begin(t.Context(), store, key, by)
			synctest.Wait() // each has a connection
		}
		for _, key := range []string{"e", "f", "g"} {
			c := lock.Claim{Key: key, Owner: "o:1", TTL: time.Minute}
			store.Acquire(t.Context(), c, by, lock.AnswerFunc(func(uint64, error) {
				begin(t.Context(), store, "after:"+key, by)
				time.Sleep(time.Millisecond) // others could send it
			}))
		}
		begin(t.Context(), store, "h", by)
		for _, key := range []string{before[0], before[1], "e"} {
			close(held[key])
			synctest.Wait()
		}
		time.Sleep(3 * time.Millisecond)
		synctest.Wait()
		want := append(slices.Clone(before), "e f g", "h", "after:e after:f after:g")
		if !slices.Equal(together.sent, want) {
			t.Errorf("sent %q, want %q", together.sent, want)
		}
		for _, key := range before[2:] {
			close(held[key])
		}
		time.Sleep(time.Minute) // long enough for workers without work to end
	})
}

// Each batch behind a stuck one may take a connection for long, so all that waits goes in one.
func TestAllThatWaitsBehindStuckBatchesGoesTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		_, client := newFake(t, func([]string) string {
			<-hold
			return integer(1)
		})
		together := &pipelines{}
		client.AddHook(together)
		store, by := redisstore.New(client), time.Now().Add(soon)
		var all []<-chan answer
		for i := range redisstore.Overlap {
			all = append(all, begin(t.Context(), store, fmt.Sprintf("stuck:%d", i), by))
			synctest.Wait()
		}
		const crowd = 64
		for i := range crowd {
			all = append(all, begin(t.Context(), store, fmt.Sprintf("behind:%d", i), by))
		}
		time.Sleep(time.Second) // many batches could be sent
		together.mu.Lock()
		batches := len(together.sent)
		together.mu.Unlock()
		if batches != redisstore.Overlap+1 {
			t.Errorf("%d calls went in %d batches, want 1", crowd, batches-redisstore.Overlap)
		}
		close(hold)
		for _, answers := range all {
			if a := answered(t, answers); a.err != nil {
				t.Error(a.err)
			}
		}
		time.Sleep(time.Minute) // long enough for workers without work to end
	})
}

// They go soon, also when others keep coming behind them.
func TestWhoWaitsBehindStuckBatchesIsNotPutOffByWhoComesLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		_, client := newFake(t, func(c []string) string {
			if strings.HasPrefix(c[3], "stuck") {
				<-hold
			}
			return integer(1)
		})
		store, by := redisstore.New(client), time.Now().Add(soon)
		for i := range redisstore.Overlap {
			begin(t.Context(), store, fmt.Sprint("stuck:", i), by)
			synctest.Wait()
		}
		first := begin(t.Context(), store, "first", by)
		for i := range 20 {
			time.Sleep(time.Millisecond)
			begin(t.Context(), store, fmt.Sprint("later:", i), by)
		}
		select {
		case a := <-first:
			if a.err != nil {
				t.Error(a.err)
			}
		default:
			t.Error("the first one still waits after 20 ms")
		}
		close(hold)
		time.Sleep(time.Minute) // long enough for workers without work to end
	})
}

// A call that comes after a batch was answered waits for nothing.
func TestNobodyWaitsForABatchThatWasAnswered(t *testing.T) {
	for name, reply := range map[string]string{"known": integer(1), "unknown": failed("NOSCRIPT No matching script.")} {
		t.Run("a script that is "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				first, hold := make(chan struct{}), make(chan struct{})
				_, client := newFake(t, func(c []string) string {
					switch {
					case c[3] == "before:0":
						<-first
					case strings.HasPrefix(c[3], "before"):
						<-hold
					case c[0] == "evalsha":
						return reply
					}
					return integer(1)
				})
				store, by := redisstore.New(client), time.Now().Add(soon)
				for i := range redisstore.Overlap {
					begin(t.Context(), store, fmt.Sprint("before:", i), by)
					synctest.Wait()
				}
				var batch []<-chan answer
				for i := range 3 {
					batch = append(batch, begin(t.Context(), store, fmt.Sprint(i), by))
				}
				close(first)
				for _, answers := range batch {
					answered(t, answers)
				}
				time.Sleep(20 * time.Millisecond) // the worker is still there
				for range 3 {
					synctest.Wait() // it has nothing to do
					began := time.Now()
					if a := answered(t, begin(t.Context(), store, "after", by)); a.err != nil || time.Since(began) > 0 {
						t.Errorf("%v after %v", a.err, time.Since(began))
					}
				}
				close(hold)
				time.Sleep(time.Minute) // long enough for workers without work to end
			})
		})
	}
}

// Calls that fail in one batch have each its own error: another one may have run.
func TestEachCallOfABatchHasItsOwnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		replies := map[string]string{
			"full":   failed("OOM command not allowed"),
			"denied": failed("NOPERM no"),
			"odd":    failed("ERR something new"),
			"well":   integer(1),
		}
		hold := make(chan struct{})
		_, client := newFake(t, func(c []string) string {
			if reply, ok := replies[c[3]]; ok {
				return reply
			}
			<-hold
			return integer(1)
		})
		store, by := redisstore.New(client), time.Now().Add(soon)
		for i := range redisstore.Overlap {
			begin(t.Context(), store, fmt.Sprint("before:", i), by)
			synctest.Wait()
		}
		batch := make(map[string]<-chan answer)
		for key := range replies {
			batch[key] = begin(t.Context(), store, key, by)
		}
		close(hold)
		for key, want := range map[string]string{"full": "OOM", "denied": "NOPERM", "odd": "error reply"} {
			failed, ok := errors.AsType[*lock.StoreError](answered(t, batch[key]).err)
			if !ok || failed.Class != want {
				t.Errorf("%s: got %v, want class %s", key, failed, want)
			}
		}
		if a := answered(t, batch["well"]); a.err != nil {
			t.Error(a.err)
		}
		time.Sleep(time.Minute) // long enough for workers without work to end
	})
}

// What nobody waits for has as much room as the acquisitions, and some where there are
// few: neither keeps the other waiting for long.
func TestUndosAndAcquisitionsShareABatch(t *testing.T) {
	const undos = 100
	for acquires, want := range map[int]int{3: redisstore.UndoShare, 15: 15, 1000: undos} {
		synctest.Test(t, func(t *testing.T) {
			hold := make(chan struct{})
			stuck := make(chan struct{})
			f, client := newFake(t, func(c []string) string {
				if c[3] == "before:0" {
					<-hold
				} else if strings.HasPrefix(c[3], "before:") {
					<-stuck // one batch follows the other
				}
				return integer(1)
			})
			store, by := redisstore.New(client), time.Now().Add(soon)
			var all []<-chan answer
			for i := range redisstore.Overlap {
				all = append(all, begin(t.Context(), store, fmt.Sprint("before:", i), by))
				synctest.Wait()
			}
			for i := range undos {
				undone := make(chan answer, 1)
				store.Release(t.Context(), lock.Claim{Key: fmt.Sprint("undo:", i), Owner: "o:1", Undo: true}, by, lock.AnswerFunc(func(_ uint64, err error) { undone <- answer{0, err} }))
				all = append(all, undone)
			}
			for i := range acquires {
				all = append(all, begin(t.Context(), store, fmt.Sprint("acquire:", i), by))
			}
			close(hold)
			for _, answers := range all[redisstore.Overlap:] {
				if a := answered(t, answers); a.err != nil {
					t.Error(a.err)
				}
			}
			close(stuck)
			seen, first := 0, 0
			for _, c := range f.received() {
				if strings.HasPrefix(c[3], "undo:") {
					seen++
				} else {
					first = seen
				}
			}
			if seen != undos || first != want {
				t.Errorf("%d undos of %d before the last of %d acquisitions, want %d", first, seen, acquires, want)
			}
			time.Sleep(time.Minute) // long enough for workers without work to end
		})
	}
}

// With ContextTimeoutEnabled an acquisition ends with its time, though the client would wait
// longer, and nothing is sent twice.
func TestACallEndsWithItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, client := newFake(t, func([]string) string { return "" })
		client.Options().ContextTimeoutEnabled = true
		began := time.Now()
		answers := begin(t.Context(), redisstore.New(client), "k", began.Add(time.Second))
		var unknown *lock.StoreError
		if a := answered(t, answers); !errors.As(a.err, &unknown) || unknown.Outcome != lock.OutcomeUnknown {
			t.Errorf("got %v, want an unknown outcome", a.err)
		}
		if took := time.Since(began); took != time.Second {
			t.Errorf("it took %v", took)
		}
		if sent := f.received(); len(sent) != 1 {
			t.Errorf("sent %q", sent)
		}
		time.Sleep(time.Minute) // long enough for workers without work to end
	})
}

// panicking is a client's hook that panics.
type panicking struct{ redis.Hook }

func (panicking) DialHook(next redis.DialHook) redis.DialHook { return next }

func (panicking) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(context.Context, redis.Cmder) error { panic("broken") }
}

func (panicking) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(context.Context, []redis.Cmder) error { panic("broken") }
}

// A panic of the client is on a goroutine of ours: it must not end the process.
func TestAPanicOfTheClientIsAnUnknownOutcome(t *testing.T) {
	_, client := newFake(t, func([]string) string { return integer(1) })
	client.AddHook(panicking{})
	store := redisstore.New(client)
	var all []<-chan answer
	for i := range 20 {
		all = append(all, begin(t.Context(), store, fmt.Sprint(i), time.Now().Add(soon)))
	}
	for _, answers := range all {
		a := answered(t, answers)
		var panicked *lock.PanicError
		var failed *lock.StoreError
		if !errors.As(a.err, &panicked) || errors.As(a.err, &failed) && failed.Outcome != lock.OutcomeUnknown {
			t.Errorf("got %v", a.err)
		}
	}
}

func TestAPanicOfTheClientFailsARoundOfRenewals(t *testing.T) {
	for name, opts := range map[string][]redisstore.Option{
		"alone": nil, "with replicas": {redisstore.WithReplicas(1, 10*time.Millisecond)},
	} {
		t.Run(name, func(t *testing.T) {
			_, client := newFake(t, func([]string) string { return integer(1) })
			client.AddHook(panicking{})
			claims := make([]lock.Claim, 200)
			for i := range claims {
				claims[i] = lock.Claim{Key: fmt.Sprint(i), Owner: "client:1", TTL: time.Minute}
			}
			reports := make([]int, len(claims))
			redisstore.New(client, opts...).Renew(t.Context(), claims, func(i int, err error) {
				reports[i]++
				var panicked *lock.PanicError
				if !errors.As(err, &panicked) {
					t.Errorf("claim %d: got %v", i, err)
				}
			})
			for i, n := range reports {
				if n != 1 {
					t.Errorf("claim %d was reported %d times", i, n)
				}
			}
		})
	}
}

// Calls that travel together have the time of the one that has most.
func TestACallIsNotCutByAnotherOneOfItsBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		_, client := newFake(t, func(command []string) string {
			if strings.HasPrefix(command[3], "before") {
				<-hold
				return integer(1)
			}
			return ""
		})
		client.Options().ContextTimeoutEnabled = true
		store := redisstore.New(client)
		began := time.Now()
		for i := range redisstore.Overlap {
			begin(t.Context(), store, fmt.Sprint("before", i), began.Add(soon))
			synctest.Wait()
		}
		var all []<-chan answer
		for i, left := range []time.Duration{time.Second, 2900 * time.Millisecond, 2 * time.Second} {
			all = append(all, begin(t.Context(), store, fmt.Sprint(i), began.Add(left)))
		}
		close(hold)
		for _, answers := range all {
			if a := answered(t, answers); a.err == nil || time.Since(began) != 2900*time.Millisecond {
				t.Errorf("%v after %v", a.err, time.Since(began))
			}
		}
		time.Sleep(time.Minute) // long enough for workers without work to end
	})
}

// A server keeps all workers busy: who waits behind them is answered when its time has
// passed, or when it leaves.
func TestWhatWaitsBehindStuckBatchesEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, client := newFake(t, func([]string) string { return "" })
		store := redisstore.New(client, redisstore.WithCircuit(0, 0))
		for i := range redisstore.MaxWorkers {
			begin(t.Context(), store, fmt.Sprint(i), time.Now().Add(soon))
			time.Sleep(11 * time.Millisecond)
		}
		began := time.Now()
		ctx, leave := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer leave()
		late, left := begin(t.Context(), store, "late", began.Add(time.Second)), begin(ctx, store, "left", began.Add(soon))
		release := func(c lock.Claim, after time.Duration) <-chan answer {
			released := make(chan answer, 1)
			store.Release(t.Context(), c, began.Add(after), lock.AnswerFunc(func(_ uint64, err error) { released <- answer{0, err} }))
			return released
		}
		undo := claim
		undo.Undo = true
		undone, released := release(undo, 350*time.Millisecond), release(claim, 500*time.Millisecond)
		for _, tt := range []struct {
			answers <-chan answer
			want    time.Duration
		}{{left, 200 * time.Millisecond}, {undone, 350 * time.Millisecond}, {released, 500 * time.Millisecond}, {late, time.Second}} {
			wantNotExecuted(t, answered(t, tt.answers).err)
			if took := time.Since(began) - tt.want; took < 0 || took > 10*time.Millisecond {
				t.Errorf("%v late", took)
			}
		}
		_ = client.Close()
		time.Sleep(time.Minute) // what lingers ends
	})
}

// A caller that comes now and then needs no new goroutine for it.
func TestAWorkerIsKeptForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, client := newFake(t, func([]string) string { return integer(1) })
		store := redisstore.New(client)
		for _, pause := range []time.Duration{0, 90 * time.Millisecond} {
			time.Sleep(pause)
			answered(t, begin(t.Context(), store, "k", time.Now().Add(soon)))
		}
		if time.Sleep(99 * time.Millisecond); store.Workers() != 1 {
			t.Errorf("%d workers", store.Workers())
		}
		if time.Sleep(102 * time.Millisecond); store.Workers() != 0 {
			t.Errorf("%d workers are left", store.Workers())
		}
	})
}

// Connections that have gone mute keep nobody from others, once nobody waits for what
// they were to answer.
func TestMuteConnectionsKeepNobodyFromOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, client := newFake(t, func(c []string) string {
			if strings.HasPrefix(c[3], "mute") {
				return ""
			}
			return integer(1)
		})
		client.Options().ReadTimeout = -1
		store := redisstore.New(client, redisstore.WithCircuit(0, 0))
		for i := range 40 {
			store.Release(t.Context(), lock.Claim{Key: fmt.Sprint("mute:", i), Owner: "o:1"}, time.Now().Add(time.Second), lock.AnswerFunc(func(uint64, error) {}))
			time.Sleep(20 * time.Millisecond)
		}
		time.Sleep(time.Second)
		began := time.Now()
		if a := answered(t, begin(t.Context(), store, "k", began.Add(soon))); a.err != nil || time.Since(began) > 100*time.Millisecond {
			t.Errorf("%v after %v", a.err, time.Since(began))
		}
		_ = client.Close()
		time.Sleep(time.Minute)
	})
}

// Who waits for a server that hangs leaves when the context ends, whatever it was called for.
func TestCallsEndWithTheirContext(t *testing.T) {
	for name, call := range map[string]func(context.Context, *redisstore.Store) error{
		"set a latch": func(ctx context.Context, s *redisstore.Store) error {
			return redisstore.NewLatch(s, "k").TrySet(ctx, 1)
		},
		"count down": func(ctx context.Context, s *redisstore.Store) error {
			return redisstore.NewLatch(s, "k").CountDown(ctx)
		},
		"delete latch": func(ctx context.Context, s *redisstore.Store) error { return redisstore.NewLatch(s, "k").Delete(ctx) },
		"await latch":  func(ctx context.Context, s *redisstore.Store) error { return redisstore.NewLatch(s, "k").Await(ctx) },
		"count": func(ctx context.Context, s *redisstore.Store) error {
			_, err := redisstore.NewLatch(s, "k").Count(ctx)
			return err
		},
		"release permits": func(ctx context.Context, s *redisstore.Store) error {
			return s.ReleasePermits(ctx, "k", strings.Repeat("0", 32))
		},
		"force release": func(ctx context.Context, s *redisstore.Store) error {
			_, err := s.ForceRelease(ctx, "k")
			return err
		},
		"check": func(ctx context.Context, s *redisstore.Store) error { return s.Check(ctx) },
	} {
		for _, cause := range []error{context.DeadlineExceeded, errGone} {
			t.Run(name+": "+cause.Error(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					_, client := newFake(t, func(c []string) string {
						switch {
						case c[0] == "evalsha" && c[1] == redisstore.SHA("semaphore", "inspect"):
							return "*6\r\n$4\r\nhash\r\n:1000\r\n*2\r\n$8\r\nclient:1\r\n$1\r\n1\r\n*0\r\n:0\r\n:0\r\n"
						case c[0] == "evalsha" || c[0] == "ping":
							return ""
						}
						return "default"
					})
					ctx, cancel := context.WithCancelCause(t.Context())
					if errors.Is(cause, context.DeadlineExceeded) {
						var stop func()
						ctx, stop = context.WithTimeout(t.Context(), time.Second)
						defer stop()
					}
					time.AfterFunc(time.Second, func() { cancel(cause) })
					began := time.Now()
					if err := call(ctx, redisstore.New(client)); !errors.Is(err, cause) {
						t.Errorf("got %v, want %v", err, cause)
					}
					if took := time.Since(began); took != time.Second {
						t.Errorf("it took %v", took)
					}
					time.Sleep(time.Minute) // the client gives up, and workers without work end
				})
			})
		}
	}
}

var errGone = errors.New("the caller has gone")
