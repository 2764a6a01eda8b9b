package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
)

// WithoutScriptPublish is for servers that refuse PUBLISH inside of scripts: the
// messages that wake waiters travel as commands directly behind the script. If one
// is lost, waiters poll. Even a release that changed nothing may send one, and a server
// that doesn't know the script yet gets it twice. In a cluster [Auto] becomes [Both].
// Fair locks answer [lock.ErrUnsupported]: only the script knows whose turn it is, and so
// the channel. Waiters find permits that have expired by polling. The messages of a
// [Latch] follow when its script is answered: Redisson's waiters believe what they say.
// With [Sharded], servers must permit SPUBLISH: a refusal stays unnoticed.
func WithoutScriptPublish() Option { return func(s *Store) { s.quiet = true } }

// WithoutScriptTime is for servers that refuse TIME inside of scripts: it travels
// as a command directly behind the script that acquires, on the same connection.
// Fences then grow only while nobody deletes a lock that another owner holds. While
// the slot of a lock moves to another node of a cluster, acquisitions may fail with
// [lock.ErrUnavailable]. Fair locks and semaphores answer [lock.ErrUnsupported],
// because their scripts need the time.
func WithoutScriptTime() Option { return func(s *Store) { s.timeless = true } }

// variant is a script without what the server refuses inside of scripts, and what
// travels behind it instead.
type variant struct {
	script *script
	wakes  func(args []any) []message // nil: none
	timed  bool
}

// message is a hint for waiters.
type message struct {
	channel, payload any
	how              any // as of publish.lua
}

// commands publish the message.
func (m message) commands(ctx context.Context) (cmds []once) {
	if m.how != "spublish" {
		cmds = append(cmds, once{redis.NewCmd(ctx, "publish", m.channel, m.payload)})
	}
	if m.how != "publish" {
		cmds = append(cmds, once{redis.NewCmd(ctx, "spublish", m.channel, m.payload)})
	}
	return cmds
}

// fenceOfClock is how scripts end whose fence is the server's clock.
const fenceOfClock = "local now = redis.call('time')\nreturn now[1] * 1000000 + now[2]\n"

// quietly are the scripts that publish, but for those of fair locks. Each names
// its channel in an argument, and how to publish in the next.
var quietly = map[*script]func(args []any) []message{
	releaseScript:          wakes(1, "0"),
	setnxReleaseScript:     wakes(1, "0"),
	readReleaseScript:      wakes(1, "0", "1"), // only the script knows whether the owner wrote
	writeReleaseScript:     wakes(1, "0", "1"),
	lowerScript:            wakes(2, "0", "1"),
	semaphoreAcquireScript: nil,
	semaphoreReleaseScript: func(args []any) []message { return []message{{args[0], len(args) - 2, args[1]}} },
	semaphoreKeepScript:    func(args []any) []message { return []message{{args[1], (len(args) - 3) / 2, args[2]}} },
	latchSetScript:         nil, // see Latch.tell
	latchCountDownScript:   nil,
	latchDeleteScript:      nil,
	latchTellScript:        func(args []any) []message { return []message{{args[0], args[1], args[2]}} },
	forceReleaseScript: func(args []any) []message {
		how := args[3]
		return []message{{args[0], "0", how}, {args[1], "0", how}, {args[1], "1", how}, {args[2], "1", how}}
	},
}

// wakes are the messages of a script whose argument there is the channel.
func wakes(channel int, payloads ...string) func(args []any) []message {
	return func(args []any) (all []message) {
		for _, payload := range payloads {
			all = append(all, message{args[channel], payload, args[channel+1]})
		}
		return all
	}
}

// timelessly are the scripts that can do without the time.
var timelessly = []*script{acquireScript, readAcquireScript, writeAcquireScript, setnxAcquireScript}

// prepare makes the variants that the options need.
func (s *Store) prepare() {
	s.variants = make(map[*script]variant)
	if s.quiet {
		publish := load("publish").text
		for script, wakes := range quietly {
			v := variant{script: named("local function publish() end\n" + strings.TrimPrefix(script.text, publish)), wakes: wakes}
			s.vary(script, v)
		}
	}
	if !s.timeless {
		return
	}
	for _, script := range timelessly {
		s.vary(script, variant{script: named(strings.TrimSuffix(script.text, fenceOfClock) + "return 1\n"), timed: true})
	}
}

// vary has v sent instead of the script, and of the one that a quarantine sends for it.
func (s *Store) vary(script *script, v variant) {
	s.variants[script] = v
	if s.quarantine == nil {
		return
	}
	if kept, grants := s.quarantine.scripts[script]; grants {
		v.script = v.script.quarantined(s.quarantine.time)
		s.variants[kept] = v
	}
}

// refused is why the options rule out a mode.
func (s *Store) refused(m lock.Mode) error {
	switch {
	case m == lock.Exclusive:
		return nil
	case s.tokens:
		return fmt.Errorf("%w: mode %s: redisstore.WithRedissonTokens is for exclusive locks", lock.ErrUnsupported, m)
	case s.setnx:
		return fmt.Errorf("%w: mode %s: redisstore.WithSETNX is for exclusive locks", lock.ErrUnsupported, m)
	case s.quiet && m == lock.Fair:
		return fmt.Errorf("%w: mode %s: redisstore.WithoutScriptPublish: only the script knows the channel of the next owner", lock.ErrUnsupported, m)
	case s.timeless && (m == lock.Fair || m == lock.Semaphore):
		return fmt.Errorf("%w: mode %s: redisstore.WithoutScriptTime: its script reckons with the time", lock.ErrUnsupported, m)
	}
	return nil
}

