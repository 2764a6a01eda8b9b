package integration_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/quorum"
	"github.com/redlatch/redlatch/core/redisstore"
	"github.com/redlatch/redlatch/core/storetest"
	"github.com/redlatch/redlatch/test/internal/faultproxy"
	"github.com/redlatch/redlatch/test/internal/redistest"
)

func setnxStore(rdb redis.UniversalClient, opts ...redisstore.Option) *redisstore.Store {
	return redisstore.New(rdb, append(opts, redisstore.WithSETNX())...)
}

func TestTheSETNXFormatKeepsTheContract(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) lock.Store{
		"standalone": func(t *testing.T) lock.Store {
			t.Helper()
			return setnxStore(redistest.Standalone(t).Client(t))
		},
		"cluster": func(t *testing.T) lock.Store {
			t.Helper()
			return setnxStore(redistest.Cluster(t).Client(t))
		},
		"with replicas": func(t *testing.T) lock.Store {
			t.Helper()
			server := redistest.Standalone(t)
			_, _ = follow(t, server)
			return setnxStore(server.Client(t), redisstore.WithReplicas(1, 2*time.Second))
		},
		"quorum": func(t *testing.T) lock.Store {
			t.Helper()
			var nodes []lock.Store
			for _, server := range redistest.Independent(t, 3) {
				nodes = append(nodes, setnxStore(server.Client(t)))
			}
			store, err := quorum.New(nodes...)
			if err != nil {
				t.Fatal(err)
			}
			store.SetNodeTimeout(2 * time.Second) // nobody is down; the machine is busy
			t.Cleanup(func() {
				if err := store.Close(context.Background()); err != nil {
					t.Error(err)
				}
			})
			return store
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // most of the time nothing happens
			store := open(t)
			storetest.Run(t, func(*testing.T) lock.Store { return store })
		})
	}
}

// wantToken says that a key has what SET key token PX has written, and that
// there is no other key.
func wantToken(t *testing.T, rdb *redis.Client, key, token string) {
	t.Helper()
	if got := rdb.Get(t.Context(), key).Val(); got != token {
		t.Errorf("%s is %q, want %q", key, got, token)
	}
	if ttl := rdb.PTTL(t.Context(), key).Val(); ttl <= 0 || ttl > lease {
		t.Errorf("%s expires in %v, want at most %v", key, ttl, lease)
	}
	wantNothingElse(t, rdb, 1)
}

