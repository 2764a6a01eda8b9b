package redisstore

import (
	"context"
	"errors"
	"runtime/debug"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
)

var errNoReply = errors.New("redis: the client returned no reply")

// call is one run of a script.
type call struct {
	script *script
	keys   int
	line   []any // the command: its name, that of the script, the number of keys, keys, arguments
}

// firstKey is where the keys begin in a line.
const firstKey = 3

func (s *script) call(keys []string, args []any) call {
	line := make([]any, firstKey, firstKey+len(keys)+len(args))
	for _, key := range keys {
		line = append(line, key)
	}
	return call{s, len(keys), append(line, args...)}
}

// on is the same call on the first of its keys.
func (c call) on(keys int) call {
	return call{c.script, keys, append(slices.Clone(c.line[:firstKey+keys]), c.args()...)}
}

// key is the first, which all others share their server with.
func (c *call) key() string { return c.line[firstKey].(string) }

func (c *call) args() []any { return c.line[firstKey+c.keys:] }

// once is a command that the client sends once, however many retries it was
// configured with: after a lost reply nobody but the engine can know whether
// the script should run again. Redirections of a cluster (MOVED, ASK) are
// followed all the same, as a redirected command has not run.
type once struct{ *redis.Cmd }

// NoRetry is looked at by all clients of go-redis, in pipelines too.
func (once) NoRetry() bool { return true }

// command names the script as servers know it, which costs 40 bytes, or brings it
// along for one that does not. It is to be sent before the next is made.
func (c *call) command(ctx context.Context, loaded *script, text bool) once {
	c.line[0], c.line[1], c.line[2] = "evalsha", loaded.name, c.keys
	if text {
		c.line[0], c.line[1] = "eval", loaded.text
	}
	cmd := redis.NewCmd(ctx, c.line...)
	cmd.SetFirstKeyPos(firstKey)
	return once{cmd}
}

// outcome is what became of a call.
type outcome struct {
	cmd   *redis.Cmd
	err   error
	short error // what replicas lack of it
}

// run sends a script that is no acquisition, and waits for the reply, until ctx ends. Its
// errors are classified.
func (s *Store) run(ctx context.Context, c call) (*redis.Cmd, error) {
	if ctx.Err() != nil {
		return nil, unsent(ctx)
	}
	return within(ctx, s.begin(ctx, c, true))
}

// within waits for an outcome, until ctx ends.
func within(ctx context.Context, answered <-chan outcome) (*redis.Cmd, error) {
	select {
	case o := <-answered:
		return o.cmd, o.err
	case <-ctx.Done():
		return nil, &lock.StoreError{Outcome: lock.OutcomeUnknown, Err: context.Cause(ctx)}
	}
}

// await sends an acquisition, and waits for the reply, however late it is.
func (s *Store) await(ctx context.Context, c call) (*redis.Cmd, error) {
	o := <-s.begin(ctx, c, false)
	return o.cmd, o.err
}

// begin sends a script, and returns where its one outcome will be.
func (s *Store) begin(ctx context.Context, c call, urgent bool) <-chan outcome {
	answered := make(chan outcome, 1)
	s.senderOf(c.key()).submit(&sending{
		call: c, ctx: ctx, by: limitOf(ctx), urgent: urgent,
		to: receiving(func(reply *redis.Cmd, err error) { answered <- outcome{cmd: reply, err: err} }),
	})
	return answered
}

// limitOf is when a call that a context limits is no longer sent.
func limitOf(ctx context.Context) time.Time {
	if by, limited := ctx.Deadline(); limited {
		return by
	}
	return time.Now().Add(longestCall)
}

// number is run for a script that returns one integer.
func (s *Store) number(ctx context.Context, c call) (int64, error) {
	return s.integer(s.run(ctx, c))
}

// integer reads a reply.
func (s *Store) integer(reply *redis.Cmd, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	n, err := reply.Int64()
	return n, s.failure(err)
}

// run sends a script and returns the number that it answers.
type run func(context.Context, call) (int64, error)

// after is a run that has failed already, if it has.
func after(failed error, run run) run {
	return func(ctx context.Context, c call) (int64, error) {
		if err := failed; err != nil {
			failed = nil
			return 0, err
		}
		return run(ctx, c)
	}
}

// maxSettle bounds the wait for a slot that migrates, where ctx does not.
const maxSettle = 2 * time.Second

// settled runs a script, again if it did not run because its slot is migrating
// and not all of its keys are in one place: until they are, or ctx ends. maxSettle ends
// the pauses only: a call that is cut short has an unknown outcome.
// Scripts with one key never get that answer.
func settled(ctx context.Context, c call, run run) (int64, error) {
	n, err := run(ctx, c)
	if c.keys == 1 || !isTryAgain(err) {
		return n, err
	}
	settling, cancel := context.WithTimeout(ctx, maxSettle)
	defer cancel()
	for pause := 5 * time.Millisecond; isTryAgain(err); pause = min(2*pause, 100*time.Millisecond) {
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-settling.Done():
			timer.Stop()
			return n, err
		}
		n, err = run(ctx, c)
	}
	return n, err
}

// replyErr is the error of a command that the client has returned from with
// failed. A script of ours never returns nil. An error that is another command's is taken
// off it.
func replyErr(cmd *redis.Cmd, failed error) error {
	switch {
	case cmd.Err() != nil && overwritten(cmd):
		cmd.SetErr(nil)
		return nil
	case cmd.Err() != nil:
		return cmd.Err()
	case cmd.Val() != nil:
		return nil
	case failed != nil:
		return failed
	}
	return errNoReply
}

// overwritten says whether a command has a whole reply. The error is then that of another
// one: when a connection breaks, go-redis writes it into all commands of the pipeline,
// also the commands that were answered before.
func overwritten(cmd *redis.Cmd) bool {
	if _, malformed := errors.AsType[*strconv.NumError](cmd.Err()); malformed {
		return false // it leaves the largest number
	}
	switch reply := cmd.Val().(type) {
	case int64:
		return true
	case []any:
		return reply != nil // a broken one leaves a nil slice
	}
	return false
}

// unsent is the error of a call for which there was no time left.
func unsent(ctx context.Context) error {
	return &lock.StoreError{Outcome: lock.OutcomeNotExecuted, Err: context.Cause(ctx)}
}

// guarded makes a failure of a panic of the client, or of a hook: it may be on a goroutine
// of ours, where it would end the process.
func guarded(io func() error) (failed error) {
	defer func() {
		if v := recover(); v != nil {
			failed = &lock.PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return io()
}
