package redisstore_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
)

func TestWithReplicasRefusesWhatCannotWork(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{ReadTimeout: time.Second})
	t.Cleanup(func() { _ = rdb.Close() })
	patient := redis.NewClient(&redis.Options{ReadTimeout: -1})
	t.Cleanup(func() { _ = patient.Close() })
	for want, option := range map[string]func(){
		"less than 1 replica":                    func() { redisstore.WithReplicas(0, time.Second) },
		"timeout is less than 1 ms":              func() { redisstore.WithReplicas(1, time.Microsecond) },
		"not below the client's ReadTimeout 1s":  func() { redisstore.New(rdb, redisstore.WithReplicas(1, time.Second)) },
		"is all right, as it is below the limit": func() { redisstore.New(rdb, redisstore.WithReplicas(1, 999*time.Millisecond)) },
		"is all right, as there is no limit":     func() { redisstore.New(patient, redisstore.WithReplicas(1, time.Hour)) },
	} {
		text := panicOf(option)
		if right := strings.HasPrefix(want, "is all right"); right && text != "" || !right && !strings.Contains(text, want) {
			t.Errorf("panic %q, want %q", text, want)
		}
	}
}

// waiting answers scripts with script, and WAIT with wait.
func waiting(script, wait string) func([]string) string {
	return func(command []string) string {
		if command[0] == "wait" {
			return wait
		}
		return script
	}
}

func TestGrantsWaitForReplicas(t *testing.T) {
	tests := map[string]struct {
		script, wait string
		err          error // nil: granted
		outcome      lock.Outcome
		text         string
	}{
		"enough":              {script: integer(17), wait: integer(2)},
		"more than enough":    {script: integer(17), wait: integer(3)},
		"too few":             {script: integer(17), wait: integer(1), err: errAny, outcome: lock.OutcomeUnknown, text: "1 of 2"},
		"busy anyway":         {script: integer(-2 - 500), wait: integer(0), err: lock.ErrBusy},
		"no WAIT":             {script: integer(17), wait: "-ERR unknown command 'wait'\r\n", err: lock.ErrUnsupported, outcome: lock.OutcomeUnknown, text: "does not know WAIT"},
		"WAIT not permitted":  {script: integer(17), wait: "-NOPERM no WAIT for you\r\n", err: errAny, outcome: lock.OutcomeUnknown, text: "NOPERM"},
		"a script that fails": {script: "-READONLY no writes here\r\n", wait: integer(2), err: errAny, outcome: lock.OutcomeNotExecuted, text: "READONLY"},
		"a node of a cluster": {script: failed(movedAway), wait: integer(2), err: errAny, outcome: lock.OutcomeNotExecuted, text: "MOVED"},
	}
	for name, tt := range tests {
		for how, acquire := range map[string]func(*testing.T, *redisstore.Store) (uint64, error){
			"called": func(t *testing.T, s *redisstore.Store) (uint64, error) {
				t.Helper()
				return lock.Blocking(s).Acquire(t.Context(), claim)
			},
			"begun": func(t *testing.T, s *redisstore.Store) (uint64, error) {
				t.Helper()
				a := answered(t, begin(t.Context(), s, claim.Key, time.Now().Add(soon)))
				return a.fence, a.err
			},
		} {
			t.Run(name+", "+how, func(t *testing.T) {
				f, rdb := newFake(t, waiting(tt.script, tt.wait))
				fence, err := acquire(t, redisstore.New(rdb, redisstore.WithReplicas(2, 150*time.Millisecond)))
				var failed *lock.StoreError
				switch {
				case tt.err == nil && (err != nil || fence != 17*lock.FenceStep):
					t.Errorf("got %d, %v; want the grant", fence, err)
				case tt.err != nil && err == nil:
					t.Error("it was granted")
				case tt.err != nil && !errors.Is(tt.err, errAny) && !errors.Is(err, tt.err):
					t.Errorf("got %v, want %v", err, tt.err)
				case tt.text != "" && (!errors.As(err, &failed) || failed.Outcome != tt.outcome || !strings.Contains(err.Error(), tt.text)):
					t.Errorf("got %v, want %q with outcome %v", err, tt.text, tt.outcome)
				}
				commands := f.received()
				last := commands[len(commands)-1]
				if len(commands) != 2 || strings.Join(last, " ") != "wait 2 150" {
					t.Errorf("sent %q, want the script and WAIT 2 150", commands)
				}
			})
		}
	}
}

var errAny = errors.New("any error")

// What a hold lasts for after Lower is trusted as after a renewal.
func TestALoweredHoldWaitsForReplicas(t *testing.T) {
	for name, tt := range map[string]struct {
		script, wait string
		err          error
	}{
		"enough":   {integer(1), integer(2), nil},
		"too few":  {integer(1), integer(1), redisstore.ErrReplicas},
		"not held": {integer(0), integer(1), lock.ErrNotHeld},
	} {
		_, rdb := newFake(t, waiting(tt.script, tt.wait))
		store := redisstore.New(rdb, redisstore.WithReplicas(2, 150*time.Millisecond))
		read := claim
		read.Mode = lock.Read
		if err := lock.Blocking(store).Lower(t.Context(), read); !errors.Is(err, tt.err) {
			t.Errorf("%s: got %v, want %v", name, err, tt.err)
		}
		begun := make(chan error, 1)
		store.Lower(t.Context(), read, time.Now().Add(soon), lock.AnswerFunc(func(_ uint64, err error) { begun <- err }))
		if err := <-begun; !errors.Is(err, tt.err) {
			t.Errorf("%s, begun: got %v, want %v", name, err, tt.err)
		}
	}
}

