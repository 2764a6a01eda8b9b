package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore/internal/circuit"
)

// errReplicas is the cause when a grant or renewal is on too few replicas.
var errReplicas = errors.New("redis: too few replicas have it in time")

// replicas holds the settings of [WithReplicas].
type replicas struct {
	min     int
	timeout time.Duration
}

// WithReplicas makes a grant and a renewal count only once atLeast
// replicas of the master have acknowledged it, for which it waits up to
// timeout. Otherwise the call fails, as one of unknown outcome: the engine
// repeats it, and in the end undoes a grant and answers
// [lock.ErrUnavailable]; a lease that cannot be renewed is lost. Releases do
// not wait.
//
// It reduces what a failover can lose, but doesn't exclude it: unless all replicas
// must acknowledge, one that didn't may be promoted. From Redis 7.2 on, WAIT waits for
// what its connection has written. So a renewal that writes nothing, because an earlier
// and longer extension was not acknowledged, may count without the replicas. See
// docs/quorum.md.
//
// The script and WAIT travel on one connection. While replicas lag, a busy
// answer, too, takes up to timeout. timeout must be below the client's
// ReadTimeout, and should be well below the engine's call timeout. A server
// that does not know WAIT makes calls fail with [lock.ErrUnsupported].
// atLeast below 1, and timeout below 1 ms or not below ReadTimeout, panic.
func WithReplicas(atLeast int, timeout time.Duration) Option {
	switch {
	case atLeast < 1:
		panic("redisstore.WithReplicas: less than 1 replica") //nolint:forbidigo // documented: a wrong set-up cannot be run
	case timeout < time.Millisecond:
		panic("redisstore.WithReplicas: timeout is less than 1 ms") //nolint:forbidigo // documented: a wrong set-up cannot be run
	}
	return func(s *Store) {
		if limit := s.endpoint().readTimeout; limit > 0 && timeout >= limit {
			panic(fmt.Sprintf("redisstore.WithReplicas: timeout %v is not below the client's ReadTimeout %v", timeout, limit)) //nolint:forbidigo // documented: a wrong set-up cannot be run
		}
		s.replicas = &replicas{min: atLeast, timeout: timeout}
	}
}

// grant runs a script that returns a positive number when it grants, and
// waits for the replicas if it did.
func (s *Store) grant(ctx context.Context, c call) (int64, error) {
	if s.replicas == nil {
		return s.integer(s.await(ctx, c))
	}
	to := s.senderOf(c.key())
	to.mu.Lock()
	now := time.Now()
	to.probe(now)
	admitted := to.circuit.Admits(now) && to.circuit.State() == circuit.Closed // no queue waits for a probe
	to.mu.Unlock()
	if !admitted {
		return 0, errOpen
	}
	return s.acknowledged(s.replicated(ctx, []call{c})[0])
}

// finished makes a call that replicas have to know of, and that is finished however late
// the server answers.
func (s *Store) finished(ctx context.Context, c call) (int64, error) {
	if s.replicas == nil {
		return s.number(ctx, c)
	}
	return s.acknowledged(s.replicatedLate(ctx, []call{c})[0])
}

// acknowledged reads the reply of a script that returns a positive number when replicas have
// to know of it.
func (s *Store) acknowledged(o outcome) (int64, error) {
	n, err := s.integer(o.cmd, o.err)
	if err == nil && n > 0 && o.short != nil {
		return 0, o.short
	}
	return n, err
}

// route is where a script goes, and how.
type route struct {
	node   redis.UniversalClient
	text   bool // the script itself, not its name
	asking bool // the slot is on its way to the node
}

// replicatedLate is replicated of calls that are finished; see [sending.finishes].
func (s *Store) replicatedLate(ctx context.Context, calls []call) []outcome {
	if ctx.Err() == nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), longestCall)
		defer cancel()
	}
	return s.replicated(ctx, calls)
}

