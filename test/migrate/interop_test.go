package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
	"github.com/redlatch/redlatch/test/internal/redistest"
)

var errRefused = errors.New("refused")

// held is a lock that another library has, or had.
type held interface {
	release(ctx context.Context) error
	extend(ctx context.Context) error
}

// take tries once to take a lock: errRefused if it is held.
type take func(ctx context.Context, rdb *redis.Client, key string) (held, error)

type redsyncHeld struct{ *redsync.Mutex }

func takeByRedsync(ctx context.Context, rdb *redis.Client, key string) (held, error) {
	m := redsync.New(goredis.NewPool(rdb)).NewMutex(key, redsync.WithExpiry(time.Minute))
	err := m.TryLockContext(ctx)
	var taken *redsync.ErrTaken
	if errors.As(err, &taken) {
		err = errRefused
	}
	return redsyncHeld{m}, err
}

func (h redsyncHeld) release(ctx context.Context) error { return did(h.UnlockContext(ctx)) }
func (h redsyncHeld) extend(ctx context.Context) error  { return did(h.ExtendContext(ctx)) }

func did(ok bool, err error) error {
	if err == nil && !ok {
		return errors.New("it did not")
	}
	return err
}

type redislockHeld struct{ *redislock.Lock }

func takeByRedislock(ctx context.Context, rdb *redis.Client, key string) (held, error) {
	l, err := redislock.Obtain(ctx, rdb, key, time.Minute, nil)
	if errors.Is(err, redislock.ErrNotObtained) {
		err = errRefused
	}
	return redislockHeld{l}, err
}

func (h redislockHeld) release(ctx context.Context) error { return h.Release(ctx) }
func (h redislockHeld) extend(ctx context.Context) error  { return h.Refresh(ctx, time.Minute, nil) }

type handHeld struct {
	rdb        *redis.Client
	key, token string
}

func takeByHand(ctx context.Context, rdb *redis.Client, key string) (held, error) {
	h := handHeld{rdb, key, "by hand"}
	err := rdb.SetArgs(ctx, key, h.token, redis.SetArgs{Mode: "NX", TTL: time.Minute}).Err()
	if errors.Is(err, redis.Nil) {
		err = errRefused
	}
	return h, err
}

func (h handHeld) release(ctx context.Context) error {
	n, err := compareAndDelete.Run(ctx, h.rdb, []string{h.key}, h.token).Int()
	return did(n == 1, err)
}

func (h handHeld) extend(ctx context.Context) error {
	n, err := h.rdb.Eval(ctx, `return redis.call('get', KEYS[1]) == ARGV[1] and redis.call('pexpire', KEYS[1], 60000) or 0`,
		[]string{h.key}, h.token).Int()
	return did(n == 1, err)
}

// foreignHeld is a lock of a library that isn't in Go.
type foreignHeld struct {
	*foreign
	key string
}

// foreign is a process with such a library, which does what lines say.
type foreign struct {
	kind
	extension string // what the library calls it
	mu        sync.Mutex
	in        io.Writer
	out       *bufio.Scanner
}

const pythonServer = `
import redis, sys
host, port = sys.argv[1].rsplit(":", 1)
client, locks = redis.Redis(host=host, port=int(port)), {}
for line in sys.stdin:
    what, key = line.rstrip("\n").split("\t")
    try:
        if what == "take":
            locks[key] = client.lock(key, timeout=60)
            said = "ok" if locks[key].acquire(blocking=False) else "refused"
        else:
            getattr(locks[key], what)()
            said = "ok"
    except Exception as fault:
        said = repr(fault)
    print(said, flush=True)
`

const nodeServer = `
const Redis = require("ioredis"), Redlock = require("redlock");
const [host, port] = process.argv[1].split(":");
const client = new Redis({ host, port: Number(port) });
const redlock = new Redlock([client], { retryCount: 0 }), locks = {};
async function answer(what, key) {
  try {
    if (what === "take") {
      locks[key] = await redlock.lock(key, 60000);
    } else if (what === "extend") {
      locks[key] = await locks[key].extend(60000);
    } else {
      await locks[key].unlock();
    }
    return "ok";
  } catch (fault) {
    return what === "take" && fault instanceof Redlock.LockError ? "refused" : String(fault);
  }
}
(async () => {
  for await (const line of require("readline").createInterface({ input: process.stdin })) {
    console.log(await answer(...line.split("\t")));
  }
  client.disconnect();
})();
`

// startForeign starts a program with one of the libraries.
func startForeign(t *testing.T, k kind, extension string, rdb *redis.Client, program ...string) *foreign {
	t.Helper()
	cmd := exec.Command(program[0], append(program[1:], rdb.Options().Addr)...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
			t.Error(err)
		}
	})
	return &foreign{kind: k, extension: extension, in: in, out: bufio.NewScanner(out)}
}

func (p *foreign) take(_ context.Context, _ *redis.Client, key string) (held, error) {
	return foreignHeld{p, key}, p.do("take", key)
}

func (p *foreign) do(what, key string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, err := fmt.Fprintf(p.in, "%s\t%s\n", what, key); err != nil {
		return err
	}
	if !p.out.Scan() {
		return fmt.Errorf("%s ended: %w", p.kind, p.out.Err())
	}
	switch said := p.out.Text(); said {
	case "ok":
		return nil
	case "refused":
		return errRefused
	default:
		return fmt.Errorf("%s: %s", p.kind, said)
	}
}

func (h foreignHeld) release(context.Context) error { return h.do("release", h.key) }
func (h foreignHeld) extend(context.Context) error  { return h.do(h.extension, h.key) }