func TestTheGoldenStatesOfASETNXLock(t *testing.T) {
	server := redistest.Standalone(t)
	rdb := server.Admin(t)
	store := setnxStore(server.Client(t), redisstore.WithKeyPrefix("jobs:"))
	c := claimOf(ownerA, "k")
	grant := func() uint64 {
		t.Helper()
		fence, err := lock.Blocking(store).Acquire(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		wantToken(t, rdb, "jobs:k", ownerA)
		return fence
	}
	release := func(want error) {
		t.Helper()
		if err := lock.Blocking(store).Release(t.Context(), c); !errors.Is(err, want) {
			t.Errorf("release: %v, want %v", err, want)
		}
	}
	if first, again := grant(), grant(); again < first {
		t.Errorf("fence %d after %d", again, first)
	}
	messages := subscribe(t, rdb, "redisson_lock__channel:{jobs:k}")
	release(nil)
	wantMessage(t, messages, "redisson_lock__channel:{jobs:k}", "0")
	wantNothingElse(t, rdb, 0)
	release(lock.ErrNotHeld)
}

func TestTheSETNXFormatIsForExclusiveLocks(t *testing.T) {
	server := redistest.Standalone(t)
	l := lockerOn(t, setnxStore(server.Client(t)))
	for _, opt := range []lock.Option{
		lock.WithMode(lock.Fair), lock.WithMode(lock.Read), lock.WithMode(lock.Write), lock.WithPermits(1, 2),
	} {
		_, err := l.TryAcquire(t.Context(), "k", opt)
		if !errors.Is(err, lock.ErrUnsupported) || !strings.Contains(fmt.Sprint(err), "WithSETNX") {
			t.Errorf("got %v, want ErrUnsupported by WithSETNX", err)
		}
	}
	all, err := lock.AcquireAll(t.Context(), l.Request("a"), l.Request("b"))
	if err != nil {
		t.Fatal(err)
	}
	if err := all.Release(t.Context()); err != nil {
		t.Error(err)
	}
	defer func() {
		if recover() == nil {
			t.Error("WithSETNX and WithRedissonTokens go together")
		}
	}()
	redisstore.New(server.Client(t), redisstore.WithSETNX(), redisstore.WithRedissonTokens())
}

// A call whose reply is lost is repeated: the repetition finds its own token.
func TestALostReplyIsNoErrorInTheSETNXFormat(t *testing.T) {
	server := redistest.Standalone(t)
	proxy := faultproxy.New(t, server.Addr())
	rdb := newClient(t, &redis.Options{Addr: proxy.Addr()})
	plain := server.Admin(t)
	l := lockerOn(t, setnxStore(rdb), lock.WithWatchdog(3*time.Second))
	release(t, acquire(t, l, "warm-up")) // the server knows the scripts now

	cut := proxy.CutReplyWhen(faultproxy.Contains("evalsha", "k"), 1)
	lease := acquire(t, l, "k")
	wantHit(t, cut)
	wantToken(t, plain, "k", lease.Owner())

	cut = proxy.CutReplyWhen(faultproxy.Contains("evalsha", "redisson_lock__channel:{k}"), 1)
	release(t, lease)
	wantHit(t, cut)
	wantFree(t, plain, "k")
}

// Either format finds the lock of the other one.
var otherFormats = []struct {
	name        string
	ours        func(redis.UniversalClient, ...redisstore.Option) *redisstore.Store
	modes       []lock.Mode
	take        func(ctx context.Context, rdb redis.UniversalClient, key string, ttl time.Duration) error
	owner       string
	endlessBusy bool // a key of the other format without an expiry is a lock
}{
	{
		"a string to the hash format", redisstore.New, everyMode,
		func(ctx context.Context, rdb redis.UniversalClient, key string, ttl time.Duration) error {
			return rdb.Set(ctx, key, "3q2+7w==", ttl).Err()
		},
		"3q2+7w==", false,
	},
	{
		"a string of digits to the hash format", redisstore.New, everyMode,
		func(ctx context.Context, rdb redis.UniversalClient, key string, ttl time.Duration) error {
			return rdb.Set(ctx, key, "1763812800000", ttl).Err()
		},
		"1763812800000", false,
	},
	{
		"a string like a number to the hash format", redisstore.New, everyMode,
		func(ctx context.Context, rdb redis.UniversalClient, key string, ttl time.Duration) error {
			return rdb.Set(ctx, key, "0x1e5", ttl).Err()
		},
		"0x1e5", false,
	},
	{
		"a hash to the SETNX format", setnxStore,
		[]lock.Mode{lock.Exclusive},
		func(ctx context.Context, rdb redis.UniversalClient, key string, ttl time.Duration) error {
			err := rdb.HSet(ctx, key, ownerB, 1).Err()
			if ttl > 0 {
				err = errors.Join(err, rdb.PExpire(ctx, key, ttl).Err())
			}
			return err
		},
		ownerB, true,
	},
}

func TestALockOfTheOtherFormatIsBusy(t *testing.T) {
	server := redistest.Standalone(t)
	rdb := server.Admin(t)
	for _, other := range otherFormats {
		store := other.ours(server.Client(t))
		for _, mode := range other.modes {
			t.Run(other.name+", "+mode.String(), func(t *testing.T) {
				key := other.name + mode.String()
				c := claimIn(mode, ownerA, key)
				if err := other.take(t.Context(), rdb, key, lease); err != nil {
					t.Fatal(err)
				}
				_, err := lock.Blocking(store).Acquire(t.Context(), c)
				var busy *lock.BusyError
				if !errors.As(err, &busy) || busy.TTL <= 0 || busy.TTL > lease {
					t.Errorf("acquire: %v, want busy for %v at most", err, lease)
				}
				if err := lock.Blocking(store).Release(t.Context(), c); !errors.Is(err, lock.ErrNotHeld) {
					t.Errorf("release: %v, want ErrNotHeld", err)
				}
				store.Renew(t.Context(), []lock.Claim{c}, func(_ int, err error) {
					if !errors.Is(err, lock.ErrNotHeld) {
						t.Errorf("renew: %v, want ErrNotHeld", err)
					}
				})
				state, err := store.Inspect(t.Context(), key)
				if err != nil || !state.Held || !state.Foreign || state.TTL <= 0 || len(state.Owners) != 1 || state.Owners[0].Owner != other.owner {
					t.Errorf("inspect: %+v, %v", state, err)
				}
				if freed, err := store.ForceRelease(t.Context(), key); err != nil || !freed {
					t.Errorf("force release: %v, %v", freed, err)
				}
				wantFree(t, rdb, key)
				if _, err := lock.Blocking(store).Acquire(t.Context(), c); err != nil {
					t.Errorf("acquire of the free key: %v", err)
				}
				if state, err := store.Inspect(t.Context(), key); err != nil || !state.Held || state.Foreign {
					t.Errorf("inspect of the own lock: %+v, %v", state, err)
				}
			})
		}
	}
}

// Only what is under the lock's own name says how long it lasts.
func TestASideKeyOfAnotherTypeIsNotLookedAtWithoutAPause(t *testing.T) {
	server := redistest.Standalone(t)
	rdb := server.Admin(t)
	for mode, side := range map[lock.Mode]string{lock.Semaphore: "{k}:timeout", lock.Fair: "redisson_lock_queue:{k}"} {
		if err := rdb.Set(t.Context(), side, "foreign", time.Hour).Err(); err != nil {
			t.Fatal(err)
		}
		_, err := lock.Blocking(redisstore.New(server.Client(t))).Acquire(t.Context(), claimIn(mode, ownerA, "k"))
		var busy *lock.BusyError
		if !errors.Is(err, lock.ErrInvalid) && (!errors.As(err, &busy) || busy.TTL < 100*time.Millisecond) {
			t.Errorf("%s: %v, want ErrInvalid, or busy for a while", mode, err)
		}
	}
}

func TestAWaiterOutlivesALockOfTheOtherFormat(t *testing.T) {
	server := redistest.Standalone(t)
	rdb := server.Admin(t)
	for _, other := range otherFormats {
		t.Run(other.name, func(t *testing.T) {
			t.Parallel() // most of the time nothing happens
			l := lockerOn(t, other.ours(server.Client(t)), lock.WithPoll(50*time.Millisecond))
			if err := other.take(t.Context(), rdb, other.name, short); err != nil {
				t.Fatal(err)
			}
			if _, err := l.TryAcquire(t.Context(), other.name); !errors.Is(err, lock.ErrBusy) || errors.Is(err, lock.ErrUnavailable) {
				t.Errorf("at once: %v, want ErrBusy", err)
			}
			release(t, acquire(t, l, other.name)) // it expired
			if err := other.take(t.Context(), rdb, other.name, time.Hour); err != nil {
				t.Fatal(err)
			}
			time.AfterFunc(100*time.Millisecond, func() { rdb.Del(context.Background(), other.name) })
			release(t, acquire(t, l, other.name)) // it was deleted, without a message
		})
	}
}

// What never expires may be data.
func TestAKeyOfTheOtherFormatThatNeverExpires(t *testing.T) {
	server := redistest.Standalone(t)
	rdb := server.Admin(t)
	for _, other := range otherFormats {
		t.Run(other.name, func(t *testing.T) {
			if err := other.take(t.Context(), rdb, other.name, 0); err != nil {
				t.Fatal(err)
			}
			_, err := lock.Blocking(other.ours(server.Client(t))).Acquire(t.Context(), claimOf(ownerA, other.name))
			want := lock.ErrInvalid
			if other.endlessBusy {
				want = lock.ErrBusy
			}
			if !errors.Is(err, want) {
				t.Errorf("got %v, want %v", err, want)
			}
		})
	}
}

// A token that came since the look stays, however much it looks like a number.
func TestALateForcedReleaseSparesANewToken(t *testing.T) {
	for _, format := range []func(redis.UniversalClient, ...redisstore.Option) *redisstore.Store{setnxStore, redisstore.New} {
		for _, next := range []string{"3q2+7w==", "17"} {
			server := redistest.Standalone(t)
			admin := server.Admin(t)
			rdb := newClient(t, server.Client(t).Options())
			admin.Set(t.Context(), "k", "its token", time.Minute)
			rdb.AddHook(before{"redisson_sc:{k}", func() { admin.Set(context.Background(), "k", next, time.Minute) }})
			if freed, err := format(rdb).ForceRelease(t.Context(), "k"); err != nil || freed {
				t.Errorf("got %v, %v; want that there was nothing left to free", freed, err)
			}
			if got := admin.Get(t.Context(), "k").Val(); got != next {
				t.Errorf("the key has %q, want %q", got, next)
			}
		}
	}
}

// A key that is held is busy, whatever else the server can't do; only a free one is not granted.
func TestAHeldTokenIsBusyWhenMemoryIsFull(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	admin := server.Admin(t)
	store := setnxStore(server.Client(t))
	claim := func(owner string) lock.Claim {
		return lock.Claim{Key: "k", Owner: owner, Mode: lock.Exclusive, TTL: time.Minute}
	}
	if _, err := lock.Blocking(store).Acquire(t.Context(), claim("a")); err != nil {
		t.Fatal(err)
	}
	admin.ConfigSet(t.Context(), "maxmemory", "1")
	if _, err := lock.Blocking(store).Acquire(t.Context(), claim("b")); !errors.Is(err, lock.ErrBusy) {
		t.Errorf("held: got %v, want ErrBusy", err)
	}
	if _, err := lock.Blocking(store).Acquire(t.Context(), claim("a")); err != nil {
		t.Errorf("a repetition: %v", err)
	}
	if err := lock.Blocking(store).Release(t.Context(), claim("a")); err != nil {
		t.Error(err)
	}
	free := claim("b")
	free.Key = "free"
	if _, err := lock.Blocking(store).Acquire(t.Context(), free); errors.Is(err, lock.ErrBusy) || lock.ClassOf(err) != "OOM" {
		t.Errorf("free: got %v, want OOM", err)
	}
}

// Somebody's token may be what a hash has for a field.
func TestAForcedReleaseFreesATokenOfAnyText(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	admin := server.Admin(t)
	for name, store := range map[string]*redisstore.Store{"tokens": setnxStore(server.Client(t)), "hashes": redisstore.New(server.Client(t))} {
		for _, token := range []string{"mode", "mode:write", "k:write", "0x", "token"} {
			admin.Set(t.Context(), "k", token, time.Minute)
			if freed, err := store.ForceRelease(t.Context(), "k"); err != nil || !freed || admin.Exists(t.Context(), "k").Val() != 0 {
				t.Errorf("%s, token %q: freed %v, %v", name, token, freed, err)
			}
		}
	}
}

// Elsewhere the client would take a server that was demoted for the master.
func TestAReplicaThatHasATokenDoesNotCallItBusy(t *testing.T) {
	t.Parallel()
	master := redistest.Standalone(t)
	admin := master.Admin(t)
	admin.Set(t.Context(), "k", "its token", time.Minute)
	_, replica := follow(t, master)
	claim := lock.Claim{Key: "k", Owner: "a", Mode: lock.Exclusive, TTL: time.Minute}
	if _, err := lock.Blocking(setnxStore(replica.Client(t))).Acquire(t.Context(), claim); errors.Is(err, lock.ErrBusy) || lock.ClassOf(err) != "READONLY" {
		t.Errorf("got %v, want READONLY", err)
	}
}
