package redisstore_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
)

// answers is a client whose server gives the same reply to every command: a
// value, or an error.
type answers struct{ reply any }

func (a *answers) client() *redis.Client {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:0"})
	rdb.AddHook(a)
	return rdb
}

func (a *answers) answer(cmd redis.Cmder) error {
	if err, failed := a.reply.(error); failed {
		cmd.SetErr(err)
		return err
	}
	cmd.(interface{ SetVal(any) }).SetVal(a.reply)
	return nil
}

func (*answers) DialHook(next redis.DialHook) redis.DialHook { return next }

func (a *answers) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error { return a.answer(cmd) }
}

func (a *answers) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(_ context.Context, cmds []redis.Cmder) error {
		var failed error
		for _, cmd := range cmds {
			failed = errors.Join(failed, a.answer(cmd))
		}
		return failed
	}
}

// refusal is what a server says in an error.
type refusal string

func (r refusal) Error() string { return string(r) }
func (refusal) RedisError()     {}

// parse reads a reply in the protocol, as a client of Redis hands it out.
func parse(in *bufio.Reader, depth int) (any, error) {
	line, err := in.ReadString('\n')
	if err != nil || len(line) < 2 || depth > 4 {
		return nil, io.ErrUnexpectedEOF
	}
	kind, rest := line[0], strings.TrimSuffix(line[1:], "\n")
	switch kind {
	case '+':
		return rest, nil
	case '-':
		return refusal(rest), nil
	}
	n, err := strconv.ParseInt(rest, 10, 64)
	if err != nil || kind == ':' {
		return n, err
	}
	if kind != '*' || n < 0 || n > 64 {
		return nil, fmt.Errorf("kind %q, %d", kind, n)
	}
	values := make([]any, n)
	for i := range values {
		if values[i], err = parse(in, depth+1); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// FuzzReplies: whatever a server, or somebody in its place, answers to a script,
// it is a grant with a fence, an answer that makes sense, or a failure. It is
// never a panic, and never a failure that claims that nothing has run.
func FuzzReplies(f *testing.F) {
	for _, seed := range []string{
		":1763735688000000\n", ":1\n", ":0\n", ":-1\n", ":-2\n", ":-30002\n", ":-4503599627370496\n", ":-4503599627370499\n",
		":9223372036854775807\n", ":-9223372036854775808\n",
		"*2\n:-30002\n:1763735688000000\n", "*2\n:-1\n:0\n", "*2\n:5\n:5\n", "*2\n+a\n+b\n", "*0\n", "*1\n:1\n", "*2\n:1\n:0\n", "*3\n:1\n:1\n:1\n",
		"*4\n+hash\n:30000\n*2\n+o:1\n+1\n*1\n+o:2\n", "*4\n+hash\n:-1\n*4\n+mode\n+write\n+o:1:write\n+2\n*0\n",
		"*4\n+string\n:-1\n*2\n+0123456789abcdef\n:100\n*0\n", "*4\n+none\n:-2\n*0\n*0\n", "*4\n:1\n+a\n:2\n:3\n", "*4\n+hash\n:9223372036854775807\n*2\n+o\n+x\n*0\n",
		"-NOSCRIPT No matching script\n", "-OOM command not allowed\n", "-ERR Error running script (call to f_1a): @user_script:7: @user_script: 7: -OOM no\n",
		"-TRYAGAIN\n", "-MOVED 1 127.0.0.1:1\n", "-\n", "+OK\n", "+1763735688000000\n", "+007\n", "+9007199254740993\n",
	} {
		f.Add([]byte(seed))
	}
	server := &answers{}
	rdb := server.client()
	f.Cleanup(func() { _ = rdb.Close() })
	store := redisstore.New(rdb, redisstore.WithPublish(redisstore.Plain))

	f.Fuzz(func(t *testing.T, raw []byte) {
		reply, err := parse(bufio.NewReader(bytes.NewReader(raw)), 0)
		if err != nil {
			return
		}
		if isTryAgain(reply) {
			return // waited for, for seconds
		}
		server.reply = reply
		for _, mode := range []lock.Mode{lock.Exclusive, lock.Fair, lock.Read, lock.Write, lock.Semaphore} {
			claim := lock.Claim{Key: "k", Owner: "o:1", Mode: mode, TTL: time.Minute}
			if mode == lock.Semaphore {
				claim.Permits, claim.Size = 1, 2
			}
			granted(t, reply, store, claim)
			renewed(t, reply, store, claim)
			plausible(t, reply, "release", lock.Blocking(store).Release(t.Context(), claim))
			if mode == lock.Read {
				plausible(t, reply, "lower", lock.Blocking(store).Lower(t.Context(), claim))
			}
		}
		inspected(t, reply, store)
		freed, err := store.ForceRelease(t.Context(), "k")
		plausible(t, reply, "force release", err)
		if freed && number(reply) != 1 {
			t.Errorf("freed by %#v", reply)
		}
	})
}

func isTryAgain(reply any) bool {
	text, ok := reply.(refusal)
	return ok && strings.Contains(string(text), "TRYAGAIN")
}

func granted(t *testing.T, reply any, store *redisstore.Store, claim lock.Claim) {
	t.Helper()
	fence, err := lock.Blocking(store).Acquire(t.Context(), claim)
	plausible(t, reply, "acquire "+claim.Mode.String(), err)
	if err != nil && fence != 0 {
		t.Errorf("%s: fence %d with %v", claim.Mode, fence, err)
	}
	if n := number(reply); err == nil && (fence != uint64(n)*lock.FenceStep || n > math.MaxInt64/lock.FenceStep) {
		t.Errorf("%s: granted with fence %d by %#v", claim.Mode, fence, reply)
	}
}

// number is the positive number that a reply is, or 0, which is no fence.
func number(reply any) int64 {
	n, ok := reply.(int64)
	if text, isText := reply.(string); isText {
		var err error
		n, err = strconv.ParseInt(text, 10, 64)
		ok = err == nil
	}
	if !ok || n < 0 {
		return math.MinInt64 // no fence is that
	}
	return n
}

func renewed(t *testing.T, reply any, store *redisstore.Store, claim lock.Claim) {
	t.Helper()
	reports := make([]int, 3)
	list, _ := reply.([]any)
	second := claim
	second.Key, second.Owner = "l", "o:2"
	store.Renew(t.Context(), []lock.Claim{claim, {Key: "m", Owner: "", TTL: time.Minute}, second}, func(i int, err error) {
		reports[i]++
		plausible(t, reply, "renew", err)
		at := i / 2 // the one between them is refused, and not sent
		one := number(reply) == 1 || len(list) == 2 && number(list[at]) == 1
		if err == nil && (i == 1 || !one) {
			t.Errorf("claim %d is renewed by %#v", i, reply)
		}
	})
	for i, n := range reports {
		if n != 1 {
			t.Errorf("claim %d is reported %d times, by %#v", i, n, reply)
		}
	}
}

func inspected(t *testing.T, reply any, store *redisstore.Store) {
	t.Helper()
	state, err := store.Inspect(t.Context(), "k")
	plausible(t, reply, "inspect", err)
	if state.Held != (len(state.Owners)+state.MoreOwners > 0) || state.TTL < -1 || err != nil && state.Held {
		t.Errorf("%#v is read as %+v, %v", reply, state, err)
	}
}

// plausible: an answer, a refusal, or a failure of which nobody can say that the
// script did not run, unless the server has said so.
func plausible(t *testing.T, reply any, op string, err error) {
	t.Helper()
	var busy *lock.BusyError
	var failed *lock.StoreError
	_, refused := reply.(refusal)
	switch {
	case err == nil:
		if refused {
			t.Errorf("%s: done, after %#v", op, reply)
		}
	case errors.As(err, &busy):
		if busy.TTL < -1 {
			t.Errorf("%s: busy for %v, by %#v", op, busy.TTL, reply)
		}
	case errors.As(err, &failed):
		if failed.Outcome != lock.OutcomeUnknown && !refused {
			t.Errorf("%s: %#v is taken for %v: %v", op, reply, failed.Outcome, err)
		}
	case errors.Is(err, lock.ErrUnsupported), errors.Is(err, lock.ErrInvalid) && op != "acquire semaphore" && op != "renew":
		t.Errorf("%s: %#v is the error %v", op, reply, err)
	}
}
