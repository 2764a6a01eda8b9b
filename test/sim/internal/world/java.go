package world

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/redlatch/redlatch/test/sim/internal/judge"
)

// guest is a reader of Redisson, with a watchdog shorter than its default. Each of its renewals sets the TTL of the lock to its own
// watchdog, also downwards, and in versions up to 4.3 that of all sentinels as well. What
// it does is what Redisson's scripts do, command by command.
type guest struct {
	world    *World
	rng      *rand.Rand
	owner    string
	watchdog time.Duration
	cutsAll  bool // as up to 4.3
}

// guestKey is the lock that it reads.
const guestKey = "rw0"

func newGuest(w *World) *guest {
	rng := rand.New(rand.NewPCG(w.Seed, 6))
	return &guest{
		world: w, rng: rng, owner: fmt.Sprintf("00000000-0000-4000-8000-%012d:57", w.Seed%1e12),
		watchdog: time.Duration(15+rng.IntN(6)) * time.Second, cutsAll: rng.IntN(2) == 0,
	}
}

func (g *guest) between(least, most time.Duration) time.Duration {
	return least + time.Duration(g.rng.Int64N(int64(most-least)))
}

// run reads from time to time, and unlocks, or dies and comes back.
func (g *guest) run() {
	for g.world.ctx.Err() == nil {
		pause(g.world.ctx, g.between(100*time.Millisecond, 30*time.Second))
		if g.do("enters", g.enter) {
			g.read()
		}
	}
}

// read reads for a while.
func (g *guest) read() {
	began, until := time.Now(), time.Now().Add(g.between(100*time.Millisecond, 20*time.Second))
	g.world.journal.count("a guest reads")
	for {
		pause(g.world.ctx, min(time.Until(until), g.watchdog/3))
		over := !time.Now().Before(until)
		switch {
		case g.world.ctx.Err() != nil, over && g.rng.IntN(2) == 0: // it dies
			return
		case over:
			g.do("leaves", g.leave)
			return
		case !g.do("renews", g.renew):
			if !g.world.ledger.mayHaveLost(guestKey, began) {
				g.world.journal.report(judge.Evicted(time.Now(), guestKey, g.owner))
			}
			return
		}
	}
}

// do runs something on the server when that answers.
func (g *guest) do(what string, script func(*server) bool) bool {
	s := g.world.server
	for g.world.ctx.Err() == nil && (s.down.Load() || s.held() > 0) {
		pause(g.world.ctx, 10*time.Millisecond)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys.SetTime(s.clock())
	done := script(s)
	g.world.journal.tell("guest %-7s %s %s: %v", what, guestKey, readable([]string{g.owner}), done)
	s.lookInside()
	return done
}

func (g *guest) enter(s *server) bool {
	if s.keys.Exists(guestKey) && s.keys.Hash(guestKey)["mode"] != "read" {
		return false
	}
	s.keys.Do("hset", guestKey, "mode", "read", g.owner, "1")
	s.keys.Do("set", g.sentinel(g.owner, 1), "1", "px", ms(g.watchdog))
	g.lengthen(s)
	return true
}

// lengthen makes the lock last for the watchdog at least.
func (g *guest) lengthen(s *server) {
	if left, _ := s.keys.Do("pttl", guestKey).(int64); left < g.watchdog.Milliseconds() {
		s.keys.Do("pexpire", guestKey, ms(g.watchdog))
	}
}

func (g *guest) renew(s *server) bool {
	holders := s.keys.Hash(guestKey)
	if holders[g.owner] == "" || holders["mode"] != "read" {
		return false
	}
	s.keys.Do("pexpire", guestKey, ms(g.watchdog))
	for field, count := range holders {
		n, err := strconv.Atoi(count)
		for i := 1; err == nil && i <= n && (g.cutsAll || field == g.owner); i++ {
			s.keys.Do("pexpire", g.sentinel(field, i), ms(g.watchdog))
			if owner := ownerIn(field); owner != "" && (strings.Contains(field, keptMark) || g.world.ledger.limited(unit{guestKey, owner})) {
				g.world.ledger.outlive(owner) // it lasts for as long as the guest reads, and its watchdog
			}
		}
	}
	return true
}

func (g *guest) leave(s *server) bool {
	if s.keys.Hash(guestKey)[g.owner] == "" {
		return false
	}
	s.keys.Do("hdel", guestKey, g.owner)
	s.keys.Do("del", g.sentinel(g.owner, 1))
	longest := int64(0)
	for field, count := range s.keys.Hash(guestKey) {
		n, err := strconv.Atoi(count)
		for i := 1; err == nil && i <= n; i++ {
			left, _ := s.keys.Do("pttl", g.sentinel(field, i)).(int64)
			longest = max(longest, left)
		}
	}
	if longest > 0 {
		s.keys.Do("pexpire", guestKey, strconv.FormatInt(longest, 10))
		return true
	}
	s.keys.Do("del", guestKey)
	s.publish("redisson_rwlock:"+tag(guestKey), "0")
	return true
}

func (g *guest) sentinel(field string, n int) string { return sentinel(guestKey, field, n) }

func ms(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// mayHaveLost says whether the server may have forgotten what somebody had since then.
func (l *ledger) mayHaveLost(key string, since time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !since.After(l.amnesia) || !since.After(l.forced[key])
}
