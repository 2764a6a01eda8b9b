package redisstore

import (
	"context"
	"errors"
	"runtime/debug"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
)

var errNoReply = errors.New("redis: the client returned no reply")

// call is one run of a script.
type call struct {
	script *script
	keys   []string
	args   []any
}

// once is a command that the client sends once, however many retries it was
// configured with: after a lost reply nobody but the engine can know whether
// the script should run again. Redirections of a cluster (MOVED, ASK) are
// followed all the same, as a redirected command has not run.
type once struct{ *redis.Cmd }

// NoRetry is looked at by all clients of go-redis, in pipelines too.
func (once) NoRetry() bool { return true }

// bySHA names the script, which costs 40 bytes.
func (c *call) bySHA(ctx context.Context) once { return c.command(ctx, "evalsha", c.script.sha) }

// byText brings the script along, for a server that does not know it.
func (c *call) byText(ctx context.Context) once { return c.command(ctx, "eval", c.script.text) }

func (c *call) command(ctx context.Context, name, script string) once {
	args := make([]any, 0, 3+len(c.keys)+len(c.args))
	args = append(args, name, script, len(c.keys))
	for _, key := range c.keys {
		args = append(args, key)
	}
	args = append(args, c.args...)
	cmd := redis.NewCmd(ctx, args...)
	if len(c.keys) > 0 {
		cmd.SetFirstKeyPos(3)
	}
	return once{cmd}
}

// run sends one script. Its errors are classified.
func (s *Store) run(ctx context.Context, c call) (*redis.Cmd, error) {
	cmd, err := s.process(ctx, c.bySHA(ctx))
	if isNoScript(err) && !c.script.guarded {
		cmd, err = s.process(ctx, c.byText(ctx))
	}
	return cmd, s.failure(err)
}

// number is run for a script that returns one integer. It travels with others.
func (s *Store) number(ctx context.Context, c call) (int64, error) {
	to, err := s.senderOf(ctx, c.keys[0])
	if err != nil {
		return 0, err
	}
	by, limited := ctx.Deadline()
	if !limited {
		by = time.Now().Add(longestCall)
	}
	type answer struct {
		n   int64
		err error
	}
	answered := make(chan answer, 1)
	to.submit(&sending{call: c, ctx: ctx, by: by, done: func(n int64, err error) { answered <- answer{n, err} }})
	a := <-answered
	return a.n, a.err
}

// maxSettle bounds the wait for a slot that migrates, where ctx does not.
const maxSettle = 2 * time.Second

// settled runs a script, again if it did not run because its slot is migrating
// and not all of its keys are in one place: until they are, or ctx ends. Scripts
// with one key never get that answer.
func settled(ctx context.Context, c call, run func(context.Context, call) (int64, error)) (int64, error) {
	n, err := run(ctx, c)
	if len(c.keys) == 1 || !isTryAgain(err) {
		return n, err
	}
	ctx, cancel := context.WithTimeout(ctx, maxSettle)
	defer cancel()
	for pause := 5 * time.Millisecond; isTryAgain(err); pause = min(2*pause, 100*time.Millisecond) {
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return n, err
		}
		n, err = run(ctx, c)
	}
	return n, err
}

func (s *Store) process(ctx context.Context, cmd once) (*redis.Cmd, error) {
	if ctx.Err() != nil {
		return nil, unsent(ctx)
	}
	defer s.vigil().end()
	return cmd.Cmd, s.rdb.Process(ctx, cmd)
}

// outcome is what became of one call of a pipeline; err is classified.
type outcome struct {
	cmd *redis.Cmd
	err error
}

// pipeline sends several scripts at once. They succeed and fail one by one.
func (s *Store) pipeline(ctx context.Context, calls []call) []outcome {
	if s.replicas != nil {
		return s.renewed(ctx, calls)
	}
	outcomes := s.send(ctx, calls)
	for i := range outcomes {
		outcomes[i].err = s.failure(outcomes[i].err)
	}
	return outcomes
}

// send is pipeline without regard to replicas. Its errors are not classified.
func (s *Store) send(ctx context.Context, calls []call) []outcome {
	outcomes := s.exec(ctx, calls, (*call).bySHA)
	var unknown []call
	var at []int
	for i, o := range outcomes {
		if isNoScript(o.err) && !calls[i].script.guarded {
			unknown, at = append(unknown, calls[i]), append(at, i)
		}
	}
	if len(unknown) > 0 {
		for i, o := range s.exec(ctx, unknown, (*call).byText) {
			outcomes[at[i]] = o
		}
	}
	return outcomes
}

func (s *Store) exec(ctx context.Context, calls []call, command func(*call, context.Context) once) []outcome {
	outcomes := make([]outcome, len(calls))
	if ctx.Err() != nil {
		for i := range outcomes {
			outcomes[i].err = unsent(ctx)
		}
		return outcomes
	}
	pipe := s.rdb.Pipeline()
	for i := range calls {
		cmd := command(&calls[i], ctx)
		outcomes[i].cmd = cmd.Cmd
		_ = pipe.Process(ctx, cmd) // queues it, and cannot fail
	}
	watched := s.vigil()
	_, failed := pipe.Exec(ctx)
	watched.end()
	for i := range outcomes {
		outcomes[i].err = replyErr(outcomes[i].cmd, failed)
	}
	return outcomes
}

// replyErr is the error of a command that the client has returned from with
// failed. A script of ours never returns nil.
func replyErr(cmd *redis.Cmd, failed error) error {
	switch {
	case cmd.Err() != nil:
		return cmd.Err()
	case cmd.Val() != nil:
		return nil
	case failed != nil:
		return failed
	}
	return errNoReply
}

// unsent is the error of a call for which there was no time left.
func unsent(ctx context.Context) error {
	return &lock.StoreError{Outcome: lock.OutcomeNotExecuted, Err: context.Cause(ctx)}
}

// guarded makes a failure of a panic of the client: it may be on a goroutine of
// ours, where it would end the process.
func guarded(io func() error) (failed error) {
	defer func() {
		if v := recover(); v != nil {
			failed = &lock.PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return io()
}