// Each of the libraries that we may replace, and redlatch in either format.
func TestALockOfAnotherLibraryAndOursExcludeEachOther(t *testing.T) {
	server := redistest.Standalone(t)
	rdb := server.Client(t)
	peers := map[kind]take{withRedsync: takeByRedsync, withRedislock: takeByRedislock, byHand: takeByHand}
	for k, start := range map[kind]func() *foreign{
		withRedisPy: func() *foreign { return startForeign(t, withRedisPy, "reacquire", rdb, python(), "-c", pythonServer) },
		withRedlock: func() *foreign { return startForeign(t, withRedlock, "extend", rdb, node, "-e", nodeServer, "--") },
	} {
		if why := k.missing(); why != "" {
			t.Logf("*** SKIPPED, NOT TESTED: %s: %s ***", k, why)
		} else {
			peers[k] = start().take
		}
	}
	for peer, take := range peers {
		for ours, store := range map[kind]*redisstore.Store{
			oursAsSETNX: redisstore.New(rdb, redisstore.WithSETNX()), oursAsHash: redisstore.New(rdb),
		} {
			t.Run(fmt.Sprintf("%s and %s", peer, ours), func(t *testing.T) {
				e := &exclusion{T: t, rdb: rdb, key: t.Name(), store: store, take: take, refused: isRefused}
				if peer == withRedislock && ours == oursAsHash {
					e.refused = isWrongType // why the format of SETNX comes first
				}
				e.ourLockIsTheirs()
				e.theirLockIsOurs()
			})
		}
	}
}

// exclusion is a key that both want.
type exclusion struct {
	*testing.T
	rdb   *redis.Client
	key   string
	store *redisstore.Store
	take
	refused func(err error) bool // how their library says that the key is taken
}

func isRefused(err error) bool   { return errors.Is(err, errRefused) }
func isWrongType(err error) bool { return strings.HasPrefix(fmt.Sprint(err), "WRONGTYPE") }

func (e *exclusion) claim() lock.Claim {
	return lock.Claim{Key: e.key, Owner: "5f0c0e1a-9d5a-8c9e-8f57-0d9a3c1f7b11:1", TTL: time.Minute}
}

// lost deletes the key, as if its TTL had ended.
func (e *exclusion) lost() {
	if n, err := e.rdb.Del(e.Context(), e.key).Result(); err != nil || n != 1 {
		e.Fatalf("the key was not there: %d, %v", n, err)
	}
}

// unchanged runs what may not change the key.
func (e *exclusion) unchanged(what string, do func() error) {
	e.Helper()
	before, err := e.rdb.Dump(e.Context(), e.key).Result()
	if err != nil {
		e.Fatal(err)
	}
	if do() == nil {
		e.Errorf("%s went well", what)
	}
	if after := e.rdb.Dump(e.Context(), e.key).Val(); after != before {
		e.Errorf("%s changed the key", what)
	}
	if ttl := e.rdb.PTTL(e.Context(), e.key).Val(); ttl <= 0 || ttl > time.Minute {
		e.Errorf("%s left a TTL of %v", what, ttl)
	}
}

func (e *exclusion) ourLockIsTheirs() {
	e.Helper()
	ctx := e.Context()
	before, err := e.take(ctx, e.rdb, e.key)
	if err != nil {
		e.Fatal(err)
	}
	e.lost()
	if _, err := lock.Blocking(e.store).Acquire(ctx, e.claim()); err != nil {
		e.Fatal(err)
	}
	e.unchanged("their claim", func() error {
		_, err := e.take(ctx, e.rdb, e.key)
		if err != nil && !e.refused(err) {
			e.Errorf("their claim: %v, want that it is refused", err)
		}
		return err
	})
	e.unchanged("their late release", func() error { return before.release(ctx) })
	e.unchanged("their late extension", func() error { return before.extend(ctx) })
	if err := lock.Blocking(e.store).Release(ctx, e.claim()); err != nil {
		e.Errorf("our release: %v", err)
	}
}

func (e *exclusion) theirLockIsOurs() {
	e.Helper()
	ctx := e.Context()
	if _, err := lock.Blocking(e.store).Acquire(ctx, e.claim()); err != nil {
		e.Fatal(err)
	}
	e.lost()
	theirs, err := e.take(ctx, e.rdb, e.key)
	if err != nil {
		e.Fatal(err)
	}
	wrong := func(what string, want error, do func() error) {
		e.Helper()
		e.unchanged(what, func() error {
			err := do()
			if !errors.Is(err, want) {
				e.Errorf("%s: %v, want %v", what, err, want)
			}
			return err
		})
	}
	other := e.claim()
	other.Owner += "1"
	wrong("our claim", lock.ErrBusy, func() error { _, err := lock.Blocking(e.store).Acquire(ctx, other); return err })
	wrong("our late release", lock.ErrNotHeld, func() error { return lock.Blocking(e.store).Release(ctx, e.claim()) })
	wrong("our late renewal", lock.ErrNotHeld, func() (err error) {
		e.store.Renew(ctx, []lock.Claim{e.claim()}, func(_ int, failed error) { err = failed })
		return err
	})
	if err := theirs.release(ctx); err != nil {
		e.Errorf("their release: %v", err)
	}
	if _, err := lock.Blocking(e.store).Acquire(ctx, other); err != nil {
		e.Errorf("our claim of the free key: %v", err)
	}
	if err := lock.Blocking(e.store).Release(ctx, other); err != nil {
		e.Errorf("our release: %v", err)
	}
}
