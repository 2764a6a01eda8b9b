package redisstore_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
)

// FuzzClaims: whatever a claim holds, it is refused before anything is sent, or
// each number that a script gets is one that it counts exactly and Redis takes
// for a TTL.
func FuzzClaims(f *testing.F) {
	for _, d := range []int64{0, 1, -1, int64(time.Second), math.MaxInt64, math.MinInt64, math.MaxInt64 - int64(time.Millisecond), int64(366 * 24 * time.Hour)} {
		f.Add("k", "o:1", uint8(0), d, []byte("o:1 o:2"), 1, 1)
		f.Add("k", "o:1", uint8(4), int64(time.Minute), []byte{}, int(d), int(d))
		f.Add("k", "o:1", uint8(1), int64(time.Minute), []byte("o:1"), 1, 1)
		f.Add("{k}", "mode", uint8(1), int64(time.Minute), []byte("a b c"), math.MaxInt, math.MaxInt)
	}
	sent := &recorded{}
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:0"})
	rdb.AddHook(sent)
	f.Cleanup(func() { _ = rdb.Close() })
	store := redisstore.New(rdb, redisstore.WithPublish(redisstore.Plain))

	f.Fuzz(func(t *testing.T, key, owner string, mode uint8, ttl int64, places []byte, permits, size int) {
		c := lock.Claim{
			Key: key, Owner: owner, Mode: lock.Mode(mode), TTL: time.Duration(ttl), Places: strings.Fields(string(places)),
			Permits: permits, Size: size,
		}
		sent.check(t, "acquire", func() error { _, err := lock.Blocking(store).Acquire(t.Context(), c); return err })
		sent.check(t, "renew", func() (failed error) {
			store.Renew(t.Context(), []lock.Claim{c}, func(_ int, err error) { failed = err })
			return failed
		})
		sent.check(t, "release", func() error { return lock.Blocking(store).Release(t.Context(), c) })
		sent.check(t, "lower", func() error { return lock.Blocking(store).Lower(t.Context(), c) })
	})
}

var errRecorded = errors.New("recorded, not sent")

// recorded keeps the arguments of the last call, and fails it.
type recorded struct{ args []any }

func (r *recorded) check(t *testing.T, op string, call func() error) {
	t.Helper()
	r.args = nil
	err := call()
	if !errors.Is(err, errRecorded) {
		if len(r.args) > 0 || !errors.Is(err, lock.ErrInvalid) && !errors.Is(err, lock.ErrUnsupported) {
			t.Errorf("%s: %v, after %v was sent", op, err, r.args)
		}
		return
	}
	numbers := 0
	for _, arg := range r.args {
		var n int64
		switch arg := arg.(type) {
		case int:
			n = int64(arg)
		case int64:
			n = arg
		default:
			continue
		}
		numbers++
		if n < 0 || n >= 1<<53 {
			t.Errorf("%s: sends the number %d", op, n)
		}
	}
	if numbers == 0 {
		t.Errorf("%s: sends no number at all: %v", op, r.args)
	}
}

func (*recorded) DialHook(next redis.DialHook) redis.DialHook { return next }

func (r *recorded) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error {
		r.args = cmd.Args()
		return errRecorded
	}
}

func (r *recorded) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(_ context.Context, cmds []redis.Cmder) error {
		r.args = cmds[0].Args()
		cmds[0].SetErr(errRecorded)
		return errRecorded
	}
}
