package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
)

// ErrQuarantine is the cause, besides [lock.ErrUnavailable], when a server grants
// no locks yet because it was started a short time ago. See [WithQuarantine].
var ErrQuarantine = errors.New("redis was started a short time ago and may have lost locks")

// quarantine holds the settings of [WithQuarantine].
type quarantine struct {
	time    time.Duration
	scripts map[*script]*script
}

// WithQuarantine makes a server that was started less than d ago grant no locks:
// acquisitions fail with [lock.ErrUnavailable] and [ErrQuarantine]. It is for Redis
// that may come back from a restart without its latest data: the locks that it
// forgot are still trusted by their holders, until these fail to renew them. With d
// at least the longest lease and watchdog of everybody who takes the locks, all of
// them have run out when the first is granted again. Renewals and releases work as
// usual. Do not use it where the data survives (appendfsync always): there it gains
// nothing, and every start costs an outage of d.
//
// It protects only locks that are taken through stores with this option, all with
// the same d. It needs Redis 7 or Valkey (elsewhere calls fail with
// [lock.ErrUnsupported]), permission for INFO and SCRIPT LOAD, and a server clock
// that does not jump. It costs nothing while the server runs. For a replica that is
// promoted, its own start counts: what wasn't replicated to it is lost all the
// same, and what it lost by copying a master that had come back empty. Less than 1 ms panics.
func WithQuarantine(d time.Duration) Option {
	if d < time.Millisecond {
		panic("redisstore.WithQuarantine: less than 1 ms") //nolint:forbidigo // documented: a wrong set-up cannot be run
	}
	q := &quarantine{time: d, scripts: make(map[*script]*script)}
	for _, s := range []*script{
		acquireScript, tokenAcquireScript, fairAcquireScript,
		readAcquireScript, writeAcquireScript, semaphoreAcquireScript, setnxAcquireScript,
	} {
		q.scripts[s] = s.quarantined(d)
	}
	return func(s *Store) { s.quarantine = q }
}

// quarantined is s under a different name. A server forgets scripts when it
// ends, so a name that it knows shows that somebody has given it the script
// since; and this one is given only to a server that has been up for long
// enough. That is all that has to be known of a server, with no call more.
func (s *script) quarantined(d time.Duration) *script {
	made := named(s.text + "\n-- on a server that has been up for " + d.String() + "\n")
	made.guarded = true
	return made
}

// acquiring is the call to send for an acquire, and run the way to send it.
func (s *Store) acquiring(c call, run run) (call, run) {
	if s.quarantine == nil {
		return c, run
	}
	c.script = s.quarantine.scripts[c.script]
	return c, func(ctx context.Context, c call) (int64, error) {
		n, err := run(ctx, c)
		for hops := 0; isNoScript(err) && hops < 3; hops++ { // the slot may move meanwhile
			if err = s.introduce(ctx, c); err == nil {
				n, err = run(ctx, c)
			}
		}
		return n, err
	}
}

// introduce gives the script to the server that keeps the call's keys, unless
// that is in quarantine.
func (s *Store) introduce(ctx context.Context, c call) error {
	node, err := s.nodeOf(ctx, c.key())
	if err != nil {
		return err
	}
	// On one connection: on another one, there might be another server.
	conn := node.Conn()
	defer func() { _ = conn.Close() }()
	info := once{redis.NewCmd(ctx, "info", "server")}
	if err := conn.Process(ctx, info); err != nil {
		return s.unacquired(err)
	}
	text, err := info.Text()
	if err != nil {
		return s.unacquired(err)
	}
	if err := s.quarantine.check(text); err != nil {
		return err
	}
	return s.unacquired(conn.Process(ctx, once{redis.NewCmd(ctx, "script", "load", s.loaded(c.script).text)}))
}

// unacquired is the failure of what goes before an acquire, which was not sent then.
func (s *Store) unacquired(err error) error {
	err = s.failure(err)
	if failed, ok := errors.AsType[*lock.StoreError](err); ok && failed.Outcome == lock.OutcomeUnknown {
		before := *failed
		before.Outcome = lock.OutcomeNotExecuted
		return &before
	}
	return err
}

// nodeOf is the client of the server that keeps a key.
func (s *Store) nodeOf(ctx context.Context, key string) (*redis.Client, error) {
	if s.cluster != nil {
		return s.masterOf(ctx, key)
	}
	node, ok := s.rdb.(*redis.Client)
	if !ok {
		return nil, fmt.Errorf("%w: redisstore.WithQuarantine cannot use a %T", lock.ErrUnsupported, s.rdb)
	}
	return node, nil
}

// check reads what INFO says of a server; nil means that it may grant.
func (q *quarantine) check(info string) error {
	version, known := infoNumber(info, "redis_version")
	up, timed := infoNumber(info, "uptime_in_seconds")
	switch {
	case !known || !timed:
		return fmt.Errorf("%w: redisstore.WithQuarantine: the server does not tell its age", lock.ErrUnsupported)
	case version < 7: // keeps scripts over a restart
		return fmt.Errorf("%w: redisstore.WithQuarantine needs Redis 7", lock.ErrUnsupported)
	}
	// The server counts in whole seconds, and may be one ahead.
	if left := q.time - time.Duration(up-1)*time.Second; left > 0 {
		return &lock.StoreError{Outcome: lock.OutcomeNotExecuted, Err: fmt.Errorf("%w: %v left", ErrQuarantine, left)}
	}
	return nil
}

// infoNumber is the number that a field of INFO begins with.
func infoNumber(info, field string) (n int64, ok bool) {
	for line := range strings.Lines(info) {
		if value, found := strings.CutPrefix(line, field+":"); found {
			digits := strings.TrimRight(value, "\r\n")
			digits, _, _ = strings.Cut(digits, ".")
			n, err := strconv.ParseInt(digits, 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}
