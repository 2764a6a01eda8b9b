package readme_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
	"github.com/redlatch/redlatch/ginlock"
	"github.com/redlatch/redlatch/test/internal/redistest"
)

// storeThatKeepsNames is for rules whose keys old code makes by concatenation.
func storeThatKeepsNames(rdb *redis.Client) *redisstore.Store {
	store := redisstore.New(rdb, redisstore.WithSETNX(), redisstore.WithNameMapper(func(key string) string {
		if name, err := url.PathUnescape(key); err == nil {
			return name
		}
		return key
	}))
	return store
}

// moveRoute gives a route its lock that its handler took by hand.
func moveRoute(rdb *redis.Client, r *gin.Engine) *lock.Locker {
	store := redisstore.New(rdb, redisstore.WithSETNX())
	locker := lock.New(store, lock.WithPoll(100*time.Millisecond)) // while old processes run
	g := guard.Must(guard.New(locker))
	r.POST("/vouchers/:id/orders", ginlock.New(g, "lock:order:<userId>"), createOrder)
	return locker
}

// byHand is what old code calls, and what it names the lock of a user.
func byHand(t *testing.T, rdb *redis.Client, user string) (granted bool) {
	t.Helper()
	err := rdb.SetArgs(t.Context(), "lock:order:"+user, "a token", redis.SetArgs{Mode: "NX", TTL: time.Minute}).Err()
	if err != nil && !errors.Is(err, redis.Nil) {
		t.Fatal(err)
	}
	return err == nil
}

// closing ends a locker with its test.
func closing(t *testing.T, locker *lock.Locker) {
	t.Helper()
	t.Cleanup(func() {
		if err := locker.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

func TestARouteAndSETNXByHandExcludeEachOther(t *testing.T) {
	rdb := redistest.Standalone(t).Client(t)
	r := gin.New()
	r.Use(gin.Recovery(), authenticate) // as 42
	closing(t, moveRoute(rdb, r))
	if !byHand(t, rdb, "42") {
		t.Fatal("the key is taken")
	}
	if w := guardtest.Send(r, http.MethodPost, "/vouchers/7/orders", ""); w.Code != http.StatusConflict {
		t.Errorf("while old code has the lock: %d %s", w.Code, w.Body)
	}
	if err := rdb.Del(t.Context(), "lock:order:42").Err(); err != nil {
		t.Fatal(err)
	}
	if w := guardtest.Send(r, http.MethodPost, "/vouchers/7/orders", ""); w.Code != http.StatusCreated {
		t.Errorf("after that: %d %s", w.Code, w.Body)
	}
}

// A template encodes values, which old code doesn't: the page says how both name one
// lock all the same.
func TestRulesKeepTheNamesOfOldCode(t *testing.T) {
	rdb := redistest.Standalone(t).Client(t)
	locker := lock.New(storeThatKeepsNames(rdb))
	closing(t, locker)
	g := guard.Must(guard.New(locker))
	for _, user := range []string{"42", "a@b.c", "a b", "50%", "张三", "{7}", "a/b+c"} {
		t.Run(user, func(t *testing.T) {
			r := gin.New()
			r.Use(func(c *gin.Context) { c.Set("userId", user) })
			r.POST("/orders", ginlock.New(g, "lock:order:<userId>"), func(c *gin.Context) {
				if byHand(t, rdb, user) {
					t.Error("old code gets the lock of a request that is under way")
				}
				c.Status(http.StatusCreated)
			})
			if w := guardtest.Send(r, http.MethodPost, "/orders", ""); w.Code != http.StatusCreated {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
			if !byHand(t, rdb, user) {
				t.Fatal("the lock is still held")
			}
			if w := guardtest.Send(r, http.MethodPost, "/orders", ""); w.Code != http.StatusConflict {
				t.Errorf("while old code has the lock: %d %s", w.Code, w.Body)
			}
		})
	}
}
