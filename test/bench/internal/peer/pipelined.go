package peer

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// pipelined sends the commands of [floor] in pipelines: what the wire allows,
// without any promise of a lock library. Two batches overlap.
type pipelined struct {
	rdb     *redis.Client
	lease   time.Duration
	tokens  atomic.Int64
	calls   chan *call
	workers sync.WaitGroup
}

// call is one command on its way.
type call struct {
	send func(redis.Pipeliner) redis.Cmder
	sent redis.Cmder
	done chan struct{}
}

type pipelinedLock struct {
	p          *pipelined
	key, token string
}

func openPipelined(s Settings) (Locker, error) {
	p := &pipelined{rdb: newClient(s), lease: s.Lease, calls: make(chan *call, maxBatch)}
	for range 2 {
		p.workers.Go(p.work)
	}
	return p, deleteOwn.Load(context.Background(), p.rdb).Err()
}

// maxBatch is the number of commands in the largest pipeline.
const maxBatch = 512

func (p *pipelined) work() {
	batch := make([]*call, 0, maxBatch)
	for first := range p.calls {
		batch = append(batch[:0], first)
		for len(batch) < cap(batch) {
			select {
			case next, ok := <-p.calls:
				if ok {
					batch = append(batch, next)
					continue
				}
			default:
			}
			break
		}
		pipe := p.rdb.Pipeline()
		for _, c := range batch {
			c.sent = c.send(pipe)
		}
		_, _ = pipe.Exec(context.Background()) // each command has its own error
		for _, c := range batch {
			close(c.done)
		}
	}
}

func (p *pipelined) do(send func(redis.Pipeliner) redis.Cmder) redis.Cmder {
	c := &call{send: send, done: make(chan struct{})}
	p.calls <- c
	<-c.done
	return c.sent
}

func (p *pipelined) Lock(ctx context.Context, key string) (Held, error) { return p.TryLock(ctx, key) }

func (p *pipelined) TryLock(ctx context.Context, key string) (Held, error) {
	token := strconv.FormatInt(p.tokens.Add(1), 36)
	set := p.do(func(pipe redis.Pipeliner) redis.Cmder { return pipe.SetNX(ctx, key, token, p.lease) })
	ok, err := set.(*redis.BoolCmd).Result()
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, ErrBusy
	}
	return &pipelinedLock{p: p, key: key, token: token}, nil
}

func (p *pipelined) Keep(ctx context.Context, key string) (Held, error) { return p.Lock(ctx, key) }

func (p *pipelined) Close() error {
	close(p.calls)
	p.workers.Wait()
	return p.rdb.Close()
}

func (l *pipelinedLock) Unlock(ctx context.Context) error {
	sent := l.p.do(func(pipe redis.Pipeliner) redis.Cmder {
		return pipe.EvalSha(ctx, deleteOwn.Hash(), []string{l.key}, l.token)
	})
	deleted, err := sent.(*redis.Cmd).Int()
	if err == nil && deleted != 1 {
		return errNotHeld
	}
	return err
}
