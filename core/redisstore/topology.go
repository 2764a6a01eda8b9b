package redisstore

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// suspicion is how long a node seems to hang after a call that had no answer.
const suspicion = 10 * time.Second

var errHangs = errors.New("redisstore: the node does not say where the slots are")

// topology keeps a cluster client from learning too late that a node which hangs
// was replaced. What go-redis (v9.23) does by itself: it reloads the slots after a
// redirection or a READONLY, and when a call finds them older than
// ClusterStateReloadInterval (default 60 s); not after an error of a connection.
// For that it queries its nodes one after the other, in random order, and one
// reload at a time. A node that hangs
// sends neither a redirection nor an error; and if the reload comes to it, nothing
// but its ReadTimeout lets the client go on. No option of the client bounds that
// question alone: a short ReadTimeout would cut every call. So a hook bounds it,
// for as long as a call went without an answer a moment ago. The outage was 1.8 to
// 3.8 s with it, and up to 60 s without (make recovery measures it).
type topology struct {
	cluster      *redis.ClusterClient
	began        time.Time
	failingUntil atomic.Int64 // counted from began
}

// newTopology adds a hook to the nodes that the client gets to know from now on.
func newTopology(cluster *redis.ClusterClient) *topology {
	t := &topology{cluster: cluster, began: time.Now()}
	cluster.OnNewNode(func(node *redis.Client) { node.AddHook(t) })
	return t
}

// reload looks where the slots are, because a call has no answer. It returns at
// once.
func (t *topology) reload() {
	t.suspect()
	t.cluster.ReloadState(context.Background())
}

// suspect says that a node may hang; it does so for the next ten seconds.
func (t *topology) suspect() { t.failingUntil.Store(int64(time.Since(t.began) + suspicion)) }

func (t *topology) failing() bool { return int64(time.Since(t.began)) < t.failingUntil.Load() }

// DialHook changes nothing.
func (*topology) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessPipelineHook changes nothing.
func (*topology) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// ProcessHook limits questions for the slots while a node may hang. At other times
// a slow network must not keep the client from its first answer.
func (t *topology) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		slots, ok := cmd.(*redis.ClusterSlotsCmd)
		if !ok || !t.failing() {
			return next(ctx, cmd)
		}
		return askBriefly(ctx, slots, next)
	}
}

// askBriefly gives up an answer that does not come. The question then ends with
// the client's own timeout, or when the client is closed.
func askBriefly(ctx context.Context, slots *redis.ClusterSlotsCmd, next redis.ProcessHook) error {
	asked := redis.NewClusterSlotsCmd(ctx, slots.Args()...)
	answered := make(chan error, 1)
	go func() { answered <- guarded(func() error { return next(ctx, asked) }) }()
	timer := time.NewTimer(slowCall)
	defer timer.Stop()
	select {
	case err := <-answered:
		slots.SetVal(asked.Val())
		return err
	case <-timer.C:
		return errHangs
	}
}
