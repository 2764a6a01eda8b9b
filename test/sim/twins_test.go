package sim_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/core/redisstore"
	"github.com/redlatch/redlatch/test/sim/internal/model"
)

// The store in memory and the scripts have one contract. Calls of a few owners for one
// key, in any order and however late, must have the same results in both, and leave the
// same behind.
func TestTheStoreInMemoryAnswersAsTheScriptsDo(t *testing.T) {
	for seed := range uint64(75 * defaultSeeds) {
		synctest.Test(t, func(t *testing.T) { newTwins(t, seed).run() })
		if t.Failed() {
			return
		}
	}
}

// instant is a client whose commands take no time, and run on the model of a server.
type instant struct {
	mu      sync.Mutex
	keys    *model.Keyspace
	scripts *model.Interpreter
}

func (i *instant) DialHook(next redis.DialHook) redis.DialHook { return next }

func (i *instant) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error { return i.process(cmd) }
}

func (i *instant) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(_ context.Context, cmds []redis.Cmder) (failed error) {
		for _, cmd := range cmds {
			failed = errors.Join(failed, i.process(cmd))
		}
		return failed
	}
}

func (i *instant) process(cmd redis.Cmder) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys.SetTime(time.Now())
	args := make([]string, len(cmd.Args()))
	for n, arg := range cmd.Args() {
		if b, binary := arg.([]byte); binary {
			arg = string(b)
		}
		args[n] = fmt.Sprint(arg)
	}
	reply := i.reply(args)
	if failed, ok := reply.(model.Error); ok {
		cmd.SetErr(refusal(failed))
		return cmd.Err()
	}
	cmd.(interface{ SetVal(any) }).SetVal(valueOf(reply))
	return nil
}

// refusal is an error that a server answers.
type refusal string

func (r refusal) Error() string { return string(r) }

// RedisError is what the client knows them by.
func (refusal) RedisError() {}

func (i *instant) reply(args []string) model.Reply {
	text := args[1]
	switch args[0] {
	case "eval":
		i.scripts.Load(text)
	case "evalsha":
		known := false
		if text, known = i.scripts.Text(args[1]); !known {
			return model.ErrNoScript
		}
	default:
		return i.keys.Do(args...)
	}
	keys, err := strconv.Atoi(args[2])
	if err != nil {
		return model.Error("ERR " + err.Error())
	}
	return i.scripts.Run(i.keys, text, args[3:3+keys], args[3+keys:])
}

func valueOf(r model.Reply) any {
	elements, ok := r.([]model.Reply)
	if !ok {
		return r
	}
	values := make([]any, len(elements))
	for i, element := range elements {
		values[i] = valueOf(element)
	}
	return values
}

// twins are the two stores, and what was called.
type twins struct {
	*testing.T
	seed   uint64
	dice   *rand.Rand
	modes  []lock.Mode
	memory lock.BlockingStore
	redis  lock.BlockingStore
	calls  []string
	kept   [4]int // releases of an owner under a minimum: it comes back as another one
}

// modesAtOnce are used side by side.
var modesAtOnce = [][]lock.Mode{
	{lock.Exclusive},
	{lock.Read, lock.Write},
	{lock.Semaphore},
	{lock.Exclusive, lock.Read, lock.Write},
	{lock.Exclusive, lock.Semaphore},
	{lock.Read, lock.Write, lock.Semaphore},
}

func newTwins(t *testing.T, seed uint64) *twins {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379", Protocol: 2, DisableIdentity: true})
	server := &instant{keys: model.New(rand.New(rand.NewPCG(seed, 1))), scripts: model.NewInterpreter()}
	server.keys.Publish = func(string, string) int64 { return 0 }
	client.AddHook(server)
	t.Cleanup(func() {
		server.scripts.Close()
		_ = client.Close()
		time.Sleep(time.Minute) // the store's workers end
	})
	return &twins{
		T: t, seed: seed, dice: rand.New(rand.NewPCG(seed, 0)), modes: modesAtOnce[seed%uint64(len(modesAtOnce))],
		memory: lock.Blocking(memstore.New()),
		redis:  lock.Blocking(redisstore.New(client, redisstore.WithPolling(), redisstore.WithLogger(slog.New(slog.DiscardHandler)))),
	}
}

func (w *twins) run() {
	for range 30 {
		if w.call(); w.Failed() {
			return
		}
		pause := time.Duration(w.dice.IntN(4)) * 310 * time.Millisecond
		if w.dice.IntN(20) == 0 {
			pause = 61 * time.Second
		}
		time.Sleep(pause) // never the very moment in which something ends
	}
}

