package model_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
	"github.com/redlatch/redlatch/test/sim/internal/judge"
	"github.com/redlatch/redlatch/test/sim/internal/model"
)

const scripts = "../../../../core/redisstore/scripts"

// run is one script that a store sent, and what the server answered.
type run struct {
	text       string
	keys, args []string
	reply      any
	err        error
}

// tap is a hook of the client that notes the scripts.
type tap struct {
	mu    sync.Mutex        // one call after the other, so that their order is known
	texts map[string]string // by SHA-1
	runs  []run
}

func (*tap) DialHook(next redis.DialHook) redis.DialHook { return next }

func (t *tap) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		ctx, done := t.alone(ctx)
		defer done()
		err := next(ctx, cmd)
		t.note(cmd, err)
		return err
	}
}

func (t *tap) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		ctx, done := t.alone(ctx)
		defer done()
		err := next(ctx, cmds)
		for _, cmd := range cmds {
			t.note(cmd, cmd.Err())
		}
		return err
	}
}

type insideKey struct{}

// alone lets one call run at a time. What the client sends first on a new
// connection is part of the call that needs it.
func (t *tap) alone(ctx context.Context) (inside context.Context, done func()) {
	if ctx.Value(insideKey{}) != nil {
		return ctx, func() {}
	}
	t.mu.Lock()
	return context.WithValue(ctx, insideKey{}, true), t.mu.Unlock
}

func (t *tap) note(cmd redis.Cmder, err error) {
	args := make([]string, len(cmd.Args()))
	for i, arg := range cmd.Args() {
		args[i] = textOf(arg)
	}
	if len(args) < 3 || !strings.HasPrefix(strings.ToLower(args[0]), "eval") || redis.HasErrorPrefix(err, "NOSCRIPT") {
		return
	}
	text := args[1]
	if strings.EqualFold(args[0], "evalsha") {
		text = t.texts[args[1]]
	}
	t.texts[model.SHA(text)] = text
	n, _ := strconv.Atoi(args[2])
	r := run{text: text, keys: args[3 : 3+n], args: args[3+n:], err: err}
	if full, ok := cmd.(interface{ Val() any }); ok {
		r.reply = full.Val()
	}
	t.runs = append(t.runs, r)
}

func textOf(arg any) string {
	if b, ok := arg.([]byte); ok {
		return string(b)
	}
	return fmt.Sprint(arg)
}

// named finds the file that a script ends with.
func named(t *testing.T, files map[string]string, text string) string {
	t.Helper()
	best := ""
	end := strings.TrimPrefix(text, noPublish)
	for name, file := range files {
		if strings.HasSuffix(end, file) && len(file) > len(files[best]) {
			best = name
		}
	}
	if best == "" {
		t.Fatalf("no file of %s ends this script:\n%s", scripts, text)
	}
	if end != text {
		best += withoutPublish
	}
	return best
}

// noPublish begins a script for a server that refuses PUBLISH, and withoutPublish
// ends its name.
const (
	noPublish      = "local function publish() end\n"
	withoutPublish = " without publish"
)

// silent are the scripts that have such a variant.
var silent = []string{
	"release", "setnx_release", "read_release", "write_release", "semaphore_acquire", "semaphore_release", "latch_set", "latch_count_down",
	"latch_delete", "force_release",
}

func readScripts(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob(scripts + "/*.lua")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	files := make(map[string]string)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		files[strings.TrimSuffix(filepath.Base(path), ".lua")] = string(text)
	}
	return files
}

// Every script of redisstore, sent by redisstore itself for seeded claims, on a
// server and on the model: the same replies, and the same keys. What stores
// send at random, with few owners and keys, is worse than what lockers do.
func TestScriptsDoAsOnTheServer(t *testing.T) {
	p := newPair(t)
	files, met := readScripts(t), make(map[string]int)
	timeless(t, files)
	seen := &tap{texts: make(map[string]string)}
	p.rdb.AddHook(seen)
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			p.wipe(t)
			d := newDriver(p.rdb, seed)
			for range 100 {
				if err := p.rdb.ScriptFlush(t.Context()).Err(); err != nil { // so that every script comes with its text
					t.Fatal(err)
				}
				seen.runs = nil
				pause := d.step(t.Context())
				for _, r := range seen.runs {
					met[named(t, files, r.text)]++
					p.script(t, named(t, files, r.text), r)
				}
				time.Sleep(pause)
				p.keys(t)
			}
		})
	}
	if t.Failed() {
		return
	}
	for name, file := range files {
		if met[name] == 0 && !part(file) {
			t.Errorf("the script %s was never run", name)
		}
	}
	for _, name := range silent {
		if met[name+withoutPublish] == 0 {
			t.Errorf("the script %s was never run without PUBLISH", name)
		}
	}
	t.Log(met)
}

// timeless adds the variants of scripts for a server that refuses TIME inside of
// them.
func timeless(t *testing.T, files map[string]string) {
	t.Helper()
	const fence = "local now = redis.call('time')\nreturn now[1] * 1000000 + now[2]\n"
	for _, name := range []string{"acquire", "read_acquire", "write_acquire", "setnx_acquire"} {
		text, ok := strings.CutSuffix(files[name], fence)
		if !ok {
			t.Fatalf("%s doesn't end with the clock", name)
		}
		files[name+" without time"] = text + "return 1\n"
	}
}

