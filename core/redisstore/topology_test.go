package redisstore_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
)

// A node says where the slots are as late as it likes, unless one of them seems
// to hang: then it may be this one.
func TestANodeThatHangsIsNotAskedForLongWhereTheSlotsAre(t *testing.T) {
	const patience = 5 * time.Second // the client's
	errTimeout := errors.New("i/o timeout")
	slots := []redis.ClusterSlot{{Start: 0, End: 16383}}
	for _, tt := range []struct {
		name      string
		suspected time.Duration // how long ago; 0: never
		answers   time.Duration // 0: never
		want      time.Duration
		wantSlots bool
	}{
		{"never suspected", 0, 3 * time.Second, 3 * time.Second, true},
		{"never suspected, and it hangs", 0, 0, patience, false},
		{"suspected, and it answers", time.Millisecond, 400 * time.Millisecond, 400 * time.Millisecond, true},
		{"suspected, and it hangs", time.Millisecond, 0, 500 * time.Millisecond, false},
		{"suspected a while ago, and it hangs", 9 * time.Second, 0, 500 * time.Millisecond, false},
		{"suspected long ago", 11 * time.Second, 3 * time.Second, 3 * time.Second, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"nowhere:1"}})
				defer rdb.Close()
				store := redisstore.New(rdb)
				if tt.suspected > 0 {
					store.Suspect()
					time.Sleep(tt.suspected)
				}
				ask := store.Topology().ProcessHook(func(_ context.Context, cmd redis.Cmder) error {
					if tt.answers == 0 {
						time.Sleep(patience)
						return errTimeout
					}
					time.Sleep(tt.answers)
					cmd.(*redis.ClusterSlotsCmd).SetVal(slots)
					return nil
				})
				began := time.Now()
				cmd := redis.NewClusterSlotsCmd(t.Context(), "cluster", "slots")
				err := ask(t.Context(), cmd)
				if took := time.Since(began); took != tt.want {
					t.Errorf("it took %v, want %v", took, tt.want)
				}
				if (err == nil) != tt.wantSlots || (len(cmd.Val()) == 1) != tt.wantSlots {
					t.Errorf("got %v, %v", cmd.Val(), err)
				}
				time.Sleep(patience) // what was given up ends, too
			})
		})
	}
}

// Nothing but questions for the slots is cut short.
func TestCommandsToANodeThatHangsAreLeftToTheirCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"nowhere:1"}})
		defer rdb.Close()
		store := redisstore.New(rdb)
		store.Suspect()
		began := time.Now()
		call := store.Topology().ProcessHook(func(context.Context, redis.Cmder) error {
			time.Sleep(time.Minute)
			return nil
		})
		if err := call(t.Context(), redis.NewCmd(t.Context(), "evalsha")); err != nil || time.Since(began) != time.Minute {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// The question for the slots is on another goroutine where a node may hang.
func TestAPanicOfTheQuestionForSlotsIsItsError(t *testing.T) {
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"nowhere:1"}})
	defer rdb.Close()
	store := redisstore.New(rdb)
	store.Suspect()
	ask := store.Topology().ProcessHook(func(context.Context, redis.Cmder) error { panic("broken") })
	err := ask(t.Context(), redis.NewClusterSlotsCmd(t.Context(), "cluster", "slots"))
	if _, panicked := errors.AsType[*lock.PanicError](err); !panicked {
		t.Errorf("got %v", err)
	}
}

// The client calls each master on another goroutine.
func TestAPanicOfTheClientFailsTheCheckOfACluster(t *testing.T) {
	f, _ := newFake(t, func([]string) string { return integer(1) })
	rdb := clusterOf(t, f)
	rdb.OnNewNode(func(node *redis.Client) { node.AddHook(panicking{}) })
	if err := redisstore.New(rdb).Check(t.Context()); !errors.Is(err, lock.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
}

// Where no node says where the slots are, nothing was sent.
func TestACallWithoutATopologyWasNotSent(t *testing.T) {
	for name, opts := range map[string][]redisstore.Option{
		"alone": nil, "with replicas": {redisstore.WithReplicas(1, 10*time.Millisecond)}, "without the time": {redisstore.WithoutScriptTime()},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := redis.NewClusterClient(&redis.ClusterOptions{
					ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) { return nil, errAny },
				})
				wantNotExecuted(t, answered(t, begin(t.Context(), redisstore.New(client, opts...), "k", time.Now().Add(soon))).err)
				_ = client.Close()
				time.Sleep(time.Minute) // its worker ends
			})
		})
	}
}

// Whatever is called, the slots are looked for again and again while there is no answer.
func TestTheSlotsAreLoadedWhileANodeHangs(t *testing.T) {
	for name, opts := range map[string][]redisstore.Option{
		"alone": nil, "with replicas": {redisstore.WithReplicas(1, 10*time.Millisecond)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var loads atomic.Int32
				f, _ := newFake(t, func([]string) string { return "" })
				client := redis.NewClusterClient(&redis.ClusterOptions{
					ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
						loads.Add(1)
						return []redis.ClusterSlot{{End: 16383, Nodes: []redis.ClusterNode{{Addr: "10.0.0.1:6379"}}}}, nil
					},
					Dialer: f.dial, Protocol: 2, DisableIdentity: true, DialerRetries: 1,
				})
				if _, err := client.MasterForKey(t.Context(), "k"); err != nil {
					t.Fatal(err)
				}
				before := loads.Load()
				begin(t.Context(), redisstore.New(client, opts...), "k", time.Now().Add(soon))
				time.Sleep(2800 * time.Millisecond) // less than the client's timeout
				if n := loads.Load() - before; n < 4 {
					t.Errorf("%d times in 2.8 s", n)
				}
				_ = client.Close()
				time.Sleep(time.Minute) // what reloads them once ends
			})
		})
	}
}