func TestAScriptThatIsNotKnownIsFollowedByAWaitOfItsOwn(t *testing.T) {
	f, rdb := newFake(t, func(command []string) string {
		switch command[0] {
		case "evalsha":
			return "-NOSCRIPT No matching script\r\n"
		case "wait":
			return integer(1)
		}
		return integer(17)
	})
	store := redisstore.New(rdb, redisstore.WithReplicas(1, time.Second))
	if _, err := lock.Blocking(store).Acquire(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range f.received() {
		names = append(names, c[0])
	}
	if got := strings.Join(names, " "); got != "evalsha wait eval wait" {
		t.Errorf("sent %q", got)
	}
}

func TestRenewalsWaitForReplicasAndReleasesDoNot(t *testing.T) {
	acks := integer(0)
	f, rdb := newFake(t, func(command []string) string {
		if command[0] == "wait" {
			return acks
		}
		return integer(1)
	})
	store := redisstore.New(rdb, redisstore.WithReplicas(1, time.Second))
	renew := func() (result error) {
		store.Renew(t.Context(), []lock.Claim{claim}, func(_ int, err error) { result = err })
		return result
	}
	var failed *lock.StoreError
	if err := renew(); !errors.As(err, &failed) || failed.Outcome != lock.OutcomeUnknown {
		t.Errorf("without replicas: got %v, want a failure", err)
	}
	acks = integer(1)
	if err := renew(); err != nil {
		t.Errorf("with a replica: %v", err)
	}
	before := len(f.received())
	if err := lock.Blocking(store).Release(t.Context(), claim); err != nil {
		t.Error(err)
	}
	if sent := f.received()[before:]; len(sent) != 1 {
		t.Errorf("a release sent %q", sent)
	}
}

// What was not sent says nothing about the server.
func TestCallsWithoutTimeOpenNoCircuit(t *testing.T) {
	_, client := newFake(t, func([]string) string { return integer(1) })
	store := redisstore.New(client, redisstore.WithReplicas(1, 10*time.Millisecond))
	for range 10 {
		a := answered(t, begin(t.Context(), store, "late", time.Now().Add(-time.Millisecond)))
		if failed, ok := errors.AsType[*lock.StoreError](a.err); !ok || failed.Outcome != lock.OutcomeNotExecuted {
			t.Errorf("got %v, want not executed", a.err)
		}
	}
	if a := answered(t, begin(t.Context(), store, "k", time.Now().Add(soon))); a.err != nil {
		t.Errorf("no call has failed, and then: %v", a.err)
	}
}

// Where the topology of a cluster goes in a circle, nothing has run.
func TestReplicasOfANodeThatIsNotFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _ := newFake(t, waiting(failed("MOVED 1 10.0.0.1:6379"), integer(1)))
		client := clusterOf(t, f)
		store := redisstore.New(client, redisstore.WithReplicas(1, 10*time.Millisecond))
		wantNotExecuted(t, answered(t, begin(t.Context(), store, "k", time.Now().Add(soon))).err)
		if n := len(f.received()); n < 2 || n > 20 {
			t.Errorf("%d commands were sent", n)
		}
		_ = client.Close()
		time.Sleep(time.Minute) // what reloads the slots ends
	})
}

// broken is a client that panics when it sends.
type broken struct{}

func (broken) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (broken) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (broken) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(context.Context, []redis.Cmder) error { panic("a bug of the client") }
}

// A call that has ended, however, is watched no longer.
func TestAPanicOfTheClientLeavesNobodyWhoAsksForSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var loads atomic.Int32
		f, _ := newFake(t, func([]string) string { return integer(1) })
		client := redis.NewClusterClient(&redis.ClusterOptions{
			ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
				loads.Add(1)
				return []redis.ClusterSlot{{End: 16383, Nodes: []redis.ClusterNode{{Addr: "10.0.0.1:6379"}}}}, nil
			},
			Dialer: f.dial, Protocol: 2, DisableIdentity: true, DialerRetries: 1,
		})
		client.OnNewNode(func(node *redis.Client) { node.AddHook(broken{}) })
		store := redisstore.New(client, redisstore.WithReplicas(1, 10*time.Millisecond))
		if a := answered(t, begin(t.Context(), store, "k", time.Now().Add(soon))); a.err == nil {
			t.Fatal("the client did not panic")
		}
		before := loads.Load()
		time.Sleep(time.Minute)
		if n := loads.Load() - before; n > 1 {
			t.Errorf("nothing is under way, and the slots were loaded %d times", n)
		}
		_ = client.Close()
		time.Sleep(time.Minute) // what reloads them once ends
	})
}
