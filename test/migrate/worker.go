package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// workerCommand is the first argument of a worker; the second is its order.
const workerCommand = "worker"

//go:embed worker.py
var workerPy string

//go:embed worker.js
var workerJS string

// order is what a worker process does.
type order struct {
	Kind    kind     `json:"kind"`
	Process string   `json:"process"` // its name
	Locks   string   `json:"locks"`   // address of the Redis of the locks
	Referee string   `json:"referee"` // and of that of the referee
	Keys    []string `json:"keys"`
	Workers int      `json:"workers"`
	TTL     int64    `json:"ttl"`   // in ms, for worker.py and worker.js
	Retry   int64    `json:"retry"` // in ms
}

// work takes locks until ctx ends, and finishes what it has begun.
func work(ctx context.Context, text string) error {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	locks := redis.NewClient(&redis.Options{Addr: o.Locks, DisableIdentity: true})
	sees := redis.NewClient(&redis.Options{Addr: o.Referee, DisableIdentity: true})
	defer func() { _, _ = locks.Close(), sees.Close() }()
	l, err := o.Kind.open(locks)
	if err != nil {
		return err
	}
	r := &referee{rdb: sees, kind: o.Kind, process: o.Process}
	var running sync.WaitGroup
	failures := make(chan error, o.Workers)
	for n := range o.Workers {
		running.Go(func() { failures <- visitAll(ctx, l, r, o.Keys, fmt.Sprintf("%s/%d", o.Process, n)) })
	}
	running.Wait()
	close(failures)
	for failed := range failures {
		err = errors.Join(err, failed)
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), ttl)
	defer cancel()
	return errors.Join(err, l.close(last))
}

// visitAll is one worker. It ends with ctx, between two visits.
func visitAll(ctx context.Context, l locker, r *referee, keys []string, worker string) error {
	for ctx.Err() == nil {
		if err := visitOne(ctx, l, r, keys[rand.IntN(len(keys))], worker); err != nil && ctx.Err() == nil {
			r.fault(context.WithoutCancel(ctx), fmt.Sprintf("%s: %v", worker, err))
			return err
		}
	}
	return nil
}

func visitOne(ctx context.Context, l locker, r *referee, key, worker string) error {
	fence, release, err := l.lock(ctx, key)
	if err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx) // what is begun is finished
	began := time.Now()
	v, err := r.enter(ctx, key, worker, fence)
	if err == nil {
		err = v.leave(ctx)
	}
	if inside := time.Since(began); inside > ttl {
		r.fault(ctx, fmt.Sprintf("%s stayed in %s for %v, which is more than the TTL: the run proves nothing", worker, key, inside))
	}
	return errors.Join(err, release(ctx))
}