// part says whether a file is only put in front of others: it returns nothing
// at its end.
func part(file string) bool {
	lines := strings.Split(strings.TrimSpace(file), "\n")
	return !strings.HasPrefix(lines[len(lines)-1], "return")
}

// script runs what the server has run on the model.
func (p *pair) script(t *testing.T, name string, r run) {
	t.Helper()
	p.k.SetTime(time.Now())
	want := realReply(r.reply, r.err)
	got := p.lua.Run(p.k, r.text, r.keys, r.args)
	for _, revisit := range p.lua.Revisits() {
		for _, f := range judge.Revisited(time.Now(), name, revisit.Key, revisit.Command) {
			t.Errorf("%s: %s", f.Rule, f.Detail)
		}
	}
	if fault := differs(got, want); fault != "" {
		t.Fatalf("%s %q %q: %s\nmodel  %#v\nserver %#v", name, r.keys, r.args, fault, got, want)
	}
}

// driver makes a store send scripts.
type driver struct {
	rng          *rand.Rand
	store        *redisstore.Store
	tokens       *redisstore.Store
	setnx        *redisstore.Store
	without      []*redisstore.Store // stores for servers that refuse something inside of scripts
	keys, owners []string
}

func newDriver(rdb *redis.Client, seed uint64) *driver {
	return &driver{
		rng: rand.New(rand.NewPCG(seed, 7)), store: redisstore.New(rdb),
		tokens: redisstore.New(rdb, redisstore.WithRedissonTokens()), setnx: redisstore.New(rdb, redisstore.WithSETNX()),
		without: []*redisstore.Store{
			redisstore.New(rdb, redisstore.WithoutScriptPublish()), redisstore.New(rdb, redisstore.WithoutScriptTime()),
			redisstore.New(rdb, redisstore.WithSETNX(), redisstore.WithoutScriptPublish(), redisstore.WithoutScriptTime()),
		},
		keys: []string{"k", "{k}", "l", "m"}, owners: []string{"u1:1", "u1:2", "u2:1", "u3:1"},
	}
}

// brief is a TTL that has ended when the keys are compared.
const brief = 20 * time.Millisecond

func (d *driver) key() string { return d.keys[d.rng.IntN(len(d.keys))] }

func (d *driver) claim() (c lock.Claim, pause time.Duration) {
	modes := []lock.Mode{lock.Exclusive, lock.Fair, lock.Read, lock.Write, lock.Semaphore}
	c = lock.Claim{
		Key: d.key(), Owner: d.owners[d.rng.IntN(len(d.owners))], Mode: modes[d.rng.IntN(len(modes))],
		TTL: time.Duration(100+d.rng.IntN(400)) * time.Second,
	}
	if d.rng.IntN(24) == 0 {
		c.TTL, pause = brief, 3*brief
	}
	if c.Mode == lock.Fair && d.rng.IntN(4) > 0 {
		c.Places = d.places(c.Owner)
	}
	if c.Mode == lock.Semaphore {
		c.Size = 3
		c.Permits = 1 + d.rng.IntN(3)
		if d.rng.IntN(10) == 0 {
			c.Size = 5
		}
	}
	return c, pause
}

// places are that of an owner and maybe some of others, in any order.
func (d *driver) places(owner string) []string {
	places := []string{owner}
	for _, i := range d.rng.Perm(len(d.owners)) {
		if d.owners[i] != owner && d.rng.IntN(3) == 0 {
			places = append(places, d.owners[i])
		}
	}
	d.rng.Shuffle(len(places), func(i, j int) { places[i], places[j] = places[j], places[i] })
	return places
}

// step does one thing and says how long to wait until what was brief has ended.
func (d *driver) step(ctx context.Context) (pause time.Duration) {
	c, pause := d.claim()
	key := d.key()
	using := d.store
	switch n := d.rng.IntN(6); {
	case c.Mode == lock.Exclusive && n == 0:
		using = d.setnx
	case n > 2:
		using = d.without[n-3]
	}
	store, latch := lock.Blocking(using), redisstore.NewLatch(using, key)
	switch n := d.rng.IntN(100); {
	case n < 45:
		_, _ = store.Acquire(ctx, c)
	case n < 58:
		if d.rng.IntN(3) == 0 {
			c.Keep = time.Now().Add(c.TTL)
		}
		_ = store.Release(ctx, c)
	case n < 62:
		c.Mode, c.Places, c.Permits, c.Size = lock.Read, nil, 0, 0
		_ = store.Lower(ctx, c)
	case n < 75:
		other, more := d.claim()
		store.Renew(ctx, []lock.Claim{c, other}, func(int, error) {})
		return max(pause, more)
	case n < 79:
		_, _ = store.ForceRelease(ctx, key)
	case n < 83:
		_, _ = store.Inspect(ctx, key)
	case n < 90:
		c.Mode, c.Places, c.Permits, c.Size = lock.Exclusive, nil, 0, 0
		_, _ = lock.Blocking(d.tokens).Acquire(ctx, c)
	case n < 92:
		_ = latch.TrySet(ctx, 1+d.rng.IntN(2))
	case n < 95:
		_ = latch.CountDown(ctx)
	case n < 97:
		_, _ = latch.Count(ctx)
	default:
		_ = latch.Delete(ctx)
	}
	return pause
}
