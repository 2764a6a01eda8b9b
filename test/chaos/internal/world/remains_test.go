package world_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/redlatch/redlatch/test/chaos/internal/world"
	"github.com/redlatch/redlatch/test/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	ended  = "01234567-89ab-cdef-0123-456789abcdef"
	killed = "11234567-89ab-cdef-0123-456789abcdef"
)

// What a kill leaves is allowed, and nothing else.
func TestWhatMayBeLeft(t *testing.T) {
	server := redistest.Standalone(t)
	rdb := server.Client(t)
	crew := world.Crew{Killed: map[string]bool{ended: false, killed: true}, Longest: 10 * time.Second}
	forgetful := crew
	forgetful.Forgetful = true
	all := world.Crew{Killed: map[string]bool{ended: false}, Longest: 10 * time.Second}
	hold := func(owner string, ttl time.Duration) func(redis.Pipeliner) string {
		return func(p redis.Pipeliner) string {
			p.HSet(t.Context(), "k", owner+":7", 1)
			if ttl > 0 {
				p.PExpire(t.Context(), "k", ttl)
			}
			return "k"
		}
	}
	permits := func(p redis.Pipeliner) string {
		p.ZAdd(t.Context(), "{semaphore:0}:timeout", redis.Z{Score: 1, Member: "id"})
		p.PExpire(t.Context(), "{semaphore:0}:timeout", time.Second)
		return "{semaphore:0}:timeout"
	}
	queue := func(owner string, ttl time.Duration) func(redis.Pipeliner) string {
		return func(p redis.Pipeliner) string {
			p.RPush(t.Context(), "redisson_lock_queue:{fair:0}", owner+":7:redlatch")
			p.PExpire(t.Context(), "redisson_lock_queue:{fair:0}", ttl)
			return "redisson_lock_queue:{fair:0}"
		}
	}
	sentinel := func(p redis.Pipeliner) string {
		p.Set(t.Context(), "{rw}:"+ended+":7:rwlock_timeout:1", 1, time.Second)
		return "{rw}:" + ended + ":7:rwlock_timeout:1"
	}
	for name, test := range map[string]struct {
		crew    world.Crew
		left    func(redis.Pipeliner) string
		allowed bool
	}{
		"nothing":                                 {crew, func(redis.Pipeliner) string { return "k" }, true},
		"a hold of one that was killed":           {crew, hold(killed, time.Second), true},
		"… for ever":                              {crew, hold(killed, 0), false},
		"… for too long":                          {crew, hold(killed, time.Minute), false},
		"a hold of one that was closed":           {crew, hold(ended, time.Second), false},
		"… on servers that forget releases":       {forgetful, hold(ended, time.Second), true},
		"… for ever, on servers that forget":      {forgetful, hold(ended, 0), false},
		"a hold of nobody":                        {crew, hold("nobody", time.Second), false},
		"a hold of a stranger":                    {crew, hold("2"+killed[1:], time.Second), false},
		"a place of one that was killed":          {crew, queue(killed, 5*time.Minute), true},
		"… of which the queue stays for too long": {crew, queue(killed, time.Hour), false},
		"a place of one that was closed":          {crew, queue(ended, time.Minute), false},
		"permits when one was killed":             {crew, permits, true},
		"permits when nobody was":                 {all, permits, false},
		"a sentinel of one that was closed":       {crew, sentinel, false},
	} {
		t.Run(name, func(t *testing.T) {
			pipe := rdb.TxPipeline()
			pipe.FlushAll(t.Context())
			key := test.left(pipe)
			if _, err := pipe.Exec(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := test.crew.Check(t.Context(), rdb, key); (err == nil) != test.allowed {
				t.Errorf("got %v, allowed: %v", err, test.allowed)
			}
		})
	}
}
