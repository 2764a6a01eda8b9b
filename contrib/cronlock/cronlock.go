// Package cronlock makes a fleet of robfig/cron schedulers (version 3) run each
// job in one instance: in the one that comes first ([SkipIfRunningElsewhere]), or in
// the leader ([OnlyLeader], [Func]).
package cronlock

import (
	"context"
	"errors"
	"slices"

	"github.com/robfig/cron/v3"

	"github.com/redlatch/redlatch/core/leader"
	"github.com/redlatch/redlatch/core/lock"
)

// OnlyLeader skips jobs while this instance doesn't lead. A job that runs keeps
// the lock of a leader that resigns, and can't notice a loss: use [Func] for
// one that can be interrupted. With a nil elector it panics when it wraps a job.
func OnlyLeader(e *leader.Elector) cron.JobWrapper {
	return func(job cron.Job) cron.Job { return Func(e, func(context.Context) { job.Run() }) }
}

// Func is a job of the leader. Its context ends when the leader's term does, and
// carries the lease, whose fence is the term ([lock.FromContext]). A nil elector or fn
// makes Func panic: at its first tick the job would end the process.
func Func(e *leader.Elector, fn func(ctx context.Context)) cron.Job {
	if e == nil || fn == nil {
		panic("cronlock.Func: the elector or the func of a job is nil") //nolint:forbidigo // documented: a wrong set-up cannot be run
	}
	return cron.FuncJob(func() {
		_ = e.Do(context.Background(), func(ctx context.Context) error { // an error means that it does not lead
			fn(ctx)
			return nil
		})
	})
}

// SkipIfRunningElsewhere is [cron.SkipIfStillRunning] for a fleet: it skips a job
// while another run of it, in any instance, holds the lock of key. With
// [lock.WithMinHold] a job runs once per tick; without it, an instance whose clock
// is late runs a job again that has ended by then. What keeps a job from running is
// logged: that another one runs as information, everything else as an error. A
// lease that was lost while the job ran is logged as an error, too. A wrong option
// or key makes it panic: the job would never run. So does a nil logger.
func SkipIfRunningElsewhere(locker *lock.Locker, key string, logger cron.Logger, opts ...lock.Option) cron.JobWrapper {
	if logger == nil {
		panic("cronlock.SkipIfRunningElsewhere: logger is nil, use cron.DiscardLogger for none") //nolint:forbidigo // documented: a wrong set-up cannot be run
	}
	opts = append(slices.Clip(opts), lock.WithoutReentry())
	if err := locker.Check(key, opts...); err != nil {
		panic("cronlock.SkipIfRunningElsewhere: " + err.Error()) //nolint:forbidigo // documented: a wrong set-up cannot be run
	}
	return func(job cron.Job) cron.Job {
		return cron.FuncJob(func() {
			lease, err := locker.TryAcquire(context.Background(), key, opts...)
			switch {
			case errors.Is(err, lock.ErrBusy):
				logger.Info("skip", "reason", "it runs elsewhere")
				return
			case err != nil:
				logger.Error(err, "skip")
				return
			}
			defer func() {
				if err := lease.Release(context.Background()); err != nil {
					logger.Error(err, "release")
				}
			}()
			job.Run()
		})
	}
}
