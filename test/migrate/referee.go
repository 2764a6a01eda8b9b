package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// The keys of the referee. worker.py and worker.js have them too.
const (
	insideKey   = "inside:"  // and the lock: the workers that are in it, a set
	counterKey  = "counter:" // and the lock: counts up, and is read before it is written
	fenceKey    = "fence:"   // and the lock: the last fence
	grantsKey   = "grants"   // by kind, a hash
	visitorsKey = "visitors" // by process, a hash
	faultsKey   = "faults"   // what was wrong, a list
)

// referee sees who is inside of which lock. It is on another server than the
// locks, and knows nothing of them.
type referee struct {
	rdb     *redis.Client
	kind    kind
	process string
}

// visit is one worker's time inside a lock.
type visit struct {
	*referee
	key, worker string
	counter     int64
}

// enter notes a worker, and who else is there.
func (r *referee) enter(ctx context.Context, key, worker string, fence uint64) (*visit, error) {
	pipe := r.rdb.Pipeline()
	pipe.SAdd(ctx, insideKey+key, worker)
	inside := pipe.SMembers(ctx, insideKey+key)
	counter := pipe.Get(ctx, counterKey+key)
	last := pipe.Get(ctx, fenceKey+key)
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return nil, fmt.Errorf("referee: %w", err)
	}
	v := &visit{referee: r, key: key, worker: worker}
	v.counter, _ = strconv.ParseInt(counter.Val(), 10, 64)
	if others := inside.Val(); len(others) != 1 {
		v.fault(ctx, fmt.Sprintf("%s: inside are %s", key, strings.Join(others, " and ")))
	}
	if fence == 0 {
		return v, nil
	}
	if before, _ := strconv.ParseUint(last.Val(), 10, 64); before >= fence {
		v.fault(ctx, fmt.Sprintf("%s: fence %d after %d", key, fence, before))
	}
	return v, r.rdb.Set(ctx, fenceKey+key, fence, 0).Err()
}

func (r *referee) fault(ctx context.Context, what string) { r.rdb.RPush(ctx, faultsKey, what) }

// leave ends the visit. The counter shows a visit that overlapped unseen.
func (v *visit) leave(ctx context.Context) error {
	_, err := v.rdb.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.Set(ctx, counterKey+v.key, v.counter+1, 0)
		pipe.SRem(ctx, insideKey+v.key, v.worker)
		pipe.HIncrBy(ctx, grantsKey, string(v.kind), 1)
		pipe.HIncrBy(ctx, visitorsKey, v.process, 1)
		return nil
	})
	if err != nil {
		return fmt.Errorf("referee: %w", err)
	}
	return nil
}

// bury removes the workers of a process that was killed.
func (r *referee) bury(ctx context.Context, keys []string, process string) error {
	for _, key := range keys {
		workers, err := r.rdb.SMembers(ctx, insideKey+key).Result()
		if err != nil {
			return err
		}
		for _, worker := range workers {
			if strings.HasPrefix(worker, process+"/") {
				if err := r.rdb.SRem(ctx, insideKey+key, worker).Err(); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// count is the sum of the grants, by kind.
func (r *referee) count(ctx context.Context) (byKind map[kind]int, all int, err error) {
	values, err := r.rdb.HGetAll(ctx, grantsKey).Result()
	byKind = make(map[kind]int)
	for name, value := range values {
		n, _ := strconv.Atoi(value)
		byKind[kind(name)] = n
		all += n
	}
	return byKind, all, err
}

// visits is how often a process was inside.
func (r *referee) visits(ctx context.Context, process string) (int, error) {
	n, err := r.rdb.HGet(ctx, visitorsKey, process).Int()
	if errors.Is(err, redis.Nil) {
		err = nil
	}
	return n, err
}

// judge returns what was wrong.
func (r *referee) judge(ctx context.Context, keys []string) ([]string, error) {
	faults, err := r.rdb.LRange(ctx, faultsKey, 0, -1).Result()
	if err != nil {
		return nil, err
	}
	_, grants, err := r.count(ctx)
	if err != nil {
		return nil, err
	}
	counted := 0
	for _, key := range keys {
		n, err := r.rdb.Get(ctx, counterKey+key).Int()
		if err != nil {
			return nil, fmt.Errorf("the counter of %s: %w", key, err)
		}
		counted += n
	}
	if counted != grants {
		faults = append(faults, fmt.Sprintf("the counters are at %d after %d grants", counted, grants))
	}
	return faults, nil
}