// loaded is a script as servers get it.
func (s *Store) loaded(made *script) *script {
	if v, varied := s.variants[made]; varied {
		return v.script
	}
	return made
}

// sent is a call as it is sent.
type sent struct {
	once
	behind *behind // nil: nothing
}

// behind is what travels directly behind a script, on the same connection.
type behind struct {
	cmds  []once
	timed bool // the last is TIME
}

func (m *sent) timed() bool { return m.behind != nil && m.behind.timed }

// commands makes the commands of a call.
func (s *Store) commands(ctx context.Context, c *call, text bool) sent {
	v, varied := s.variants[c.script]
	if !varied {
		return sent{once: c.command(ctx, c.script, text)}
	}
	made := sent{once: c.command(ctx, v.script, text), behind: &behind{timed: v.timed}}
	if v.wakes != nil {
		for _, m := range v.wakes(c.args()) {
			made.behind.cmds = append(made.behind.cmds, m.commands(ctx)...)
		}
	}
	if v.timed {
		made.behind.cmds = append(made.behind.cmds, once{redis.NewCmd(ctx, "time")})
	}
	return made
}

// unassigned is the error of a call whose time must come from one server, while it
// is not known which. It was not sent.
var unassigned = &lock.StoreError{
	Outcome: lock.OutcomeNotExecuted, Class: "MOVED", Err: errors.New("redis: it is not known which server has the key"),
}

// untold is the error of a call that the client of a cluster sent on to another node,
// and had no answer from there: go-redis leaves the redirection in it.
var untold = &lock.StoreError{
	Outcome: lock.OutcomeUnknown, Class: "MOVED", Err: errors.New("redis: a call that was redirected has no answer"),
}

// leftBehind is the error of a call that the client of a cluster has sent. It tries one
// node after the other, by itself where it got no connection, and leaves the first error
// if the last node doesn't answer: so only a reply says that the call did not run.
func (s *Store) leftBehind(err error, key string) error {
	if isElsewhere(err) {
		return untold
	}
	if _, known := errors.AsType[*lock.StoreError](err); known {
		return err // of ours: it was not sent
	}
	if _, replied := errorReply(err); replied || errors.Is(err, redis.ErrClosed) && s.clusterClosed(key) {
		return err
	}
	failed, _ := errors.AsType[*lock.StoreError](s.failure(err))
	unknown := *failed
	unknown.Outcome = lock.OutcomeUnknown
	return &unknown
}

// clusterClosed says whether the application has closed the client of the cluster. That of
// one node is closed as well when the node leaves. It does no I/O.
func (s *Store) clusterClosed(key string) bool {
	node, err := s.cluster.MasterForKey(ended, key)
	return errors.Is(err, redis.ErrClosed) || err == nil && errors.Is(node.Ping(ended).Err(), redis.ErrClosed)
}

// redirect sends a call that a node of a cluster did not run, or that was not sent, to
// another one. The client of the cluster finds the way, but not for the time.
func (s *Store) redirect(x *sending) {
	if errors.Is(x.cmd.Err(), unassigned) {
		s.assign(x)
		return
	}
	if !x.cmd.timed() {
		s.sender.submit(x)
		return
	}
	to, _ := s.reroute(x.ctx, route{}, x.script, x.cmd.Err())
	node, known := to.node.(*redis.Client)
	if !known {
		x.cmd.SetErr(unassigned)
		x.end(s)
		return
	}
	x.asking = to.asking
	s.senderAt(node).submit(x)
}

// assign sends a call that was not sent, because it was not known which server has its
// key, to that server if it is known now.
func (s *Store) assign(x *sending) {
	if to := s.senderOf(x.key()); to != s.sender {
		to.submit(x)
		return
	}
	x.end(s)
}

// queue appends the commands to those of a pipeline.
func (m *sent) queue(cmds []redis.Cmder) []redis.Cmder {
	cmds = append(cmds, m.once)
	if m.behind != nil {
		for _, cmd := range m.behind.cmds {
			cmds = append(cmds, cmd)
		}
	}
	return cmds
}

// result is the error of a call that the client has returned from with failed, which
// the command has from then on.
func (m *sent) result(failed error) error {
	err := m.read(failed)
	if err != nil {
		m.SetErr(err)
	}
	return err
}

// read is its error. The reply to a call that was granted becomes the time.
func (m *sent) read(failed error) error {
	err := replyErr(m.Cmd, failed)
	if err != nil || !m.timed() || m.Val() != int64(1) {
		return err
	}
	clock := m.behind.cmds[len(m.behind.cmds)-1]
	if err := replyErr(clock.Cmd, failed); err != nil { // it was granted all the same
		_, class := meaningOf(err)
		return &lock.StoreError{Outcome: lock.OutcomeUnknown, Unreachable: isUnreachable(err), Class: class, Err: err}
	}
	parts, err := clock.Int64Slice()
	if err != nil || len(parts) != 2 {
		return errBadReply
	}
	m.SetVal(parts[0]*int64(time.Second/time.Microsecond) + parts[1])
	return nil
}