// claim is one of an owner, of which each of two lockers has two.
func (w *twins) claim(owner int) lock.Claim {
	born := w.kept[owner]
	c := lock.Claim{Key: "k", Mode: w.modes[w.dice.IntN(len(w.modes))], TTL: time.Minute}
	if w.dice.IntN(3) == 0 && c.Mode != lock.Write { // as minimum
		c.TTL = 700 * time.Millisecond
	}
	switch c.Mode { // an owner has one id for reading and writing, and another for anything else
	case lock.Semaphore:
		c.Permits, c.Size = 1+owner%2, 3
		owner += 10
	case lock.Exclusive:
		owner += 20
	}
	c.Owner = fmt.Sprintf("0000000%d-0000-8000-8000-%012d:%d", owner%2, born, owner)
	return c
}

// minimum is that of a hold.
func (w *twins) minimum(m lock.Mode) time.Duration {
	if m != lock.Read && w.dice.IntN(3) == 0 {
		return 2 * time.Minute
	}
	return time.Duration(1+w.dice.IntN(2)) * 500 * time.Millisecond
}

// call calls both stores.
func (w *twins) call() {
	owner := w.dice.IntN(len(w.kept))
	ctx, c := w.Context(), w.claim(owner)
	var what string
	var memory, scripts error
	switch op := w.dice.IntN(20); {
	case op < 9:
		what = "acquire"
		_, memory = w.memory.Acquire(ctx, c)
		_, scripts = w.redis.Acquire(ctx, c)
	case op < 12:
		what = "renew"
		w.memory.Renew(ctx, []lock.Claim{c}, func(_ int, err error) { memory = err })
		w.redis.Renew(ctx, []lock.Claim{c}, func(_ int, err error) { scripts = err })
	case op < 14 && (c.Mode == lock.Read || c.Mode == lock.Write):
		c.Mode, what = lock.Read, "lower"
		memory, scripts = w.memory.Lower(ctx, c), w.redis.Lower(ctx, c)
	case op < 19:
		if w.dice.IntN(4) == 0 {
			c.Keep = time.Now().Add(w.minimum(c.Mode))
			w.kept[owner]++
		}
		what = fmt.Sprintf("release, kept for %v", max(0, time.Until(c.Keep)))
		memory, scripts = w.memory.Release(ctx, c), w.redis.Release(ctx, c)
	default:
		what = "force"
		freed, err := w.memory.ForceRelease(ctx, c.Key)
		memory = errors.Join(err, fmt.Errorf("freed %v", freed))
		freed, err = w.redis.ForceRelease(ctx, c.Key)
		scripts = errors.Join(err, fmt.Errorf("freed %v", freed))
	}
	w.calls = append(w.calls, fmt.Sprintf("%s, %s by %s for %v: %v", what, c.Mode, c.Owner[len(c.Owner)-2:], c.TTL, scripts))
	if a, b := class(memory), class(scripts); a != b {
		w.fail("the results are %q in memory and %q by the scripts", a, b)
	}
	w.compare()
}

// compare compares what the stores have.
func (w *twins) compare() {
	memory, err := w.memory.Inspect(w.Context(), "k")
	scripts, failed := w.redis.Inspect(w.Context(), "k")
	if err != nil || failed != nil {
		w.fail("inspected with %v and %v", err, failed)
	}
	if a, b := show(memory), show(scripts); a != b {
		w.fail("left is %s in memory and %s by the scripts", a, b)
	}
}

func (w *twins) fail(format string, args ...any) {
	w.Helper()
	if !w.Failed() {
		w.Errorf("seed %d, modes %v: %s, after\n%s", w.seed, w.modes, fmt.Sprintf(format, args...), strings.Join(w.calls, "\n"))
	}
}

// class is what callers make of an error.
func class(err error) string {
	for _, decision := range []error{lock.ErrBusy, lock.ErrNotHeld, lock.ErrInvalid} {
		if errors.Is(err, decision) {
			return decision.Error()
		}
	}
	return fmt.Sprint(err)
}

// show is who has the key. Permits have names of the store.
func show(s lock.State) string {
	if !s.Held {
		return "nothing"
	}
	holds := make(map[string]int)
	for _, o := range s.Owners {
		owner := o.Owner[strings.LastIndexByte(o.Owner, ':')+1:]
		if s.Mode == lock.Semaphore {
			owner = "permits"
		}
		holds[fmt.Sprintf("%s, kept: %v", owner, o.Kept)] += o.Holds
	}
	var all []string
	for owner, n := range holds {
		all = append(all, fmt.Sprintf("%s: %d", owner, n))
	}
	slices.Sort(all)
	return fmt.Sprintf("%s of %s", s.Mode, all)
}