// replicated sends scripts of one server, which succeed and fail one by one,
// and says of each that ran what is short of the replicas. In a cluster it
// does what the cluster client would: that one cannot keep WAIT behind the
// script.
func (s *Store) replicated(ctx context.Context, calls []call) []outcome {
	began, outcomes := time.Now(), make([]outcome, len(calls))
	routes := make(map[route][]int)
	for i, c := range calls {
		to := route{node: s.rdb}
		if s.cluster != nil {
			node, err := s.masterOf(ctx, c.key())
			if err != nil {
				outcomes[i].err = err
				continue
			}
			to.node = node
		}
		routes[to] = append(routes[to], i)
	}
	for hops := 0; len(routes) > 0 && hops < 4; hops++ { // a script, its text, at a redirection, its text
		next := make(map[route][]int)
		for to, at := range routes {
			lacking := s.execWait(ctx, to, calls, at, outcomes)
			for _, i := range at {
				outcomes[i].short = lacking
				if again, ok := s.reroute(ctx, to, calls[i].script, outcomes[i].err); ok {
					next[again] = append(next[again], i)
				}
			}
		}
		routes = next
	}
	for i := range outcomes {
		outcomes[i].err = s.failure(outcomes[i].err)
	}
	s.senderOf(calls[0].key()).record(began, outcomes[0].err)
	return outcomes
}

// reroute says where to send a script again that has not run.
func (s *Store) reroute(ctx context.Context, from route, script *script, err error) (to route, ok bool) {
	if isNoScript(err) && !from.text && !script.guarded {
		from.text = true
		return from, true
	}
	if s.cluster == nil || err == nil {
		return route{}, false
	}
	kind, rest, _ := strings.Cut(err.Error(), " ")
	if kind != "MOVED" && kind != "ASK" {
		return route{}, false
	}
	s.cluster.ReloadState(ctx) // returns at once
	_, addr, _ := strings.Cut(rest, " ")
	node := s.masterAt(ctx, addr)
	return route{node: node, asking: kind == "ASK"}, node != nil
}

// masterAt is the client of the master with that address, nil if the topology
// has none.
func (s *Store) masterAt(ctx context.Context, addr string) redis.UniversalClient {
	found := make(chan redis.UniversalClient, 1)
	// Its error would be ours, and we return none.
	_ = s.cluster.ForEachMaster(ctx, func(_ context.Context, node *redis.Client) error {
		if node.Options().Addr == addr {
			select {
			case found <- node:
			default:
			}
		}
		return nil
	})
	select {
	case node := <-found:
		return node
	default:
		return nil
	}
}

// execWait sends some of the calls and a WAIT behind them, which covers all
// of them as they are on its connection. Nothing of it is sent twice.
func (s *Store) execWait(ctx context.Context, to route, calls []call, at []int, outcomes []outcome) (short error) {
	if ctx.Err() != nil {
		for _, i := range at {
			outcomes[i].err = unsent(ctx)
		}
		return nil
	}
	pipe := to.node.Pipeline()
	made := make([]sent, len(calls))
	var cmds []redis.Cmder
	for _, i := range at {
		if to.asking { // counts for one command
			cmds = append(cmds, once{redis.NewCmd(ctx, "asking")})
		}
		made[i] = s.commands(ctx, &calls[i], to.text)
		outcomes[i].cmd = made[i].Cmd
		cmds = made[i].queue(cmds)
	}
	wait := once{redis.NewCmd(ctx, "wait", s.replicas.min, s.replicas.timeout.Milliseconds())}
	_ = pipe.BatchProcess(ctx, append(cmds, wait)...) // queues them, and cannot fail
	defer s.monitorSlowCall().end()                   // also if the client panics
	_, failed := pipe.Exec(ctx)
	for _, i := range at {
		outcomes[i].err = made[i].result(failed)
	}
	return s.replicas.lack(wait.Cmd)
}

// lack is what is missing by the reply to WAIT, nil if nothing is. The scripts
// before it may have run.
func (r *replicas) lack(wait *redis.Cmd) error {
	n, err := wait.Int()
	switch {
	case err != nil && strings.Contains(err.Error(), "unknown command"):
		err = fmt.Errorf("%w: redisstore.WithReplicas: the server does not know WAIT: %w", lock.ErrUnsupported, err)
	case err == nil && n < r.min:
		err = fmt.Errorf("%w: %d of %d within %v", errReplicas, n, r.min, r.timeout)
	case err == nil:
		return nil
	}
	return &lock.StoreError{Outcome: lock.OutcomeUnknown, Err: err}
}
